//! The other buyers of the demo. They think, look, hold, release, pay and lose races at the pace of people, and leave some
//! seats of every house.

use std::{sync::Arc, time::Duration};

use boxoffice_client::{
    BestWish, Cart, Client, ClientConfig, Entity, Error, Id, MapView, Payment, Seat, SeatState, SessionView, Timestamp,
    gateway, recorded,
};
use futures_util::future::join_all;
use rand::{
    Rng, SeedableRng,
    rngs::SmallRng,
    seq::{IndexedRandom, SliceRandom},
};
use tokio::time::sleep;

use crate::{
    failure::{Failure, Outcome},
    node_client::now,
};

/// The products of the shop.
pub(super) const PRODUCTS: [&str; 2] = ["programme", "poster"];
/// The room that is booked by time.
pub(super) const RESOURCE: &str = "rehearsal-room";
/// The session with places only, and its area.
const PLACES: (&str, &str) = ("yard-tonight", "floor");
/// The sessions with seats, the most wanted first.
const SESSIONS: [&str; 5] = ["tosca-tonight", "hamlet-tonight", "lumen-late", "mahler-sunday", "tosca-tomorrow"];

/// One of this many seats is left free.
const LEFT: u32 = 6;
/// The part of each session that is sold before the demo begins, in percent.
const SOLD_AHEAD: [usize; 5] = [34, 45, 28, 22, 12];
/// How long buyers think, in milliseconds.
const THINK_MS: std::ops::Range<u64> = 1_500..9_000;
/// How long buyers stay away after they have bought or given up, in milliseconds.
const AWAY_MS: std::ops::Range<u64> = 10_000..60_000;
/// Buyers hurry a little while a house is rather empty.
const EAGER: f64 = 0.35;

const HOUR_MS: u64 = 60 * 60 * 1000;

/// Buys until it is dropped.
///
/// # Errors
/// A client cannot be started.
pub(super) async fn buy(addresses: Vec<String>, buyers: u32, seed: u64) -> Outcome {
    let mut clients = Vec::new();
    for first in 0..addresses.len() {
        let mut addresses = addresses.clone();
        addresses.rotate_left(first);
        let client = Client::start(ClientConfig::new(addresses));
        clients.push(client.map_err(|error| Failure::Node(format!("no client for the buyers: {error}")))?);
    }
    if buyers > 0 {
        let ahead = (0u32..).zip(SESSIONS).zip(SOLD_AHEAD).map(|((number, session), share)| {
            let dice = SmallRng::seed_from_u64(seed.wrapping_add(u64::from(number)));
            let mut buyer = Buyer { client: clients[number as usize % clients.len()].clone(), number, dice };
            async move { buyer.sell_ahead(&id(session), share).await }
        });
        // Unsold seats are sold later.
        let _: Vec<Result<(), Error>> = join_all(ahead).await;
    }
    let buying = (0..buyers).map(|number| {
        let dice = SmallRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(u64::from(number)));
        Buyer { client: clients[number as usize % clients.len()].clone(), number, dice }.buy()
    });
    join_all(buying).await;
    // The demo goes on without buyers.
    std::future::pending().await
}

struct Buyer {
    client: Client,
    number: u32,
    dice: SmallRng,
}

impl Buyer {
    async fn buy(mut self) {
        sleep(Duration::from_millis(self.dice.random_range(0..AWAY_MS.start))).await;
        loop {
            // A buyer tries again after a lost race or a dead node.
            let eager = self.visit().await.unwrap_or(false);
            let away_ms = self.dice.random_range(AWAY_MS);
            sleep(Duration::from_millis(if eager { away_ms / 4 } else { away_ms })).await;
        }
    }

    /// Sells a part of a session at once, in groups of two and four.
    async fn sell_ahead(&mut self, session: &Id, share: usize) -> Result<(), Error> {
        let view = self.client.session_get(session).await?.value;
        let mut left = view.layout.seats() as usize * share / 100;
        while left > 0 {
            let map = self.client.session_map(session).await?.value;
            let count = self.dice.random_range(1..=4).min(left);
            let seats = self.together(&view, &map, count);
            if seats.is_empty() {
                break;
            }
            left = left.saturating_sub(seats.len());
            let cart = self.cart_beside(&Entity::Session(session.clone()));
            cart.hold_seats(session, seats).best_effort().await?;
            cart.checkout(recorded("box office", cart.id().to_string()), None).await?;
        }
        Ok(())
    }

    async fn think(&mut self) {
        let ms = self.dice.random_range(THINK_MS);
        sleep(Duration::from_millis(ms)).await;
    }

    /// One visit. Returns whether many seats are left.
    async fn visit(&mut self) -> Result<bool, Error> {
        let (cart, eager) = match self.dice.random_range(0..10) {
            0 => (self.shop().await?, false),
            1 => (self.room().await?, false),
            2 => (self.places().await?, false),
            _ => self.seats().await?,
        };
        self.think().await;
        if self.dice.random_ratio(1, 5) {
            cart.cancel().await?;
        } else if !cart.get().await?.value.lines.is_empty() {
            let payment = self.payment(&cart);
            cart.checkout(payment, Some(id(&format!("buyer-{}", self.number)))).await?;
        }
        Ok(eager)
    }

    fn payment(&mut self, cart: &Cart) -> Payment {
        match self.dice.random_range(0..10) {
            0 => gateway("decline", None),
            1..6 => gateway("ok", None),
            _ => recorded("card", cart.id().to_string()),
        }
    }

    fn cart_beside(&self, entity: &Entity) -> Cart {
        Cart::beside(&self.client, entity)
    }

    async fn seats(&mut self) -> Result<(Cart, bool), Error> {
        // The smaller of two draws, because the first ones are wanted more.
        let drawn = self.dice.random_range(0..SESSIONS.len()).min(self.dice.random_range(0..SESSIONS.len()));
        let session = id(SESSIONS[drawn]);
        let cart = self.cart_beside(&Entity::Session(session.clone()));
        let view = self.client.session_get(&session).await?.value;
        let (all, free) = (view.layout.seats(), view.counts.free);
        if free <= all / LEFT {
            return Ok((cart, false));
        }
        self.think().await;
        let count = self.dice.random_range(1..=4);
        if self.dice.random_ratio(1, 3) {
            let category = view.prices.choose(&mut self.dice).map(|(category, _)| category.clone());
            cart.hold_best(&session, BestWish { count, category, section: None, accessible: 0, split: true }).await?;
        } else {
            let map = self.client.session_map(&session).await?.value;
            let seats = self.together(&view, &map, usize::from(count));
            self.think().await;
            cart.hold_seats(&session, seats).best_effort().await?;
        }
        if self.dice.random_ratio(1, 6) {
            // The buyer has second thoughts.
            self.think().await;
            if let Some(line) = cart.get().await?.value.lines.first() {
                cart.release(line.line, None).await?;
            }
        }
        Ok((cart, f64::from(free) > f64::from(all) * (1.0 - EAGER)))
    }

    /// Adjacent free seats at a random place.
    fn together(&mut self, view: &SessionView, map: &MapView, count: usize) -> Vec<Seat> {
        let layout = Arc::clone(&view.layout);
        let is_free = |seat: u32| map.seats[(seat / 4) as usize] >> (seat % 4 * 2) & 3 == SeatState::Free as u8;
        let mut free: Vec<u32> = (0..layout.seats()).filter(|seat| is_free(*seat)).collect();
        free.shuffle(&mut self.dice);
        let from = |first: u32| {
            let right = |seat: &u32| layout.right_neighbour(*seat).filter(|seat| is_free(*seat));
            std::iter::successors(Some(first), right).take(count).collect::<Vec<u32>>()
        };
        let longest = free.iter().take(40).map(|first| from(*first)).max_by_key(Vec::len);
        longest.unwrap_or_default().into_iter().map(|seat| layout.seat(seat)).collect()
    }

    async fn places(&mut self) -> Result<Cart, Error> {
        let cart = self.cart_beside(&Entity::Session(id(PLACES.0)));
        let view = self.client.session_get(&id(PLACES.0)).await?.value;
        let left = view.area_counts.iter().any(|area| area.free > (area.free + area.held + area.sold) / LEFT);
        if left {
            let quantity = self.dice.random_range(1..=4);
            cart.hold_places(&id(PLACES.0), &id(PLACES.1), quantity).await?;
        }
        Ok(cart)
    }

    async fn shop(&mut self) -> Result<Cart, Error> {
        let product = id(PRODUCTS[self.dice.random_range(0..PRODUCTS.len())]);
        let cart = self.cart_beside(&Entity::Product(product.clone()));
        let counts = self.client.product_get(&product).await?.value.counts;
        if counts.free > (counts.free + counts.held + counts.sold) / u64::from(LEFT) {
            cart.hold_stock(&product, self.dice.random_range(1..=2)).await?;
        }
        Ok(cart)
    }

    async fn room(&mut self) -> Result<Cart, Error> {
        let cart = self.cart_beside(&Entity::Resource(id(RESOURCE)));
        // Whole hours of the next days' daytime.
        let day = now().0 / (24 * HOUR_MS) + self.dice.random_range(1..6);
        let begin = Timestamp((day * 24 + self.dice.random_range(8..18)) * HOUR_MS);
        cart.hold_slot(&id(RESOURCE), begin, Timestamp(begin.0 + HOUR_MS)).await?;
        Ok(cart)
    }
}

fn id(text: &str) -> Id {
    Id::new(text).expect("ids of the demo are ids")
}
