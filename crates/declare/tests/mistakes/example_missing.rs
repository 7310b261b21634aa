use boxoffice_declare::op;

/// Read a cart.
#[op("cart.get", read, weight(1), answers(CartView))]
struct CartGet {
    token: CartToken,
}

fn main() {}
