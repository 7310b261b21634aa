//! The floor: the leanest fan-out server on tokio-tungstenite, in a process of its own. Each connection has a task, and
//! all get one broadcast of one frame. There are no commands, no disk and no pings.

use std::{
    io::{self, BufRead, Write},
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use boxoffice_load::{clock::now_us, watcher_fleet::ChangeTime};
use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::broadcast::{self, error::RecvError},
};
use tokio_tungstenite::{
    WebSocketStream, accept_async_with_config,
    tungstenite::{Message, Utf8Bytes, protocol::WebSocketConfig},
};

use crate::{Failed, frame};

/// As at Boxoffice's client port.
const BACKLOG: u32 = 4_096;

/// As at Boxoffice's client port.
const NOT_SENT_BYTES_MAX: u32 = 16 * 1024;

/// As in Boxoffice's connections. An idle connection keeps it for ever.
const READ_BUFFER_BYTES: usize = 1_024;

/// Frames that a connection may be behind before it gets a snapshot, as in Boxoffice's ring.
const BEHIND_MAX: usize = 256;

/// The watched session.
pub(crate) const SESSION: &str = "floor";

/// A command to make changes, spread evenly.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Publish {
    pub(crate) a_second: u32,
    pub(crate) seconds: f64,
}

/// The state that the connections share.
struct Shared {
    frames: broadcast::Sender<Utf8Bytes>,
    version: AtomicU64,
}

/// Serves until its input ends. Each line of input is a [`Publish`]. When its changes are sent, a line of output has
/// the instant of each.
pub(crate) fn serve() -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = Arc::new(Shared { frames: broadcast::Sender::new(BEHIND_MAX), version: AtomicU64::new(1) });
    let publisher = Arc::clone(&shared);
    runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        println!("{}", listener.local_addr()?);
        let (over, ended) = tokio::sync::oneshot::channel();
        // A thread of its own keeps time even if the connections are busy.
        thread::spawn(move || {
            let published = publish_all(&publisher);
            let _ = over.send(published);
        });
        tokio::select! {
            accepted = accept(listener, shared) => Ok(accepted?),
            published = ended => Ok(published??),
        }
    })
}

fn publish_all(shared: &Shared) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let publish: Publish = serde_json::from_str(&line?)?;
        let change_times = publish_at(shared, publish);
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&change_times)?)?;
        out.flush()?;
    }
    Ok(())
}

fn publish_at(shared: &Shared, publish: Publish) -> Vec<ChangeTime> {
    let start = Instant::now();
    let changes = (f64::from(publish.a_second) * publish.seconds) as u32;
    let mut change_times = Vec::new();
    for change in 0..changes {
        let due = start + Duration::from_secs(1) * change / publish.a_second;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let version = shared.version.fetch_add(1, Ordering::Relaxed) + 1;
        let frame = frame::delta(version);
        change_times.push(ChangeTime { session: 0, version, at_us: now_us() });
        // There may be no subscriber.
        let _ = shared.frames.send(frame);
    }
    change_times
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A broken connection has ended, and its watcher counts it.
            let _ = connection(stream, &shared).await;
        });
    }
}

async fn connection(stream: TcpStream, shared: &Shared) -> Result<(), Failed> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_notsent_lowat(NOT_SENT_BYTES_MAX)?;
    let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER_BYTES);
    let mut socket = Box::pin(accept_async_with_config(stream, Some(config))).await?;
    let mut frames = shared.frames.subscribe();
    loop {
        tokio::select! {
            frame = frames.recv() => match frame {
                Ok(frame) => {
                    socket.feed(Message::Text(frame)).await?;
                    while let Ok(frame) = frames.try_recv() {
                        socket.feed(Message::Text(frame)).await?;
                    }
                    socket.flush().await?;
                }
                Err(RecvError::Lagged(_)) => map(&mut socket, shared).await?,
                Err(RecvError::Closed) => return Ok(()),
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(_))) => {
                    socket.feed(Message::Text(frame::granted())).await?;
                    map(&mut socket, shared).await?;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
        }
    }
}

async fn map(socket: &mut WebSocketStream<TcpStream>, shared: &Shared) -> Result<(), Failed> {
    let version = shared.version.load(Ordering::Relaxed);
    Ok(socket.send(Message::Text(frame::snapshot(version, SESSION))).await?)
}
