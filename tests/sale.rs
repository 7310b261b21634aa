//! Seats are sold end to end: the real program, its port, its disk.

mod carts;
mod deadlines;
mod frames;
mod houses;
mod watching;

use serde_json::{Value, json};

/// A token and the id of its cart: 16 bits of the token, then 112 bits of its BLAKE3 hash. This must never change.
const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
const CART: &str = "0001a6a492965517a830cb75fdb71346";

fn hold(token: &str, session: &str, seats: Value) -> Value {
    json!({"token": token, "session": session, "seats": seats})
}
