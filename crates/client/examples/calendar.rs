//! Books a room: every Monday at ten o'clock local time, then a free hour.
//!
//! ```text
//! boxoffice serve &
//! cargo run -p boxoffice-client --example calendar -- 127.0.0.1:7180
//! ```

use boxoffice_client::{
    Client, ClientConfig, Currency, Id, Limits, Rate, RepeatBody, ResourceDetails, ResourceFreeSlots, ResourceReserve,
    Slot, Timestamp,
};

const HOUR_MS: u64 = 60 * 60 * 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7180".into());
    let client = Client::connect(ClientConfig::new([address])).await?;
    let room = Id::new("room-5").ok_or("not a valid id")?;
    let details = ResourceDetails {
        name: "Room 5".into(),
        properties: Vec::new(),
        capacity: 1,
        zone: "Europe/Berlin".into(),
        hours: None,
        before_ms: 0,
        after_ms: 0,
        notice_ms: 0,
        horizon_ms: None,
        rate: Rate { amount: 0, currency: Currency::new("EUR").ok_or("not a currency")?, per_ms: None },
        hold_ttl_ms: None,
        limits: Limits::default(),
    };
    client.resource_put(&room, details).await?;

    let choir = Id::new("choir").ok_or("not a valid id")?;
    let mondays = ResourceReserve {
        local_begin: Some("2099-03-02T10:00".into()),
        local_end: Some("2099-03-02T11:30".into()),
        repeat: Some(RepeatBody { count: Some(10), ..RepeatBody::of("week".into()) }),
        ..ResourceReserve::of(room.clone(), choir)
    };
    match client.resource_reserve(mondays).details("with a piano").await {
        Ok(booked) => println!("booked {} times", booked.value.bookings.len()),
        // All or nothing. The refusal names every conflict.
        Err(error) => println!("{error}: {:?}", error.refusal().map(|no| &no.conflicts)),
    }

    let from = Timestamp(4_076_092_800_000);
    let search = ResourceFreeSlots {
        resource: room.clone(),
        from,
        to: from.after(24 * HOUR_MS),
        length_ms: HOUR_MS,
        count: Some(1),
        step_ms: Some(HOUR_MS / 2),
        align_ms: 0,
    };
    let free = client.resource_free_slots(&search).await?.value.slots;
    let Some(&Slot(begin, end)) = free.first() else {
        println!("there is no free hour");
        return Ok(());
    };
    let talk = Id::new("talk").ok_or("not a valid id")?;
    let hour = ResourceReserve { begin: Some(begin), end: Some(end), ..ResourceReserve::of(room, talk) };
    match client.resource_reserve(hour).await {
        Ok(booked) => println!("booked {:?}", booked.value.bookings),
        Err(error) => println!("{error}"),
    }
    Ok(())
}
