//! The flows of a shop, a theatre, an arena, a cinema and a calendar on the wire. Sends the frames of `docs/transcripts/` in
//! order and compares the answers.
//!
//! `UPDATE_EXPECT=1 cargo test --test whole transcripts` writes the answers instead. Review the diff. Values that differ from run
//! to run (current times, epochs, versions, log positions) are written as `…`.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::common::{ADMIN, Gateway, Home, TIMEOUT};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{ClientRequestBuilder, Message},
};

const VOLATILE: [&str; 8] =
    ["deadline", "opened_at", "modified_at", "at", "epoch", "version", "lines_version", "position"];

/// A line that waits: `(300 ms later)`.
const LATER: (&str, &str) = ("(", " ms later)");

/// A heading with the number of frames of its section: `## A purchase (2 round trips)`.
const ROUND_TRIPS: (&str, &str) = ("(", " round trip");

/// A connection that sends and receives raw text frames.
pub(crate) struct Wire(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Wire {
    pub(crate) async fn connect(node: SocketAddr) -> Wire {
        let uri = format!("ws://{node}/v1/ws").parse().expect("a good address");
        let request = ClientRequestBuilder::new(uri).with_sub_protocol("boxoffice.v1.json");
        let request = request.with_header("authorization", format!("Bearer {ADMIN}"));
        let (socket, _) = connect_async(request).await.expect("a connection");
        let mut wire = Wire(socket);
        assert!(wire.next().await.starts_with(r#"{"hello":"#));
        wire
    }

    async fn next(&mut self) -> String {
        loop {
            match timeout(TIMEOUT, self.0.next()).await.expect("a frame in time") {
                Some(Ok(Message::Text(text))) => return text.to_string(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?} is not a frame"),
            }
        }
    }

    /// Sends a frame. Returns its answer as it came.
    pub(crate) async fn answer(&mut self, frame: &str) -> String {
        self.0.send(Message::text(frame.to_owned())).await.expect("sent");
        let answer = self.next().await;
        let id = |frame: &str| serde_json::from_str::<Value>(frame).expect("JSON")["id"].clone();
        assert_eq!(id(&answer), id(frame), "{answer}");
        answer
    }

    async fn answer_to(&mut self, frame: &str) -> String {
        masked(&self.answer(frame).await)
    }
}

/// Replaces values that differ from run to run with `…`.
fn masked(frame: &str) -> String {
    let (mut text, mut rest) = (String::new(), frame);
    while let Some((before, after)) = rest.split_once('"') {
        text.push_str(before);
        let end = end_of_text(after);
        let (word, after) = (&after[..end], &after[end + 1..]);
        text.push_str(&format!("\"{word}\""));
        rest = after;
        // A list or an object under one of these names is something else.
        let differs = |value: &&str| VOLATILE.contains(&word) && !value.starts_with(['[', '{']);
        if let Some(value) = after.strip_prefix(':').filter(differs) {
            let end = match value.strip_prefix('"') {
                Some(quoted) => end_of_text(quoted) + 2,
                None => value.find([',', '}', ']']).expect("a value ends"),
            };
            text.push_str(":\"…\"");
            rest = &value[end..];
        }
    }
    in_order(text + rest)
}

/// Sorts the entities of a frame by name. They acknowledge in any order.
fn in_order(frame: String) -> String {
    const AT: &str = r#","at":[{"#;
    let Some((answer, at)) = frame.split_once(AT) else { return frame };
    let mut entities: Vec<&str> = at.strip_suffix("}]}").expect("it ends the frame").split("},{").collect();
    entities.sort_unstable();
    format!("{answer}{AT}{}}}]}}", entities.join("},{"))
}

/// The end of a text whose opening quote was consumed.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    text.find(|char| {
        let ends = char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        ends
    })
    .expect("a text ends")
}

fn number(line: &str, (before, after): (&str, &str)) -> Option<u64> {
    let (text, _) = line.split_once(after)?;
    text.rsplit_once(before)?.1.parse().ok()
}

/// Plays a transcript, and compares the answers.
async fn replay(name: &str, config: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/transcripts").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let home = Home::with_config(&format!("[log]\nsegment_bytes = 1_048_576\n\n{config}"));
    let server = home.start();
    let mut wire = Wire::connect(server.address()).await;
    let (mut played, mut section) = (String::new(), (0, None, String::new()));
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            check_round_trips(&section);
            section = (0, number(line, ROUND_TRIPS), line.to_owned());
        }
        played.push_str(line);
        played.push('\n');
        if let Some(ms) = line.starts_with('(').then(|| number(line, LATER)).flatten() {
            sleep(Duration::from_millis(ms)).await;
        }
        let Some(frame) = line.strip_prefix("→ ") else { continue };
        section.0 += 1;
        let expected = lines.next_if(|line| line.starts_with("← ")).and_then(|line| line.strip_prefix("← "));
        // Carts release holds a moment later, so reads are repeated until the answer matches.
        let is_read = !frame.contains(r#""rid":"#);
        if is_read && expected.is_none() {
            sleep(Duration::from_millis(200)).await;
        }
        let deadline = Instant::now() + if update { Duration::from_millis(500) } else { TIMEOUT };
        let mut answer = wire.answer_to(frame).await;
        while is_read && expected.is_some_and(|expected| expected != answer) && Instant::now() < deadline {
            sleep(Duration::from_millis(20)).await;
            answer = wire.answer_to(frame).await;
        }
        if !update {
            assert_eq!(Some(answer.as_str()), expected, "{name}: the answer to {frame}");
        }
        played.push_str(&format!("← {answer}\n"));
    }
    check_round_trips(&section);
    if update {
        fs::write(&path, played).expect("written");
    }
}

/// Checks that a section sends as many frames as its heading says.
fn check_round_trips((sent, output, heading): &(u64, Option<u64>, String)) {
    if let Some(output) = output {
        assert_eq!(sent, output, "{heading}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop() {
    replay("shop.txt", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_theatre() {
    replay("theatre.txt", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_arena() {
    let gateway = Gateway::start();
    replay("tickets.txt", &format!("[payments]\nurl = \"http://{}\"\n", gateway.address())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cinema() {
    replay("cinema.txt", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_calendar() {
    replay("calendar.txt", "").await;
}

#[test]
fn volatile_values_are_masked() {
    let frame = r#"{"id":7,"ok":{"deadline":"2026-04-12T12:30:00.000Z","text":"a \"version\":3"},"at":[{"entity":"cart/1","version":2,"position":88}]}"#;
    let expected = r#"{"id":7,"ok":{"deadline":"…","text":"a \"version\":3"},"at":[{"entity":"cart/1","version":"…","position":"…"}]}"#;
    assert_eq!(masked(frame), expected);
    let venue = r#"{"id":7,"ok":{"at":[["a",1]],"position":{"lon":13.41,"lat":52.53}}}"#;
    assert_eq!(masked(venue), venue, "a geographic position is not a log position");
}
