//! Commands that make long turns, on a node with short log segments.

use serde_json::{Value, json};

use crate::common::{Answer, Encoding, Home, Rng};

/// The smallest segments.
const CONFIG: &str = "[log]\nsegment_bytes = 262_144\n";

/// Seats of the smallest and the largest hall. The largest one fits into a frame, and not into a segment.
const SEATS: (usize, usize) = (200, 50_000);

/// A hall in which each seat has a place of its own.
fn hall(id: &str, seats: usize, rng: &mut Rng) -> Value {
    const ROW: usize = 100;
    let mut rows = Vec::new();
    for row in 0..seats.div_ceil(ROW) {
        let count = ROW.min(seats - row * ROW);
        let points: Vec<[usize; 2]> = (0..count).map(|_| [rng.below(60_000), rng.below(60_000)]).collect();
        rows.push(json!({"label": row.to_string(), "runs": [{"count": count, "points": points}]}));
    }
    json!({"venue": "globe", "id": id, "name": "Hall", "layout": {"rows": rows}})
}

/// A hall that does not fit into the log is refused before anything is written, and each one that fits can be played in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hall_that_does_not_fit_into_a_segment_is_refused_by_name() {
    let mut rng = Rng::of_test("a_hall_that_does_not_fit_into_a_segment_is_refused_by_name");
    let home = Home::with_config(CONFIG);
    let server = home.start();
    let port = server.port(Encoding::MsgPack).await;
    port.ask("venue.put", "v", json!({"id": "globe", "name": "Globe", "city": "London"})).await.ok();
    port.ask("title.put", "t", json!({"id": "hamlet", "name": "Hamlet"})).await.ok();
    // The largest that fits is searched for, so many sizes are near it.
    let (mut fits, mut does_not) = SEATS;
    for number in 0..16 {
        let seats = match number {
            0 => SEATS.0,
            1 => SEATS.1,
            _ => fits + rng.below(does_not.saturating_sub(fits).max(1)),
        };
        let id = format!("hall-{number}");
        match port.ask("hall.put", &id, hall(&id, seats, &mut rng)).await {
            Answer::Ok(..) => {
                fits = fits.max(seats);
                let session = json!({
                    "id": format!("hamlet-{number}"), "venue": "globe", "hall": id, "title": "hamlet",
                    "starts_at": 1_900_000_000_000_u64, "ends_at": 1_900_010_000_000_u64,
                    "prices": {"standard": {"amount": 1_000, "currency": "EUR"}},
                });
                port.ask("session.create", &format!("s-{number}"), session).await.ok();
            }
            Answer::No(no) => {
                assert_eq!((no.code, no.name.as_str()), (103, "too_large"), "{seats} seats: {}", no.body);
                assert!(no.body["message"].as_str().expect("a message").contains("log.segment_bytes"), "{}", no.body);
                does_not = does_not.min(seats);
            }
            other => panic!("{seats} seats: {other:?}"),
        }
    }
    println!("{fits} placed seats fit, {does_not} do not");
    assert!(fits > SEATS.0 && does_not < SEATS.1, "{fits} {does_not}");
    // Nothing is broken, also after a start.
    server.kill();
    let server = home.start();
    let port = server.port(Encoding::Json).await;
    port.read("session.map", json!({"id": "hamlet-0"})).await.ok();
    server.stop();
}
