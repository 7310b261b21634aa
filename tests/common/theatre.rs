//! A venue with a hall and sessions, created over a connection, and its maps.

use serde_json::{Value, json};

use super::{Encoding, goods::Goods, port::Port};

/// A seat: row and seat, from 0.
pub(crate) type SeatName = (u16, u16);

/// Sessions that are all alike: same hall, same price for every seat.
#[derive(Clone, Debug)]
pub(crate) struct Theatre {
    pub(crate) sessions: Vec<String>,
    pub(crate) rows: u16,
    pub(crate) seats: u16,
    /// In cents.
    pub(crate) price: i64,
    /// Other goods on sale besides seats, if any.
    pub(crate) goods: Option<Goods>,
}

/// A map as it was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map {
    pub(crate) version: u64,
    /// One letter per seat, in layout order: `.` free, `h` held, `s` sold, `b` blocked.
    pub(crate) seats: String,
    pub(crate) free: u64,
    pub(crate) held: u64,
    pub(crate) sold: u64,
    pub(crate) blocked: u64,
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

impl Theatre {
    /// Creates this many sessions of a hall of rows × seats in one batch. `ttl_ms` is the lifetime of carts, if given.
    pub(crate) async fn open(
        port: &Port,
        sessions: usize,
        rows_seats: (u16, u16),
        hold_ttl_ms: Option<u64>,
    ) -> Theatre {
        Theatre::open_called(port, "royal", "hamlet", sessions, rows_seats, hold_ttl_ms).await
    }

    /// The same at this venue, of this title.
    pub(crate) async fn open_called(
        port: &Port,
        venue: &str,
        title: &str,
        sessions: usize,
        (rows, seats): (u16, u16),
        hold_ttl_ms: Option<u64>,
    ) -> Theatre {
        let names: Vec<String> = (0..sessions).map(|number| format!("{title}-{number}")).collect();
        let price = 1_000;
        let mut items = vec![
            json!({"op": "title.put", "rid": "t", "body": {"id": title, "name": title}}),
            json!({"op": "venue.put", "rid": "v", "body": {"id": venue, "name": "Royal", "city": "Vienna"}}),
            json!({"op": "hall.put", "rid": "h", "body": {
                "venue": venue, "id": "main", "name": "Main", "layout": {"rows": rows, "seats": seats}
            }}),
        ];
        items.extend(names.iter().enumerate().map(|(number, name)| {
            let starts_at = 1_900_000_000_000 + number as u64 * DAY_MS;
            json!({"op": "session.create", "rid": format!("s-{name}"), "body": {
                "id": name, "venue": venue, "hall": "main", "title": title,
                "starts_at": time(port, starts_at), "ends_at": time(port, starts_at + DAY_MS / 8),
                "prices": {"standard": {"amount": price, "currency": "EUR"}}, "hold_ttl_ms": hold_ttl_ms,
            }})
        }));
        let count = items.len();
        let answers = port.read("batch", json!({"items": items})).await.ok();
        let answers = answers["items"].as_array().expect("items");
        assert_eq!(answers.len(), count);
        for answer in answers {
            assert!(answer.get("ok").is_some(), "an item of the set-up: {answer}");
        }
        Theatre { sessions: names, rows, seats, price, goods: None }
    }

    /// The first session.
    pub(crate) fn session(&self) -> &str {
        &self.sessions[0]
    }

    /// The index of a seat in maps.
    pub(crate) fn index(&self, (row, seat): SeatName) -> usize {
        usize::from(row) * usize::from(self.seats) + usize::from(seat)
    }

    /// The map of a session.
    pub(crate) async fn map(&self, port: &Port, session: &str) -> Map {
        let body = port.read("session.map", json!({"id": session})).await.ok();
        let map = Map::read(&body, usize::from(self.rows) * usize::from(self.seats));
        assert_eq!(body["session"], session);
        map
    }
}

/// A time in this connection's encoding.
pub(crate) fn time(port: &Port, ms: u64) -> Value {
    time_in(port.encoding(), ms)
}

/// Converts a body's times from milliseconds to this encoding.
pub(crate) fn written(encoding: Encoding, body: &Value) -> Value {
    let mut body = body.clone();
    let write = |line: &mut Value| {
        for name in ["begin", "end", "from", "to"] {
            if let Some(ms) = line.get(name).and_then(Value::as_u64) {
                line[name] = time_in(encoding, ms);
            }
        }
    };
    body.get_mut("lines").and_then(Value::as_array_mut).into_iter().flatten().for_each(write);
    write(&mut body);
    body
}

/// The milliseconds of a time in either encoding.
pub(crate) fn read_time(time: &Value) -> u64 {
    let text = || boxoffice_wire::repr::timestamp(time.as_str()?).map(|time| time.0);
    time.as_u64().or_else(text).unwrap_or_else(|| panic!("{time} is not a time"))
}

fn time_in(encoding: Encoding, ms: u64) -> Value {
    match encoding {
        Encoding::MsgPack => ms.into(),
        Encoding::Json => {
            let time = boxoffice_wire::repr::rfc3339(boxoffice_core::time::Timestamp(ms));
            time.expect("a time within the calendar").into()
        }
    }
}

impl Map {
    /// Reads the map of this many seats from this body. Checks that its counts match its seats (P5).
    pub(crate) fn read(body: &Value, seats: usize) -> Map {
        let packed = packed(&body["seats"]);
        assert_eq!(packed.len(), seats.div_ceil(4), "{body}");
        let letter = |seat: usize| ['.', 'h', 's', 'b'][usize::from(packed[seat / 4] >> (seat % 4 * 2) & 3)];
        let counts = &body["counts"];
        let count = |name: &str| counts[name].as_u64().expect("a count");
        let map = Map {
            version: body["version"].as_u64().expect("a version"),
            seats: (0..seats).map(letter).collect(),
            free: count("free"),
            held: count("held"),
            sold: count("sold"),
            blocked: count("blocked"),
        };
        map.assert_counts();
        map
    }

    pub(crate) fn assert_counts(&self) {
        let counted = ['.', 'h', 's', 'b'].map(|letter| self.seats.matches(letter).count() as u64);
        assert_eq!(counted, [self.free, self.held, self.sold, self.blocked], "the counts differ from {}", self.seats);
    }

    /// Applies a delta.
    ///
    /// # Panics
    /// If the delta begins after this map's version.
    pub(crate) fn apply(&mut self, delta: &Value) {
        // A delta may begin earlier: a watch can start in the middle of a tick.
        let from = delta["from"].as_u64().expect("a version");
        assert!(from <= self.version, "a gap: {delta}");
        let to = delta["to"].as_u64().expect("a version");
        assert!(to > self.version, "{delta}");
        let mut seats: Vec<char> = self.seats.chars().collect();
        for change in delta["changes"].as_array().expect("changes") {
            let index = change[0].as_u64().expect("an index") as usize;
            seats[index] = match change[1].as_str().expect("a state") {
                "free" => '.',
                "held" => 'h',
                "sold" => 's',
                "blocked" => 'b',
                other => panic!("unknown state: {other}"),
            };
        }
        let count = |name: &str| delta["counts"][name].as_u64().expect("a count");
        *self = Map {
            version: to,
            seats: seats.into_iter().collect(),
            free: count("free"),
            held: count("held"),
            sold: count("sold"),
            blocked: count("blocked"),
        };
        self.assert_counts();
    }
}

/// Bytes as a list of numbers (MessagePack) or as base64 (JSON).
fn packed(value: &Value) -> Vec<u8> {
    if let Some(bytes) = value.as_array() {
        return bytes.iter().map(|byte| byte.as_u64().expect("a byte") as u8).collect();
    }
    let text = value.as_str().expect("base64").trim_end_matches('=');
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for char in text.bytes() {
        let six = match char {
            b'A'..=b'Z' => char - b'A',
            b'a'..=b'z' => char - b'a' + 26,
            b'0'..=b'9' => char - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => panic!("{other} is not base64"),
        };
        (bits, count) = (bits << 6 | u32::from(six), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
