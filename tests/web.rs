//! A node behind the web's infrastructure: renewed certificates, proxies, and load balancers during a shutdown.

use std::time::{Duration, Instant};

use rcgen::KeyPair;
use rustix::process::Signal;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::common::{Encoding, Home, Pem, Server, TIMEOUT, eventually, http};

/// Sends a request on an open connection. Returns its status.
async fn status(stream: &mut TlsStream<TcpStream>) -> u16 {
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    let mut answer = [0; 4096];
    let read = timeout(TIMEOUT, stream.read(&mut answer)).await.expect("an answer in time").expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_reloads_the_certificate_without_closing_connections() {
    let home = Home::new();
    let pem = Pem::new(home.path());
    let (certificate, key) = (pem.certificate.display().to_string(), pem.key.display().to_string());
    let home = home.with_args(&["--tls-certificate", &certificate, "--tls-key", &key]);
    let server = home.start();
    let mut before = pem.connect(server.address()).await.expect("the certificate is trusted");
    assert_eq!(status(&mut before).await, 200);
    pem.renew();
    assert!(pem.connect(server.address()).await.is_err(), "it is not read before the signal");
    server.signal(Signal::HUP);
    let mut after = eventually("the new certificate is shown", async || pem.connect(server.address()).await.ok()).await;
    assert_eq!((status(&mut before).await, status(&mut after).await), (200, 200));
    // An unusable certificate is reported and changes nothing.
    std::fs::write(&pem.key, "no key").expect("written");
    server.signal(Signal::HUP);
    eventually("the node reports the error", async || {
        server.stderr().contains("no private key that can be read").then_some(())
    })
    .await;
    assert_eq!(status(&mut before).await, 200);
    assert!(pem.connect(server.address()).await.is_ok());
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_with_an_unusable_certificate_names_it() {
    let kept = Home::new();
    let pem = Pem::new(kept.path());
    std::fs::write(&pem.key, KeyPair::generate().expect("a key").serialize_pem()).expect("written");
    let (certificate, key) = (pem.certificate.display().to_string(), pem.key.display().to_string());
    let refused = Home::new().with_args(&["--tls-certificate", &certificate, "--tls-key", &key]).refused();
    assert!(refused.code == Some(2) && refused.stderr.contains("it does not go with the key"), "{refused:?}");
    // A file of the configuration is named with its line.
    let lines = format!("[listen]\ntls_certificate = {certificate:?}\ntls_key = \"absent.pem\"\n");
    let refused = Home::with_config(&lines).refused();
    assert!(
        refused.code == Some(2) && refused.stderr.contains(": line 3: ") && refused.stderr.contains("absent.pem"),
        "{refused:?}"
    );
}

/// A node that serves for this long after SIGTERM.
fn with_drain(drain_ms: u64) -> Home {
    Home::with_config("[log]\nsegment_bytes = 1_048_576\n").with_args(&["--drain-ms", &drain_ms.to_string()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_node_is_not_ready_and_serves_until_the_drain_ends() {
    let home = with_drain(3_000);
    let server = home.start();
    let address = server.address();
    let before = server.port(Encoding::Json).await;
    let signalled = Instant::now();
    server.signal(Signal::TERM);
    eventually("the node is not ready", async || (http::get(address, "/readyz").await.0 == 503).then_some(())).await;
    // Load balancers still send clients, and the node serves new and old ones.
    assert_eq!(http::get(address, "/healthz").await.0, 200);
    let after = server.port(Encoding::MsgPack).await;
    for (port, token) in [(&before, 1), (&after, 2)] {
        port.ask("cart.open", "open", json!({"token": format!("{token:032x}")})).await.ok();
    }
    assert!(signalled.elapsed() < Duration::from_millis(2_500), "the machine is too slow for this test");
    let (ended, _) = server.ended();
    assert!(
        ended.success() && signalled.elapsed() >= Duration::from_secs(3),
        "{ended} after {:?}",
        signalled.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_or_ctrl_c_skips_the_drain() {
    let home = with_drain(60_000);
    for signals in [[Signal::TERM, Signal::TERM], [Signal::INT, Signal::INT]] {
        let server = home.start();
        server.signal(signals[0]);
        if signals[0] == Signal::TERM {
            let address = server.address();
            eventually("the node is not ready", async || (http::get(address, "/readyz").await.0 == 503).then_some(()))
                .await;
            server.signal(signals[1]);
        }
        assert!(server.ended().0.success());
    }
}

/// Opens a WebSocket after these bytes and with these headers.
async fn upgrade(server: &Server, before: &[u8], headers: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.expect("a connection");
    let request = format!(
        "GET /v1/ws HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-protocol: boxoffice.v1.json\r\n{headers}\r\n"
    );
    stream.write_all(&[before, request.as_bytes()].concat()).await.expect("sent");
    let mut answer = vec![0; 512];
    let read = timeout(TIMEOUT, stream.read(&mut answer)).await.expect("an answer in time").unwrap_or(0);
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

/// A node behind these proxies that logs the addresses of clients.
fn behind(proxies: &str, header: &str) -> (Home, Server) {
    let config = format!(
        "[listen]\ncustomer_secret = \"sixteen-letters!\"\nproxies = [{proxies:?}]\nproxy_header = {header:?}\n[log]\nsegment_bytes = 1_048_576\n"
    );
    let home = Home::with_config(&config).with_args(&["--log", "boxoffice_edge=debug"]);
    let server = home.start();
    (home, server)
}

async fn expect_client(server: &Server, client: &str) {
    let line = format!("a connection becomes a WebSocket client={client}");
    eventually(&line, async || plain(&server.stderr()).contains(&line).then_some(())).await;
}

/// Removes the colours of a log.
fn plain(log: &str) -> String {
    let mut parts = log.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.filter_map(|part| part.split_once('m')).map(|(_, text)| text).collect::<String>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_report_the_client_address() {
    let (_home, server) = behind("127.0.0.1", "x-forwarded-for");
    assert!(upgrade(&server, b"", "x-forwarded-for: 192.0.2.1\r\n").await.starts_with("HTTP/1.1 101"));
    expect_client(&server, "192.0.2.1").await;
    drop(server);

    // PROXY protocol, version 2: TCP over IPv4 from 192.0.2.7.
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([192, 0, 2, 7, 127, 0, 0, 1, 0x30, 0x39, 0x1c, 0x0c]);
    let (_home, server) = behind("127.0.0.0/8", "proxy-protocol");
    assert!(upgrade(&server, &header, "x-forwarded-for: 192.0.2.1\r\n").await.starts_with("HTTP/1.1 101"));
    expect_client(&server, "192.0.2.7").await;
    assert_eq!(upgrade(&server, b"", "").await, "", "a proxy connection without a PROXY header");
    drop(server);

    let (_home, server) = behind("192.0.2.0/24", "proxy-protocol");
    assert!(upgrade(&server, b"", "x-forwarded-for: 192.0.2.1\r\n").await.starts_with("HTTP/1.1 101"));
    expect_client(&server, "127.0.0.1").await;
    let forged = upgrade(&server, &header, "").await;
    assert!(!forged.starts_with("HTTP/1.1 101"), "a client that is not a proxy sets the header: {forged}");
}
