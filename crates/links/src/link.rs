//! A connection that stands: what waits for it, its reader and its writer.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use boxoffice_env::{Lane, NodeId, PeerInbox};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    Inner,
    config::PeerConfig,
    counts::TrafficCounts,
    frame::{Decoder, Kind},
    frame_writer::FrameWriter,
    hello::{Hello, printable},
    queues::{LinkKind, Pushed, Queues},
    transport::{Reader, Transport, Writer},
};

/// A body up to this length is written together with its neighbours; a longer one by itself, which saves its copy.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// What others hold of a connection.
pub(super) struct Connection {
    /// No other connection of this process has it.
    pub(super) number: u64,
    pub(super) link_kind: LinkKind,
    /// Which of the two nodes dialed.
    pub(super) dialer: NodeId,
    /// Of the other node's process.
    pub(super) incarnation: u64,
    queues: Mutex<Queues>,
    /// While the writer has nothing to write: whoever pushes may write itself.
    pen: Mutex<Option<FrameWriter>>,
    /// Something waits that did not when the writer last looked.
    wake: Notify,
    closed: Notify,
}

impl Connection {
    /// The connection with the node that said `hello`.
    pub(super) fn new(hello: &Hello, dialer: NodeId, config: &PeerConfig) -> Arc<Connection> {
        let link_kind = hello.link_kind();
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Connection {
            number: CONNECTIONS.fetch_add(1, Relaxed),
            link_kind,
            dialer,
            incarnation: hello.incarnation,
            queues: Mutex::new(Queues::new(link_kind, &config.queues)),
            pen: Mutex::new(None),
            wake: Notify::new(),
            closed: Notify::new(),
        })
    }

    /// Puts a frame behind those that wait, and sees to it that it is written.
    pub(super) fn push(&self, lane: Lane, frame: Bytes, counts: &TrafficCounts) -> Pushed {
        let pushed = self.queues.lock().push(lane, frame);
        if pushed == (Pushed::Taken { first: true }) && !self.write_at_once(counts) {
            self.wake.notify_one();
        }
        pushed
    }

    /// Writes what waits as far as the socket takes it, which saves the way through another thread; says whether nothing is
    /// left for the writer. Only consensus is worth it, and only its pens are direct: it comes a whole pass at a time, and the
    /// calls of a burst are better written together.
    fn write_at_once(&self, counts: &TrafficCounts) -> bool {
        let mut pen = self.pen.lock();
        let Some(pen) = pen.as_mut().filter(|pen| pen.is_free()) else { return false };
        let mut batch = Vec::new();
        let nothing_left = {
            let mut queues = self.queues.lock();
            queues.take(&mut batch);
            queues.is_empty()
        };
        for (lane, body) in batch {
            counts.sent(&body);
            pen.frame(lane, &body);
        }
        pen.write_at_once() && nothing_left
    }

    /// Frames that wait.
    pub(super) fn queued(&self) -> u64 {
        self.queues.lock().len() as u64
    }

    /// Ends it; says how many frames are dropped with it.
    pub(super) fn close(&self) -> u64 {
        let left = self.queues.lock().close() as u64;
        self.closed.notify_one();
        left
    }

    /// Says from time to time that this side is there, beside the thread that carries the connection: that one waits for the
    /// disk.
    pub(super) async fn send_heartbeats(self: Arc<Connection>, interval: Duration) {
        while !self.queues.lock().is_closed() {
            sleep(interval).await;
            // Without its pen the writer is writing; with something left in it, that says enough.
            let mut pen = self.pen.lock();
            let Some(pen) = pen.as_mut().filter(|pen| pen.is_free()) else { continue };
            pen.heartbeat();
            if !pen.write_at_once() {
                self.wake.notify_one();
            }
        }
    }

    /// Carries frames of and to a node both ways until one side has enough of it. `first` is written before anything else. Why
    /// it was lost, if it was not closed here.
    pub(super) async fn run(
        &self,
        inner: &Inner,
        (node, counts): (NodeId, &TrafficCounts),
        transport: Transport,
        first: Vec<u8>,
    ) -> Option<String> {
        let Transport { reader, writer, socket, encoder, decoder, .. } = transport;
        let pen = FrameWriter::new(encoder, socket, &first);
        let _drop_frame_writer = DropFrameWriter(self);
        let inbox = inner.inbox();
        tokio::select! {
            biased;
            () = self.closed.notified() => None,
            why = self.read(reader, decoder, (node, counts), inner, inbox) => Some(why),
            why = self.write(writer, pen, counts, &inner.config) => Some(why),
        }
    }

    /// Hands over what comes; returns why nothing more does.
    async fn read(
        &self,
        mut reader: Reader,
        mut decoder: Decoder,
        (node, counts): (NodeId, &TrafficCounts),
        inner: &Inner,
        inbox: &dyn PeerInbox,
    ) -> String {
        decoder.body_bytes_max = inner.config.frame_bytes_max;
        let silence = inner.config.silence();
        loop {
            loop {
                match decoder.next() {
                    Ok(Some((Kind::Data(lane), body))) if LinkKind::of(lane) == self.link_kind => {
                        counts.frames_received.fetch_add(1, Relaxed);
                        counts.bytes_received.fetch_add(body.len() as u64, Relaxed);
                        inbox.frame(node, lane, body);
                    }
                    Ok(Some((Kind::Heartbeat, _))) => {}
                    Ok(Some((Kind::Refusal, reason))) => {
                        return format!("refused by the other side: {}", printable(&reason));
                    }
                    Ok(Some((kind, _))) => return format!("the other side spoke out of turn ({kind:?})"),
                    Ok(None) => break,
                    Err(corrupt) => {
                        inner.counts.corrupt.fetch_add(1, Relaxed);
                        return format!("what came is damaged: {corrupt}");
                    }
                }
            }
            match timeout(silence, reader.read_buf(decoder.room())).await {
                Ok(Ok(0)) => return "the other side closed the connection".into(),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return format!("nothing came for {} ms", silence.as_millis()),
            }
        }
    }

    /// Writes what waits, and heartbeats when nothing did for a while; returns why it cannot any more.
    async fn write(
        &self,
        mut writer: Writer,
        mut pen: FrameWriter,
        counts: &TrafficCounts,
        config: &PeerConfig,
    ) -> String {
        let mut batch = Vec::new();
        loop {
            if let Err(error) = write_batch(&mut writer, &mut pen, &mut batch, counts, config).await {
                return error.to_string();
            }
            self.queues.lock().take(&mut batch);
            if batch.is_empty() {
                // Of one whose pen is direct it is said beside this whether it is there.
                let patience = if pen.is_direct() { Duration::MAX } else { config.heartbeat() };
                *self.pen.lock() = Some(pen);
                let woken = timeout(patience, self.wake.notified()).await;
                pen = self.pen.lock().take().expect("nobody else takes it while this runs");
                match woken {
                    Ok(()) => self.queues.lock().take(&mut batch),
                    Err(_) => pen.heartbeat(),
                }
            }
        }
    }
}

/// What is written with holds the socket open: it goes when the connection ends, however that comes.
struct DropFrameWriter<'a>(&'a Connection);

impl Drop for DropFrameWriter<'_> {
    fn drop(&mut self) {
        *self.0.pen.lock() = None;
    }
}

/// Writes what the pen has, then all of `batch`, with one flush.
async fn write_batch(
    writer: &mut Writer,
    pen: &mut FrameWriter,
    batch: &mut Vec<(Lane, Bytes)>,
    counts: &TrafficCounts,
    config: &PeerConfig,
) -> io::Result<()> {
    for (lane, body) in batch.drain(..) {
        counts.sent(&body);
        if body.len() <= COPIED_BYTES_MAX {
            pen.frame(lane, &body);
        } else {
            pen.head(lane, &body);
            write_all(writer, &pen.out, config).await?;
            pen.out.clear();
            write_all(writer, &body, config).await?;
        }
    }
    write_all(writer, &pen.out, config).await?;
    pen.out.clear();
    timeout(config.stall(), writer.flush()).await.unwrap_or_else(|_| Err(stalled(config)))
}

/// Writes all of it, for as long as the other side takes some.
async fn write_all(writer: &mut Writer, mut bytes: &[u8], config: &PeerConfig) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = timeout(config.stall(), writer.write(bytes)).await.unwrap_or_else(|_| Err(stalled(config)))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

fn stalled(config: &PeerConfig) -> io::Error {
    io::Error::other(format!("the other side took nothing for {} ms", config.stall_ms))
}
