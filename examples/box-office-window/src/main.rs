//! The window of a small theatre: makes tonight's session, sells the best two seats and shows the map beside.
//!
//! ```text
//! boxoffice serve &
//! cargo run --manifest-path examples/box-office-window/Cargo.toml -- 127.0.0.1:7380
//! ```
//!
//! 7380 is the operators' port: only operators make sessions. The program depends on `boxoffice-client` alone.

use std::{error::Error, sync::Arc};

use boxoffice_client::{
    BestWish, Cart, Client, ClientConfig, Content, Currency, Entity, Id, Money, NewSession, Timestamp, Title,
    VenueDetails,
    layout::{Labels, Layout, Row, Run},
    recorded,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7380".into());
    let client = Client::connect(ClientConfig::new([address])).await?;
    let layout = Arc::new(stalls()?);
    let session = make_session(&client, &layout).await?;

    // The watch follows the session until the window closes, whatever happens to the connection.
    let mut watch = client.watch(&session);
    let free = watch.next().await?.counts().free;
    println!("{free} of {} seats are free", layout.seats());

    let cart = Cart::beside(&client, &Entity::Session(session.clone()));
    let wish = BestWish { count: 2, category: None, section: None, accessible: 0, split: false };
    let held = match cart.hold_best(&session, wish).await {
        Ok(held) => held.value,
        Err(error) if error.refusal().is_some_and(|refusal| refusal.name == "no_adjacent_seats") => {
            println!("sold out: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    for line in &held.lines {
        let Content::Seats(seats) = &line.content else { continue };
        for seat in seats.iter() {
            let index = layout.index(seat.seat).ok_or("the hall has another layout than this program")?;
            println!("row {} seat {}, {} cents", layout.row_label(index), layout.seat_label(index), seat.price);
        }
    }

    // A second checkout under this request id gets the same order, even from another run of the program.
    let order =
        cart.with_request_id(format!("window-{}", cart.id())).checkout(recorded("cash", "till 1"), None).await?;
    println!("sold, order {}", order.value.id);

    let map = loop {
        let map = watch.next().await?;
        if map.counts().held == 0 && map.counts().free < free {
            break map;
        }
    };
    println!("{} of {} seats are free", map.counts().free, map.seats());
    Ok(())
}

/// Makes the venue, its hall and the session. All of it can be repeated.
async fn make_session(client: &Client, layout: &Arc<Layout>) -> Result<Id, Box<dyn Error>> {
    let (venue, hall, title, session) = (id("window")?, id("stalls")?, id("hamlet")?, id("hamlet-at-the-window")?);
    let details = VenueDetails {
        name: "The Window".into(),
        city: "Aarhus".into(),
        position: None,
        comments: "".into(),
        zone: None,
        address: "".into(),
    };
    client.venue_put(&venue, details).await?;
    client.hall_put(&venue, &hall, "Stalls", layout.clone()).await?;
    let hamlet =
        Title { name: "Hamlet".into(), director: "".into(), cast: Vec::new(), comments: "".into(), duration_ms: None };
    client.title_put(&title, hamlet).await?;
    let price = Money { amount: 2_500, currency: Currency::new("EUR").ok_or("not a currency")? };
    let new = NewSession {
        id: session.clone(),
        hall,
        title,
        starts_at: Timestamp(4_102_513_200_000),
        ends_at: Timestamp(4_102_524_000_000),
        prices: vec![(id("standard")?, price)],
        extras: Default::default(),
    };
    client.session_create(&venue, new).await?;
    Ok(session)
}

/// Eight rows of twelve seats.
fn stalls() -> Result<Layout, Box<dyn Error>> {
    let row = |letter: char| -> Result<Row, Box<dyn Error>> {
        let labels = Labels::Numbers { first: 1, step: 1 };
        let run = Run { gap: 0, count: 12, labels, category: id("standard")?, accessible: false, points: Vec::new() };
        Ok(Row { label: letter.to_string().into(), section: None, runs: vec![run] })
    };
    Ok(Layout::new(('A'..='H').map(row).collect::<Result<_, _>>()?, None)?)
}

fn id(text: &str) -> Result<Id, String> {
    Id::new(text).ok_or_else(|| format!("{text} is not a valid id"))
}
