//! A connection that stands: what waits for it, its reader and its writer.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    time::timeout,
};

use super::{
    Inner,
    config::PeerConfig,
    ends::{Ends, Reader, Writer},
    frame::{Decoder, Encoder, Kind},
    hello::{Hello, words},
    neighbour::Neighbour,
    queues::{Pushed, Queues, Road},
};
use crate::world::{Lane, NodeId, PeerInbox};

/// A body up to this length is written together with its neighbours; a longer one by itself, which saves its copy.
const COPIED_BYTES_MAX: usize = 16 * 1024;

/// What others hold of a connection.
pub(super) struct Connection {
    pub(super) road: Road,
    /// Which of the two nodes dialed.
    pub(super) dialer: NodeId,
    /// Of the other node's process.
    pub(super) life: u64,
    queues: Mutex<Queues>,
    /// Something waits that did not when the writer last looked.
    wake: Notify,
    closed: Notify,
}

impl Connection {
    /// The connection with the node that said `hello`.
    pub(super) fn new(hello: &Hello, dialer: NodeId, config: &PeerConfig) -> Arc<Connection> {
        let road = hello.road();
        Arc::new(Connection {
            road,
            dialer,
            life: hello.life,
            queues: Mutex::new(Queues::new(road, &config.queues)),
            wake: Notify::new(),
            closed: Notify::new(),
        })
    }

    pub(super) fn push(&self, lane: Lane, frame: Bytes) -> Pushed {
        let pushed = self.queues.lock().push(lane, frame);
        if pushed == (Pushed::Taken { first: true }) {
            self.wake.notify_one();
        }
        pushed
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

    /// Carries frames both ways until one side has enough of it. `first` is written before anything else.
    pub(super) async fn run(self: Arc<Connection>, inner: &Inner, neighbour: &Neighbour, ends: Ends, first: Vec<u8>) {
        let Ends { reader, writer, encoder, decoder, .. } = ends;
        let inbox = inner.inbox();
        let why = tokio::select! {
            biased;
            () = self.closed.notified() => return,
            why = self.read(reader, decoder, neighbour, inner, inbox) => why,
            why = self.write(writer, encoder, first, neighbour, &inner.config) => why,
        };
        neighbour.lost(&self, &why);
    }

    /// Hands over what comes; returns why nothing more does.
    async fn read(
        &self,
        mut reader: Reader,
        mut decoder: Decoder,
        neighbour: &Neighbour,
        inner: &Inner,
        inbox: &dyn PeerInbox,
    ) -> String {
        decoder.body_bytes_max = inner.config.frame_bytes_max;
        let silence = inner.config.silence();
        loop {
            loop {
                match decoder.next() {
                    Ok(Some((Kind::For(lane), body))) if Road::of(lane) == self.road => {
                        neighbour.counts.frames_received.fetch_add(1, Relaxed);
                        neighbour.counts.bytes_received.fetch_add(body.len() as u64, Relaxed);
                        inbox.frame(neighbour.node, lane, body);
                    }
                    Ok(Some((Kind::Heartbeat, _))) => {}
                    Ok(Some((Kind::Refusal, reason))) => {
                        return format!("refused by the other side: {}", words(&reason));
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

    /// Writes what waits, and heartbeats when nothing does; returns why it cannot any more.
    async fn write(
        &self,
        mut writer: Writer,
        mut encoder: Encoder,
        first: Vec<u8>,
        neighbour: &Neighbour,
        config: &PeerConfig,
    ) -> String {
        let mut out = BytesMut::from(&first[..]);
        let mut batch = Vec::new();
        loop {
            let written = self.write_batch(&mut writer, &mut encoder, &mut out, &mut batch, neighbour, config).await;
            if let Err(error) = written {
                return error.to_string();
            }
            self.queues.lock().take(&mut batch);
            if batch.is_empty() {
                match timeout(config.heartbeat(), self.wake.notified()).await {
                    Ok(()) => self.queues.lock().take(&mut batch),
                    Err(_) => out.extend_from_slice(&encoder.head(Kind::Heartbeat, b"")),
                }
            }
        }
    }

    /// Writes `out`, then all of `batch`, with one flush.
    async fn write_batch(
        &self,
        writer: &mut Writer,
        encoder: &mut Encoder,
        out: &mut BytesMut,
        batch: &mut Vec<(Lane, Bytes)>,
        neighbour: &Neighbour,
        config: &PeerConfig,
    ) -> io::Result<()> {
        let (mut frames, mut bytes) = (0, 0);
        for (lane, body) in batch.drain(..) {
            (frames, bytes) = (frames + 1, bytes + body.len() as u64);
            out.extend_from_slice(&encoder.head(Kind::For(lane), &body));
            if body.len() <= COPIED_BYTES_MAX {
                out.extend_from_slice(&body);
            } else {
                write_all(writer, out, config).await?;
                out.clear();
                write_all(writer, &body, config).await?;
            }
        }
        write_all(writer, out, config).await?;
        out.clear();
        timeout(config.stall(), writer.flush()).await.unwrap_or_else(|_| Err(stalled(config)))?;
        neighbour.counts.frames_sent.fetch_add(frames, Relaxed);
        neighbour.counts.bytes_sent.fetch_add(bytes, Relaxed);
        Ok(())
    }
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
