//! The network between the nodes of a test: every connection passes through here, and each of its two directions can be made
//! to suffer. It works on bytes and knows nothing of what they say.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

/// What is read at once.
const CHUNK_BYTES: usize = 16 * 1_024;

/// Chunks that wait in one direction of a connection; beyond this the sender is not read any more, as with a full socket.
const CHUNKS: usize = 256;

/// How long a byte takes where they trickle.
const BYTE: Duration = Duration::from_millis(5);

/// What becomes of bytes on their way from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// They arrive at once.
    Fair,
    /// They arrive so much later.
    Slow(Duration),
    /// They arrive one by one.
    Trickle,
    /// They wait until the weather changes, without any notice. New connections wait as well.
    Silent,
    /// Connections break, and new ones are refused.
    Cut,
}

/// One direction between two nodes, over all their connections.
struct Way {
    weather: watch::Sender<Weather>,
    /// Bytes that will be changed.
    to_corrupt: AtomicU64,
    /// Resets the connection on which this many more bytes, and one, have passed. 0 resets none.
    to_tear: AtomicU64,
    corrupted: AtomicU64,
    torn: AtomicU64,
}

/// The ways between all nodes of a test. They end when this is dropped.
pub(crate) struct Links {
    ways: Arc<Vec<Vec<Arc<Way>>>>,
    /// Where node `a` dials node `b`.
    listen: Vec<Vec<SocketAddr>>,
    _listeners: JoinSet<()>,
}

impl Links {
    /// Ways between nodes 1, 2, …, which listen for each other at these addresses.
    pub(crate) async fn new(nodes: &[SocketAddr]) -> Links {
        let way = |_| {
            Arc::new(Way {
                weather: watch::Sender::new(Weather::Fair),
                to_corrupt: AtomicU64::new(0),
                to_tear: AtomicU64::new(0),
                corrupted: AtomicU64::new(0),
                torn: AtomicU64::new(0),
            })
        };
        let ways: Vec<Vec<Arc<Way>>> = nodes.iter().map(|_| nodes.iter().map(way).collect()).collect();
        let ways = Arc::new(ways);
        let mut listeners = JoinSet::new();
        let mut listen = Vec::new();
        for from in 0..nodes.len() {
            let mut row = Vec::new();
            for (to, &node) in nodes.iter().enumerate() {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                row.push(listener.local_addr().expect("an address"));
                if from != to {
                    let (there, back) = (Arc::clone(&ways[from][to]), Arc::clone(&ways[to][from]));
                    listeners.spawn(accept(listener, node, there, back));
                }
            }
            listen.push(row);
        }
        Links { ways, listen, _listeners: listeners }
    }

    /// The part of a node's configuration that sends it through here.
    pub(crate) fn routes(&self, node: u64) -> String {
        let from = index(node);
        let row = self.listen[from].iter().enumerate().filter(|(to, _)| *to != from);
        let lines = row.map(|(to, address)| format!("{} = \"{address}\"\n", to + 1));
        format!("[peers.routes]\n{}", lines.collect::<String>())
    }

    /// The weather on the way from one node to another.
    pub(crate) fn set(&self, from: u64, to: u64, weather: Weather) {
        self.way(from, to).weather.send_replace(weather);
    }

    /// The weather on both ways between two nodes.
    pub(crate) fn both(&self, one: u64, other: u64, weather: Weather) {
        self.set(one, other, weather);
        self.set(other, one, weather);
    }

    /// The weather on all ways of a node.
    pub(crate) fn around(&self, node: u64, weather: Weather) {
        for other in (1..=self.ways.len() as u64).filter(|other| *other != node) {
            self.both(node, other, weather);
        }
    }

    /// The weather everywhere.
    pub(crate) fn everywhere(&self, weather: Weather) {
        for way in self.ways.iter().flatten() {
            way.weather.send_replace(weather);
        }
    }

    /// Fair weather everywhere, and nothing more that will be changed or torn.
    pub(crate) fn heal(&self) {
        for way in self.ways.iter().flatten() {
            way.to_corrupt.store(0, Relaxed);
            way.to_tear.store(0, Relaxed);
            way.weather.send_replace(Weather::Fair);
        }
    }

    /// Changes one of the next bytes on this way.
    pub(crate) fn corrupt(&self, from: u64, to: u64) {
        self.way(from, to).to_corrupt.fetch_add(1, Relaxed);
    }

    /// How many bytes were changed on this way.
    pub(crate) fn corrupted(&self, from: u64, to: u64) -> u64 {
        self.way(from, to).corrupted.load(Relaxed)
    }

    /// Resets the connection on which this many more bytes have passed this way.
    pub(crate) fn tear(&self, from: u64, to: u64, after_bytes: u64) {
        self.way(from, to).to_tear.store(after_bytes + 1, Relaxed);
    }

    /// How many connections were reset on this way in the midst of what they carried.
    pub(crate) fn torn(&self, from: u64, to: u64) -> u64 {
        self.way(from, to).torn.load(Relaxed)
    }

    fn way(&self, from: u64, to: u64) -> &Way {
        &self.ways[index(from)][index(to)]
    }
}

fn index(node: u64) -> usize {
    usize::try_from(node).expect("a small number") - 1
}

impl Way {
    /// Waits for such weather.
    async fn wait_for(&self, wanted: impl FnMut(&Weather) -> bool) {
        // The ways outlive what passes on them.
        self.weather.subscribe().wait_for(wanted).await.expect("the way is there");
    }
}

async fn accept(listener: TcpListener, node: SocketAddr, there: Arc<Way>, back: Arc<Way>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((dialer, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(dialer, node, Arc::clone(&there), Arc::clone(&back)));
    }
}

/// One connection, from its dialing to its end.
async fn connection(mut dialer: TcpStream, node: SocketAddr, there: Arc<Way>, back: Arc<Way>) {
    for way in [&there, &back] {
        way.wait_for(|weather| *weather != Weather::Silent).await;
    }
    let is_cut = [&there, &back].iter().any(|way| *way.weather.borrow() == Weather::Cut);
    let answerer = if is_cut { Err(io::ErrorKind::ConnectionRefused.into()) } else { TcpStream::connect(node).await };
    let Ok(mut answerer) = answerer else { return reset(dialer) };
    // The nodes hear of a small frame at once, as without us.
    let _ = (dialer.set_nodelay(true), answerer.set_nodelay(true));
    let (dialer_read, dialer_write) = dialer.split();
    let (answerer_read, answerer_write) = answerer.split();
    let cut = |weather: &Weather| *weather == Weather::Cut;
    let carried =
        async { tokio::try_join!(pump(dialer_read, answerer_write, &there), pump(answerer_read, dialer_write, &back)) };
    let ended = tokio::select! {
        biased;
        () = there.wait_for(cut) => Err(()),
        () = back.wait_for(cut) => Err(()),
        ended = carried => match ended {
            Ok(_) => Ok(()),
            Err(Lost::Torn) => Err(()),
            // The other side notices when it reads.
            Err(Lost::Broken) => {
                there.wait_for(|weather| *weather != Weather::Silent).await;
                back.wait_for(|weather| *weather != Weather::Silent).await;
                Err(())
            }
        },
    };
    if ended.is_err() {
        reset(dialer);
        reset(answerer);
    }
}

/// Closes without waiting for what is on its way: the other side reads a reset.
fn reset(stream: TcpStream) {
    // It may be closed already.
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
}

/// Why bytes go no further.
enum Lost {
    /// One side is gone.
    Broken,
    /// It was to be so.
    Torn,
}

/// Carries bytes one way until their sender has no more.
async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, way: &Way) -> Result<(), Lost> {
    let (queue, mut queued) = mpsc::channel::<(Instant, Option<Vec<u8>>)>(CHUNKS);
    let read = async move {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            match from.read(&mut chunk).await {
                Ok(0) => return Ok(()),
                Ok(bytes) => chunk.truncate(bytes),
                Err(_) => {
                    // A reset travels behind what was sent before it.
                    let _ = queue.send((Instant::now(), None)).await;
                    return Ok(());
                }
            }
            if queue.send((Instant::now(), Some(chunk))).await.is_err() {
                return Ok(());
            }
        }
    };
    let write = async {
        while let Some((at, chunk)) = queued.recv().await {
            let mut rest = chunk.ok_or(Lost::Broken)?;
            while !rest.is_empty() {
                let bytes = may_pass(way, at, rest.len()).await;
                let later = rest.split_off(bytes);
                pass(way, &mut to, rest).await?;
                rest = later;
            }
        }
        may_pass(way, Instant::now(), 1).await;
        to.shutdown().await.map_err(|_| Lost::Broken)
    };
    // Where nothing can be written any more nothing is read either.
    tokio::try_join!(read, write).map(drop)
}

/// Waits until the weather lets something pass that came at this time; how much of it.
async fn may_pass(way: &Way, at: Instant, bytes: usize) -> usize {
    let mut weather = way.weather.subscribe();
    loop {
        let now = *weather.borrow_and_update();
        match now {
            Weather::Fair => return bytes,
            Weather::Trickle => {
                sleep(BYTE).await;
                return 1;
            }
            Weather::Slow(delay) if at + delay <= Instant::now() => return bytes,
            Weather::Slow(delay) => {
                tokio::select! {
                    () = sleep_until(at + delay) => return bytes,
                    _ = weather.changed() => {}
                }
            }
            Weather::Silent | Weather::Cut => weather.changed().await.expect("the way is there"),
        }
    }
}

async fn pass(way: &Way, to: &mut WriteHalf<'_>, mut bytes: Vec<u8>) -> Result<(), Lost> {
    let take = |count: u64| count.checked_sub(1);
    if way.to_corrupt.fetch_update(Relaxed, Relaxed, take).is_ok() {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        way.corrupted.fetch_add(1, Relaxed);
    }
    let limit = way.to_tear.load(Relaxed);
    let torn = limit > 0 && bytes.len() as u64 >= limit;
    if torn {
        bytes.truncate(limit as usize - 1);
        way.to_tear.store(0, Relaxed);
    } else if limit > 0 {
        way.to_tear.store(limit - bytes.len() as u64, Relaxed);
    }
    to.write_all(&bytes).await.map_err(|_| Lost::Broken)?;
    if torn {
        way.torn.fetch_add(1, Relaxed);
        return Err(Lost::Torn);
    }
    Ok(())
}
