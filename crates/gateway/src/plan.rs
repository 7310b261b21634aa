//! The plan that a `source` describes. A source is a list of words joined by `+`. A word applies to the authorization,
//! or to a later step if it begins with `capture-`, `void-` or `refund-`.

use boxoffice_core::payment::PaymentStep;

/// The final answer to a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The step is done.
    #[default]
    Approve,
    /// An authorization is declined. Another step fails for good.
    Reject,
    /// An authorization sets this other amount aside, in minor units.
    Amount(i64),
}

/// A malformed answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MalformedBody {
    /// A body that is not JSON, although its content type is.
    #[default]
    NotJson,
    /// A body that is longer than any client should read.
    Huge,
}

/// The plan of one step of a charge. Requests of the step are counted by its key. The first requests get the faults, in
/// the order of the fields. All later requests get the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepPlan {
    pub verdict: Verdict,
    /// The number of requests that are answered 500, without doing the step.
    pub errors: u32,
    /// The number of requests for which the step is done and the connection is dropped without an answer.
    pub dropped: u32,
    /// The number of requests for which the step is done and no answer is ever sent.
    pub timeouts: u32,
    /// The number of requests for which the step is done and the answer is malformed.
    pub malformed: u32,
    pub malformed_body: MalformedBody,
    /// The delay of every answer, in milliseconds.
    pub delay_ms: u64,
    /// The step is pending for this time in milliseconds. Then a webhook reports its outcome.
    pub late_ms: Option<u64>,
    /// A webhook reports the outcome twice.
    pub notify_twice: bool,
}

/// The plan of all steps of a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    authorize: StepPlan,
    capture: StepPlan,
    void: StepPlan,
    refund: StepPlan,
}

impl Plan {
    /// The plan that this source describes. `None` if the source has an unknown word.
    pub fn parse(source: &str) -> Option<Plan> {
        let mut plan = Plan::default();
        for word in source.split('+') {
            let (step, word) =
                [("capture-", PaymentStep::Capture), ("void-", PaymentStep::Void), ("refund-", PaymentStep::Refund(1))]
                    .into_iter()
                    .find_map(|(prefix, step)| Some((step, word.strip_prefix(prefix)?)))
                    .unwrap_or((PaymentStep::Authorize, word));
            plan.step_mut(step).add(step, word)?;
        }
        Some(plan)
    }

    /// The plan of this step.
    pub fn step(&self, step: PaymentStep) -> StepPlan {
        match step {
            PaymentStep::Authorize => self.authorize,
            PaymentStep::Capture => self.capture,
            PaymentStep::Void => self.void,
            PaymentStep::Refund(_) => self.refund,
        }
    }

    fn step_mut(&mut self, step: PaymentStep) -> &mut StepPlan {
        match step {
            PaymentStep::Authorize => &mut self.authorize,
            PaymentStep::Capture => &mut self.capture,
            PaymentStep::Void => &mut self.void,
            PaymentStep::Refund(_) => &mut self.refund,
        }
    }
}

impl StepPlan {
    /// Adds a word, which belongs to this step. `None` if the word is unknown.
    fn add(&mut self, step: PaymentStep, word: &str) -> Option<()> {
        let is_authorization = step == PaymentStep::Authorize;
        let (name, number) = word.split_once('-').map_or((word, None), |(name, number)| (name, Some(number)));
        match (name, number) {
            ("ok", None) => {}
            ("decline", None) if is_authorization => self.verdict = Verdict::Reject,
            ("fails", None) if !is_authorization => self.verdict = Verdict::Reject,
            ("amount", Some(minor)) if is_authorization => self.verdict = Verdict::Amount(minor.parse().ok()?),
            ("twice", None) => self.notify_twice = true,
            ("error", Some(times)) => self.errors = times.parse().ok()?,
            ("lost", Some(times)) => self.dropped = times.parse().ok()?,
            ("timeout", times) => self.timeouts = times_or_always(times)?,
            ("garbage", times) => {
                (self.malformed, self.malformed_body) = (times_or_always(times)?, MalformedBody::NotJson)
            }
            ("huge", times) => (self.malformed, self.malformed_body) = (times_or_always(times)?, MalformedBody::Huge),
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
