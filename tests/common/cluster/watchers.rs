//! Watchers: one at each node. Each keeps the maps of all sessions and detects gaps.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::common::{ADMIN, Answer, Encoding, Map, Port, Theatre, eventually, read_time};

/// Time limit of a connection attempt and of an answer.
const SOON: Duration = Duration::from_secs(2);

/// The pause before a reconnect.
const PAUSE: Duration = Duration::from_millis(50);

/// A watcher's view of a session.
#[derive(Clone)]
struct Seen {
    epoch: u64,
    map: Map,
    /// The node reported that this may be stale.
    is_stale: bool,
    /// What it was told of the sale, each change once.
    told: Vec<Told>,
}

/// What a watcher is told of a session's sale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The version of the mark, 0 without one.
    pub(crate) version: u64,
    pub(crate) opens_at: Option<u64>,
    pub(crate) blocked: u64,
    /// Places of all areas.
    pub(crate) places: u64,
}

/// By node and session.
type Maps = Arc<Mutex<BTreeMap<(u64, String), Seen>>>;

pub(crate) struct Watchers {
    nodes: BTreeSet<u64>,
    maps: Maps,
    tasks: JoinSet<()>,
}

impl Watchers {
    /// Starts a watcher at each of these nodes. It reconnects when the node returns.
    pub(crate) fn start(nodes: impl IntoIterator<Item = (u64, SocketAddr)>, theatre: &Theatre) -> Watchers {
        Watchers::start_as(nodes, theatre, Some(ADMIN))
    }

    /// The same with this token, or as guests.
    pub(crate) fn start_as(
        nodes: impl IntoIterator<Item = (u64, SocketAddr)>,
        theatre: &Theatre,
        token: Option<&'static str>,
    ) -> Watchers {
        let maps = Maps::default();
        let mut tasks = JoinSet::new();
        let mut watched = BTreeSet::new();
        for (node, address) in nodes {
            let (maps, theatre) = (Arc::clone(&maps), theatre.clone());
            watched.insert(node);
            tasks.spawn(async move {
                loop {
                    watch(node, (address, token), &theatre, &maps).await;
                    sleep(PAUSE).await;
                }
            });
        }
        Watchers { nodes: watched, maps, tasks }
    }

    /// Waits until the watcher at each of these nodes has this map. Nodes that joined later have no watcher.
    pub(crate) async fn expect_map(&mut self, nodes: &[u64], session: &str, map: &Map) {
        let watched: Vec<u64> = nodes.iter().copied().filter(|node| self.nodes.contains(node)).collect();
        for node in watched {
            let what = format!("the watcher at node {node} sees {session} at {} as\n{}", map.version, map.seats);
            let mut last = None;
            eventually(&what, async || {
                self.check();
                let maps = self.maps.lock().expect("no panic");
                let seen = maps.get(&(node, session.to_owned()))?;
                if last.replace(seen.map.version) != Some(seen.map.version) {
                    println!(
                        "the watcher at node {node} sees {session} at {} of {}{}",
                        seen.map.version,
                        map.version,
                        if seen.is_stale { ", stale" } else { "" }
                    );
                }
                assert!(
                    seen.map.version <= map.version,
                    "{node} shows {session} at {} of {}",
                    seen.map.version,
                    map.version
                );
                (seen.map == *map && !seen.is_stale).then_some(())
            })
            .await;
        }
    }

    /// What the watcher at this node was told of the sale of a session, each change once.
    pub(crate) fn told(&mut self, node: u64, session: &str) -> Vec<Told> {
        self.check();
        let maps = self.maps.lock().expect("no panic");
        maps.get(&(node, session.to_owned())).map_or_else(Vec::new, |seen| seen.told.clone())
    }

    /// # Panics
    /// If a watcher saw an invariant violated.
    fn check(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.expect("a watcher");
        }
    }
}

/// Watches until the connection breaks.
async fn watch(node: u64, (address, token): (SocketAddr, Option<&str>), theatre: &Theatre, maps: &Maps) {
    let encoding = Encoding::BOTH[node as usize % 2];
    let Ok(Ok(port)) = timeout(SOON, Port::show(address, encoding, token)).await else { return };
    let mut feeds = BTreeMap::new();
    for session in &theatre.sessions {
        // A staleness notice belongs to its connection.
        let seen = maps.lock().expect("no panic").get_mut(&(node, session.clone())).map(|seen| {
            seen.is_stale = false;
            seen.clone()
        });
        let resume = seen.map(|seen| json!({"epoch": seen.epoch, "version": seen.map.version}));
        let entity = format!("session/{session}");
        let asked = json!({"op": "watch", "deadline_ms": 1_500, "body": {"entity": entity, "resume": resume}});
        match port.exchange(asked, SOON).await {
            Answer::Ok(body, _) => drop(feeds.insert(body["feed"].as_u64().expect("a feed"), session.clone())),
            other @ (Answer::No(_) | Answer::Fail(_) | Answer::Gone) => {
                return println!("the watcher at node {node} may not watch {session}: {other:?}");
            }
        }
    }
    while let Some(frame) = port.next_other().await {
        let Some(session) = frame["feed"].as_u64().map(|feed| &feeds[&feed]) else { continue };
        let mut maps = maps.lock().expect("no panic");
        note(&mut maps, (node, session.clone()), &frame, usize::from(theatre.rows) * usize::from(theatre.seats));
    }
}

/// Applies a frame.
fn note(maps: &mut BTreeMap<(u64, String), Seen>, key: (u64, String), frame: &Value, seats: usize) {
    if let Some(snapshot) = frame.get("snapshot") {
        let epoch = snapshot["epoch"].as_u64().expect("an epoch");
        let (is_stale, told) = maps.remove(&key).map(|seen| (seen.is_stale, seen.told)).unwrap_or_default();
        let mut seen = Seen { epoch, map: Map::read(snapshot, seats), is_stale, told };
        seen.note_sale(snapshot);
        maps.insert(key, seen);
        return;
    }
    if let Some(stale_ms) = frame["stale_ms"].as_u64() {
        let seen = maps.get_mut(&key).unwrap_or_else(|| panic!("a staleness notice before any snapshot: {frame}"));
        assert_ne!(seen.is_stale, stale_ms > 0, "notified twice: {frame}");
        seen.is_stale = stale_ms > 0;
        return;
    }
    let delta = frame.get("delta").unwrap_or_else(|| panic!("a feed of an existing session: {frame}"));
    let seen = maps.get_mut(&key).unwrap_or_else(|| panic!("a delta before any snapshot: {frame}"));
    let number = |name: &str| delta[name].as_u64().expect("a version");
    let (node, session) = &key;
    assert!(number("from") <= seen.map.version, "a gap at node {node}, {session} at {}: {frame}", seen.map.version);
    if number("to") > seen.map.version {
        let mut delta = delta.clone();
        delta["from"] = seen.map.version.into();
        seen.map.apply(&delta);
        seen.note_sale(&delta);
    }
}

impl Seen {
    /// Notes what a snapshot or a delta says of the sale.
    fn note_sale(&mut self, frame: &Value) {
        let mut told = Told { blocked: self.map.blocked, ..self.told.last().cloned().unwrap_or_default() };
        if let Some(mark) = frame.get("sale") {
            told.version = mark["version"].as_u64().expect("a version");
            told.opens_at = mark.get("opens_at").map(read_time);
        }
        if let Some(areas) = frame.get("areas").and_then(Value::as_array) {
            let count = |area: &Value, name: &str| area[name].as_u64().expect("a count");
            told.places =
                areas.iter().map(|area| count(area, "free") + count(area, "held") + count(area, "sold")).sum();
        }
        if self.told.last() != Some(&told) {
            self.told.push(told);
        }
    }
}
