//! Places without seats, with the bounds of areas, and the decisions of a session about them.

use alloc::{collections::BTreeSet, vec::Vec};

use smol_str::format_smolstr;

use super::{
    Session,
    share::{Share, area_supply},
};
use crate::{
    answer::AreaCounts,
    command::{Area, BuyAs, NewSession},
    event::SessionEvent,
    fairness::Supply,
    holds::HoldAsk,
    id::Id,
    planted,
    portion::SeatPrice,
    refusal::Refusal,
    terms::{bad, check_price, check_quantity},
    time::Timestamp,
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
pub(super) fn check_areas(session: &NewSession) -> Result<(), Refusal> {
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

/// The decision on places of an area.
pub(super) enum PlacesDecision {
    Held(SessionEvent),
    /// The hold has another price than further places cost now.
    Repriced(SeatPrice),
}

impl Session {
    /// Places by area and state, from the counters.
    pub fn area_counts(&self) -> Vec<AreaCounts> {
        self.areas().iter().enumerate().map(|(number, area)| self.counts_of_area(number, area)).collect()
    }

    /// Decides a total of `quantity` places of an area for a hold.
    pub(super) fn decide_places(
        &self,
        (now, ask): (Timestamp, &HoldAsk<'_>),
        want_hash: u64,
        (area, quantity, buy_as): (&Id, u32, &BuyAs),
    ) -> Result<PlacesDecision, Refusal> {
        check_quantity(quantity)?;
        let number = self.areas().iter().position(|known| known.id == *area);
        let number = number.ok_or_else(|| Refusal::NotFound(format_smolstr!("area {area}")))?;
        let (has, before) = match self.live_share(ask.hold) {
            None => (0, None),
            Some(Share::Places { area, quantity, price }) if usize::from(*area) == number => {
                (*quantity, Some(price.map(|price| self.captured(price).clone())))
            }
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
        let price = match before {
            // Fewer of them, and a hold that grows at its price, keep the price.
            Some(before) if quantity <= has => before,
            Some(before) => {
                let now = self.place_price(now, ask, buy_as, (number as u16, quantity - has))?;
                let [own, other] = [&before, &now].map(|price| self.place_price_or_opened(number, price.as_ref()));
                if !own.is_same(&other) && !planted::is("a further place at the price of before") {
                    return Ok(PlacesDecision::Repriced(other));
                }
                before
            }
            None => self.place_price(now, ask, buy_as, (number as u16, quantity))?,
        };
        let HoldAsk { hold, revision, deadline, .. } = *ask;
        let (area, customer) = (area.clone(), self.limited_buyer(ask, price.as_slice()));
        Ok(PlacesDecision::Held(SessionEvent::PlacesHeld {
            hold,
            revision,
            want_hash,
            area,
            quantity,
            deadline,
            charge,
            price,
            customer,
        }))
    }
}
