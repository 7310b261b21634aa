use boxoffice_declare::op;

/// Read a cart.
#[op("cart.get", read, wieght(1), answers(CartView))]
#[example("{}")]
struct CartGet {
    token: CartToken,
}

fn main() {}
