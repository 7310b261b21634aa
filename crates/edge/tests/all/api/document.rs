//! The HTTP examples of `docs/reference/protocol.md` against a real node.

use boxoffice_core::access::Role;
use boxoffice_edge::EdgeConfig;
use boxoffice_env::secret::Secret;
use serde_json::{Value, json};

use crate::{api::test_node::TestNode, http_client::HttpClient};

/// Fields whose values depend on the time or the node. Only the kind of their value is compared.
const CHANGING: [&str; 5] = ["position", "deadline", "epoch", "opened_at", "modified_at"];

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

/// Splits a line as a shell does.
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

fn without_changing(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| {
                let kind = if value.is_number() { json!("a number") } else { json!("a text") };
                (name.clone(), if CHANGING.contains(&name.as_str()) { kind } else { without_changing(value) })
            })
            .collect(),
        Value::Array(list) => list.iter().map(without_changing).collect(),
        other => other.clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_is_answered_as_shown() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/protocol.md");
    let document = std::fs::read_to_string(path).expect("the document is there");
    // The secret of the token in the document.
    let secret = Some(Secret("the secret of the shop".into()));
    let anonymous = Some(Role::Admin);
    let server = EdgeConfig { customer_secret: secret, anonymous, recorded_by_anyone: true, ..EdgeConfig::default() };
    let test_node = TestNode::behind(server, None).await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let mut lines = document.lines();
    let mut shown = 0;
    while let Some(line) = lines.next() {
        let Some(request) = line.strip_prefix("→ curl ") else { continue };
        let answer = lines.next().and_then(|line| line.strip_prefix("← ")).expect("an answer follows");
        let (status, body) = answer.split_once(' ').unwrap_or((answer, ""));
        let Curl { path, headers, body: sent } = Curl::read(request);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let method = if sent.is_some() { "POST" } else { "GET" };
        let response = http_client.ask(method, &path, &headers, sent.unwrap_or_default().as_bytes()).await;
        let text = String::from_utf8_lossy(&response.body);
        assert_eq!(response.status.to_string(), status, "{line}\n{text}");
        if !body.is_empty() {
            let expected: Value = serde_json::from_str(body).expect("JSON is shown");
            assert_eq!(without_changing(&response.json()), without_changing(&expected), "{line}\n← {status} {text}");
        }
        shown += 1;
    }
    assert!(shown >= 11, "only {shown} requests are shown");
    test_node.close().await;
}
