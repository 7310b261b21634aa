//! Places without seats, with the bounds of areas, and the decisions of a session about them.

use alloc::{collections::BTreeSet, vec::Vec};

use smol_str::format_smolstr;

use super::{
    Session,
    book::{Share, area_supply},
};
use crate::{
    answer::AreaCounts,
    command::{Area, NewSession},
    event::SessionEvent,
    fairness::Supply,
    holds::HoldAsk,
    id::Id,
    refusal::Refusal,
    terms::{bad, check_price, check_quantity},
};

/// The most areas of one session.
pub const AREAS_MAX: usize = 1_000;

/// The most places of one area. A stadium and its meadows fit, and no sum of all areas is too big.
pub const AREA_PLACES_MAX: u32 = 1_000_000;

/// Checks the areas of a new session. Ids are distinct, counts and prices are in bounds, and all prices are in one
/// currency.
///
/// # Errors
/// [`Refusal::BadRequest`] with what is wrong.
pub(crate) fn check_areas(session: &NewSession) -> Result<(), Refusal> {
    if session.areas.len() > AREAS_MAX {
        return bad(format_smolstr!("there are more than {AREAS_MAX} areas"));
    }
    let prices = session.prices.iter().map(|(_, price)| price);
    let mut all = prices.chain(session.areas.iter().map(|area| &area.price));
    let Some(first) = all.next() else {
        return bad("there is nothing to sell: the hall has no seats; name an area".into());
    };
    if all.any(|price| price.currency != first.currency) {
        return bad("the prices are not all in one currency".into());
    }
    let mut seen = BTreeSet::new();
    for Area { id, capacity, price, name: _, names: _ } in &session.areas {
        if !seen.insert(id) {
            return bad(format_smolstr!("there are two areas {id}"));
        }
        if !(1..=AREA_PLACES_MAX).contains(capacity) {
            return bad(format_smolstr!("area {id} has not 1 to {AREA_PLACES_MAX} places"));
        }
        check_price(id.as_str(), price.amount)?;
    }
    Ok(())
}

impl Session {
    /// Places by area and state, from the counters.
    pub fn area_counts(&self) -> Vec<AreaCounts> {
        self.areas().iter().enumerate().map(|(number, area)| self.counts_of_area(number, area)).collect()
    }

    /// Decides a total of `quantity` places of an area for a hold.
    pub(super) fn decide_places(
        &self,
        ask: &HoldAsk<'_>,
        want_hash: u64,
        area: &Id,
        quantity: u32,
    ) -> Result<SessionEvent, Refusal> {
        check_quantity(quantity)?;
        let number = self.areas().iter().position(|known| known.id == *area);
        let number = number.ok_or_else(|| Refusal::NotFound(format_smolstr!("area {area}")))?;
        let has = match self.live_share(ask.hold) {
            None => 0,
            Some(Share::Places { area, quantity }) if usize::from(*area) == number => *quantity,
            Some(Share::Places { .. } | Share::Seats(_)) => return bad("a hold stays in its area".into()),
        };
        let taken = self.book.as_deref().map(|book| book.places(number)).unwrap_or_default();
        let free = u64::from(self.areas()[number].capacity) - taken.all();
        if u64::from(quantity) > free + u64::from(has) {
            let held = (taken.held - u64::from(has)) as u32;
            return Err(Refusal::NotEnoughPlaces { area: area.clone(), free: free as u32, held });
        }
        let size = Some((u64::from(self.areas()[number].capacity), free));
        let charge = self.charge(ask, Supply { number: area_supply(number as u16), size }, quantity)?;
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        Ok(SessionEvent::PlacesHeld { hold, revision, want_hash, area: area.clone(), quantity, deadline, charge })
    }
}
