//! The network of these tests does what it says: else nothing here would show anything.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

use crate::cluster::{
    Links,
    Weather::{Cut, Fair, Silent, Slow, Trickle},
};

/// How long nothing comes where nothing must.
const WHILE: Duration = Duration::from_millis(150);

/// Somebody who says back what it hears.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                // The asker may break it.
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
    let (_, address) = routes.split_once("2 = \"").expect("a way to the second node");
    let address = address.trim_end().trim_end_matches('"').parse().expect("an address");
    (links, address, TcpStream::connect(address).await.expect("a connection"))
}

/// Says this and waits until it is said back.
async fn said_back(stream: &mut TcpStream, words: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(words).await?;
    heard(stream, words.len()).await
}

async fn heard(stream: &mut TcpStream, bytes: usize) -> io::Result<Vec<u8>> {
    let mut heard = vec![0; bytes];
    stream.read_exact(&mut heard).await?;
    Ok(heard)
}

#[tokio::test]
async fn fair_weather_changes_nothing() {
    let (_links, _, mut stream) = connected().await;
    let words: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    let (mut read, mut write) = stream.split();
    let mut back = vec![0; words.len()];
    let (said, heard) = tokio::join!(write.write_all(&words), read.read_exact(&mut back));
    said.and(heard.map(drop)).expect("a connection");
    assert_eq!(back, words);
    write.shutdown().await.expect("a connection");
    assert_eq!(read.read(&mut back).await.expect("an end"), 0, "an end is passed on as well");
}

#[tokio::test]
async fn silence_holds_back_one_way_and_loses_nothing() {
    let (links, address, mut stream) = connected().await;
    for (from, to) in [(1, 2), (2, 1)] {
        links.set(from, to, Silent);
        assert!(timeout(WHILE, said_back(&mut stream, b"one")).await.is_err(), "from {from} to {to}");
        let mut late = timeout(WHILE, TcpStream::connect(address)).await.expect("accepted").expect("a connection");
        assert!(timeout(WHILE, said_back(&mut late, b"late")).await.is_err(), "from {from} to {to}");
        links.heal();
        assert_eq!(heard(&mut stream, 3).await.expect("a connection"), b"one");
        assert_eq!(heard(&mut late, 4).await.expect("a connection"), b"late");
    }
}

#[tokio::test]
async fn what_is_cut_breaks_and_is_refused() {
    let (links, address, mut stream) = connected().await;
    assert_eq!(said_back(&mut stream, b"one").await.expect("a connection"), b"one");
    links.set(2, 1, Cut);
    let broken = heard(&mut stream, 1).await.expect_err("it breaks");
    assert_eq!(broken.kind(), io::ErrorKind::ConnectionReset);
    let mut late = TcpStream::connect(address).await.expect("the node listens");
    assert!(said_back(&mut late, b"late").await.is_err(), "it is refused");
    links.heal();
    let mut again = TcpStream::connect(address).await.expect("a connection");
    assert_eq!(said_back(&mut again, b"again").await.expect("a connection"), b"again");
}

#[tokio::test]
async fn slow_bytes_are_late_and_in_order() {
    let (links, _, mut stream) = connected().await;
    links.set(1, 2, Slow(WHILE));
    let before = Instant::now();
    assert_eq!(said_back(&mut stream, b"one").await.expect("a connection"), b"one");
    assert!(before.elapsed() >= WHILE);
    links.set(2, 1, Trickle);
    let before = Instant::now();
    assert_eq!(said_back(&mut stream, b"two, three, four").await.expect("a connection"), b"two, three, four");
    assert!(before.elapsed() >= WHILE + Duration::from_millis(5 * 16));
}

#[tokio::test]
async fn one_byte_is_changed_and_one_connection_torn() {
    let (links, _, mut stream) = connected().await;
    links.corrupt(1, 2);
    let heard = said_back(&mut stream, b"aaaaaaaa").await.expect("a connection");
    assert_eq!(heard.iter().filter(|byte| **byte != b'a').count(), 1, "{heard:?}");
    assert_eq!((links.corrupted(1, 2), links.corrupted(2, 1)), (1, 0));
    assert_eq!(said_back(&mut stream, b"bbbb").await.expect("a connection"), b"bbbb", "one byte, once");
    links.tear(2, 1, 10);
    assert_eq!(said_back(&mut stream, b"cccc").await.expect("a connection"), b"cccc");
    stream.write_all(b"dddddddd").await.expect("a connection");
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest).await;
    assert!(ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset));
    assert!(b"dddddd".starts_with(&rest), "{rest:?}: no more than was to pass");
    assert_eq!((links.torn(2, 1), links.torn(1, 2)), (1, 0));
    links.set(1, 2, Fair);
}
