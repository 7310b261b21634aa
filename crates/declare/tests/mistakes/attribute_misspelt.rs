use boxoffice_declare::op;

/// Hold named seats.
#[op("cart.hold_seats", hold, weight(14), answers(Held))]
#[example("{}")]
struct HoldSeats {
    token: CartToken,
    #[optionel]
    note: Note,
}

fn main() {}
