//! Buyers that want two seats or places, and pay.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answer, Answered},
    command::{BestWish, CartCommand, Expect, Payment, Want, WantedLine},
};
use rand::rngs::SmallRng;
use tokio::time::sleep;

use super::house::{Bought, House, floor};

/// An outage is shorter than this number of tries.
const TRIES: u32 = 200;

/// What a buyer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Two neighbouring seats.
    Pair,
    /// Two places of the area.
    Places,
}

/// One buyer, who asks once and pays so much later. `None` if it did not get what it wanted.
pub(super) async fn buy(
    house: Arc<House>,
    network: u64,
    wish: Wish,
    after: Duration,
    mut random: SmallRng,
) -> Option<Bought> {
    let cart = house.new_cart(network, &mut random);
    let want = match wish {
        Wish::Pair => Want::Best(BestWish {
            count: 2,
            category: None,
            section: None,
            accessible: 0,
            split: false,
            buy_as: Default::default(),
        }),
        Wish::Places => Want::places(floor(), 2),
    };
    let hold = House::hold(network, vec![WantedLine::new(house.session.clone(), want)]);
    let told = |what: &str, why: &dyn std::fmt::Debug| {
        house.client.trace.note(&format!("a buyer of network {network}: {what} is answered {why:?}"));
    };
    match house.ask(&mut random, cart, hold, TRIES).await {
        Some(Ok(Answered { answer: Answer::Held(_), .. })) => {}
        other => {
            told("the hold", &other);
            return None;
        }
    }
    sleep(after).await;
    let checkout = CartCommand::Checkout {
        payment: Payment::Gateway { source: "card".into(), on_decline: None },
        customer: None,
        shipping: None,
        expect: Expect::default(),
        holder: None,
    };
    match house.ask(&mut random, cart, checkout, TRIES).await {
        Some(Ok(Answered { answer: Answer::Order { .. }, .. })) => Some(Bought(cart)),
        other => {
            told("the checkout", &other);
            None
        }
    }
}
