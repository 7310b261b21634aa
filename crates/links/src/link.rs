//! An established connection: its queues, reader and writer.

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
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    time::{sleep, timeout},
};
use tracing_mutex::parkinglot::Mutex;

use super::{
    Inner,
    config::PeerConfig,
    counts::TrafficCounts,
    frame::{Decoder, Kind},
    frame_writer::FrameWriter,
    hello::printable,
    queues::{LinkKind, Pushed, Queues},
    transport::{Reader, Transport, Writer},
};

/// A body up to this length is written together with others. A longer one is written without a copy.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// An established connection.
pub(super) struct Connection {
    /// Unique in this process.
    pub(super) number: u64,
    pub(super) link_kind: LinkKind,
    /// The node that dialed.
    pub(super) dialer: NodeId,
    /// The incarnation of the other node.
    pub(super) incarnation: u64,
    queues: Mutex<Queues>,
    /// The idle frame writer, with which a pushing thread may write itself.
    idle_writer: Mutex<Option<FrameWriter>>,
    /// Frames were queued since the writer task last looked.
    wake: Notify,
    closed: Notify,
}

impl Connection {
    /// A connection with a node of this incarnation.
    pub(super) fn new(link_kind: LinkKind, incarnation: u64, dialer: NodeId, config: &PeerConfig) -> Arc<Connection> {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Connection {
            number: CONNECTIONS.fetch_add(1, Relaxed),
            link_kind,
            dialer,
            incarnation,
            queues: Mutex::new(Queues::new(link_kind, &config.queues)),
            idle_writer: Mutex::new(None),
            wake: Notify::new(),
            closed: Notify::new(),
        })
    }

    /// Queues a frame and has it written.
    pub(super) fn push(&self, lane: Lane, frame: Bytes, counts: &TrafficCounts) -> Pushed {
        let pushed = self.queues.lock().push(lane, frame);
        if pushed == (Pushed::Taken { first: true }) && !self.write_at_once(counts) {
            self.wake.notify_one();
        }
        pushed
    }

    /// Writes queued frames in the pushing thread as far as the socket takes them, and returns whether nothing is left. Only
    /// consensus does so, because its frames come a whole pass at a time. Calls of a burst are better written together.
    fn write_at_once(&self, counts: &TrafficCounts) -> bool {
        let mut frame_writer = self.idle_writer.lock();
        let Some(frame_writer) = frame_writer.as_mut().filter(|frame_writer| frame_writer.is_free()) else {
            return false;
        };
        let mut batch = Vec::new();
        let nothing_left = {
            let mut queues = self.queues.lock();
            queues.take(&mut batch);
            queues.is_empty()
        };
        for (lane, body) in batch {
            counts.sent(&body);
            frame_writer.frame(lane, &body);
        }
        frame_writer.write_at_once() && nothing_left
    }

    /// The number of queued frames.
    pub(super) fn queued(&self) -> u64 {
        self.queues.lock().len() as u64
    }

    /// Ends the connection and returns the number of dropped frames.
    pub(super) fn close(&self) -> u64 {
        let left = self.queues.lock().close() as u64;
        self.closed.notify_one();
        left
    }

    /// Sends heartbeats from another thread than the one that carries the connection, which may wait for the disk.
    pub(super) async fn send_heartbeats(self: Arc<Connection>, interval: Duration) {
        while !self.queues.lock().is_closed() {
            sleep(interval).await;
            // A busy writer, or one with bytes left, needs no heartbeat.
            let mut frame_writer = self.idle_writer.lock();
            let Some(frame_writer) = frame_writer.as_mut().filter(|frame_writer| frame_writer.is_free()) else {
                continue;
            };
            frame_writer.heartbeat();
            if !frame_writer.write_at_once() {
                self.wake.notify_one();
            }
        }
    }

    /// Carries frames both ways until the connection ends. `first` is written before anything else. On a direct connection a
    /// pushing thread may write itself. Returns the reason of a loss, `None` if this side closed it.
    pub(super) async fn run(
        &self,
        inner: &Inner,
        (node, counts): (NodeId, &TrafficCounts),
        transport: Transport,
        (is_direct, first): (bool, Vec<u8>),
    ) -> Option<String> {
        let Transport { reader, writer, socket, encoder, decoder, .. } = transport;
        let frame_writer = FrameWriter::new(encoder, Some(socket).filter(|_| is_direct), &first);
        let _drop_frame_writer = DropFrameWriter(self);
        let inbox = inner.inbox();
        tokio::select! {
            biased;
            () = self.closed.notified() => None,
            why = self.read(reader, decoder, (node, counts), inner, inbox) => Some(why),
            why = self.write(writer, frame_writer, counts, &inner.config) => Some(why),
        }
    }

    /// Delivers received frames until the connection fails, and returns the reason.
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
                // An encrypted connection that ends without a farewell, as a killed process does.
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return "the other side closed the connection".into();
                }
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return format!("nothing came for {} ms", silence.as_millis()),
            }
        }
    }

    /// Writes queued frames, and heartbeats after a pause, until the connection fails. Returns the reason.
    async fn write(
        &self,
        mut writer: Writer,
        mut frame_writer: FrameWriter,
        counts: &TrafficCounts,
        config: &PeerConfig,
    ) -> String {
        let mut batch = Vec::new();
        loop {
            if let Err(error) = write_batch(&mut writer, &mut frame_writer, &mut batch, counts, config).await {
                return error.to_string();
            }
            self.queues.lock().take(&mut batch);
            if batch.is_empty() {
                // Heartbeats of a direct connection come from `send_heartbeats`.
                let heartbeat_in = if frame_writer.is_direct() { Duration::MAX } else { config.heartbeat() };
                *self.idle_writer.lock() = Some(frame_writer);
                let woken = timeout(heartbeat_in, self.wake.notified()).await;
                frame_writer = self.idle_writer.lock().take().expect("only this task takes it");
                match woken {
                    Ok(()) => self.queues.lock().take(&mut batch),
                    Err(_) => frame_writer.heartbeat(),
                }
            }
        }
    }
}

/// Drops the idle frame writer, which holds the socket open, when the connection ends.
struct DropFrameWriter<'a>(&'a Connection);

impl Drop for DropFrameWriter<'_> {
    fn drop(&mut self) {
        *self.0.idle_writer.lock() = None;
    }
}

/// Writes the bytes left in the frame writer, then all of `batch`, with one flush.
async fn write_batch(
    writer: &mut Writer,
    frame_writer: &mut FrameWriter,
    batch: &mut Vec<(Lane, Bytes)>,
    counts: &TrafficCounts,
    config: &PeerConfig,
) -> io::Result<()> {
    for (lane, body) in batch.drain(..) {
        counts.sent(&body);
        if body.len() <= COPIED_BYTES_MAX {
            frame_writer.frame(lane, &body);
        } else {
            frame_writer.head(lane, &body);
            write_all(writer, &frame_writer.out, config).await?;
            frame_writer.out.clear();
            write_all(writer, &body, config).await?;
        }
    }
    write_all(writer, &frame_writer.out, config).await?;
    frame_writer.out.clear();
    timeout(config.stall(), writer.flush()).await.unwrap_or_else(|_| Err(stalled(config)))?;
    frame_writer.flushed();
    Ok(())
}

/// Writes all of `bytes`, as long as the other side goes on taking some.
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
