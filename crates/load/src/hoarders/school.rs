//! A school with a key holds and pays hundreds of seats.

use std::{sync::Arc, time::Duration};

use boxoffice_client::{AdminToken, BestWish, Cart, Client, ClientConfig, KeyCreate, Role};
use boxoffice_core::id::Id;
use boxoffice_wire::access::{KEY_SECRET_MIN, ShownKey};

use super::{
    Evening,
    buyers::{Bought, pay},
};
use crate::clock::now_ms;

/// The seats of the school, in carts of so many.
const SEATS: u32 = 500;
const CART: u16 = 20;
/// How long it thinks, in milliseconds of the evening.
const THINKS_MS: u64 = 600_000;
/// How much less a life may be than the longest one, in milliseconds.
const SLACK_MS: u64 = 2_000;

/// Holds everything with a key, and pays ten minutes later.
///
/// # Errors
/// What was refused, or shortened.
pub(super) async fn hold(evening: Arc<Evening>) -> Result<(String, Vec<Bought>), String> {
    let name = format!("school-{}", evening.session);
    let secret = format!("{:0>width$}", now_ms(), width = KEY_SECRET_MIN);
    let shown = ShownKey { name: &name, secret: &secret };
    let hash: String = shown.hash().iter().map(|byte| format!("{byte:02x}")).collect();
    let key = KeyCreate {
        id: Id::new(&name).ok_or("no id")?,
        hash: hash.into(),
        roles: vec![Role::Sell.name().into()],
        venues: Vec::new(),
        requests_per_second: None,
        held_max: Some(SEATS),
    };
    evening.operator.key_create(&key).await.map_err(|error| format!("its key: {error}"))?;
    let config = ClientConfig {
        admin_token: Some(AdminToken(shown.written())),
        forwarded_for: Some(super::address::NetworkAddress::office().address()),
        ..ClientConfig::new(evening.addresses.clone())
    };
    let client = Client::connect(config).await.map_err(|error| error.to_string())?;
    let mut carts = Vec::new();
    for number in 0..SEATS / u32::from(CART) {
        let cart = Cart::beside(&client, &evening.entity());
        let wish = BestWish { count: CART, category: None, section: None, accessible: 0, split: true };
        let held = cart.hold_best(&evening.session, wish).await;
        let held = held.map_err(|error| format!("cart {}: {error}", number + 1))?.value;
        if held.deadline.0 + SLACK_MS < now_ms() + evening.spec.life_ms() {
            return Err(format!("cart {} lives until {:?} only", number + 1, held.deadline));
        }
        carts.push(cart);
    }
    let thinks_ms = THINKS_MS.min(u64::from(evening.spec.minutes) * 30_000);
    tokio::time::sleep(Duration::from_millis(evening.spec.ms(thinks_ms))).await;
    let mut bought = Vec::new();
    for cart in &carts {
        bought.push(Bought { cart: pay(&client, cart).await?, quantity: CART.into() });
    }
    Ok((format!("a school with a key held {SEATS} seats and bought them all"), bought))
}
