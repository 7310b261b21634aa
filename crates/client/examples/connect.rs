//! Creates a small hall and a session, and buys two seats.
//!
//! ```text
//! boxoffice serve &
//! cargo run -p boxoffice-client --example connect -- 127.0.0.1:7180
//! ```

use std::sync::Arc;

use boxoffice_client::{
    Cart, Client, ClientConfig, Currency, Entity, Id, Money, NewSession, Seat, Timestamp, Title, VenueDetails,
    layout::{Labels, Layout, Row, Run},
    recorded,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7180".into());
    let client = Client::connect(ClientConfig::new([address])).await?;

    let id = |text: &str| Id::new(text).expect("the ids in this example are valid");
    let (venue, hall, session) = (id("globe"), id("main"), id("hamlet-tonight"));
    let details = VenueDetails {
        name: "The Globe".into(),
        city: "London".into(),
        position: None,
        comments: "".into(),
        zone: None,
        address: "".into(),
    };
    client.venue_put(&venue, details).await?;
    client.hall_put(&venue, &hall, "Main", Arc::new(five_rows()?)).await?;
    let hamlet =
        Title { name: "Hamlet".into(), director: "".into(), cast: Vec::new(), comments: "".into(), duration_ms: None };
    client.title_put(&id("hamlet"), hamlet).await?;
    let new = NewSession {
        id: session.clone(),
        hall,
        title: id("hamlet"),
        starts_at: Timestamp(4_102_513_200_000),
        ends_at: Timestamp(4_102_524_000_000),
        prices: vec![(id("standard"), Money { amount: 1_000, currency: Currency::new("EUR").expect("a currency") })],
        extras: Default::default(),
    };
    client.session_create(&venue, new).await?;

    let cart = Cart::beside(&client, &Entity::Session(session.clone()));
    let seats = [Seat { row: 1, seat: 5 }, Seat { row: 1, seat: 6 }];
    match cart.hold_seats(&session, seats).await {
        Ok(held) => println!("held {} seats in cart {}", held.value.lines[0].content.quantity(), cart.id()),
        // Another buyer was faster. The refusal names every seat that is taken.
        Err(error) if error.refusal().is_some_and(|no| no.name == "seats_taken") => {
            println!("{error}; run this example against a fresh server, or choose other seats");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    let bought = cart.checkout(recorded("card", "4711"), None).await?.value;
    println!("order {} for {} {:?}", bought.id, bought.total.amount, bought.total.currency);
    Ok(())
}

/// Five rows of sixteen seats, all of one category.
fn five_rows() -> Result<Layout, Box<dyn std::error::Error>> {
    let row = |label: &str| Row {
        label: label.into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count: 16,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: Id::new("standard").expect("a valid id"),
            accessible: false,
            points: Vec::new(),
        }],
    };
    Ok(Layout::new(["A", "B", "C", "D", "E"].map(row).to_vec(), None)?)
}
