//! Watchers: raw frames, the client library, and a terminal.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use boxoffice_client::{AdminToken, Cart, Client, ClientConfig, Id, Order, Seat, SeatState, WantedLine, recorded};
use futures_util::future::join_all;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use super::{TOKEN, hold};
use crate::common::{self, Answer, Encoding, Home, Map, Port, Rng, Theatre, checkout, eventually};

/// The counts of several sessions at a terminal, while one of them is sold. One session does not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_sessions_are_followed_line_by_line() {
    let mut rng = Rng::of_test("counts_of_sessions_are_followed_line_by_line");
    let home = Home::new();
    let server = home.start();
    let buyer = server.port(Encoding::Json).await;
    let theatres = [
        Theatre::open_called(&buyer, "royal", "one", 1, (2, 4), None).await,
        Theatre::open_called(&buyer, "globe", "two", 1, (1, 4), None).await,
    ];
    let (one, two) = (theatres[0].session(), theatres[1].session());
    let mut command = Command::new(common::BOXOFFICE);
    command.args(["watch", one, two, "nowhere", "--address"]).arg(server.address().to_string());
    let mut watching = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    let lines = BufReader::new(watching.stdout.take().expect("the output is piped")).lines();
    let (say, mut lines_said) = mpsc::unbounded_channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| say.send(line)));
    let mut output = async |words: String| {
        let found = async {
            while let Some(line) = lines_said.recv().await {
                if line.ends_with(&words) {
                    return;
                }
            }
            panic!("it ended without {words:?}");
        };
        timeout(common::TIMEOUT, found).await.unwrap_or_else(|_| panic!("{words:?} does not come"));
    };
    output("there is no session nowhere".into()).await;
    for (session, seats) in [(one, 8), (two, 4)] {
        let token = rng.token();
        buyer.ask("cart.hold_seats", "1", hold(&token, session, json!([[0, 0], [0, 1]]))).await.ok();
        output(format!("{} free, 2 held, 0 sold, 0 blocked", seats - 2)).await;
        buyer.ask("cart.checkout", "2", checkout(&token)).await.ok();
        output(format!("{} free, 0 held, 2 sold, 0 blocked", seats - 2)).await;
    }
    let pid = rustix::process::Pid::from_child(&watching);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the process runs");
    assert!(watching.wait().expect("it ends").success());
}

/// Watching threads have a higher niceness than selling threads, by the configured amount.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_threads_yield_to_selling_threads() {
    // `17 (name) S …`: the niceness is the 17th field after the name.
    let niceness =
        |stat: &str| stat.rsplit_once(") ").and_then(|(_, after)| after.split(' ').nth(16)).map(str::to_owned);
    // Other threads have the niceness of their process, which is the test's.
    let own = niceness(&std::fs::read_to_string("/proc/self/stat").expect("the process runs")).expect("a niceness");
    for (config, nice) in [("", "10"), ("[threads]\nwatching_nice = 3\n", "3"), ("[threads]\nwatching_nice = 0\n", "0")]
    {
        let server = Home::with_config(config).start();
        let mut seen = Vec::new();
        for thread in std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the process runs") {
            let stat =
                std::fs::read_to_string(thread.expect("a thread").path().join("stat")).expect("the process runs");
            let (before, _) = stat.rsplit_once(") ").expect("a name");
            let (_, name) = before.split_once('(').expect("a name");
            seen.push((name.to_owned(), niceness(&stat).expect("a niceness")));
        }
        for (name, its) in &seen {
            assert_eq!(its, if name == "watching" { nice } else { &own }, "{name}: {seen:?}");
        }
        for name in ["selling", "watching", "replication"] {
            assert!(seen.iter().any(|(seen, _)| seen == name), "no thread is called {name}: {seen:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_see_every_version_and_each_other() {
    let mut rng = Rng::of_test("watchers_see_every_version_and_each_other");
    let home = Home::new();
    let server = home.start();
    let buyer = server.port(Encoding::Json).await;
    let theatre = Theatre::open(&buyer, 2, (4, 8), None).await;
    let session = theatre.session();
    let entity = format!("session/{session}");
    let watchers = [server.port(Encoding::Json).await, server.port(Encoding::MsgPack).await];
    let mut maps = Vec::new();
    let mut feeds = Vec::new();
    for port in &watchers {
        let feed = port.read("watch", json!({"entity": entity})).await.ok()["feed"].as_u64().expect("a feed");
        let frame = port.other().await;
        assert_eq!((frame["feed"].as_u64(), &frame["snapshot"]["entity"]), (Some(feed), &json!(entity)));
        maps.push(Map::read(&frame["snapshot"], 32));
        feeds.push(feed);
    }
    assert_eq!(feeds[0], feeds[1], "a feed's number is the node's");
    assert_eq!(maps[0], maps[1]);
    // One of the watchers buys, and the other sees it.
    watchers[0].ask("cart.hold_seats", "1", hold(TOKEN, session, json!([[0, 0], [0, 1]]))).await.ok();
    let version = theatre.map(&buyer, session).await.version;
    for (port, map) in watchers.iter().zip(&mut maps) {
        follow(port, map, feeds[0], version).await;
        assert_eq!(&map.seats[..4], "hh..");
    }
    // Concurrent buyers. Every version is the sum of the deltas so far.
    let clients = (0..60).map(|_| {
        let (token, row, seat) = (rng.token(), rng.below(4), rng.below(7));
        let (buyer, buys) = (&buyer, rng.percent(50));
        async move {
            let held =
                buyer.ask("cart.hold_seats", "1", hold(&token, session, json!([[row, seat], [row, seat + 1]]))).await;
            if matches!(held, Answer::Ok(..)) {
                let op = if buys { "cart.checkout" } else { "cart.cancel" };
                let body = if buys { checkout(&token) } else { json!({"token": token}) };
                buyer.ask(op, "2", body).await.ok();
            }
        }
    });
    join_all(clients.collect::<Vec<_>>()).await;
    let last = eventually("nothing but one cart is held", async || {
        let map = theatre.map(&buyer, session).await;
        (map.held == 2).then_some(map)
    })
    .await;
    for (port, map) in watchers.iter().zip(&mut maps) {
        follow(port, map, feeds[0], last.version).await;
        assert_eq!((&map.seats, map.free, map.sold), (&last.seats, last.free, last.sold));
        port.read("unwatch", json!({"feed": feeds[0]})).await.ok();
        port.read("unwatch", json!({"feed": feeds[0]})).await.no(701, "not_found");
    }
    buyer.read("watch", json!({"entity": "session/nowhere"})).await.no(701, "not_found");
}

/// Applies the next frames of a feed until the map is at this version or later.
async fn follow(port: &Port, map: &mut Map, feed: u64, version: u64) {
    while map.version < version {
        let frame = port.other().await;
        assert_eq!(frame["feed"], feed);
        match frame.get("snapshot") {
            Some(snapshot) => *map = Map::read(snapshot, map.seats.len()),
            None => map.apply(&frame["delta"]),
        }
    }
}

/// The same sale with the client library and a watch. Carts and their deadlines survive an orderly restart, and buyers and
/// watchers notice only a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_library_survives_a_restart() {
    let home = Home::new();
    let server = home.start();
    let address = server.address();
    let port = server.port(Encoding::MsgPack).await;
    let theatre = Theatre::open(&port, 2, (4, 8), None).await;
    drop(port);
    let (session, other) = (id(&theatre.sessions[0]), id(&theatre.sessions[1]));
    let client = client(address).await;
    let mut watch = client.watch(&session);
    let map = watch.next().await.expect("a snapshot");
    assert_eq!(map.counts().free, 32);

    let cart = Cart::new(&client);
    let held =
        cart.hold_seats(&session, [Seat { row: 0, seat: 0 }, Seat { row: 0, seat: 1 }]).await.expect("held").value;
    let line =
        |session: &Id, count| WantedLine { session: Some(session.clone()), count: Some(count), ..Default::default() };
    let lines = [line(&session, 2), line(&other, 4)];
    let more = cart.hold_all(lines).await.expect("held").value;
    assert_eq!((held.lines.len(), more.lines.len()), (1, 2));
    let before = cart.get().await.expect("a cart").value;
    assert_eq!(before.total.map(|total| total.amount), Some(8_000));
    let done = Cart::new(&client);
    done.hold_seats(&session, [Seat { row: 3, seat: 7 }]).await.expect("held");
    let order = done.checkout(recorded("cash", "1"), Some(id("bob"))).await.expect("an order").value;

    server.stop();
    let server = home.start_at(address);
    let after = cart.get().await.expect("the cart").value;
    assert_eq!(after, before, "its lines and its deadline are unchanged");
    let known = client.order_get(order.id).await.expect("the order").value;
    assert_eq!(known, Order { settling: known.settling, ..order });
    let no = Cart::new(&client).hold_seats(&session, [Seat { row: 0, seat: 1 }]).await.expect_err("it is held");
    assert_eq!(no.refusal().map(|no| (no.code, no.states.clone())), Some((201, vec![SeatState::Held])));
    let bought = cart.checkout(recorded("card", "2"), None).await.expect("an order").value;
    assert_eq!(bought.total.amount, 8_000);
    // The watch resumes by itself, with the same map.
    let there = client.session_map(&session).await.expect("a map").value;
    assert_eq!((there.counts.sold, there.counts.held), (5, 0));
    let deadline = tokio::time::Instant::now() + common::TIMEOUT;
    while watch.map().is_none_or(|map| map.counts() != there.counts) {
        tokio::time::timeout_at(deadline, watch.next()).await.expect("the map in time").expect("a map");
    }
    server.stop();
}

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

async fn client(address: std::net::SocketAddr) -> Client {
    let admin_token = Some(AdminToken(common::ADMIN.into()));
    let config = ClientConfig { admin_token, ..ClientConfig::new([address.to_string()]) };
    Client::connect(config).await.expect("a connection")
}
