//! Decisions of a code.

use super::{CartUse, Code};
use crate::{
    ask::Reply,
    command::{CODE_USES_MAX, CodeDetails, Limits, ShownCode, Want},
    event::{CodeEvent, Event, HoldEvent},
    holds::{HoldAsk, HoldIndex},
    id::{HoldId, OrderId, Request},
    inventory::Inventory,
    money::Currency,
    planted,
    portion::{Content, Portion},
    refusal::Refusal,
    terms::{bad, check_quantity, unfit},
    time::Timestamp,
};

impl Code {
    /// Creates or changes a code. Fewer uses than are taken are allowed: then nothing more is.
    pub(crate) fn decide_put(details: &CodeDetails, request: Request) -> Result<CodeEvent, Refusal> {
        if details.uses > CODE_USES_MAX {
            return bad(smol_str::format_smolstr!("a code has up to {CODE_USES_MAX} uses, not {}", details.uses));
        }
        Ok(CodeEvent::Put { details: details.clone(), request })
    }

    /// Decides how many uses a hold gets of those that it wants: what is left, so that a party may buy with the uses that there are. With
    /// `by_order` a cart that has the use, or gets one, has as many as it wants.
    fn decide_uses(&self, ask: &HoldAsk<'_>, want_hash: u64, wanted: u32) -> Result<CodeEvent, Refusal> {
        check_quantity(wanted)?;
        let used = self.used();
        let taken = if planted::is("a use that counts at the sale") { used.sold } else { used.all() };
        let count = if self.details.by_order {
            let has_one =
                self.use_of(ask.hold.cart) != CartUse::Nothing && !planted::is("a cart that takes a use for each hold");
            if has_one || taken < u64::from(self.details.uses) { wanted } else { 0 }
        } else {
            let had = self.holds.live(ask.hold).map_or(0, |live| live.what.count);
            let left = u64::from(self.details.uses).saturating_sub(taken.saturating_sub(u64::from(had)));
            wanted.min(left.try_into().unwrap_or(u32::MAX))
        };
        // The answer is the same for a code that has ended and for an unknown one, so that a guess tells nothing.
        if self.details.ended || count == 0 {
            return Err(Refusal::CodeNotValid);
        }
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        Ok(CodeEvent::UsesHeld { hold, revision, want_hash, count, deadline })
    }
}

impl Inventory for Code {
    fn holds(&self) -> Option<&dyn HoldIndex> {
        Some(&self.holds)
    }

    fn hold_event(&self, event: HoldEvent) -> Event {
        Event::Code(CodeEvent::Hold(event))
    }

    fn hold_ttl_ms(&self) -> Option<u64> {
        None
    }

    fn sale_terms(&self) -> (Option<Currency>, Limits) {
        (None, Limits::default())
    }

    fn content(&self, _hold: HoldId) -> Option<Content> {
        None
    }

    fn shown_code(&self, hold: HoldId) -> Option<ShownCode> {
        let uses = self.holds.live(hold)?.what.count;
        Some(ShownCode { group: self.details.group.clone(), uses })
    }

    fn held(&self, hold: HoldId) -> Option<Portion> {
        self.holds.live(hold).map(|live| live.what.portion())
    }

    fn sold(&self, hold: HoldId) -> Option<Portion> {
        self.holds.sale(hold).map(|sale| sale.what.portion())
    }

    fn is_counted(&self, _ask: &HoldAsk<'_>) -> bool {
        true
    }

    fn decide_new(&self, _now: Timestamp, ask: &HoldAsk<'_>, want_hash: u64) -> Result<Event, Reply> {
        let decided = match ask.want {
            Want::Uses { count } => self.decide_uses(ask, want_hash, *count),
            Want::Seats { .. }
            | Want::Best(_)
            | Want::Places { .. }
            | Want::Units { .. }
            | Want::Slot { .. }
            | Want::Quota { .. } => Err(unfit("code", &self.id, ask.want)),
        };
        decided.map(Event::Code).map_err(|refusal| ask.refused(refusal))
    }

    fn release_live(&self, hold: HoldId, revision: u64, left: Option<&Portion>, remember: bool) -> Option<Event> {
        let left = match left {
            None => 0,
            Some(Portion::Uses(count)) => self.holds.released(hold).count.min(*count),
            Some(left) => panic!("{left:?} is to be left of {hold:?}"),
        };
        Some(Event::Code(CodeEvent::UsesReleased { hold, revision, left, remember, expired: false }))
    }

    fn sale(&self, hold: HoldId, portion: &Portion, _order: OrderId, at: Timestamp) -> Event {
        Event::Code(CodeEvent::UsesSold { hold, count: portion.quantity(), at })
    }

    fn decide_refund(&self, hold: HoldId) -> Option<Event> {
        self.holds.to_refund(hold).map(|_| Event::Code(CodeEvent::UsesRefunded { hold }))
    }
}
