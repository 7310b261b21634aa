//! Answers that clients do not read. They share a bound of the node's memory. If it is exceeded, the connections with most of
//! it are cut.
//!
//! Only bytes that no other connection shares are counted: a layout takes the same memory whether one connection waits with it
//! or a thousand. Feeds are not counted, because a connection has at most one frame of a feed in its buffer.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::body::{Body, Bytes};
use boxoffice_node::metrics_text::MetricsText;
use boxoffice_wire::encode::{SharedPart, sharing};
use bytes::BytesMut;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tracing_mutex::parkinglot::Mutex;

use crate::{planted, roster::End};

/// Shorter answers are not counted.
const COUNTED_MIN: usize = 4_096;

/// Bytes of an answer that the HTTP library gets at once. What it has is not counted any more.
const PIECE_BYTES: usize = 16 * 1024;

/// The unsent answers of a node.
#[derive(Debug)]
pub(crate) struct UnsentAnswers {
    /// The bound, in bytes. 0 is without one.
    bytes_max: u64,
    bytes: AtomicU64,
    /// Connections with unsent answers.
    shares: Mutex<BTreeMap<u64, Arc<UnsentShare>>>,
    /// Connections that were cut.
    cut: AtomicU64,
    next: AtomicU64,
}

/// The unsent answers of one connection.
#[derive(Debug)]
pub(crate) struct UnsentShare {
    all: Arc<UnsentAnswers>,
    number: u64,
    bytes: Mutex<Counted>,
    end: Arc<End>,
}

#[derive(Debug, Default)]
struct Counted {
    bytes: u64,
    /// The connection is being cut, and its bytes are given back.
    is_cut: bool,
}

impl UnsentAnswers {
    pub(crate) fn new(bytes_max: u64) -> UnsentAnswers {
        let (bytes, cut, next) = Default::default();
        UnsentAnswers { bytes_max, bytes, shares: Mutex::default(), cut, next }
    }

    /// The share of a connection, which `end` ends.
    pub(crate) fn share(self: &Arc<UnsentAnswers>, end: Arc<End>) -> Arc<UnsentShare> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Arc::new(UnsentShare { all: Arc::clone(self), number, bytes: Mutex::default(), end })
    }

    /// Writes how much waits, and how many connections were cut for it.
    pub(crate) fn write(&self, text: &mut MetricsText) {
        let help = "Memory of answers that clients have not read yet, in bytes.";
        text.gauge("boxoffice_edge_unsent_bytes", help, self.bytes.load(Ordering::Relaxed));
        let help = "Connections cut because all unread answers together took too much memory.";
        text.counter("boxoffice_edge_unread_cut_total", help, &self.cut);
    }

    /// Cuts the connections with most unsent bytes until there is room again.
    fn make_room(&self) {
        let mut shares = self.shares.lock();
        let mut largest: Vec<(u64, u64)> =
            shares.iter().map(|(number, share)| (share.bytes.lock().bytes, *number)).collect();
        largest.sort_unstable();
        while self.bytes.load(Ordering::Relaxed) > self.bytes_max {
            let Some((_, number)) = largest.pop() else { return };
            let Some(share) = shares.remove(&number) else { continue };
            let mut counted = share.bytes.lock();
            counted.is_cut = true;
            self.bytes.fetch_sub(std::mem::take(&mut counted.bytes), Ordering::Relaxed);
            drop(counted);
            self.cut.fetch_add(1, Ordering::Relaxed);
            share.end.end();
        }
    }
}

impl UnsentShare {
    /// The connection has so many unsent bytes more.
    pub(crate) fn add(self: &Arc<UnsentShare>, bytes: usize) {
        if bytes == 0 {
            return;
        }
        // The order of the locks is that of `make_room`.
        let is_first = {
            let mut counted = self.bytes.lock();
            if counted.is_cut {
                return;
            }
            counted.bytes += bytes as u64;
            counted.bytes == bytes as u64
        };
        let before = self.all.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if is_first {
            let mut shares = self.all.shares.lock();
            // Meanwhile they may have been given back.
            if self.bytes.lock().bytes > 0 {
                shares.insert(self.number, Arc::clone(self));
            }
        }
        if self.all.bytes_max > 0 && before + bytes as u64 > self.all.bytes_max {
            self.all.make_room();
        }
    }

    /// So many of its unsent bytes were sent or dropped.
    pub(crate) fn give_back(&self, bytes: usize) {
        if bytes == 0 || planted::is("unsent bytes not given back") {
            return;
        }
        let is_last = {
            let mut counted = self.bytes.lock();
            if counted.is_cut {
                return;
            }
            counted.bytes -= bytes as u64;
            counted.bytes == 0
        };
        self.all.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        if is_last {
            let mut shares = self.all.shares.lock();
            // Meanwhile there may be others.
            if self.bytes.lock().bytes == 0 {
                shares.remove(&self.number);
            }
        }
    }

    /// A part of the share that is set again and again.
    pub(crate) fn part(self: &Arc<UnsentShare>) -> UnsentPart {
        UnsentPart { share: Arc::clone(self), bytes: 0 }
    }
}

/// A part of a connection's share, given back when this is dropped.
pub(crate) struct UnsentPart {
    share: Arc<UnsentShare>,
    bytes: usize,
}

impl UnsentPart {
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = if bytes < COUNTED_MIN { 0 } else { bytes };
        if bytes > self.bytes {
            self.share.add(bytes - self.bytes);
        } else {
            self.share.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for UnsentPart {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// How many bytes of an answer over HTTP no other connection shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnBytes(pub(crate) usize);

/// The body that `write` appends to a buffer, with its parts that other connections share, and how many bytes are its own.
pub(crate) fn body(write: impl FnOnce(&mut BytesMut)) -> (Body, OwnBytes) {
    let mut out = BytesMut::new();
    let shared = sharing(&mut out, write);
    let own = OwnBytes(out.len());
    let mut parts = VecDeque::new();
    let mut taken = 0;
    for SharedPart { at, bytes } in shared {
        parts.push_back(out.split_to(at - taken).freeze());
        parts.push_back(bytes);
        taken = at;
    }
    parts.push_back(out.freeze());
    parts.retain(|part| !part.is_empty());
    match (parts.len(), parts.front()) {
        (0, _) => (Body::empty(), own),
        (1, Some(only)) if only.len() <= PIECE_BYTES => (Body::from(only.clone()), own),
        _ => (Body::new(Parts(parts)), own),
    }
}

/// A body in parts.
struct Parts(VecDeque<Bytes>);

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Parts(parts) = self.get_mut();
        let Some(first) = parts.front_mut() else { return Poll::Ready(None) };
        let piece = first.split_to(first.len().min(PIECE_BYTES));
        if first.is_empty() {
            parts.pop_front();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|part| part.len() as u64).sum())
    }
}

/// A body whose own bytes are counted until the HTTP library has all of them.
struct CountedBody {
    body: Body,
    _part: UnsentPart,
}

/// Counts the body of an answer, if it is large.
pub(crate) fn counted(body: Body, OwnBytes(own): OwnBytes, share: &Arc<UnsentShare>) -> Body {
    if own < COUNTED_MIN {
        return body;
    }
    let mut part = share.part();
    part.set(own);
    Body::new(CountedBody { body, _part: part })
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.get_mut().body).poll_frame(context));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
