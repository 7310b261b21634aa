//! What a `source` makes the gateway do: words joined by `+`, for the authorization or, with `capture-`, `void-` or
//! `refund-` in front, for a later step.

use boxoffice_core::payment::PaymentStep;

/// What is answered in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It is done as asked.
    #[default]
    Yes,
    /// An authorization is declined; another step fails for good.
    No,
    /// An authorization sets another amount aside: so many minor units.
    Amount(i64),
}

/// What is sent instead of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rubbish {
    /// Something that is no JSON, and says that it is.
    #[default]
    Garbage,
    /// An answer that is longer than anybody should read.
    Huge,
}

/// How one step of a charge is treated. A request is counted from the first under its key; the bad ones come in the order
/// of the fields, then it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// What is answered in the end.
    pub verdict: Verdict,
    /// So many requests are answered 500, and nothing is done for them.
    pub errors: u32,
    /// For so many requests it is done, and the connection is dropped without an answer.
    pub lost: u32,
    /// For so many requests it is done, and nothing is ever answered.
    pub timeouts: u32,
    /// For so many requests it is done, and rubbish is answered.
    pub rubbish: u32,
    /// Of which kind.
    pub kind: Rubbish,
    /// Every answer waits so long, in milliseconds.
    pub delay_ms: u64,
    /// It is pending for so long, in milliseconds, and then told by webhook.
    pub late_ms: Option<u64>,
    /// When it is done, it is told by webhook twice.
    pub twice: bool,
}

/// How all steps of a charge are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    authorize: Manner,
    capture: Manner,
    void: Manner,
    refund: Manner,
}

impl Plan {
    /// What this source asks for, or `None` if it has a word that is not known.
    pub fn of(source: &str) -> Option<Plan> {
        let mut plan = Plan::default();
        for word in source.split('+') {
            let (step, word) =
                [("capture-", PaymentStep::Capture), ("void-", PaymentStep::Void), ("refund-", PaymentStep::Refund(1))]
                    .into_iter()
                    .find_map(|(prefix, step)| Some((step, word.strip_prefix(prefix)?)))
                    .unwrap_or((PaymentStep::Authorize, word));
            plan.of_step_mut(step).add(step, word)?;
        }
        Some(plan)
    }

    /// How this step is treated.
    pub fn of_step(&self, step: PaymentStep) -> Manner {
        match step {
            PaymentStep::Authorize => self.authorize,
            PaymentStep::Capture => self.capture,
            PaymentStep::Void => self.void,
            PaymentStep::Refund(_) => self.refund,
        }
    }

    fn of_step_mut(&mut self, step: PaymentStep) -> &mut Manner {
        match step {
            PaymentStep::Authorize => &mut self.authorize,
            PaymentStep::Capture => &mut self.capture,
            PaymentStep::Void => &mut self.void,
            PaymentStep::Refund(_) => &mut self.refund,
        }
    }
}

impl Manner {
    fn add(&mut self, step: PaymentStep, word: &str) -> Option<()> {
        let authorizing = step == PaymentStep::Authorize;
        let (name, number) = word.split_once('-').map_or((word, None), |(name, number)| (name, Some(number)));
        match (name, number) {
            ("ok", None) => {}
            ("decline", None) if authorizing => self.verdict = Verdict::No,
            ("fails", None) if !authorizing => self.verdict = Verdict::No,
            ("amount", Some(minor)) if authorizing => self.verdict = Verdict::Amount(minor.parse().ok()?),
            ("twice", None) => self.twice = true,
            ("error", Some(times)) => self.errors = times.parse().ok()?,
            ("lost", Some(times)) => self.lost = times.parse().ok()?,
            ("timeout", times) => self.timeouts = times_or_always(times)?,
            ("garbage", times) => (self.rubbish, self.kind) = (times_or_always(times)?, Rubbish::Garbage),
            ("huge", times) => (self.rubbish, self.kind) = (times_or_always(times)?, Rubbish::Huge),
            ("delay", Some(ms)) => self.delay_ms = ms.parse().ok()?,
            ("late", Some(ms)) => self.late_ms = Some(ms.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

fn times_or_always(times: Option<&str>) -> Option<u32> {
    times.map_or(Some(u32::MAX), |times| times.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_their_steps() {
        assert_eq!(Plan::of("ok"), Some(Plan::default()));
        let plan = Plan::of("lost-2+late-50+amount-7+capture-fails+void-timeout+refund-error-1").expect("a plan");
        let authorize = Manner { lost: 2, late_ms: Some(50), verdict: Verdict::Amount(7), ..Manner::default() };
        assert_eq!(plan.of_step(PaymentStep::Authorize), authorize);
        assert_eq!(plan.of_step(PaymentStep::Capture).verdict, Verdict::No);
        assert_eq!(plan.of_step(PaymentStep::Void).timeouts, u32::MAX);
        assert_eq!(plan.of_step(PaymentStep::Refund(4)).errors, 1);
        for unknown in [
            "",
            "okay",
            "ok+",
            "decline-1",
            "fails",
            "capture-decline",
            "capture-amount-1",
            "lost",
            "lost--1",
            "late-x",
        ] {
            assert_eq!(Plan::of(unknown), None, "{unknown}");
        }
    }
}
