//! TLS, renewed certificates, ambiguous heads, clients that do not read.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use boxoffice_edge::{Certificate, EdgeConfig, Limits, PageConfig, TlsFiles, WebConfig, backend::Member};
use boxoffice_wire::{Encoding, Op, limits::close};
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use socket2::SockRef;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    http_client::HttpClient,
    server::common::{Client, Received, TIMEOUT, TestServer, cart, get, http, in_both, token},
};

/// A certificate for `localhost`, in files.
pub(crate) struct Pem(TempDir);

impl Pem {
    pub(crate) fn new() -> Pem {
        let pem = Pem(tempfile::tempdir().expect("a temporary directory"));
        pem.renew();
        pem
    }

    /// Another certificate with another key.
    fn renew(&self) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(self.files().certificate, certificate.pem()).expect("a written file");
        std::fs::write(self.files().key, key.serialize_pem()).expect("a written file");
    }

    fn files(&self) -> TlsFiles {
        let file = |name: &str| Path::new(self.0.path()).join(name);
        TlsFiles { certificate: file("certificate.pem"), key: file("key.pem") }
    }

    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.files().certificate).expect("a certificate")
    }

    pub(crate) fn server(&self, web: WebConfig, limits: Limits) -> (TestServer, Arc<Certificate>) {
        let certificate = Arc::new(Certificate::load(self.files()).expect("valid files"));
        let web = WebConfig { certificate: Some(Arc::clone(&certificate)), ..web };
        (TestServer::with(EdgeConfig { web, limits, ..EdgeConfig::default() }), certificate)
    }

    pub(crate) fn certificate(&self) -> Arc<Certificate> {
        Arc::new(Certificate::load(self.files()).expect("valid files"))
    }

    pub(crate) async fn connect(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Starts a proxy that forwards connections over TLS, for clients without TLS. Its buffers are small.
    pub(crate) async fn tunnel(self: &Arc<Pem>, server: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (address, pem) = (listener.local_addr().expect("an address"), Arc::clone(self));
        tokio::spawn(async move {
            while let Ok((mut plain, _)) = listener.accept().await {
                let pem = Arc::clone(&pem);
                tokio::spawn(async move {
                    SockRef::from(&plain).set_send_buffer_size(4 * 1024).expect("a small buffer");
                    let socket = TcpSocket::new_v4().expect("a socket");
                    socket.set_recv_buffer_size(4 * 1024).expect("a small buffer");
                    let stream = socket.connect(server).await.expect("a connection");
                    let mut sealed = pem.connect(stream).await.expect("the certificate is the server's");
                    let _ = copy_bidirectional(&mut plain, &mut sealed).await;
                });
            }
        });
        address
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_over_tls() {
    let pem = Arc::new(Pem::new());
    let (mut server, _) = pem.server(WebConfig { hsts_s: 60, ..WebConfig::default() }, Limits::default());
    let there = pem.tunnel(server.clients).await;
    let mut http_client = HttpClient::connect(there).await;
    let response = http_client.get("/healthz", &[]).await;
    assert_eq!((response.status, response.header("strict-transport-security")), (200, Some("max-age=60")));
    let opened = http_client.command("cart.open", "r1", &json!({"token": token(1)})).await;
    assert_eq!(opened.json()["ok"]["id"], json!(cart(1).to_string()));
    let page = http_client.get("/page.json", &[]).await;
    assert_eq!(page.json()["nodes"], json!([{"node": "n1", "url": "https://localhost"}]));

    let node_of_server = Arc::clone(&server.node);
    in_both(|encoding| {
        let node = Arc::clone(&node_of_server);
        async move {
            let mut client = Client::connect(there, encoding).await;
            // More than sockets hold. The server encrypts, waits and continues while requests arrive.
            for round in 0..20 {
                for id in 0..60 {
                    client.send(round * 100 + id, Op::SessionMap, json!({"id": "hamlet"})).await;
                }
                for id in 0..60 {
                    let (response, code) = client.code().await;
                    assert_eq!((response, code), (Some(round * 100 + id), 0));
                }
            }
            // A long frame in many records, with one that is cut in the middle of a record.
            let long = json!({"client": "x".repeat(60_000)});
            client.send(9_000, Op::Hello, long).await;
            assert_eq!(client.code().await.0, Some(9_000));
            // A watcher moves to the other runtime with its TLS session.
            client.send(9_001, Op::Watch, json!({"entity": "session/hamlet"})).await;
            assert!(matches!(client.next().await, Received::Frame(_)));
            let _ = client.event().await;
            node.sell(&[if encoding == Encoding::Json { 1 } else { 2 }]);
            let _ = client.event().await;
            client.is_alive().await;
        }
    })
    .await;

    let mut client = Client::connect(there, Encoding::Json).await;
    server.close();
    while let Received::Frame(_) = client.next().await {}
    server.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_connection_announces_its_end() {
    let pem = Arc::new(Pem::new());
    let (mut server, _) = pem.server(WebConfig::default(), Limits::default());
    let there = pem.tunnel(server.clients).await;
    let mut client = Client::connect(there, Encoding::MsgPack).await;
    client.is_alive().await;
    server.close();
    let notice = client.frame().await;
    assert!(notice.windows(8).any(|word| word == b"draining"), "{notice:?}");
    assert_eq!(client.close_code().await, close::DRAINING);
    server.closed().await;
}

/// An encrypted WebSocket connection, after its upgrade: the client's session and its TCP stream.
async fn upgraded(pem: &Pem, server: &TestServer) -> (rustls::ClientConnection, TcpStream) {
    let stream = TcpStream::connect(server.clients).await.expect("a connection");
    let mut sealed = pem.connect(stream).await.expect("a handshake");
    let request = "GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
                   sec-websocket-protocol: boxoffice.v1.json\r\n\r\n";
    sealed.write_all(request.as_bytes()).await.expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(sealed.read_u8().await.expect("an answer"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    let (stream, session) = sealed.into_inner();
    (session, stream)
}

/// Reads until the server closes, and returns what the session makes of it: whether the server said that it closes, or its alert.
async fn end_of(mut session: rustls::ClientConnection, mut stream: TcpStream) -> Result<bool, rustls::Error> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await.expect("it is closed");
    assert!(read.is_ok() || !bytes.is_empty(), "{read:?}");
    let mut rest = &bytes[..];
    let mut is_closed = false;
    while !rest.is_empty() && session.read_tls(&mut rest).expect("memory is read") > 0 {
        is_closed |= session.process_new_packets()?.peer_has_closed();
    }
    Ok(is_closed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_websocket_ends_as_tls_wants_it() {
    let pem = Arc::new(Pem::new());
    let (server, _) = pem.server(WebConfig::default(), Limits::default());
    // The client closes, and the server answers with its own close.
    let (mut session, mut stream) = upgraded(&pem, &server).await;
    session.send_close_notify();
    let mut sent = Vec::new();
    session.write_tls(&mut sent).expect("memory is written");
    stream.write_all(&sent).await.expect("sent");
    assert_eq!(end_of(session, stream).await, Ok(true), "no close_notify came");
    // A record is changed on its way, and the server says so.
    let (mut session, mut stream) = upgraded(&pem, &server).await;
    std::io::Write::write_all(&mut session.writer(), b"a frame").expect("memory is written");
    let mut sent = Vec::new();
    session.write_tls(&mut sent).expect("memory is written");
    *sent.last_mut().expect("a record") ^= 1;
    stream.write_all(&sent).await.expect("sent");
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac);
    assert_eq!(end_of(session, stream).await, Err(alert));
    // The TCP connection ends without a word, and the server closes properly all the same.
    let (session, mut stream) = upgraded(&pem, &server).await;
    stream.shutdown().await.expect("it is open");
    assert_eq!(end_of(session, stream).await, Ok(true), "no close_notify came");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_tls_gets_an_explanation() {
    let pem = Pem::new();
    let limits = Limits { header_timeout: Duration::from_millis(200), ..Limits::default() };
    let (server, _) = pem.server(WebConfig::default(), limits);
    let (status, body) = get(server.clients, "/healthz").await;
    assert_eq!((status, body.as_str()), (400, "this port speaks TLS: use https, wss\r\n"));
    // An unfinished handshake gives its slot back.
    let mut silent = TcpStream::connect(server.clients).await.expect("a connection");
    silent.write_all(&[22, 3, 1]).await.expect("sent");
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(TIMEOUT, silent.read_to_end(&mut rest)).await.expect("it ends");
    assert!(ended.is_err() || rest.is_empty(), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_applies_to_new_connections_only() {
    let pem = Arc::new(Pem::new());
    let (server, certificate) = pem.server(WebConfig::default(), Limits::default());
    let there = pem.tunnel(server.clients).await;
    let mut before = Client::connect(there, Encoding::Json).await;
    let shown = async || {
        let stream = TcpStream::connect(server.clients).await.expect("a connection");
        let sealed = pem.connect(stream).await?;
        let shown = sealed.get_ref().1.peer_certificates().expect("a certificate")[0].clone();
        Ok::<_, std::io::Error>(shown.into_owned())
    };
    assert_eq!(shown().await.expect("the client trusts it"), pem.der());
    assert!(!certificate.reload().expect("nothing has changed"));

    pem.renew();
    assert!(shown().await.is_err(), "it was not read yet");
    assert!(certificate.reload().expect("a valid certificate"));
    assert_eq!(shown().await.expect("the client trusts it"), pem.der());
    before.is_alive().await;

    // The certificate stays if the key does not match, a file is half written, or a file is missing.
    let last = pem.der();
    let good = std::fs::read(pem.files().certificate).expect("a file");
    std::fs::write(pem.files().key, KeyPair::generate().expect("a key").serialize_pem()).expect("written");
    let why = certificate.reload().expect_err("the key does not match").to_string();
    assert!(why.contains("it does not go with the key"), "{why}");
    assert!(!certificate.reload().expect("reported once"));
    std::fs::write(pem.files().certificate, &good[..40]).expect("written");
    assert!(certificate.reload().is_err());
    std::fs::remove_file(pem.files().certificate).expect("removed");
    let why = certificate.reload().expect_err("the file is missing").to_string();
    assert!(why.contains("it cannot be read"), "{why}");
    std::fs::write(pem.files().certificate, &good).expect("written");
    assert_eq!(shown().await.expect("the client trusts it"), last);
    before.is_alive().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ambiguous_heads_are_refused() {
    let server = TestServer::open(Limits::default());
    let status = async |request: &str| http(server.clients, request).await.0;
    let close = "connection: close\r\n\r\n";
    assert_eq!(status(&format!("GET /healthz HTTP/1.1\r\nhost: a\r\n{close}")).await, 200);
    assert_eq!(status(&format!("GET /healthz HTTP/1.0\r\n{close}")).await, 200, "HTTP/1.0 knows no Host");
    for (wrong, why) in [
        ("GET /healthz HTTP/1.1\r\n", "no Host"),
        ("GET /healthz HTTP/1.1\r\nhost: a\r\nhost: a\r\n", "two of them"),
        ("GET /healthz HTTP/1.1\r\nhost: user@a\r\n", "no host"),
        ("GET /healthz HTTP/1.1\r\nhost: a/b\r\n", "no host"),
        ("GET http://a/healthz HTTP/1.1\r\nhost: a\r\n", "absolute form"),
        ("GET http://b/healthz HTTP/1.1\r\nhost: a\r\n", "absolute form of another host"),
        ("CONNECT a:80 HTTP/1.1\r\nhost: a\r\n", "authority form"),
        ("GET /healthz HTTP/1.1\nhost: a\r\n", "a bare LF"),
        ("GET /healthz HTTP/1.1\r\nhost: a\n", "a bare LF"),
        ("GET /healthz HTTP/1.1\r\nhost: a\r\nx: y\n", "a bare LF"),
        (
            "POST /v1/venue.get HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n",
            "two lengths",
        ),
        (
            "POST /v1/venue.get HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n",
            "two lengths",
        ),
    ] {
        assert_eq!(status(&format!("{wrong}{close}")).await, 400, "{why}: {wrong:?}");
    }
    assert_eq!(status("GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\n\r\n\r\n").await, 400, "at the end");
    // Nothing after a refused upgrade is read as a request, because its head was not checked.
    let smuggled = "GET /healthz HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n\
                    GET /readyz HTTP/1.1\nhost: a\n\n";
    let mut stream = TcpStream::connect(server.clients).await.expect("a connection");
    stream.write_all(smuggled.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    let _ = tokio::time::timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.expect("it is closed");
    assert!(answer.contains("alive") && !answer.contains("ready"), "{answer}");
}

/// Sends requests whose answers exceed the socket buffers, reads nothing for a while, and then reads all. Returns the number of
/// bytes.
async fn read_late(mut stream: impl AsyncRead + AsyncWrite + Unpin, asks: usize) -> usize {
    let ask = "GET /page/js/connection.js HTTP/1.1\r\nhost: a\r\n";
    let asks = format!("{ask}\r\n").repeat(asks) + ask + "connection: close\r\n\r\n";
    stream.write_all(asks.as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let mut read = Vec::new();
    let _ = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut read)).await.expect("it ends");
    read.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_not_read_ends_its_connection() {
    let stalls = |ms| Limits { stall_timeout: Duration::from_millis(ms), ..Limits::default() };
    let pem = Pem::new();
    let connect = async |server: &TestServer| {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4 * 1024).expect("a small buffer");
        socket.connect(server.clients).await.expect("a connection")
    };
    let tolerant = TestServer::open(stalls(20_000));
    let all = read_late(connect(&tolerant).await, 200).await;
    let plain = TestServer::open(stalls(300));
    let read = read_late(connect(&plain).await, 200).await;
    assert!(read < all / 2, "{read} of {all} bytes");
    let (sealed, _) = pem.server(WebConfig::default(), stalls(300));
    let stream = pem.connect(connect(&sealed).await).await.expect("a handshake");
    let read = read_late(stream, 200).await;
    assert!(read < all / 2, "{read} of {all} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_get_no_internal_addresses() {
    let member = |node: &str, client: &str| Member { node: node.into(), client: client.into() };
    let nodes = async |public_url: Option<String>| -> Value {
        let web = WebConfig { public_url, ..WebConfig::default() };
        let server = TestServer::with(EdgeConfig { web, ..EdgeConfig::default() });
        *server.node.members.lock() = vec![member("2", "two:7180"), member("3", "https://three.tickets.example")];
        let response = HttpClient::connect(server.clients).await.get("/v1/shards", &[]).await.json();
        assert_eq!(response["ok"]["leaders"], json!([1, 2]));
        response["ok"]["nodes"].clone()
    };
    let three = json!({"node": 3, "client": "https://three.tickets.example"});
    assert_eq!(nodes(None).await, json!([{"node": 2, "client": "http://two:7180"}, three]));
    assert_eq!(nodes(Some("https://tickets.example".into())).await, json!([three]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn browsers_get_the_public_address() {
    let member = |node: &str, client: &str| Member { node: node.into(), client: client.into() };
    let members = [
        member("n1", "one:7180"),
        member("n2", "two:7180"),
        member("n3", "https://three.tickets.example"),
        member("n4", "http://[::1]:7180"),
        member("n5", "ftp://five"),
    ];
    let nodes = async |web: WebConfig| -> Value {
        let server = TestServer::with(EdgeConfig { web, page: PageConfig::default(), ..EdgeConfig::default() });
        *server.node.members.lock() = members.to_vec();
        let response = HttpClient::connect(server.clients).await.get("/page.json", &[]).await.json();
        response["nodes"].as_array().expect("nodes").iter().map(|server| server["url"].clone()).collect()
    };
    let alone = nodes(WebConfig::default()).await;
    let others = json!(["https://three.tickets.example", "http://[::1]:7180"]);
    assert_eq!(
        alone,
        json!(["http://one:7180", "http://two:7180", "https://three.tickets.example", "http://[::1]:7180"])
    );
    let public = Some("https://tickets.example".to_owned());
    let behind = nodes(WebConfig { public_url: public.clone(), ..WebConfig::default() }).await;
    let mut expected = others.as_array().expect("others").clone();
    expected.push(json!("https://tickets.example"));
    assert_eq!(behind, Value::Array(expected), "members with internal addresses are left out");
    let both = WebConfig { public_url: public, hsts_s: 60, ..WebConfig::default() };
    let server = TestServer::with(EdgeConfig { web: both, ..EdgeConfig::default() });
    let response = HttpClient::connect(server.clients).await.get("/", &[]).await;
    assert_eq!(response.header("strict-transport-security"), Some("max-age=60"), "the proxy in front speaks TLS");
    let plain =
        TestServer::with(EdgeConfig { web: WebConfig { hsts_s: 60, ..WebConfig::default() }, ..EdgeConfig::default() });
    let response = HttpClient::connect(plain.address).await.get("/", &[]).await;
    assert_eq!(response.header("strict-transport-security"), None);
}
