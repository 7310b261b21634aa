//! The network between the nodes of a test. Every connection passes through this proxy, which injects faults into either
//! direction. It works on bytes, not on frames.

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

/// Size of one read.
const CHUNK_BYTES: usize = 16 * 1_024;

/// Chunks queued in one direction of a connection. Beyond this the proxy stops reading, like a full socket.
const CHUNKS: usize = 256;

/// Delay of one byte on a trickling link.
const BYTE: Duration = Duration::from_millis(5);

/// The fault of a link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkFault {
    /// Bytes arrive at once.
    None,
    /// Bytes arrive this much later.
    Slow(Duration),
    /// Bytes arrive one by one.
    Trickle,
    /// Bytes wait silently until the fault ends. New connections wait as well.
    Silent,
    /// Connections break, and new ones are refused.
    Cut,
}

/// One direction between two nodes, over all their connections.
struct Link {
    fault: watch::Sender<LinkFault>,
    /// The number of bytes to corrupt.
    to_corrupt: AtomicU64,
    /// Resets the connection after this many bytes minus one. 0 resets none.
    to_tear: AtomicU64,
    corrupted: AtomicU64,
    torn: AtomicU64,
}

/// The links between all nodes of a test. They end when this is dropped.
pub(crate) struct Links {
    ways: Arc<Vec<Vec<Arc<Link>>>>,
    /// The address where node `a` dials node `b`.
    listen: Vec<Vec<SocketAddr>>,
    _listeners: JoinSet<()>,
}

impl Links {
    /// Links between nodes 1, 2, …, which listen for each other at these addresses.
    pub(crate) async fn new(nodes: &[SocketAddr]) -> Links {
        let link = |_| {
            Arc::new(Link {
                fault: watch::Sender::new(LinkFault::None),
                to_corrupt: AtomicU64::new(0),
                to_tear: AtomicU64::new(0),
                corrupted: AtomicU64::new(0),
                torn: AtomicU64::new(0),
            })
        };
        let ways: Vec<Vec<Arc<Link>>> = nodes.iter().map(|_| nodes.iter().map(link).collect()).collect();
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

    /// The part of a node's configuration that routes it through these links.
    pub(crate) fn routes(&self, node: u64) -> String {
        let from = index(node);
        let row = self.listen[from].iter().enumerate().filter(|(to, _)| *to != from);
        let lines = row.map(|(to, address)| format!("{} = \"{address}\"\n", to + 1));
        format!("[peers.routes]\n{}", lines.collect::<String>())
    }

    /// Sets the fault of the link from one node to another.
    pub(crate) fn set(&self, from: u64, to: u64, fault: LinkFault) {
        self.link(from, to).fault.send_replace(fault);
    }

    /// Sets the fault of both directions between two nodes.
    pub(crate) fn both(&self, one: u64, other: u64, fault: LinkFault) {
        self.set(one, other, fault);
        self.set(other, one, fault);
    }

    /// Sets the fault of all links of a node.
    pub(crate) fn around(&self, node: u64, fault: LinkFault) {
        for other in (1..=self.ways.len() as u64).filter(|other| *other != node) {
            self.both(node, other, fault);
        }
    }

    /// Sets the fault of all links.
    pub(crate) fn everywhere(&self, fault: LinkFault) {
        for link in self.ways.iter().flatten() {
            link.fault.send_replace(fault);
        }
    }

    /// Removes all faults and pending corruptions.
    pub(crate) fn heal(&self) {
        for link in self.ways.iter().flatten() {
            link.to_corrupt.store(0, Relaxed);
            link.to_tear.store(0, Relaxed);
            link.fault.send_replace(LinkFault::None);
        }
    }

    /// Corrupts one of the next bytes of this link.
    pub(crate) fn corrupt(&self, from: u64, to: u64) {
        self.link(from, to).to_corrupt.fetch_add(1, Relaxed);
    }

    /// The number of bytes corrupted on this link.
    pub(crate) fn corrupted(&self, from: u64, to: u64) -> u64 {
        self.link(from, to).corrupted.load(Relaxed)
    }

    /// Resets the connection on which this many more bytes have passed on this link.
    pub(crate) fn tear(&self, from: u64, to: u64, after_bytes: u64) {
        self.link(from, to).to_tear.store(after_bytes + 1, Relaxed);
    }

    /// The number of connections of this link that were reset in the middle of a transfer.
    pub(crate) fn torn(&self, from: u64, to: u64) -> u64 {
        self.link(from, to).torn.load(Relaxed)
    }

    fn link(&self, from: u64, to: u64) -> &Link {
        &self.ways[index(from)][index(to)]
    }
}

fn index(node: u64) -> usize {
    usize::try_from(node).expect("a small number") - 1
}

impl Link {
    /// Waits for such a fault.
    async fn wait_for(&self, wanted: impl FnMut(&LinkFault) -> bool) {
        // The links outlive their connections.
        self.fault.subscribe().wait_for(wanted).await.expect("the link is there");
    }
}

async fn accept(listener: TcpListener, node: SocketAddr, there: Arc<Link>, back: Arc<Link>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((dialer, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(dialer, node, Arc::clone(&there), Arc::clone(&back)));
    }
}

/// One connection, from its dial to its end.
async fn connection(mut dialer: TcpStream, node: SocketAddr, there: Arc<Link>, back: Arc<Link>) {
    for link in [&there, &back] {
        link.wait_for(|fault| *fault != LinkFault::Silent).await;
    }
    let is_cut = [&there, &back].iter().any(|link| *link.fault.borrow() == LinkFault::Cut);
    let answerer = if is_cut { Err(io::ErrorKind::ConnectionRefused.into()) } else { TcpStream::connect(node).await };
    let Ok(mut answerer) = answerer else { return reset(dialer) };
    // Small frames are forwarded at once, as without this proxy.
    let _ = (dialer.set_nodelay(true), answerer.set_nodelay(true));
    let (dialer_read, dialer_write) = dialer.split();
    let (answerer_read, answerer_write) = answerer.split();
    let cut = |fault: &LinkFault| *fault == LinkFault::Cut;
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
                there.wait_for(|fault| *fault != LinkFault::Silent).await;
                back.wait_for(|fault| *fault != LinkFault::Silent).await;
                Err(())
            }
        },
    };
    if ended.is_err() {
        reset(dialer);
        reset(answerer);
    }
}

/// Closes without sending queued bytes. The other side reads a reset.
fn reset(stream: TcpStream) {
    // The stream may be closed already.
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
}

/// The reason why a transfer ended.
enum Lost {
    /// One side closed the connection.
    Broken,
    /// The test requested a reset.
    Torn,
}

/// Forwards bytes in one direction until their sender has no more.
async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, link: &Link) -> Result<(), Lost> {
    let (queue, mut queued) = mpsc::channel::<(Instant, Option<Vec<u8>>)>(CHUNKS);
    let read = async move {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            match from.read(&mut chunk).await {
                Ok(0) => return Ok(()),
                Ok(bytes) => chunk.truncate(bytes),
                Err(_) => {
                    // A reset is forwarded after earlier bytes.
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
                let bytes = wait_to_pass(link, at, rest.len()).await;
                let later = rest.split_off(bytes);
                pass(link, &mut to, rest).await?;
                rest = later;
            }
        }
        wait_to_pass(link, Instant::now(), 1).await;
        to.shutdown().await.map_err(|_| Lost::Broken)
    };
    // A failed write also ends the reader.
    tokio::try_join!(read, write).map(drop)
}

/// Waits until the fault lets bytes of this arrival time pass. Returns how many may pass.
async fn wait_to_pass(link: &Link, at: Instant, bytes: usize) -> usize {
    let mut fault = link.fault.subscribe();
    loop {
        let now = *fault.borrow_and_update();
        match now {
            LinkFault::None => return bytes,
            LinkFault::Trickle => {
                sleep(BYTE).await;
                return 1;
            }
            LinkFault::Slow(delay) if at + delay <= Instant::now() => return bytes,
            LinkFault::Slow(delay) => {
                tokio::select! {
                    () = sleep_until(at + delay) => return bytes,
                    _ = fault.changed() => {}
                }
            }
            LinkFault::Silent | LinkFault::Cut => fault.changed().await.expect("the link is there"),
        }
    }
}

async fn pass(link: &Link, to: &mut WriteHalf<'_>, mut bytes: Vec<u8>) -> Result<(), Lost> {
    let take = |count: u64| count.checked_sub(1);
    if link.to_corrupt.fetch_update(Relaxed, Relaxed, take).is_ok() {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        link.corrupted.fetch_add(1, Relaxed);
    }
    let limit = link.to_tear.load(Relaxed);
    let torn = limit > 0 && bytes.len() as u64 >= limit;
    if torn {
        bytes.truncate(limit as usize - 1);
        link.to_tear.store(0, Relaxed);
    } else if limit > 0 {
        link.to_tear.store(limit - bytes.len() as u64, Relaxed);
    }
    to.write_all(&bytes).await.map_err(|_| Lost::Broken)?;
    if torn {
        link.torn.fetch_add(1, Relaxed);
        return Err(Lost::Torn);
    }
    Ok(())
}
