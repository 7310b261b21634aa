use boxoffice_declare::op;

/// Hold named seats.
#[op("cart.hold_seats", hold, weight(14), answers(Held))]
#[example("{}")]
struct HoldSeats {
    token: CartToken,
    #[since(1, 4)]
    note: Note,
}

fn main() {}
