//! The links of these tests inject the faults that they claim. Otherwise the cluster tests would show nothing.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

use crate::cluster::{
    LinkFault::{self, Cut, Silent, Slow, Trickle},
    Links,
};

/// How long a test waits to see that nothing arrives.
const QUIET: Duration = Duration::from_millis(150);

/// A server that echoes its input.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                // The client may break the connection.
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// Two nodes, and a connection from the first to the second.
async fn connected() -> (Links, SocketAddr, TcpStream) {
    let links = Links::new(&[echo().await, echo().await]).await;
    let routes = links.routes(1);
    let (_, address) = routes.split_once("2 = \"").expect("a link to the second node");
    let address = address.trim_end().trim_end_matches('"').parse().expect("an address");
    (links, address, TcpStream::connect(address).await.expect("a connection"))
}

/// Sends these bytes and waits for their echo.
async fn echoed(stream: &mut TcpStream, words: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(words).await?;
    receive(stream, words.len()).await
}

async fn receive(stream: &mut TcpStream, bytes: usize) -> io::Result<Vec<u8>> {
    let mut receive = vec![0; bytes];
    stream.read_exact(&mut receive).await?;
    Ok(receive)
}

#[tokio::test]
async fn a_link_without_a_fault_changes_nothing() {
    let (_links, _, mut stream) = connected().await;
    let words: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    let (mut read, mut write) = stream.split();
    let mut back = vec![0; words.len()];
    let (sent, received) = tokio::join!(write.write_all(&words), read.read_exact(&mut back));
    sent.and(received.map(drop)).expect("a connection");
    assert_eq!(back, words);
    write.shutdown().await.expect("a connection");
    assert_eq!(read.read(&mut back).await.expect("an end"), 0, "the end is forwarded as well");
}

#[tokio::test]
async fn a_silent_direction_holds_bytes_back_and_loses_none() {
    let (links, address, mut stream) = connected().await;
    for (from, to) in [(1, 2), (2, 1)] {
        links.set(from, to, Silent);
        assert!(timeout(QUIET, echoed(&mut stream, b"one")).await.is_err(), "from {from} to {to}");
        let mut late = timeout(QUIET, TcpStream::connect(address)).await.expect("accepted").expect("a connection");
        assert!(timeout(QUIET, echoed(&mut late, b"late")).await.is_err(), "from {from} to {to}");
        links.heal();
        assert_eq!(receive(&mut stream, 3).await.expect("a connection"), b"one");
        assert_eq!(receive(&mut late, 4).await.expect("a connection"), b"late");
    }
}

#[tokio::test]
async fn cut_links_break_and_refuse_connections() {
    let (links, address, mut stream) = connected().await;
    assert_eq!(echoed(&mut stream, b"one").await.expect("a connection"), b"one");
    links.set(2, 1, Cut);
    let broken = receive(&mut stream, 1).await.expect_err("it breaks");
    assert_eq!(broken.kind(), io::ErrorKind::ConnectionReset);
    let mut late = TcpStream::connect(address).await.expect("the node listens");
    assert!(echoed(&mut late, b"late").await.is_err(), "it is refused");
    links.heal();
    let mut again = TcpStream::connect(address).await.expect("a connection");
    assert_eq!(echoed(&mut again, b"again").await.expect("a connection"), b"again");
}

#[tokio::test]
async fn slow_bytes_are_late_and_in_order() {
    let (links, _, mut stream) = connected().await;
    links.set(1, 2, Slow(QUIET));
    let before = Instant::now();
    assert_eq!(echoed(&mut stream, b"one").await.expect("a connection"), b"one");
    assert!(before.elapsed() >= QUIET);
    links.set(2, 1, Trickle);
    let before = Instant::now();
    assert_eq!(echoed(&mut stream, b"two, three, four").await.expect("a connection"), b"two, three, four");
    assert!(before.elapsed() >= QUIET + Duration::from_millis(5 * 16));
}

#[tokio::test]
async fn one_byte_is_changed_and_one_connection_torn() {
    let (links, _, mut stream) = connected().await;
    links.corrupt(1, 2);
    let receive = echoed(&mut stream, b"aaaaaaaa").await.expect("a connection");
    assert_eq!(receive.iter().filter(|byte| **byte != b'a').count(), 1, "{receive:?}");
    assert_eq!((links.corrupted(1, 2), links.corrupted(2, 1)), (1, 0));
    assert_eq!(echoed(&mut stream, b"bbbb").await.expect("a connection"), b"bbbb", "one byte, once");
    links.tear(2, 1, 10);
    assert_eq!(echoed(&mut stream, b"cccc").await.expect("a connection"), b"cccc");
    stream.write_all(b"dddddddd").await.expect("a connection");
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest).await;
    assert!(ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset));
    assert!(b"dddddd".starts_with(&rest), "{rest:?}: no more than should pass");
    assert_eq!((links.torn(2, 1), links.torn(1, 2)), (1, 0));
    links.set(1, 2, LinkFault::None);
}
