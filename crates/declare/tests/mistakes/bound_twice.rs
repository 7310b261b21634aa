use boxoffice_declare::op;

/// Hold named seats.
#[op("cart.hold_seats", hold, weight(14), answers(Held))]
#[example("{}")]
struct HoldSeats {
    token: CartToken,
    #[within(0..=256)]
    #[narrow(0..=256)]
    note: Option<SmolStr>,
}

fn main() {}
