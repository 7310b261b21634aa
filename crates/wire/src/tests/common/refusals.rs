//! Samples of every refusal.

use boxoffice_core::{
    id::Entity,
    refusal::{CartDifference, LineRefusal, Refusal, Shortage, TakenSeat},
    seat::SeatState,
};
use boxoffice_wire::Rejection;

use super::{conflict, euro, id, seat};

/// Every refusal of the core, with details where it has some.
pub fn refusals() -> Vec<Refusal> {
    let taken = || {
        vec![
            TakenSeat { seat: seat(1, 5), state: SeatState::Held },
            TakenSeat { seat: seat(1, 7), state: SeatState::Sold },
        ]
    };
    vec![
        Refusal::BadRequest("`seats` is empty".into()),
        Refusal::RequestIdMissing,
        Refusal::RequestIdReused,
        Refusal::InProgress,
        Refusal::Forbidden("not an operator".into()),
        Refusal::SeatsTaken(taken()),
        Refusal::NoSuchSeat(vec![seat(9, 9)]),
        Refusal::DuplicateSeat(vec![seat(1, 5)]),
        Refusal::SeatBlocked(taken()),
        Refusal::NotEnoughPlaces { area: id("yard"), free: 3 },
        Refusal::NoAdjacentSeats { count: 4, free: 9 },
        Refusal::SessionClosed("not open yet".into()),
        Refusal::HallOccupied(id("hamlet-early")),
        Refusal::LimitPerCustomer { quota: id("hamlet"), max: 12, taken: 11 },
        Refusal::LimitPerOrder { entity: Entity::Product(id("programme")), max: 8 },
        Refusal::ShareReached { entity: Entity::Session(id("hamlet-1")), held: 40, retry_after_ms: 180_000 },
        Refusal::CartNotActive("done".into()),
        Refusal::CartExpired,
        Refusal::NoSuchLine(3),
        Refusal::CartEmpty,
        Refusal::NotYourCart,
        Refusal::TooManyLines(50),
        Refusal::HoldAgeExceeded,
        Refusal::CartDiffers(CartDifference::Total { expected: euro(3_000), actual: euro(2_000) }),
        Refusal::OutOfStock(vec![Shortage { product: id("programme"), wanted: 3, free: 1, held: 6 }]),
        Refusal::BadQuantity("`quantity` is a whole number from 1 to 1000000, not 0".into()),
        Refusal::NoSuchProduct(id("programme")),
        Refusal::SlotTaken(vec![conflict()]),
        Refusal::BadInterval("it is longer than 366 days".into()),
        Refusal::IdInUse(id("choir")),
        Refusal::OutsideHours("it closes at 18:00".into()),
        Refusal::NoSuchBooking(id("choir")),
        Refusal::TooSoonOrFar("it begins in less than an hour".into()),
        Refusal::PaymentDeclined("the card is blocked".into()),
        Refusal::PaymentPending,
        Refusal::AmountMismatch { asked: 3_000, got: 300 },
        Refusal::NotFound("session hamlet-tonight".into()),
        Refusal::AlreadyExistsDifferently("session hamlet-tonight".into()),
        Refusal::CurrencyFixed { entity: Entity::Product(id("programme")), currency: euro(0).currency },
        Refusal::NoSuchNode { node: 9 },
        Refusal::NodeGone { node: 3 },
        Refusal::DiskDiffers { node: 2 },
        Refusal::QuorumWouldBeLost { node: 2, shards: vec![0, 7, 31] },
        Refusal::PlacementStale { version: 412 },
        Refusal::NotDrainable { node: 2, why: "no other member serves".into() },
        Refusal::AlreadyFounded,
        Refusal::NodeInUse { node: 2, shards: vec![7] },
        Refusal::TooManyNodes { max: 65_535 },
        Refusal::WrongSecret,
        Refusal::TooFewLeft { node: 2, serving: 2 },
        Refusal::NotInvited,
    ]
}

/// More of them: the words for buyers differ, or other fields are shown.
pub fn other_refusals() -> Vec<Refusal> {
    vec![
        Refusal::NotEnoughPlaces { area: id("yard"), free: 0 },
        Refusal::NoAdjacentSeats { count: 4, free: 0 },
        Refusal::ShareReached { entity: Entity::Session(id("hamlet-1")), held: 40, retry_after_ms: 60_000 },
        Refusal::ShareReached { entity: Entity::Session(id("hamlet-1")), held: 40, retry_after_ms: 7_260_000 },
        Refusal::CartDiffers(CartDifference::Lines { expected: 3, actual: 4 }),
        Refusal::OutOfStock(vec![
            Shortage { product: id("programme"), wanted: 3, free: 1, held: 0 },
            Shortage { product: id("mug"), wanted: 3, free: 0, held: 0 },
        ]),
        Refusal::PaymentDeclined("".into()),
    ]
}

/// Several lines refused at once. The refusal has the number of the first.
pub fn refused_lines() -> Refusal {
    let seats = vec![TakenSeat { seat: seat(1, 5), state: SeatState::Held }];
    let shortages = vec![Shortage { product: id("programme"), wanted: 3, free: 1, held: 6 }];
    Refusal::Lines(vec![
        LineRefusal { line: 0, refusal: Refusal::SeatsTaken(seats) },
        LineRefusal { line: 3, refusal: Refusal::OutOfStock(shortages) },
    ])
}

/// Every rejection of the client port.
pub fn rejections() -> Vec<Rejection> {
    vec![
        Rejection::UnknownOp("cart.steal".into()),
        Rejection::TooLarge("at most 20 seats at once".into()),
        Rejection::Unauthenticated("the token is not known".into()),
        Rejection::RateLimited { why: "too many requests a second".into(), retry_after_ms: Some(100) },
        Rejection::UnsupportedVersion("2".into()),
    ]
}
