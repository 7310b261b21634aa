//! The other buyers of the demo: seats, places, units and time, each with a cart of its own.

use boxoffice_client::{BestWish, Cart, Client, Error, Order, Timestamp, recorded};

use super::{SESSION, id};
use crate::{
    args::Reach,
    draw::amount,
    failure::Failure,
    reach::{date_and_time, now},
    words::content,
};

/// What the shop sells.
pub const PRODUCT: &str = "programme";
/// The room that is booked by time.
pub const RESOURCE: &str = "rehearsal-room";
/// The session with places that have no numbers.
pub const AREA_SESSION: &str = "yard-tonight";

/// An hour, in milliseconds.
const HOUR_MS: u64 = 60 * 60 * 1000;

/// Everybody buys something; a line for each order.
///
/// # Errors
/// What the node says.
pub async fn buy(reach: &Reach) -> Result<Vec<String>, Failure> {
    let client = reach.connect().await?;
    let failure = |error| reach.failure(error);
    let mut lines = Vec::new();
    for (buyer, seats, units) in [("ada", 2, 1), ("bo", 3, 2), ("cleo", 1, 4)] {
        let order = theatre_and_shop(&client, buyer, seats, units).await.map_err(failure)?;
        lines.push(told(buyer, &order));
    }
    // Tomorrow's whole hours, with the quarter of an hour that is kept free between.
    let tomorrow = now().0 / HOUR_MS * HOUR_MS + 24 * HOUR_MS;
    for (buyer, begin) in [("dee", tomorrow), ("eli", tomorrow + 2 * HOUR_MS)] {
        let order = room(&client, buyer, Timestamp(begin)).await.map_err(failure)?;
        lines.push(told(buyer, &order));
    }
    Ok(lines)
}

/// Seats, places and a programme in one order.
async fn theatre_and_shop(client: &Client, buyer: &str, seats: u16, units: u32) -> Result<Order, Error> {
    let cart = Cart::new(client);
    let wish = BestWish { count: seats, category: None, section: None, accessible: 0, split: false };
    cart.hold_best(&id(SESSION), wish).await?;
    cart.hold_places(&id(AREA_SESSION), &id("floor"), u32::from(seats)).await?;
    cart.hold_stock(&id(PRODUCT), units).await?;
    pay(&cart, buyer).await
}

async fn room(client: &Client, buyer: &str, begin: Timestamp) -> Result<Order, Error> {
    let cart = Cart::new(client);
    cart.hold_slot(&id(RESOURCE), begin, Timestamp(begin.0 + HOUR_MS)).await?;
    pay(&cart, buyer).await
}

async fn pay(cart: &Cart, buyer: &str) -> Result<Order, Error> {
    let view = cart.checkout(recorded("demo", cart.id().to_string()), Some(id(buyer))).await?.value;
    Ok((*view.order).clone())
}

fn told(buyer: &str, order: &Order) -> String {
    let lines: Vec<String> =
        order.lines.iter().map(|line| format!("{} of {}", content(&line.content, None), line.entity)).collect();
    format!("{} {buyer} bought {} for {}", date_and_time(order.at), lines.join("; "), amount(order.total))
}
