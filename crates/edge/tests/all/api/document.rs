//! What `docs/reference/protocol.md` shows of HTTP is asked of a real node, line by line, and answered so.

use boxoffice_core::access::Role;
use boxoffice_edge::EdgeConfig;
use boxoffice_env::secret::Secret;
use serde_json::{Value, json};

use crate::{api::house::House, asking::Asking};

/// Fields whose values are another time's or another node's; what kind of value they have is compared all the same.
const CHANGING: [&str; 4] = ["position", "deadline", "epoch", "opened_at"];

/// A request as a line of `curl`.
struct Curl {
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Curl {
    fn read(line: &str) -> Curl {
        let mut curl = Curl { path: String::new(), headers: Vec::new(), body: None };
        let mut words = words(line).into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-H" => {
                    let header = words.next().expect("a header");
                    let (name, value) = header.split_once(": ").expect("name: value");
                    curl.headers.push((name.to_owned(), value.to_owned()));
                }
                "-d" => curl.body = words.next(),
                _ => curl.path = word.strip_prefix("$BOXOFFICE").expect("the address").to_owned(),
            }
        }
        curl
    }
}

/// The words of a line as a shell has them.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for char in line.chars() {
        match (quote, char) {
            (None, ' ') => words.push(String::new()),
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), close) if open == close => quote = None,
            (_, char) => words.last_mut().expect("there is a word").push(char),
        }
    }
    words
}

fn lasting(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| {
                let kind = if value.is_number() { json!("a number") } else { json!("a text") };
                (name.clone(), if CHANGING.contains(&name.as_str()) { kind } else { lasting(value) })
            })
            .collect(),
        Value::Array(list) => list.iter().map(lasting).collect(),
        other => other.clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_shown_is_answered_so() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/protocol.md");
    let document = std::fs::read_to_string(path).expect("the document is there");
    // The secret that the document makes its token with.
    let secret = Some(Secret("the secret of the shop".into()));
    let anonymous = Some(Role::Admin);
    let door = EdgeConfig { customer_secret: secret, anonymous, recorded_by_anyone: true, ..EdgeConfig::default() };
    let house = House::behind(door, None).await;
    let mut asking = Asking::connect(house.address).await;
    let mut lines = document.lines();
    let mut shown = 0;
    while let Some(line) = lines.next() {
        let Some(request) = line.strip_prefix("→ curl ") else { continue };
        let answer = lines.next().and_then(|line| line.strip_prefix("← ")).expect("an answer follows");
        let (status, body) = answer.split_once(' ').unwrap_or((answer, ""));
        let Curl { path, headers, body: sent } = Curl::read(request);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let method = if sent.is_some() { "POST" } else { "GET" };
        let told = asking.ask(method, &path, &headers, sent.unwrap_or_default().as_bytes()).await;
        let text = String::from_utf8_lossy(&told.body);
        assert_eq!(told.status.to_string(), status, "{line}\n{text}");
        if !body.is_empty() {
            let expected: Value = serde_json::from_str(body).expect("JSON is shown");
            assert_eq!(lasting(&told.json()), lasting(&expected), "{line}\n← {status} {text}");
        }
        shown += 1;
    }
    assert!(shown >= 11, "only {shown} requests are shown");
    house.close().await;
}
