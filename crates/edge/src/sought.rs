//! What a request seeks that may run out, kept until the node has decided: a refusal is held against it. One that was
//! given although enough was free is a fault of the rules, and is counted.

use boxoffice_core::{
    command::{BestWish, CartCommand, Command, Want, WantedLine},
    id::{Entity, Id},
    refusal::{Conflict, Refusal, Shortage, TakenSeat},
    seat::SeatState,
};

/// What a request seeks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// Nothing that runs out.
    Nothing,
    /// Lines of a cart.
    Lines(Vec<WantedLine>),
    /// So many of a line altogether.
    Quantity(u32),
    /// What the cart has and the products set aside only now.
    Checkout,
}

/// How a refusal stands to what was sought, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fairness {
    /// It was not to be had, as far as the request and the refusal say.
    Fair,
    /// Enough seats were free, only not side by side, or not as many accessible ones: the rule of best available.
    Scattered,
    /// It was free.
    AlthoughFree,
}

impl Fairness {
    fn fair_if(fair: bool) -> Fairness {
        if fair { Fairness::Fair } else { Fairness::AlthoughFree }
    }
}

impl Sought {
    pub(crate) fn of(command: &Command) -> Sought {
        let Command::Cart(_, command) = command else { return Sought::Nothing };
        match command {
            CartCommand::Hold { lines, customer: _, guest: _ } => Sought::Lines(lines.clone()),
            CartCommand::SetQuantity { line: _, quantity } => Sought::Quantity(*quantity),
            CartCommand::Checkout { .. } => Sought::Checkout,
            CartCommand::Open { .. }
            | CartCommand::Get
            | CartCommand::Release { .. }
            | CartCommand::Cancel
            | CartCommand::Refund { .. }
            | CartCommand::Revoke { .. }
            | CartCommand::Settle { .. }
            | CartCommand::Paid { .. }
            | CartCommand::Order
            | CartCommand::Audit => Sought::Nothing,
        }
    }

    /// Whether a refusal is right about what was sought. Where it may be about several lines, it is about the one that
    /// makes it right.
    pub(crate) fn judge(&self, refusal: &Refusal) -> Fairness {
        match refusal {
            Refusal::Lines(lines) => {
                lines.iter().map(|line| self.judge(&line.refusal)).max().unwrap_or(Fairness::AlthoughFree)
            }
            Refusal::SeatsTaken(taken) | Refusal::SeatBlocked(taken) => self.seats(taken),
            Refusal::NotEnoughPlaces { area, free } => self.places(area, *free),
            Refusal::NoAdjacentSeats { count, free } => self.best(*count, *free),
            Refusal::OutOfStock(shortages) => {
                Fairness::fair_if(!shortages.is_empty() && shortages.iter().all(|shortage| self.is_short(shortage)))
            }
            Refusal::SlotTaken(conflicts) => self.slot(conflicts),
            // None of these is about how much there is.
            Refusal::BadRequest(_)
            | Refusal::RequestIdMissing
            | Refusal::RequestIdReused
            | Refusal::InProgress
            | Refusal::Forbidden(_)
            | Refusal::NoSuchSeat(_)
            | Refusal::DuplicateSeat(_)
            | Refusal::SessionClosed(_)
            | Refusal::HallOccupied(_)
            | Refusal::LimitPerCustomer { .. }
            | Refusal::LimitPerOrder { .. }
            | Refusal::CartNotActive(_)
            | Refusal::CartExpired
            | Refusal::NoSuchLine(_)
            | Refusal::CartEmpty
            | Refusal::NotYourCart
            | Refusal::TooManyLines(_)
            | Refusal::HoldAgeExceeded
            | Refusal::CartDiffers(_)
            | Refusal::BadQuantity(_)
            | Refusal::NoSuchProduct(_)
            | Refusal::BadInterval(_)
            | Refusal::IdInUse(_)
            | Refusal::OutsideHours(_)
            | Refusal::NoSuchBooking(_)
            | Refusal::TooSoonOrFar(_)
            | Refusal::PaymentDeclined(_)
            | Refusal::PaymentPending
            | Refusal::AmountMismatch { .. }
            | Refusal::NotFound(_)
            | Refusal::AlreadyExistsDifferently(_)
            | Refusal::CurrencyFixed { .. }
            | Refusal::NoSuchNode { .. }
            | Refusal::NodeGone { .. }
            | Refusal::DiskDiffers { .. }
            | Refusal::QuorumWouldBeLost { .. }
            | Refusal::PlacementStale { .. }
            | Refusal::NotDrainable { .. }
            | Refusal::AlreadyFounded
            | Refusal::NodeInUse { .. }
            | Refusal::TooManyNodes { .. }
            | Refusal::WrongSecret
            | Refusal::TooFewLeft { .. }
            | Refusal::Internal => Fairness::Fair,
        }
    }

    /// Seats that are named must be among those sought, and not free; of a best effort all of them must be named.
    fn seats(&self, taken: &[TakenSeat]) -> Fairness {
        let Sought::Lines(lines) = self else { return Fairness::Fair };
        let is_right = |line: &WantedLine| {
            let Want::Seats { seats, best_effort } = &line.want else { return false };
            let sought = seats.as_slice();
            let named = taken.iter().filter(|taken| sought.binary_search(&taken.seat).is_ok()).count();
            named > 0 && (!best_effort || named == sought.len())
        };
        let none_free = taken.iter().all(|taken| taken.state != SeatState::Free);
        Fairness::fair_if(none_free && lines.iter().any(is_right))
    }

    /// More places must have been sought than are free. What a line has already comes on top of what is free, so this is
    /// never too strict for a line that is to grow.
    fn places(&self, area: &Id, free: u32) -> Fairness {
        match self {
            Sought::Nothing | Sought::Checkout => Fairness::Fair,
            Sought::Quantity(quantity) => Fairness::fair_if(*quantity > free),
            Sought::Lines(lines) => {
                let more_than_free = |entity: &Entity| sought_places(lines, entity, area) > u64::from(free);
                Fairness::fair_if(lines.iter().any(|line| more_than_free(&line.entity)))
            }
        }
    }

    /// More units must be wanted than are free, and the product must have been sought. How many are wanted is told by the
    /// refusal: a line that had nothing set aside may be set aside together with what is added to it.
    fn is_short(&self, shortage: &Shortage) -> bool {
        let Shortage { product, wanted, free, held: _ } = shortage;
        let sought = match self {
            Sought::Nothing | Sought::Checkout => true,
            Sought::Quantity(quantity) => u64::from(*quantity) > *free,
            Sought::Lines(lines) => {
                lines.iter().any(|line| matches!(&line.entity, Entity::Product(id) if id == product))
            }
        };
        sought && u64::from(*wanted) > *free
    }

    fn best(&self, count: u16, free: u32) -> Fairness {
        let Sought::Lines(lines) = self else { return Fairness::Fair };
        let of_line = |line: &WantedLine| match &line.want {
            Want::Best(wish) if wish.count == count => Some(of_wish(wish, free)),
            _ => None,
        };
        lines.iter().filter_map(of_line).min().unwrap_or(Fairness::AlthoughFree)
    }

    /// Something must be named that is in the way of a time that was sought.
    fn slot(&self, conflicts: &[Conflict]) -> Fairness {
        let Sought::Lines(lines) = self else { return Fairness::Fair };
        let is_right = |line: &WantedLine| {
            let Want::Slot { begin, end, .. } = line.want else { return false };
            conflicts.iter().any(|conflict| conflict.begin < end && begin < conflict.end)
        };
        Fairness::fair_if(lines.iter().any(is_right))
    }
}

/// Places of an area of an entity that lines seek together.
fn sought_places(lines: &[WantedLine], of: &Entity, in_area: &Id) -> u64 {
    let quantity = |line: &WantedLine| match &line.want {
        Want::Places { area, quantity } if area == in_area && line.entity == *of => u64::from(*quantity),
        _ => 0,
    };
    lines.iter().map(quantity).sum()
}

/// How fair it is that a wish was refused with so many seats free that fit it.
fn of_wish(wish: &BestWish, free: u32) -> Fairness {
    if free < u32::from(wish.count) {
        return Fairness::Fair;
    }
    let anywhere = wish.split || wish.count == 1;
    // Where accessible seats are wished for, those that are free may be too many or too few of the kind.
    if anywhere && wish.accessible == 0 { Fairness::AlthoughFree } else { Fairness::Scattered }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::{
        command::{BestWish, CartCommand, Command, Expect, Payment, SessionCommand, Want, WantedLine},
        id::{CartId, Entity, Id},
        refusal::{Conflict, LineRefusal, Refusal, Shortage, TakenSeat},
        seat::{Seat, SeatSet, SeatState},
        time::Timestamp,
    };

    use super::{
        Fairness::{self, AlthoughFree, Fair, Scattered},
        Sought,
    };

    fn id(text: &str) -> Id {
        Id::new(text).expect("a good id")
    }

    fn seat(number: u16) -> Seat {
        Seat { row: 0, seat: number }
    }

    fn session(want: Want) -> WantedLine {
        WantedLine { entity: Entity::Session(id("s")), want }
    }

    fn seats(numbers: &[u16], best_effort: bool) -> WantedLine {
        let seats = SeatSet::new(numbers.iter().map(|number| seat(*number))).expect("some seats");
        session(Want::Seats { seats, best_effort })
    }

    fn places(quantity: u32) -> WantedLine {
        session(Want::Places { area: id("yard"), quantity })
    }

    fn units(quantity: u32) -> WantedLine {
        WantedLine { entity: Entity::Product(id("p")), want: Want::Units { quantity, now: false } }
    }

    fn slot(begin: u64, end: u64) -> WantedLine {
        let want = Want::Slot { begin: Timestamp(begin), end: Timestamp(end), details: "".into() };
        WantedLine { entity: Entity::Resource(id("r")), want }
    }

    fn best(count: u16, accessible: u16, split: bool) -> WantedLine {
        session(Want::Best(BestWish { count, category: None, section: None, accessible, split }))
    }

    fn cart(command: CartCommand) -> Sought {
        Sought::of(&Command::Cart(CartId(1), command))
    }

    fn hold(lines: &[WantedLine]) -> Sought {
        cart(CartCommand::Hold { lines: lines.to_vec(), customer: None, guest: false })
    }

    fn set(quantity: u32) -> Sought {
        cart(CartCommand::SetQuantity { line: 1, quantity })
    }

    fn taken(numbers: &[(u16, SeatState)]) -> Refusal {
        Refusal::SeatsTaken(
            numbers.iter().map(|(number, state)| TakenSeat { seat: seat(*number), state: *state }).collect(),
        )
    }

    fn few(free: u32) -> Refusal {
        Refusal::NotEnoughPlaces { area: id("yard"), free }
    }

    fn short(wanted: u32, free: u64) -> Refusal {
        Refusal::OutOfStock(vec![Shortage { product: id("p"), wanted, free, held: 0 }])
    }

    fn in_the_way(begin: u64, end: u64) -> Refusal {
        let why = "booking b".into();
        Refusal::SlotTaken(vec![Conflict {
            begin: Timestamp(begin),
            end: Timestamp(end),
            why,
            booking: Some("b".into()),
        }])
    }

    #[track_caller]
    fn check(sought: &Sought, refusal: &Refusal, fairness: Fairness) {
        assert_eq!(sought.judge(refusal), fairness, "{sought:?} is refused: {refusal}");
    }

    #[test]
    fn named_seats() {
        use SeatState::{Blocked, Free, Held, Sold};
        let two = hold(&[seats(&[1, 2], false)]);
        check(&two, &taken(&[(1, Held)]), Fair);
        check(&two, &taken(&[(1, Sold), (2, Blocked)]), Fair);
        check(&two, &taken(&[]), AlthoughFree);
        check(&two, &taken(&[(1, Free)]), AlthoughFree);
        check(&two, &taken(&[(3, Held)]), AlthoughFree);
        // A best effort takes what is left.
        let some = hold(&[seats(&[1, 2], true)]);
        check(&some, &taken(&[(1, Held), (2, Sold)]), Fair);
        check(&some, &taken(&[(1, Held)]), AlthoughFree);
        let blocked = vec![TakenSeat { seat: seat(3), state: Blocked }];
        check(&two, &Refusal::SeatBlocked(blocked), AlthoughFree);
    }

    #[test]
    fn best_seats() {
        let none = |count, free| Refusal::NoAdjacentSeats { count, free };
        check(&hold(&[best(3, 0, false)]), &none(3, 2), Fair);
        check(&hold(&[best(3, 0, false)]), &none(3, 3), Scattered);
        check(&hold(&[best(3, 0, true)]), &none(3, 3), AlthoughFree);
        check(&hold(&[best(1, 0, false)]), &none(1, 1), AlthoughFree);
        check(&hold(&[best(3, 1, true)]), &none(3, 9), Scattered);
        check(&hold(&[best(3, 0, false)]), &none(2, 1), AlthoughFree);
    }

    #[test]
    fn places_of_an_area() {
        check(&hold(&[places(5)]), &few(4), Fair);
        check(&hold(&[places(5)]), &few(5), AlthoughFree);
        // Lines of one area are counted together, and those of other areas are not.
        check(&hold(&[places(2), places(3)]), &few(4), Fair);
        check(&hold(&[places(2), places(2)]), &few(4), AlthoughFree);
        let other = session(Want::Places { area: id("hill"), quantity: 9 });
        check(&hold(&[places(2), other.clone()]), &few(4), AlthoughFree);
        let elsewhere = WantedLine { entity: Entity::Session(id("t")), ..places(3) };
        check(&hold(&[places(2), elsewhere]), &few(4), AlthoughFree);
        check(&hold(&[other]), &few(0), AlthoughFree);
        check(&set(5), &few(4), Fair);
        check(&set(5), &few(5), AlthoughFree);
    }

    #[test]
    fn stock() {
        check(&hold(&[units(5)]), &short(5, 4), Fair);
        check(&hold(&[units(5)]), &short(5, 5), AlthoughFree);
        check(&hold(&[units(5)]), &Refusal::OutOfStock(vec![]), AlthoughFree);
        check(&hold(&[places(5)]), &short(5, 4), AlthoughFree);
        check(&set(7), &short(2, 1), Fair);
        check(&set(7), &short(8, 7), AlthoughFree);
        let checkout = cart(paid());
        check(&checkout, &short(5, 4), Fair);
        check(&checkout, &short(5, 5), AlthoughFree);
    }

    fn paid() -> CartCommand {
        let payment = Payment::Recorded { method: "cash".into(), transaction_id: "".into() };
        CartCommand::Checkout { payment, customer: None, shipping: None, expect: Expect::default() }
    }

    #[test]
    fn slots() {
        check(&hold(&[slot(10, 20)]), &in_the_way(10, 20), Fair);
        check(&hold(&[slot(10, 20)]), &in_the_way(19, 30), Fair);
        check(&hold(&[slot(10, 20)]), &in_the_way(20, 30), AlthoughFree);
        check(&hold(&[slot(10, 20)]), &Refusal::SlotTaken(vec![]), AlthoughFree);
    }

    #[test]
    fn several_lines_are_as_unfair_as_the_worst() {
        let all = hold(&[seats(&[1], false), places(2), units(3), slot(10, 20)]);
        let lines = |refusals: &[Refusal]| {
            let line = |(line, refusal): (u16, &Refusal)| LineRefusal { line, refusal: refusal.clone() };
            Refusal::Lines((0..).zip(refusals).map(line).collect())
        };
        let right = [taken(&[(1, SeatState::Held)]), few(1), short(3, 2), in_the_way(10, 20)];
        check(&all, &lines(&right), Fair);
        let wrong = [taken(&[(2, SeatState::Held)]), few(2), short(3, 3), in_the_way(5, 10)];
        for (number, wrong) in wrong.iter().enumerate() {
            let mut refusals = right.clone();
            refusals[number] = wrong.clone();
            check(&all, &lines(&refusals), AlthoughFree);
        }
    }

    #[test]
    fn what_is_not_about_how_much_there_is_is_fair() {
        check(&hold(&[units(5)]), &Refusal::CartExpired, Fair);
        check(&hold(&[units(5)]), &Refusal::LimitPerOrder { entity: Entity::Product(id("p")), max: 9 }, Fair);
        // Operators who block seats seek nothing.
        let block = Sought::of(&Command::Session(id("s"), SessionCommand::Block(vec![seat(1)])));
        check(&block, &taken(&[(2, SeatState::Held)]), Fair);
    }
}
