//! Buyers that hold once, and pay some time later.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use boxoffice_client::{BestWish, Cart, CartId, Client, Error, OnDecline, gateway};

use super::{Evening, address::NetworkAddress};
use crate::setup::floor_id;

/// The code of the refusal `payment_pending`.
const PAYMENT_PENDING: u16 = 602;
/// How long a buyer tries, also while nodes are restarted.
const PATIENCE: Duration = Duration::from_secs(45);
/// The pause between two tries.
const AGAIN: Duration = Duration::from_millis(100);

/// What a buyer wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    /// So many seats side by side.
    Neighbors(u16),
    /// So many places of the area.
    Places(u32),
}

/// A cart that was told that it has bought so much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bought {
    pub(super) cart: CartId,
    pub(super) quantity: u32,
}

/// One buyer of a network that begins at this node.
///
/// # Errors
/// Why it did not buy.
pub(super) async fn buy(
    evening: Arc<Evening>,
    network: NetworkAddress,
    node: usize,
    wish: Wish,
    after: Duration,
) -> Result<Bought, String> {
    let client = connect(&evening, network, node).await?;
    let cart = Cart::beside(&client, &evening.entity());
    let from = Instant::now();
    let hold = cart.with_request_id(client.new_request_id());
    let until = from + PATIENCE;
    while let Err(error) = hold_once(&hold, &evening, wish).await {
        again(&error, until).map_err(|why| format!("the hold: {why}"))?;
        tokio::time::sleep(AGAIN).await;
    }
    tokio::time::sleep(after.saturating_sub(from.elapsed())).await;
    let cart = pay(&client, &cart).await?;
    let quantity = match wish {
        Wish::Neighbors(count) => count.into(),
        Wish::Places(quantity) => quantity,
    };
    Ok(Bought { cart, quantity })
}

/// Pays for a cart through the gateway.
///
/// # Errors
/// Why it could not.
pub(super) async fn pay(client: &Client, cart: &Cart) -> Result<CartId, String> {
    let paying = cart.with_request_id(client.new_request_id());
    let until = Instant::now() + PATIENCE;
    while let Err(error) = paying.checkout(gateway("ok", Some(OnDecline::Release)), None).await {
        again(&error, until).map_err(|why| format!("the payment: {why}"))?;
        tokio::time::sleep(AGAIN).await;
    }
    Ok(cart.id())
}

async fn hold_once(cart: &Cart, evening: &Evening, wish: Wish) -> Result<(), Error> {
    let held = match wish {
        Wish::Neighbors(count) => {
            let wish = BestWish { count, category: None, section: None, accessible: 0, split: false };
            cart.hold_best(&evening.session, wish).await
        }
        Wish::Places(quantity) => cart.hold_places(&evening.session, &floor_id(), quantity).await,
    };
    held.map(drop)
}

async fn connect(evening: &Evening, network: NetworkAddress, node: usize) -> Result<Client, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match evening.connect(network, node).await {
            Ok(client) => return Ok(client),
            Err(why) if Instant::now() > until => return Err(why),
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Whether the same request is to be tried again.
///
/// # Errors
/// Why it is not: it is refused, or the buyer's patience has ended.
fn again(error: &Error, until: Instant) -> Result<(), String> {
    match error {
        Error::Refused(no) if no.code != PAYMENT_PENDING => Err(no.name.to_string()),
        // Whoever holds no more than the floor is to hear neither this nor a refusal.
        Error::Failed(fail) if fail.kind.name() == "rate_limited" => Err("rate_limited".into()),
        error if Instant::now() > until => Err(error.to_string()),
        _ => Ok(()),
    }
}
