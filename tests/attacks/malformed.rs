//! Malformed requests after authentication: every malformed request of a guest, a customer or a desk is refused by name and
//! breaks nothing.

use boxoffice_core::refusal::{FailKind, rows};
use boxoffice_wire::{Op, schema};
use serde_json::{Value, json};

use super::{
    roles::with_tokens,
    stage::{Stage, time},
    tokens::{self, Shop, good},
    wire::{self, attacker},
};
use crate::common::{Encoding, Home, Port, Rng};

/// A value to replace some part of a request.
fn odd_value(rng: &mut Rng) -> Value {
    match rng.below(20) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!(-1),
        4 => json!(0),
        5 => json!(u64::MAX),
        6 => json!(i64::MIN),
        7 => json!(1e300),
        8 => json!(0.1),
        9 => json!(true),
        10 => json!(""),
        11 => json!("x".repeat(rng.below(5_000))),
        12 => json!("\u{202e}\u{0}\u{feff}💺"),
        13 => json!("../../../../etc/passwd"),
        14 => json!("' OR 1=1 --"),
        15 => json!(vec![json!([0, 0]); rng.below(300)]),
        16 => (0..rng.below(30)).fold(json!(1), |inner, _| json!([inner])),
        17 => (0..rng.below(30)).fold(json!(1), |inner, _| json!({"lines": inner})),
        18 => json!("9999-12-31T23:59:59.999Z"),
        _ => json!("0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
    }
}

/// Replaces or removes a random part of a value.
fn corrupt(value: &mut Value, rng: &mut Rng) {
    let inside = rng.percent(70);
    match value {
        Value::Object(map) if !map.is_empty() && inside => {
            let name = map.keys().nth(rng.below(map.len())).expect("a field").clone();
            match rng.below(6) {
                0 => drop(map.remove(&name)),
                1 => drop(map.insert(format!("{name}s"), odd_value(rng))),
                _ => corrupt(map.get_mut(&name).expect("a field"), rng),
            }
        }
        Value::Array(list) if !list.is_empty() && inside => {
            let place = rng.below(list.len());
            match rng.below(4) {
                0 => list.push(list[place].clone()),
                _ => corrupt(&mut list[place], rng),
            }
        }
        other => *other = odd_value(rng),
    }
}

/// Draws an example of an op and corrupts it.
fn request(rng: &mut Rng) -> Value {
    let op = Op::ALL[rng.below(Op::ALL.len())];
    let examples = &schema::of(op).examples;
    let mut body = if examples.is_empty() { json!({}) } else { examples[rng.below(examples.len())].clone() };
    let name = if rng.percent(90) { op.name().to_owned() } else { format!("{}\u{0}", op.name()) };
    let mut frame = json!({"op": name, "rid": rng.token(), "deadline_ms": 5_000});
    for _ in 0..=rng.below(3) {
        corrupt(&mut body, rng);
    }
    frame["body"] = body;
    if rng.percent(20) {
        corrupt(&mut frame, rng);
    }
    if !frame.is_object() {
        frame = json!({"op": name, "body": frame});
    }
    frame
}

/// Whether the code exists.
fn is_known(code: u64) -> bool {
    rows().any(|row| u64::from(row.code) == code && row.code != FailKind::Internal.code())
}

/// The next answer to a frame whose number could not be read.
async fn without_a_number(port: &Port) -> Value {
    loop {
        match port.next_other().await {
            Some(frame) if frame.get("no").is_some() => return frame,
            Some(_) => {}
            // The request's own answer reports the close.
            None => return std::future::pending().await,
        }
    }
}

struct Sender {
    from: u8,
    token: Option<String>,
    encoding: Encoding,
}

impl Sender {
    async fn connect(&self, stage: &Stage) -> Port {
        let connected = wire::port(attacker(self.from), stage.address(), self.encoding, self.token.as_deref()).await;
        connected.unwrap_or_else(|error| panic!("cannot connect: {error}"))
    }

    /// Sends corrupted requests. Returns how many were refused.
    async fn send(&self, stage: &Stage, rng: &mut Rng, count: usize) -> usize {
        let mut port = self.connect(stage).await;
        let (mut refused, mut number) = (0, 0);
        while number < count {
            if port.is_closed() {
                port = self.connect(stage).await;
            }
            number += 1;
            let mut frame = request(rng);
            // The number must stay, so that the answer can be matched.
            frame["id"] = number.into();
            let sent = frame.to_string();
            let answer = tokio::select! {
                answer = port.try_exchange(frame) => answer,
                answer = without_a_number(&port) => Some(answer),
            };
            let Some(answer) = answer else {
                // The node closed the connection, for another protocol or an invalid token.
                assert!(port.is_closed(), "no answer to {sent}");
                let code = port.closed().await;
                assert!([0, 1009, 4000, 4001].contains(&code), "closed with {code} after {sent}");
                continue;
            };
            let no = ["no", "fail"].into_iter().find_map(|kind| answer.get(kind));
            if let Some(no) = no {
                let code = no["code"].as_u64().expect("a code");
                assert!(is_known(code), "{sent}: {answer}");
                assert!(no["message"].as_str().is_some_and(|words| !words.is_empty()), "{sent}: {answer}");
                refused += 1;
            }
        }
        refused
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_after_authentication() {
    let shop = Shop::new();
    let home = Home::with_config(&with_tokens(&shop));
    let stage = Stage::of_home("malformed_requests_after_authentication", home).await;
    let run = stage.start_attack("9 malformed requests after authentication", 20).await;
    let desk = tokens::key(&stage, "desk-1", "desk").await;
    let senders = [
        Sender { from: 1, token: None, encoding: Encoding::Json },
        Sender { from: 2, token: Some(shop.eddsa(&good("ada", "sell"))), encoding: Encoding::MsgPack },
        Sender { from: 3, token: Some(shop.eddsa(&good("eve", "report"))), encoding: Encoding::Json },
        Sender { from: 4, token: Some(desk), encoding: Encoding::MsgPack },
    ];
    let count = 400 * (1 + time().as_secs() as usize);
    let sending = senders.iter().zip(0..).map(|(sender, number)| {
        let (stage, mut rng) = (&stage, stage.rng.fork(100 + number));
        async move { sender.send(stage, &mut rng, count).await }
    });
    let refused: Vec<usize> = futures_util::future::join_all(sending).await;
    println!("attack | 9 malformed: of {count} each, refused {refused:?}");
    assert!(refused.iter().all(|refused| *refused > count / 2), "{refused:?} of {count}");
    // Over HTTP: heads, methods, types and bodies.
    for (request, statuses) in [
        ("GET /v1/cart.open HTTP/1.1\r\nhost: a\r\n", &[405][..]),
        ("DELETE /v1/venue.get HTTP/1.1\r\nhost: a\r\n", &[405]),
        ("POST /v1/nothing HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n", &[404]),
        ("POST /v1/venue.get HTTP/1.1\r\ncontent-length: 0\r\n", &[400]),
        ("POST /v1/venue.get HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: 0\r\n", &[400]),
        ("POST http://b/v1/venue.get HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n", &[400]),
        ("POST /v1/venue.get HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n", &[400, 413]),
        ("POST /v1/venue.get HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n", &[400]),
        ("POST /v1/venue.get HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n", &[400]),
        ("GET /v1/venue.get?id=%ff HTTP/1.1\r\nhost: a\r\n", &[400]),
        ("GET /v1/sessions/..%2f..%2fetc/map HTTP/1.1\r\nhost: a\r\n", &[400, 404]),
        ("GET /page/../../../etc/passwd HTTP/1.1\r\nhost: a\r\n", &[400, 404]),
        ("GET / HTTP/9.9\r\nhost: a\r\n", &[400, 505]),
        ("\u{0}\u{1}\u{2}\r\n", &[400]),
    ] {
        // Without `connection: close` the client would wait for a kept connection.
        let request = format!("{request}connection: close\r\n\r\n");
        match wire::exchange(attacker(5), stage.address(), &request).await {
            Ok(answer) => assert!(statuses.contains(&answer.status), "{request:?}: {answer:?}"),
            Err(error) => assert!(statuses.contains(&400), "{request:?}: {error}"),
        }
    }
    let sold = run.end().await;
    // A desk may have sold a seat by accident, but these frames break nothing.
    let audit = stage.audit().await;
    assert!(audit["order_seats"].as_u64().expect("a count") as usize >= sold, "{audit}");
    stage.server.stop();
}
