use boxoffice_declare::op;

/// Buy what the cart holds.
#[op("cart.checkout", cart, venues(OfCartLines), weight(8), answers(OrderView))]
#[example("{}")]
#[one_of([recorded] [gate_way])]
struct Checkout {
    recorded: Option<Recorded>,
    gateway: Option<Gateway>,
}

fn main() {}
