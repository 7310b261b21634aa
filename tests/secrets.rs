//! No secret is in the log, at any level, over any transport.

use std::{fs, net::TcpListener, process::Command, sync::Arc};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_tungstenite::{
    client_async,
    tungstenite::{ClientRequestBuilder, Message},
};

use crate::common::{
    ADMIN, BOXOFFICE, Encoding, Gateway, Home, Rng, SECRET, Server, Shopper, TIMEOUT, eventually, fixture::event, http,
};

const CUSTOMER_SECRET: &str = "the-customer-secret-7c1f";
const PEERS_SECRET: &str = "the-secret-of-peers-93ad";
const API_KEY: &str = "the-key-of-the-gateway-51be";
const TOKEN_KEY: &str = "the-key-of-short-lived-tokens-0123456789";
const COOKIE: &str = "session-of-the-shop-77aa21";
/// A short-lived token. Its signature is not valid, and it is a secret of its caller all the same.
const JWT: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJhZGEiLCJleHAiOjF9.c2lnbmF0dXJlLW9mLWFkYS0xMjM0";
const FOREIGN_KEY: &str = "bok.till-9.MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI";
const CARTS: [&str; 4] = [
    "0a1b2c3d4e5f60718293a4b5c6d7e8f1",
    "1a1b2c3d4e5f60718293a4b5c6d7e8f2",
    "2a1b2c3d4e5f60718293a4b5c6d7e8f3",
    "3a1b2c3d4e5f60718293a4b5c6d7e8f4",
];
const SIGNATURE: &str = "t=1700000000,v1=5f4dcc3b5aa765d61d8327deb882cf99aabbccddeeff00112233445566778899";
const CARD: &str = "tok_of-a-card-44ff";

/// The places of a text in a log: as it is, and as libraries write bytes.
fn places(log: &str, secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let spaced: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let decimal: Vec<String> = bytes.iter().map(u8::to_string).collect();
    let spellings = [secret.to_owned(), hexadecimal, spaced.join(" "), decimal.join(", "), decimal.join(",")];
    let lower = log.to_ascii_lowercase();
    let found = spellings.iter().filter_map(|spelling| lower.find(&spelling.to_ascii_lowercase()));
    found.map(|at| log[at.saturating_sub(160)..].chars().take(260).collect()).collect()
}

/// Sends bytes over HTTP, and drops the answer.
async fn raw(server: &Server, text: &str) {
    let mut stream = TcpStream::connect(server.address()).await.expect("a connection");
    stream.write_all(text.as_bytes()).await.expect("sent");
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut Vec::new())).await.expect("it is closed");
}

/// Sends these frames over a WebSocket whose upgrade has these headers, and reads what comes until nothing does.
async fn socket(server: &Server, headers: &[(&str, &str)], frames: &[Value], encoding: Encoding) {
    let address = server.address();
    let name = match encoding {
        Encoding::Json => "boxoffice.v1.json",
        Encoding::MsgPack => "boxoffice.v1.msgpack",
    };
    let mut request =
        ClientRequestBuilder::new(format!("ws://{address}/v1/ws").parse().expect("an address")).with_sub_protocol(name);
    for (name, value) in headers {
        request = request.with_header(*name, *value);
    }
    let stream = TcpStream::connect(address).await.expect("a connection");
    let Ok((mut socket, _)) = client_async(request, stream).await else { return };
    for frame in frames {
        if socket.send(encoding.message(frame)).await.is_err() {
            return;
        }
        let _ = timeout(std::time::Duration::from_millis(500), socket.next()).await;
    }
    let _ = socket.send(Message::Close(None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_the_log_at_any_level() {
    let node = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
    let peers = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a free port");
    let gateway = Gateway::with_webhooks_to(node);
    let home = Home::new();
    let key_file = home.path().join("tokens.key");
    fs::write(&key_file, TOKEN_KEY).expect("a written file");
    let config = format!(
        "[listen]\ncustomer_secret = \"{CUSTOMER_SECRET}\"\n\
         token_keys = [{{ id = \"a\", algorithm = \"HS256\", key_file = {key_file:?} }}]\n\
         [log]\nsegment_bytes = 1_048_576\n\
         [payments]\nurl = \"http://{}\"\nwebhook_secret = \"{SECRET}\"\napi_key = \"{API_KEY}\"\n\
         [peers]\nlisten = \"{peers}\"\nsecret = \"{PEERS_SECRET}\"\n",
        gateway.address()
    );
    home.write_config(&config);
    let home = home.with_args(&["--log", "trace"]);
    let server = home.start_at(node);

    // A key that the cluster knows. Its maker draws the secret.
    let file = home.path().join("desk.key");
    let made = Command::new(BOXOFFICE)
        .args([
            "admin",
            "--address",
            &server.address().to_string(),
            "key",
            "create",
            "desk-1",
            "--role",
            "desk",
            "--to",
        ])
        .arg(&file)
        .env("BOXOFFICE_ADMIN_TOKEN", ADMIN)
        .output()
        .expect("the program runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let key = fs::read_to_string(&file).expect("it was written").trim().to_owned();
    let customer = Command::new(BOXOFFICE)
        .args(["admin", "customer-token", "ada", "--customer-secret", CUSTOMER_SECRET])
        .output()
        .expect("the program runs");
    let customer = String::from_utf8(customer.stdout).expect("text").trim().to_owned();

    // Each credential in a header of an HTTP request and of an upgrade, in the hello, and cookies of the site around it.
    for shown in [ADMIN, &key, JWT, FOREIGN_KEY] {
        let headers = format!("authorization: Bearer {shown}\r\ncookie: shop={COOKIE}\r\n");
        http::raw_post(server.address(), "/v1/admin.status", &headers, "{}").await;
        let cookie = format!("shop={COOKIE}");
        let bearer = format!("Bearer {shown}");
        let hello = [json!({"id": 1, "op": "hello", "body": {"token": shown}})];
        for encoding in Encoding::BOTH {
            socket(&server, &[("authorization", &bearer), ("cookie", &cookie)], &[], encoding).await;
            socket(&server, &[], &hello, encoding).await;
        }
    }
    let headers = format!("boxoffice-customer: ada\r\nboxoffice-customer-token: {customer}\r\n");
    http::raw_post(server.address(), "/v1/customer.purchases", &headers, "{\"customer\":\"ada\"}").await;
    let hello = json!({"id": 1, "op": "hello", "body": {"customer": "ada", "customer_token": customer}});
    let open = |token: &str| json!({"id": 2, "op": "cart.open", "rid": "r", "body": {"token": token}});
    let watch = json!({"id": 3, "op": "watch", "body": {"entity": "cart/x", "token": CARTS[0]}});
    socket(&server, &[], &[hello.clone(), open(CARTS[0]), watch], Encoding::Json).await;
    socket(&server, &[], &[hello, open(CARTS[1])], Encoding::MsgPack).await;

    // Carts' tokens: in a body, in a header, in an address that is refused, and in bodies that cannot be read.
    let body = format!("{{\"token\":\"{}\"}}", CARTS[2]);
    http::raw_post(server.address(), "/v1/cart.open", "idempotency-key: h\r\n", &body).await;
    http::raw_post(server.address(), "/v1/cart.open", "idempotency-key: h\r\n", &body[..body.len() - 1]).await;
    let get = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\r\n", server.address())
    };
    raw(&server, &get("/v1/cart.get", &format!("boxoffice-cart-token: {}\r\n", CARTS[3]))).await;
    raw(&server, &get(&format!("/v1/cart.get?token={}", CARTS[3]), "")).await;
    raw(&server, &format!("BROKEN /{} \r\nauthorization: Bearer {JWT}\r\n\r\n", CARTS[3])).await;

    // A payment through the gateway, which has a key, and webhooks: the gateway's own, and one with a wrong signature.
    let port = Arc::new(server.port(Encoding::MsgPack).await);
    event(&port, "finals", 50, Value::Null).await;
    let buyer = Shopper::new(&port, &mut Rng::of_test("no_secret_is_in_the_log_at_any_level"));
    buyer.places("finals", "stalls", 1).await;
    let _ = buyer.pay(CARD).await;
    let signature = format!("boxoffice-signature: {SIGNATURE}\r\n");
    http::raw_post(server.address(), "/v1/payments/webhook", &signature, "{\"key\":\"x\"}").await;

    // A stranger at the peers' port, and a machine that joins.
    raw_at(peers, b"what?").await;
    let joining = Home::with_config(&format!(
        "[log]\nsegment_bytes = 1_048_576\n[peers]\nlisten = \"127.0.0.1:0\"\nsecret = \"{PEERS_SECRET}\"\njoin = [\"{node}\"]\n"
    ));
    let joining = joining.with_args(&["--log", "trace"]);
    let second = Server::spawn(joining.command());

    let seen = eventually("the log has lines of libraries", async || {
        let log = server.stderr();
        (log.contains("tungstenite") && log.contains("DEBUG")).then_some(log)
    })
    .await;
    let mut logs = vec![("the node", seen)];
    match &second {
        Ok(second) => logs.push(("the node that joined", second.stderr())),
        Err(refused) => logs.push(("the node that could not join", refused.stderr.clone())),
    }
    let (secrets, token) = (
        [
            ADMIN,
            &key,
            JWT,
            FOREIGN_KEY,
            &customer,
            CUSTOMER_SECRET,
            PEERS_SECRET,
            API_KEY,
            TOKEN_KEY,
            COOKIE,
            SECRET,
            CARD,
        ],
        &buyer.token,
    );
    let mut found = Vec::new();
    for (whose, log) in logs {
        let plain = plain(&log);
        for secret in secrets.iter().chain(&CARTS).chain([&token.as_str(), &&SIGNATURE[16..]]) {
            found.extend(
                places(&plain, secret).into_iter().map(|place| format!("{secret} in the log of {whose}: …{place}…")),
            );
        }
    }
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n\n"));
}

async fn raw_at(address: std::net::SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(bytes).await.expect("sent");
    stream.shutdown().await.expect("open");
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut Vec::new())).await.expect("it is closed");
}

/// Removes the colours of a log.
fn plain(log: &str) -> String {
    let mut parts = log.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.filter_map(|part| part.split_once('m')).map(|(_, text)| text).collect::<String>()
}
