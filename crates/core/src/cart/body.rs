//! The state of an opened cart, and the writes of its lines and its deadline.

use alloc::{boxed::Box, vec::Vec};

use boxoffice_declare::Stored;

use super::{
    attempts::PaymentAttempts,
    line::{CodeClaim, Line, LineHold},
    memory::Memory,
    order::OrderRecord,
};
use crate::{
    answer::{CartState, Ended, TakenLine},
    event::{CodeUse, GrownLine, NewLine},
    id::Id,
    money::Currency,
    push_exact::push_exact,
    time::Timestamp,
};

/// The longest time by which the first payment of a cart lets lines live longer that end even if they are touched, in
/// milliseconds.
pub(crate) const PAYMENT_STOPS_MS: u64 = 60_000;

/// The state of an opened cart.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
#[stored(name = "CartBody")]
pub(crate) struct Body {
    #[n(0)]
    pub(super) state: CartState,
    #[n(1)]
    pub(super) opened_at: Timestamp,
    #[n(2)]
    pub(super) modified_at: Timestamp,
    #[n(11)]
    pub(super) customer: Option<Id>,
    #[n(3)]
    pub(super) ttl_ms: u64,
    /// When the cart ends even if it is touched.
    #[n(4)]
    pub(super) age_ends_at: Timestamp,
    #[n(5)]
    pub(super) deadline: Timestamp,
    /// Why it ended, if it did without an order.
    #[n(12)]
    pub(super) ended: Option<Box<Ended>>,
    #[n(13)]
    pub(super) currency: Option<Currency>,
    #[n(6)]
    pub(super) next_line: u32,
    /// The version with which lines, quantities or prices changed last.
    #[n(7)]
    pub(super) lines_version: u64,
    /// Ascending by number. A terminal cart keeps those that it ended with.
    #[n(8)]
    pub(super) lines: Vec<Line>,
    /// Lines that were taken away from the owner, oldest first.
    #[n(9)]
    pub(super) taken: Vec<TakenLine>,
    #[n(10)]
    pub(super) remembered: Vec<Memory>,
    /// `None` until the cart begins to pay.
    #[n(14)]
    pub(super) attempts: Option<Box<PaymentAttempts>>,
    /// `None` unless the cart is done.
    #[n(15)]
    pub(super) order: Option<Box<OrderRecord>>,
    /// What only the next version has: whether its opening was counted.
    #[cfg(debug_assertions)]
    #[n(16)]
    #[stored(next)]
    pub(super) rehearsed: bool,
}

impl Body {
    pub(super) fn opened(
        at: Timestamp,
        customer: Option<Id>,
        ttl_ms: u64,
        age_ends_at: Timestamp,
        deadline: Timestamp,
    ) -> Body {
        Body {
            state: CartState::Active,
            opened_at: at,
            modified_at: at,
            customer,
            ttl_ms,
            age_ends_at,
            deadline,
            ended: None,
            currency: None,
            next_line: 1,
            lines_version: 0,
            lines: Vec::new(),
            taken: Vec::new(),
            remembered: Vec::new(),
            attempts: None,
            order: None,
            #[cfg(debug_assertions)]
            rehearsed: false,
        }
    }

    pub(super) fn remember(&mut self, memory: Memory) {
        // Millions of carts remember one or two requests.
        push_exact(&mut self.remembered, memory);
    }

    pub(super) fn line(&self, number: u32) -> Option<&Line> {
        self.lines.iter().find(|line| line.number == number)
    }

    pub(super) fn line_mut(&mut self, number: u32) -> &mut Line {
        let line = self.lines.iter_mut().find(|line| line.number == number);
        line.expect("only lines of the cart change")
    }

    pub(super) fn add(&mut self, at: Timestamp, line: &NewLine) {
        let hold = line.hold.map(|(hold, revision)| LineHold::new(hold, revision));
        let taken = |known: &Line| hold.is_some() && known.entity == line.item.entity && known.hold == hold;
        assert!(!self.lines.iter().any(taken), "two lines on one hold: {:?}", line.hold);
        self.lines.push(Line {
            number: self.next_line,
            item: line.item.clone(),
            added_at: at,
            hold,
            quota: line.quota.clone().map(Box::new),
            ttl_ms: line.ttl_ms,
            ends_at: line.ends_at,
            believed_until: line.believed_until,
            code: line.code.as_deref().map(|CodeUse { code, hold, revision, granted: _ }| {
                Box::new(CodeClaim { code: code.clone(), hold: *hold, revision: *revision })
            }),
        });
        self.next_line += 1;
    }

    pub(super) fn grow(&mut self, grown: &GrownLine) {
        let line = self.line_mut(grown.line);
        assert!(grown.content.quantity() > line.content.quantity(), "line {} does not grow", grown.line);
        if let Some(hold) = &mut line.hold {
            assert!(grown.revision > hold.revision, "line {} grows by an old revision", grown.line);
            hold.revision = grown.revision;
        }
        if let Some(quota) = &mut line.quota {
            assert!(grown.quota_revision > quota.revision, "the quota of line {} grows by an old revision", grown.line);
            quota.revision = grown.quota_revision;
        }
        line.content = grown.content.clone();
        line.ends_at = grown.ends_at;
        line.believed_until = line.believed_until.max(grown.believed_until);
    }

    /// Sets the deadline. From now on any inventory may know it.
    pub(super) fn live_until(&mut self, deadline: Timestamp) {
        self.deadline = deadline;
        self.lines.iter_mut().for_each(|line| line.believed_until = line.believed_until.max(deadline));
    }

    /// Lines that end even if they are touched live as much longer as the first payment was under way, at most a minute, and the
    /// cart with them.
    pub(super) fn stop_clock(&mut self, paid_ms: u64) {
        let paid_ms = paid_ms.min(PAYMENT_STOPS_MS);
        if !self.pays_first() || self.lines.iter().all(|line| line.ends_at.is_none()) {
            return;
        }
        for line in &mut self.lines {
            line.ends_at = line.ends_at.map(|ends_at| ends_at.after(paid_ms));
        }
        self.deadline = self.deadline.after(paid_ms).min(self.age_ends_at);
    }

    /// Whether its payment, under way or just over, is the first one.
    fn pays_first(&self) -> bool {
        self.attempts.as_ref().is_some_and(|attempts| attempts.begun == 1)
    }

    /// When a payment under way has to be over, if there are lines that end even if they are touched. Otherwise a payment that its
    /// buyer never confirms would keep them.
    pub(super) fn payment_ends_at(&self) -> Option<Timestamp> {
        let ends_at = self.lines.iter().filter_map(|line| line.ends_at).min()?;
        Some(if self.pays_first() { ends_at.after(PAYMENT_STOPS_MS) } else { ends_at })
    }

    /// The deadline if the cart were touched now.
    pub(super) fn touched(&self, at: Timestamp) -> Timestamp {
        self.touched_with(at, self.lines.iter().map(|line| line.ttl_ms))
    }

    /// The deadline if the cart were touched now and its lines, or their inventories, let it live this long untouched.
    pub(super) fn touched_with(&self, at: Timestamp, ttls_ms: impl Iterator<Item = Option<u64>>) -> Timestamp {
        let touched = at.after(ttls_ms.flatten().fold(self.ttl_ms, u64::min)).min(self.age_ends_at);
        self.lines.iter().filter_map(|line| line.ends_at).fold(touched, Timestamp::min)
    }
}
