//! The change of a session's seats and places by a turn, found from its events. It costs what the events name, whatever the size
//! of the hall.

use alloc::vec::Vec;

use super::{Session, area_number, book::Book, kept, share::Share};
use crate::{
    answer::{AreaCounts, SaleMark},
    command::Area,
    event::SessionEvent,
    id::HoldId,
    planted,
    seat::SeatState,
};

/// The seats and areas that events are about, as they are before the events.
#[derive(Debug)]
pub struct Touched {
    /// Seats by index in layout order, each once, with their state.
    seats: Vec<(u32, SeatState)>,
    /// Numbers of areas, ascending, each once, with their counts, or without if the events add them.
    areas: Vec<(u16, Option<AreaCounts>)>,
    sale: Option<SaleMark>,
}

/// What is not as it was before some events.
#[derive(Debug, PartialEq, Eq)]
pub struct Changed {
    /// Seats by index in layout order, with their state now.
    pub seats: Vec<(u32, SeatState)>,
    pub areas: Vec<AreaCounts>,
    pub sale: Option<SaleMark>,
}

impl Session {
    /// The seats and areas that these events are about. They are the next ones of the session and not applied yet.
    pub fn touched_by<'a>(&self, events: impl IntoIterator<Item = &'a SessionEvent>) -> Touched {
        let (mut seats, mut areas) = (Vec::new(), Vec::new());
        for event in events {
            if let Some((_, named)) = event.change() {
                // A seat beyond the layout panics when the event is applied.
                seats.extend(named.iter().filter_map(|seat| self.layout().index(*seat)));
            }
            match event {
                // The capacity of each may change, and there may be new ones. So may the seats of allotments.
                SessionEvent::Changed { extras, .. } => {
                    areas.extend(0..extras.areas.len() as u16);
                    let offerings = self.terms.offering().into_iter().chain(extras.offering.as_deref());
                    let kept = offerings.flat_map(|offering| &offering.allotments).flat_map(|it| &it.seats);
                    seats.extend(kept.filter_map(|seat| self.layout().index(*seat)));
                }
                SessionEvent::AllotmentsReleased(ids) => seats.extend(kept::seats_of(&self.terms, ids)),
                event => areas.extend(self.area_of(event)),
            }
        }
        seats.sort_unstable();
        seats.dedup();
        areas.sort_unstable();
        areas.dedup();
        Touched {
            seats: seats.into_iter().map(|index| (index, self.state(index))).collect(),
            areas: areas.into_iter().map(|number| (number, self.counts_of(number))).collect(),
            sale: self.sale_mark(),
        }
    }

    /// Seats, areas and the mark of the sale, with their state now, if it is not the one before.
    pub fn changed_since(&self, before: Touched) -> Changed {
        let Touched { mut seats, areas, sale } = before;
        seats.retain_mut(|(index, state)| core::mem::replace(state, self.state(*index)) != *state);
        let counts = |(number, before): (u16, Option<AreaCounts>)| {
            self.counts_of(number).filter(|now| before.as_ref() != Some(now))
        };
        let areas = areas.into_iter().filter_map(counts).collect();
        Changed { seats, areas, sale: self.sale_mark().filter(|now| Some(*now) != sale) }
    }

    /// The number of the area whose places an event changes. `None` if it changes none, or is about a hold that an earlier event of
    /// the same turn makes, which names the area itself.
    fn area_of(&self, event: &SessionEvent) -> Option<u16> {
        let of_hold = |hold: &HoldId| match self.book.as_deref().map(|book: &Book| &book.holds)?.to_refund(*hold)? {
            Share::Places { area, .. } => Some(*area),
            Share::Seats(_) => None,
        };
        match event {
            SessionEvent::PlacesHeld { area, .. } => Some(area_number(self.areas(), area)),
            SessionEvent::PlacesReleased { hold, .. } | SessionEvent::PlacesSold { hold, .. } => of_hold(hold),
            SessionEvent::SaleRefunded { hold, seats } => {
                if planted::is("refunded places that watchers do not see") || !seats.is_empty() {
                    return None;
                }
                of_hold(hold)
            }
            SessionEvent::Opened(_)
            | SessionEvent::SeatsHeld { .. }
            | SessionEvent::SeatsReleased { .. }
            | SessionEvent::SeatsSold { .. }
            | SessionEvent::Hold(_)
            | SessionEvent::Canceled { .. }
            | SessionEvent::Vacated
            | SessionEvent::SeatsBlocked { .. }
            | SessionEvent::SeatsUnblocked { .. }
            | SessionEvent::ZoneSet(_)
            | SessionEvent::Changed { .. }
            | SessionEvent::OffersOpened(_)
            | SessionEvent::AllotmentsReleased(_)
            | SessionEvent::SaleTold(_) => None,
        }
    }

    fn counts_of(&self, number: u16) -> Option<AreaCounts> {
        let area = self.areas().get(usize::from(number))?;
        Some(self.counts_of_area(usize::from(number), area))
    }

    /// Places of an area by state, from the counters.
    pub(super) fn counts_of_area(&self, number: usize, area: &Area) -> AreaCounts {
        let taken = self.book.as_deref().map(|book| book.places(number)).unwrap_or_default();
        // Both fit, because together they are at most the area's capacity.
        let (held, sold) = (taken.held as u32, taken.sold as u32);
        AreaCounts { area: area.id.clone(), free: area.capacity - held - sold, held, sold }
    }
}
