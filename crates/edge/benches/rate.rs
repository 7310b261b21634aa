//! The cost of the client port: requests a second over a few connections with many requests under way, and the processor
//! time of the thread that serves them. The node answers everything from another thread.
//!
//! `cargo bench -p boxoffice-edge --bench rate -- [connections] [under way] [seconds]`

use std::{
    pin::Pin,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use boxoffice_core::{
    access::{AccessKey, Role},
    answer::{Answer, Answered, At, Held, LineView, Purchase},
    command::Command,
    id::{CartId, Entity, Id, Request},
    money::Currency,
    portion::{Content, PricedSeat},
    seat::Seat,
    time::Timestamp,
};
use boxoffice_edge::{
    Backend, Edge, EdgeConfig,
    backend::{Backup, Member, Reading, Remembering},
};
use boxoffice_env::OsClock;
use boxoffice_env::secret::Secret;
use boxoffice_feeds::{FeedSettings, FeedSource, Feeds, InitialState, NoFeed};
use boxoffice_node::{access::KeyRing, api::ReplyTo, backup::BackupError, history::HistoryError, node::Runtimes};
use boxoffice_wire::{
    Encoding, Op,
    call::BackupQuery,
    hello::{Durability, Hello},
    reply::{self, ServerFrame},
    status::{NodeAudit, NodeStatus, Rates},
};
use bytes::BytesMut;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest, http::HeaderValue};

struct Empty;

impl FeedSource for Empty {
    fn begin(&self, _entity: &Entity) -> Result<InitialState, NoFeed> {
        Err(NoFeed::NotFound)
    }

    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        self.begin(entity)
    }

    fn may_lag(&self, _entity: &Entity) -> bool {
        false
    }

    fn end(&self, _entity: &Entity) {}

    fn purchases(&self, _customer: &Id, _after: u64, _limit: u32) -> Option<Vec<Purchase>> {
        Some(Vec::new())
    }
}

/// Answers every command with a line of five seats, from a thread of its own.
struct Node {
    feeds: Feeds,
    asked: mpsc::Sender<(Command, ReplyTo)>,
}

impl Backend for Node {
    fn submit(&self, command: Command, _request: Option<Request>, reply: ReplyTo) {
        self.asked.send((command, reply)).expect("the node's thread runs");
    }

    fn hello(&self) -> Hello {
        Hello {
            cluster: "bench".into(),
            node: "n1".into(),
            version: "0".into(),
            protocol: 1,
            minor: 1,
            durability: durability(),
            limits: Default::default(),
            time: Timestamp(0),
        }
    }

    fn members(&self) -> Vec<Member> {
        Vec::new()
    }

    fn leaders(&self) -> Vec<u64> {
        Vec::new()
    }

    fn leader_elsewhere(&self, _: &Entity) -> Option<u64> {
        None
    }

    fn status(&self) -> NodeStatus {
        NodeStatus {
            node: "n1".into(),
            cluster: "bench".into(),
            version: "0".into(),
            uptime_ms: 0,
            durability: durability(),
            state: "ready".into(),
            disk_is_slow: false,
            damage: "".into(),
            cluster_version: 17,
            upgrade: "".into(),
            linked: Vec::new(),
            shards: Vec::new(),
            connections: 0,
            watchers: 0,
            under_way: 0,
            actors: 0,
            carts_archived: 0,
            tombstones: 0,
            payments_pending: 0,
            payments_failed: 0,
            rates: Rates::default(),
        }
    }

    fn audit(&self) -> Pin<Box<dyn Future<Output = NodeAudit> + Send>> {
        Box::pin(async { NodeAudit::default() })
    }

    fn backup(&self, _query: BackupQuery) -> Backup {
        Box::pin(async { Err(BackupError::Busy) })
    }

    fn history(&self, _entity: &Entity, _seat: Option<Seat>, _limit: usize, _before: Option<u64>) -> Reading {
        Box::pin(async { Err(HistoryError::Busy) })
    }

    fn as_of(&self, _entity: &Entity, _at: Timestamp) -> Remembering {
        Box::pin(async { Err(HistoryError::Busy.into()) })
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn key(&self, _: &Id) -> Option<Arc<AccessKey>> {
        None
    }

    fn key_ring(&self) -> KeyRing {
        KeyRing { version: 0, copy_version: 0, has_admin: false, silent_ms: 0 }
    }

    fn peer_secret(&self) -> Option<&Secret> {
        None
    }

    fn is_peer_token(&self, _: &str) -> bool {
        false
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn metrics_text(&self) -> String {
        String::new()
    }

    fn feeds(&self) -> &Feeds {
        &self.feeds
    }
}

fn durability() -> Durability {
    Durability { replicas: 1, fsync: "never".into() }
}

fn held(cart: CartId) -> Answered {
    let session = Id::new("hamlet-tonight").expect("a good id");
    let seats = (0..5).map(|seat| PricedSeat::new(Seat { row: 3, seat }, 3_000)).collect();
    let held = Held {
        cart,
        lines: vec![LineView::new(1, Entity::Session(session.clone()), Content::Seats(seats), false)],
        currency: Currency::new("EUR").expect("a currency"),
        deadline: Timestamp(1_800_000_000_000),
        lines_version: 1,
    };
    let at = [Entity::Cart(cart), Entity::Session(session)].map(|entity| At { entity, version: 391, position: 88_213 });
    Answered { answer: Answer::Held(held), at: at.into() }
}

/// Processor time of the thread that calls.
fn processor_time() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    Duration::from_nanos(times.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number"))
}

/// Asks as fast as answers come. Returns how many were answered.
async fn ask(address: std::net::SocketAddr, encoding: Encoding, under_way: u64, until: Instant) -> u64 {
    let mut request = format!("ws://{address}/v1/ws").into_client_request().expect("a request");
    let subprotocol = HeaderValue::from_static(encoding.subprotocol());
    request.headers_mut().insert("sec-websocket-protocol", subprotocol);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("connected");
    let body = json!({
        "token": "000102030405060708090a0b0c0d0e0f",
        "session": "hamlet-tonight",
        "seats": [[3, 0], [3, 1], [3, 2], [3, 3], [3, 4]],
    });
    let mut out = BytesMut::new();
    let mut next = 0;
    let mut frame = || {
        next += 1;
        reply::request(encoding, &mut out, next, Op::CartHoldSeats, Some("c1-000042"), Some(2_000), &body);
        let frame = out.split().freeze();
        match encoding {
            Encoding::Json => Message::Text(frame.try_into().expect("JSON is UTF-8")),
            Encoding::MsgPack => Message::Binary(frame),
        }
    };
    for _ in 0..under_way {
        socket.feed(frame()).await.expect("fed");
    }
    socket.flush().await.expect("sent");
    let mut answered = 0;
    while Instant::now() < until {
        // Takes all answers that are there, then sends as many requests.
        let mut came = Some(socket.next().await.expect("an answer"));
        let mut owed = 0;
        while let Some(message) = came {
            let data = message.expect("a frame").into_data();
            if data.starts_with(b"{\"id\"") || data.get(1..4) == Some(b"\xa2id") {
                owed += 1;
            } else if !data.is_empty() {
                assert!(matches!(ServerFrame::read(encoding, &data), Ok(ServerFrame::Hello(_))), "{data:?}");
            }
            came = futures_util::FutureExt::now_or_never(socket.next()).flatten();
        }
        for _ in 0..owed {
            socket.feed(frame()).await.expect("fed");
        }
        socket.flush().await.expect("sent");
        answered += owed;
    }
    answered
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |index: usize, usual: u64| numbers.get(index).copied().unwrap_or(usual);
    let (connections, under_way, seconds) = (number(0, 4), number(1, 64), number(2, 5));
    for encoding in Encoding::ALL {
        let (asked, asking) = mpsc::channel::<(Command, ReplyTo)>();
        std::thread::spawn(move || {
            while let Ok((command, reply)) = asking.recv() {
                let Entity::Cart(cart) = command.entity() else { panic!("carts only") };
                reply.answer(Ok(Ok(held(cart))));
            }
        });
        let (opened, address) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let here = tokio::runtime::Handle::current();
                let runtimes = Runtimes { selling: here.clone(), watching: here };
                let config = EdgeConfig {
                    listen: "127.0.0.1:0".parse().expect("an address"),
                    anonymous: Some(Role::Admin),
                    ..EdgeConfig::default()
                };
                let feeds = Feeds::new(Arc::new(Empty), FeedSettings::default(), Arc::new(OsClock::new()));
                let edge = Edge::bind(config, Arc::new(Node { feeds, asked }), runtimes).expect("a free port");
                opened.send(edge.local_addr()).expect("waited for");
                edge.run(async {
                    let _ = stopped.await;
                })
                .await;
            });
            processor_time()
        });
        let address = address.recv().expect("it opens");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let begun = Instant::now();
        let until = begun + Duration::from_secs(seconds);
        let answered: u64 = runtime.block_on(async {
            let asking = (0..connections).map(|_| ask(address, encoding, under_way, until));
            futures_util::future::join_all(asking).await.into_iter().sum()
        });
        let took = begun.elapsed();
        stop.send(()).expect("it runs");
        let used = serving.join().expect("without a panic");
        println!(
            "{:21} {connections} connections × {under_way}: {:7.0} requests/s, {:.2} µs of the port's thread each ({:.2} of a core)",
            encoding.subprotocol(),
            answered as f64 / took.as_secs_f64(),
            used.as_secs_f64() * 1e6 / answered as f64,
            used.as_secs_f64() / took.as_secs_f64(),
        );
    }
}
