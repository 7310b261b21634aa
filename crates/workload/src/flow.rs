//! The seats that a flow buys: a pure function of the run's seed and the flow's number. It does not depend on timing.

use boxoffice_core::{
    id::{CartToken, Entity},
    seat::{HOLD_SEATS_MAX, Seat, SeatSet},
};
use rand::Rng;

use crate::{arrival::FlowNumber, house::House, run_seed::RunSeed};

/// How a flow picks its seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The next seats of the next session of the group. Flow `i` takes block `i / sessions` of session `i % sessions`,
    /// so two flows never want the same seat. Blocks follow each other along the rows.
    Next,
    /// Adjacent seats at a random place of a random session of the group. Some flows conflict.
    Random,
    /// The first seats of the first session of the group. All flows conflict.
    Same,
}

/// The seats that a flow asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The session's number in the house.
    pub session: u32,
    /// The seats, all or none.
    pub seats: SeatSet,
}

/// Why a [`Picker`] cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickerError {
    /// A hold must have 1 to 20 seats.
    #[error("a hold takes 1 to {HOLD_SEATS_MAX} seats, not {0}; change `seats` of the flow")]
    SeatsOfHold(u16),
    /// Adjacent seats must fit into a row.
    #[error("{wanted} adjacent seats do not fit into a row of {row}; take fewer seats or longer rows")]
    RowTooShort { wanted: u16, row: u16 },
    /// Flows that never conflict need enough seats.
    #[error(
        "{wanted} flows a group need {wanted} blocks of seats, but the house has {room}; add sessions or take fewer flows"
    )]
    HouseTooSmall {
        /// Blocks that a group needs, one a flow.
        wanted: u64,
        /// Blocks that a group has.
        room: u64,
    },
}

/// Picks the seats that each flow of a run buys, and makes the token of its cart.
#[derive(Clone, Debug)]
pub struct Picker {
    house: House,
    pick: Pick,
    seats: u16,
    seed: RunSeed,
}

impl Picker {
    /// A picker for runs of at most `flows` flows a group, which picks `seats` seats a flow in `house`.
    ///
    /// # Errors
    /// [`PickerError`] if a hold cannot have that many seats, or if the house is too small for flows that never
    /// conflict.
    pub fn new(house: House, pick: Pick, seats: u16, flows: u64, seed: u64) -> Result<Picker, PickerError> {
        if seats == 0 || usize::from(seats) > HOLD_SEATS_MAX {
            return Err(PickerError::SeatsOfHold(seats));
        }
        match pick {
            Pick::Random | Pick::Same if seats > house.seats => {
                return Err(PickerError::RowTooShort { wanted: seats, row: house.seats });
            }
            Pick::Next => {
                let room =
                    u64::from(house.sessions_of_group()) * u64::from(house.seats_of_session() / u32::from(seats));
                if flows > room {
                    return Err(PickerError::HouseTooSmall { wanted: flows, room });
                }
            }
            Pick::Random | Pick::Same => {}
        }
        let seed = RunSeed { prefix: house.prefix.clone(), seed };
        Ok(Picker { house, pick, seats, seed })
    }

    /// The house whose seats the flows buy.
    pub fn house(&self) -> &House {
        &self.house
    }

    /// The token of a flow's cart, in the shard of the chosen session. Different prefixes and different seeds give
    /// different tokens.
    pub fn token(&self, flow: FlowNumber, choice: &Choice) -> CartToken {
        self.seed.token_beside(flow, &Entity::Session(self.house.session_id(choice.session)))
    }

    /// The choice of a flow after `attempt` refusals. The first attempt is 0.
    pub fn choose(&self, flow: FlowNumber, attempt: u32) -> Choice {
        match self.pick {
            Pick::Next => {
                let sessions = self.house.sessions_of_group();
                let session = self.house.session_number(flow.group, flow.index % sessions);
                let first = (flow.index / sessions) * u32::from(self.seats);
                self.choice(session, (first..first + u32::from(self.seats)).map(|index| self.house.seat(index)))
            }
            Pick::Random => {
                let mut rng = self.seed.rng(flow, attempt);
                let session =
                    self.house.session_number(flow.group, rng.random_range(0..self.house.sessions_of_group()));
                let row = rng.random_range(0..self.house.rows);
                let first = rng.random_range(0..=self.house.seats - self.seats);
                self.choice(session, (first..first + self.seats).map(|seat| Seat { row, seat }))
            }
            Pick::Same => {
                let session = self.house.session_number(flow.group, 0);
                self.choice(session, (0..self.seats).map(|seat| Seat { row: 0, seat }))
            }
        }
    }

    /// Whether the flow gives up after its hold, if `percent` of flows do.
    pub fn abandons(&self, flow: FlowNumber, percent: u8) -> bool {
        self.seed.abandons(flow, percent)
    }

    fn choice(&self, session: u32, seats: impl Iterator<Item = Seat>) -> Choice {
        Choice {
            session,
            seats: SeatSet::new(seats).expect("the picker checks the number of seats and takes no seat twice"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn house(sessions: u32, rows: u16, seats: u16) -> House {
        House { prefix: "t".into(), groups: 2, venues: 1, sessions, rows, seats }
    }

    #[test]
    fn next_takes_every_seat_once_until_the_house_is_full() {
        let picker = Picker::new(house(3, 5, 16), Pick::Next, 5, 48, 1).expect("48 blocks of 5 in 3 sessions of 80");
        let mut seen = BTreeSet::new();
        for group in 0..2 {
            for index in 0..48 {
                let choice = picker.choose(FlowNumber { group, index }, 0);
                for seat in choice.seats.as_slice() {
                    assert!(seen.insert((choice.session, *seat)), "{seat:?} of session {} twice", choice.session);
                }
            }
        }
        assert_eq!(seen.len(), 2 * 3 * 80);
        let error = Picker::new(house(3, 5, 16), Pick::Next, 5, 49, 1).expect_err("one flow too many");
        assert_eq!(error, PickerError::HouseTooSmall { wanted: 49, room: 48 });
    }

    #[test]
    fn next_takes_the_next_session_for_each_flow() {
        let picker = Picker::new(house(3, 30, 30), Pick::Next, 5, 100, 1).expect("room enough");
        let sessions: Vec<u32> = (0..4).map(|index| picker.choose(FlowNumber { group: 1, index }, 0).session).collect();
        assert_eq!(sessions, [3, 4, 5, 3]);
        let seats = picker.choose(FlowNumber { group: 1, index: 3 }, 0).seats;
        assert_eq!(seats.as_slice()[0], Seat { row: 0, seat: 5 });
    }

    #[test]
    fn random_seats_are_adjacent_and_repeatable_and_differ_by_attempt() {
        let picker = Picker::new(house(10, 30, 30), Pick::Random, 5, 0, 7).expect("fits");
        let mut differ = 0;
        for index in 0..200 {
            let flow = FlowNumber { group: 0, index };
            let choice = picker.choose(flow, 0);
            assert_eq!(choice, picker.choose(flow, 0));
            let seats = choice.seats.as_slice();
            assert!(seats.windows(2).all(|pair| pair[0].row == pair[1].row && pair[0].seat + 1 == pair[1].seat));
            assert!(seats[4].seat < 30 && seats[0].row < 30 && choice.session < 10);
            differ += usize::from(choice != picker.choose(flow, 1));
        }
        assert!(differ > 190, "only {differ} of 200 second attempts differ");
    }

    #[test]
    fn tokens_differ_by_flow_seed_and_prefix() {
        let mut seen = BTreeSet::new();
        for (prefix, seed) in [("a", 1), ("a", 2), ("b", 1)] {
            let house = House { prefix: prefix.into(), ..house(1, 1, 20) };
            let picker = Picker::new(house, Pick::Same, 1, 0, seed).expect("fits");
            for group in 0..2 {
                for index in 0..100 {
                    let flow = FlowNumber { group, index };
                    let token = picker.token(flow, &picker.choose(flow, 0));
                    let session = Entity::Session(picker.house().session_id(picker.choose(flow, 0).session));
                    assert_eq!(Entity::Cart(token.cart()).hash_prefix(), session.hash_prefix());
                    assert!(seen.insert(token.0));
                }
            }
        }
    }

    #[test]
    fn the_given_share_of_flows_gives_up() {
        let picker = Picker::new(house(1, 1, 20), Pick::Same, 1, 0, 3).expect("fits");
        let gave_up = (0..10_000).filter(|&index| picker.abandons(FlowNumber { group: 0, index }, 30)).count();
        assert!((2_800..3_200).contains(&gave_up), "{gave_up} of 10 000");
        assert!(!(0..1_000).any(|index| picker.abandons(FlowNumber { group: 0, index }, 0)));
    }

    #[test]
    fn impossible_picks_are_errors() {
        let error = Picker::new(house(1, 5, 4), Pick::Random, 5, 0, 1).expect_err("rows of 4");
        assert_eq!(error.to_string(), "5 adjacent seats do not fit into a row of 4; take fewer seats or longer rows");
        assert_eq!(Picker::new(house(1, 5, 40), Pick::Next, 21, 0, 1).expect_err("21"), PickerError::SeatsOfHold(21));
        assert_eq!(Picker::new(house(1, 5, 40), Pick::Next, 0, 0, 1).expect_err("0"), PickerError::SeatsOfHold(0));
    }
}
