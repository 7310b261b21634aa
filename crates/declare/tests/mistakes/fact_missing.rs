use boxoffice_declare::op;

/// Read a cart.
#[op("cart.get", read, answers(CartView))]
#[example("{}")]
struct CartGet {
    token: CartToken,
}

fn main() {}
