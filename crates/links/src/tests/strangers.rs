//! What a stranger learns, at the port for nodes and at the address of a member.

use std::{sync::Arc, time::Duration};

use boxoffice_env::secret::Secret;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tracing_mutex::parkinglot::Mutex;

use super::{
    common::{Node, config, link_all, until},
    proxy::Proxy,
    raw::{HELLO, PROOF, REFUSAL, VERSION, WELCOME, frames, raw},
};
use crate::PeerConfig;

/// The cluster's number, with each of its bytes different, so that a search finds no chance.
const CLUSTER: u128 = 0xc1a5_7e12_90ab_cdef_1357_9bdf_0246_8ace;

/// Numbers of nodes whose bytes are found by no chance either.
const DIALED: u64 = 0x00f1_e2d3_c4b5_a697;
const OTHER: u64 = 0x0011_2233_4455_6677;

/// Every spelling of what a stranger must not learn.
fn facts() -> Vec<(String, Vec<u8>)> {
    let mut facts = vec![
        ("the program".to_owned(), b"boxoffice ".to_vec()),
        ("its version".to_owned(), env!("CARGO_PKG_VERSION").as_bytes().to_vec()),
    ];
    let disks = [DIALED, OTHER].map(|node| 0xd0 + u128::from(node));
    for (name, number) in [("cluster", CLUSTER), ("disk", disks[0]), ("other disk", disks[1])] {
        facts.extend(spellings(name, number, 16));
    }
    for (name, number) in [("node", DIALED), ("other node", OTHER)] {
        facts.extend(spellings(name, number.into(), 8));
    }
    facts
}

fn spellings(name: &str, number: u128, bytes: usize) -> Vec<(String, Vec<u8>)> {
    let little = number.to_le_bytes()[..bytes].to_vec();
    let big = number.to_be_bytes()[16 - bytes..].to_vec();
    let mut varint = Vec::new();
    let mut rest = number;
    while rest >= 0x80 {
        varint.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    varint.push(u8::try_from(rest).unwrap());
    let texts = [format!("{number:x}"), format!("{number:X}"), format!("{number}")];
    let mut all = vec![("raw LE", little), ("raw BE", big), ("varint", varint)];
    all.extend(texts.map(|text| ("text", text.into_bytes())));
    all.into_iter().map(|(how, bytes)| (format!("{name}, {how}"), bytes)).collect()
}

/// The facts in these bytes.
fn found(bytes: &[u8]) -> Vec<String> {
    let is_in = |fact: &[u8]| bytes.windows(fact.len()).any(|window| window.eq_ignore_ascii_case(fact));
    facts().into_iter().filter(|(_, fact)| is_in(fact)).map(|(name, _)| name).collect()
}

fn hello() -> Vec<u8> {
    let version = VERSION.to_le_bytes();
    [b"boxoffic", &version[..], &version, &[7; 32], &[0]].concat()
}

/// All that a node says to a stranger that sends these bytes and then nothing more.
async fn answer(node: &Node, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(node.address()).await.expect("the node listens");
    stream.write_all(bytes).await.expect("it is read");
    let mut heard = Vec::new();
    let _ = timeout(Duration::from_secs(30), stream.read_to_end(&mut heard)).await.expect("the node closes");
    heard
}

#[test]
fn the_search_finds_each_spelling() {
    for (name, fact) in facts() {
        assert!(found(&[b"before", &fact[..], b"after"].concat()).contains(&name), "{name}");
    }
    assert_eq!(found(b"boxoffic and random bytes"), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_dials_learns_nothing() {
    let quick = || PeerConfig { handshake_ms: 300, ..config() };
    let (node, other) = (Node::of_cluster(CLUSTER, DIALED, quick()), Node::of_cluster(CLUSTER, OTHER, quick()));
    // A recorded handshake of a real member, cut after each frame and within them.
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let proxy = Proxy::recording(node.address(), Arc::clone(&recorded)).await;
    node.knows(&[(OTHER, other.address())]);
    other.knows(&[(DIALED, proxy.address)]);
    other.linked(DIALED).await;
    let recorded = recorded.lock().clone();
    let real = frames(&recorded);
    let kinds: Vec<u8> = real.iter().map(|(kind, _)| *kind).take(2).collect();
    assert_eq!(kinds, [HELLO, PROOF], "the smaller number dialed");

    let hello = raw(0, HELLO, &hello());
    let mut says: Vec<(String, Vec<u8>)> = vec![
        ("nothing".into(), Vec::new()),
        ("HTTP".into(), b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("another version".into(), raw(0, HELLO, &[b"boxoffic", &[9, 9][..], &[7; 33]].concat())),
        ("a short hello".into(), raw(0, HELLO, b"boxoffic\x05\x00")),
        ("no hello".into(), raw(0, HELLO, b"what?")),
        ("a hello".into(), hello.clone()),
        ("a proof alone".into(), raw(0, PROOF, &real[1].1)),
        ("a welcome".into(), [&hello[..], &raw(1, WELCOME, &[0; 150])].concat()),
        ("a refusal".into(), [&hello[..], &raw(1, REFUSAL, b"no")].concat()),
    ];
    for length in [0, 1, 32, 33, 97, 151, 302, 700] {
        let guess = [&[1], &vec![0; length][..]].concat();
        says.push((format!("a guess of {length}"), [&hello[..], &raw(1, PROOF, &guess)].concat()));
    }
    // Replayed, with the hello that belongs to the proof.
    let whole = [raw(0, HELLO, &real[0].1), raw(1, PROOF, &real[1].1)].concat();
    says.push(("a replay".into(), whole.clone()));
    says.push(("a replay and data".into(), [&whole[..], &raw(2, 0, b""), &raw(3, 2, b"call")].concat()));
    for cut in (0..whole.len()).step_by(29) {
        says.push((format!("a replay of {cut} bytes"), whole[..cut].to_vec()));
    }
    let mut answered = 0;
    for (what, bytes) in says {
        let heard = answer(&node, &bytes).await;
        assert_eq!(found(&heard), [""; 0], "told after {what}: {:?}", String::from_utf8_lossy(&heard));
        answered += usize::from(!heard.is_empty());
    }
    assert!(answered > 10, "a node that answers nobody shows nothing: {answered}");
    assert_eq!(other.link_changes(DIALED), [true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_at_the_address_of_a_member_learns_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let two_secrets = vec![Secret("a new secret of it".into()), Secret("an old secret of it".into())];
    let node = Node::of_cluster(CLUSTER, DIALED, PeerConfig { secrets: two_secrets, dial_late_ms: 0, ..config() });
    node.knows(&[(OTHER, listener.local_addr().unwrap())]);
    let hello = || raw(0, HELLO, &hello());
    let answers: Vec<Box<dyn Fn() -> Vec<u8> + Send>> = vec![
        Box::new(Vec::new),
        Box::new(|| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        Box::new(|| raw(0, REFUSAL, b"no")),
        Box::new(|| raw(0, HELLO, b"boxoffic\x63\x00")),
        Box::new(hello),
        Box::new(move || [hello(), raw(1, WELCOME, &[0; 150])].concat()),
        Box::new(move || [hello(), raw(1, 20, &[0; 150])].concat()),
        Box::new(move || [hello(), raw(1, REFUSAL, b"no")].concat()),
    ];
    let mut proofs = 0;
    // Twice as many, because either connection of the link may be the one whose kind the hello has.
    for answer in answers.iter().chain(&answers) {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&answer()).await.unwrap();
        let mut heard = Vec::new();
        let _ = timeout(Duration::from_millis(300), stream.read_to_end(&mut heard)).await;
        assert_eq!(found(&heard), [""; 0], "told: {heard:?}");
        proofs += usize::from(frames(&heard).iter().any(|(kind, _)| *kind == PROOF));
    }
    assert!(proofs > 0, "no proof was asked for");
    until("the operator is told", || node.link(OTHER).last_error.is_some()).await;
    assert!(node.link_changes(OTHER).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_linked_is_told_everything() {
    let (one, two) = (Node::of_cluster(CLUSTER, DIALED, config()), Node::of_cluster(CLUSTER, OTHER, config()));
    link_all(&[&one, &two]).await;
    for (node, of) in [(&one, OTHER), (&two, DIALED)] {
        let offered = node.seen.offered.lock().first().cloned().expect("it was asked");
        assert_eq!((offered.cluster, offered.node, offered.disk), (CLUSTER, of, 0xd0 + u128::from(of)));
    }
}
