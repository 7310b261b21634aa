//! Sends the examples of every op, and checks the answers against the schemas in the document.

use boxoffice_wire::{
    Op,
    schema::{self, HttpMethods, standalone},
};
use serde_json::{Value, json};

use crate::{
    api::test_node::TestNode,
    http_client::{HttpAnswer, HttpClient},
};

/// The document, as a client gets it.
struct Document(Value);

impl Document {
    async fn fetch(http_client: &mut HttpClient) -> Document {
        let answer = http_client.get("/v1/openapi.json", &[]).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        Document(answer.json())
    }

    /// Checks an answer against the document's schema for this path, method and status.
    fn check(&self, path: &str, method: &str, answer: &HttpAnswer) {
        let what = format!("{method} {path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        let mut response = &self.0["paths"][path][method]["responses"][answer.status.to_string()];
        assert!(!response.is_null(), "the document knows no such status: {what}");
        if let Some(name) = response["$ref"].as_str() {
            response = self.0.pointer(name.trim_start_matches('#')).expect("a reference with a target");
        }
        let kind = answer.header("content-type").expect("a type");
        let schema = &response["content"][kind]["schema"];
        assert!(schema.is_object(), "no schema: {what}");
        let validator = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&standalone(schema))
            .expect("a schema");
        let wrong: Vec<String> = validator.iter_errors(&answer.json()).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{what}: {wrong:#?}");
    }

    /// The most characters that a schema allows, if it says so itself or its component does.
    fn length_max<'a>(&'a self, mut schema: &'a Value) -> Option<usize> {
        if let Some(name) = schema["$ref"].as_str() {
            schema = self.0.pointer(name.trim_start_matches('#')).expect("a reference with a target");
        }
        schema["maxLength"].as_u64().map(|length| length as usize)
    }
}

/// A head of a request has a limit, and the answer beyond it has no body. What the document allows stays below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_texts_of_a_query_fit_a_head() {
    let test_node = TestNode::open().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let document = Document::fetch(&mut http_client).await;
    let mut asked = 0;
    for op in Op::ALL.into_iter().filter(|op| schema::of(*op).methods == HttpMethods::PostAndGet) {
        let path = format!("/v1/{}", op.name());
        let parameters = document.0["paths"][&path]["get"]["parameters"].as_array().expect("a list").clone();
        let long: Vec<String> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "query")
            .filter_map(|parameter| {
                let length = document.length_max(&parameter["schema"])?;
                // The mask of a theatre has four bytes in UTF-8, and twelve in a query.
                Some(format!("{}={}", parameter["name"].as_str().expect("a name"), "%F0%9F%8E%AD".repeat(length)))
            })
            .collect();
        if long.is_empty() {
            continue;
        }
        let answer = http_client.get(&format!("{path}?{}", long.join("&")), &[]).await;
        document.check(&path, "get", &answer);
        asked += 1;
    }
    assert!(asked > 3, "only {asked} reads have texts");
    test_node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_and_answers_match_the_document() {
    let test_node = TestNode::open().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let document = Document::fetch(&mut http_client).await;
    for op in Op::ALL {
        let schema = schema::of(op);
        if schema.methods == HttpMethods::None {
            continue;
        }
        let path = format!("/v1/{}", op.name());
        for (number, example) in schema.examples.iter().enumerate() {
            let answer = http_client.command(op.name(), &format!("{} {number}", op.name()), example).await;
            document.check(&path, "post", &answer);
            let granted = answer.status == 200;
            assert!(granted || schema.examples_need.is_some(), "{path}: {}", String::from_utf8_lossy(&answer.body));
            if schema.methods == HttpMethods::PostAndGet {
                // The token of a cart is a header.
                let mut example = example.clone();
                let token = example.as_object_mut().and_then(|fields| fields.remove("token"));
                let headers: Vec<_> =
                    token.iter().filter_map(Value::as_str).map(|token| ("boxoffice-cart-token", token)).collect();
                let query = query(&example);
                let asked = http_client.get(&format!("{path}?{query}"), &headers).await;
                document.check(&path, "get", &asked);
                assert_eq!(asked.status, answer.status, "{path}?{query}");
                // A node's status changes all the time, and orders reach their customer later.
                if !op.name().starts_with("admin.") && op != Op::CustomerPurchases {
                    assert_eq!(asked.json(), answer.json(), "{path}?{query}");
                }
            }
        }
    }
    test_node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_match_the_document() {
    let test_node = TestNode::with_sample_entities().await;
    let mut http_client = HttpClient::connect(test_node.address).await;
    let document = Document::fetch(&mut http_client).await;
    let hold = |token: u128, seats: Value| json!({"token": format!("{token:032x}"), "session": "hamlet-tonight", "seats": seats});
    let gone = json!({"token": format!("{:032x}", 9), "line": 7});
    let steps = [
        ("cart.hold_seats", "a", hold(1, json!([[1, 5]])), 200, 0),
        ("cart.hold_seats", "b", hold(2, json!([[1, 5], [1, 6]])), 409, 201),
        ("cart.hold_seats", "a", hold(1, json!([[1, 6]])), 409, 105),
        ("cart.hold_seats", "c", hold(2, json!([[9, 9]])), 404, 202),
        ("cart.hold_seats", "d", hold(2, json!([[2, 2], [2, 2]])), 400, 203),
        ("cart.hold_seats", "e", hold(2, json!([])), 400, 101),
        ("cart.release", "f", gone, 404, 701),
        ("cart.release", "g", json!({"token": format!("{:032x}", 1), "line": 7}), 404, 303),
        ("cart.get", "", json!({"token": format!("{:032x}", 1), "cart": format!("{:032x}", 1)}), 403, 305),
        ("cart.get", "", json!({"token": "mine"}), 400, 101),
        ("venue.get", "", json!({"id": "nowhere"}), 404, 701),
        ("session.get", "", json!({"id": "no id"}), 400, 101),
    ];
    for (op, rid, body, status, code) in steps {
        let answer = http_client.command(op, rid, &body).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{op} {body}: {answer:?}");
        document.check(&format!("/v1/{op}"), "post", &answer);
    }
    test_node.close().await;
}

/// A body as a query string.
fn query(body: &Value) -> String {
    let fields = body.as_object().expect("bodies are maps").iter();
    let fields = fields.map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let quoted: String = text
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        format!("{name}={quoted}")
    });
    fields.collect::<Vec<_>>().join("&")
}
