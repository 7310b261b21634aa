//! Answers that clients do not read. They share a bound of the node's memory. If it is exceeded, the connections with most of
//! it are cut.
//!
//! Bytes that connections share are counted once: a layout takes the same memory whether one connection waits with it or a
//! thousand. Feeds are not counted, because a connection has at most one frame of a feed in its buffer.

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
use boxoffice_wire::{
    encode::{SharedPart, sharing},
    weight,
};
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
    /// Shared bytes by their address, and how many connections have them.
    shared: Mutex<BTreeMap<Address, u32>>,
    /// Connections that were cut.
    cut: AtomicU64,
    next: AtomicU64,
}

/// Where shared bytes are, and how many.
type Address = (usize, usize);

/// The unsent answers of one connection.
#[derive(Debug)]
pub(crate) struct UnsentShare {
    all: Arc<UnsentAnswers>,
    number: u64,
    counted: Mutex<Counted>,
    end: Arc<End>,
}

#[derive(Debug, Default)]
struct Counted {
    /// Bytes that no other connection has.
    own: u64,
    shared: Vec<Address>,
    /// The connection is being cut, and its bytes are given back.
    is_cut: bool,
}

impl Counted {
    fn is_empty(&self) -> bool {
        self.own == 0 && self.shared.is_empty()
    }
}

impl UnsentAnswers {
    pub(crate) fn new(bytes_max: u64) -> UnsentAnswers {
        let (bytes, cut, next) = Default::default();
        UnsentAnswers { bytes_max, bytes, shares: Mutex::default(), shared: Mutex::default(), cut, next }
    }

    /// The share of a connection, which `end` ends.
    pub(crate) fn share(self: &Arc<UnsentAnswers>, end: Arc<End>) -> Arc<UnsentShare> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Arc::new(UnsentShare { all: Arc::clone(self), number, counted: Mutex::default(), end })
    }

    /// Writes how much waits, and how many connections were cut for it.
    pub(crate) fn write(&self, text: &mut MetricsText) {
        let help = "Memory of answers that clients have not read yet, in bytes.";
        text.gauge("boxoffice_edge_unsent_bytes", help, self.bytes.load(Ordering::Relaxed));
        let help = "Connections cut because all unread answers together took too much memory.";
        text.counter("boxoffice_edge_unread_cut_total", help, &self.cut);
    }

    fn release(&self, address: Address) {
        let mut shared = self.shared.lock();
        let Some(connections) = shared.get_mut(&address) else { return };
        *connections -= 1;
        if *connections == 0 {
            shared.remove(&address);
            self.bytes.fetch_sub(address.1 as u64, Ordering::Relaxed);
        }
    }

    /// Cuts the connections with most unsent bytes until there is room again. Each has its part of what it shares.
    fn make_room(&self) {
        if planted::is("unread answers cut nobody") {
            return;
        }
        let mut shares = self.shares.lock();
        let part = |share: &UnsentShare| {
            let (counted, shared) = (share.counted.lock(), self.shared.lock());
            let of_one = |address: &Address| address.1 as u64 / u64::from(shared.get(address).copied().unwrap_or(1));
            counted.own + counted.shared.iter().map(of_one).sum::<u64>()
        };
        let mut largest: Vec<(u64, u64)> = shares.iter().map(|(number, share)| (part(share), *number)).collect();
        largest.sort_unstable();
        while self.bytes.load(Ordering::Relaxed) > self.bytes_max {
            let Some((_, number)) = largest.pop() else { return };
            let Some(share) = shares.remove(&number) else { continue };
            let mut counted = share.counted.lock();
            counted.is_cut = true;
            self.bytes.fetch_sub(std::mem::take(&mut counted.own), Ordering::Relaxed);
            std::mem::take(&mut counted.shared).into_iter().for_each(|address| self.release(address));
            drop(counted);
            self.cut.fetch_add(1, Ordering::Relaxed);
            share.end.end();
        }
    }
}

impl UnsentShare {
    /// The connection has so many unsent bytes of its own more.
    pub(crate) fn add(self: &Arc<UnsentShare>, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let is_first = {
            let mut counted = self.counted.lock();
            if counted.is_cut {
                return;
            }
            let is_first = counted.is_empty();
            counted.own += bytes as u64;
            self.all.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            is_first
        };
        self.added(is_first);
    }

    /// So many of its own unsent bytes were sent or dropped.
    pub(crate) fn give_back(&self, bytes: usize) {
        if bytes == 0 || planted::is("unsent bytes not given back") {
            return;
        }
        {
            let mut counted = self.counted.lock();
            if counted.is_cut {
                return;
            }
            counted.own -= bytes as u64;
            self.all.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
        self.removed();
    }

    /// The connection has these bytes, which it shares with others, until the result is dropped.
    pub(crate) fn use_shared(self: &Arc<UnsentShare>, bytes: &Bytes) -> SharedUse {
        let address = (bytes.as_ptr().addr(), bytes.len());
        let is_first = {
            let mut counted = self.counted.lock();
            let is_first = counted.is_empty() && !counted.is_cut;
            if !counted.is_cut {
                counted.shared.push(address);
                let mut shared = self.all.shared.lock();
                let connections = shared.entry(address).or_default();
                *connections += 1;
                if *connections == 1 {
                    self.all.bytes.fetch_add(address.1 as u64, Ordering::Relaxed);
                }
            }
            is_first
        };
        self.added(is_first);
        SharedUse { share: Arc::clone(self), address }
    }

    fn added(self: &Arc<UnsentShare>, is_first: bool) {
        if is_first {
            let mut shares = self.all.shares.lock();
            // Meanwhile they may have been given back.
            if !self.counted.lock().is_empty() {
                shares.insert(self.number, Arc::clone(self));
            }
        }
        if self.all.bytes_max > 0 && self.all.bytes.load(Ordering::Relaxed) > self.all.bytes_max {
            self.all.make_room();
        }
    }

    fn removed(&self) {
        if self.counted.lock().is_empty() {
            let mut shares = self.all.shares.lock();
            // Meanwhile there may be others.
            if self.counted.lock().is_empty() {
                shares.remove(&self.number);
            }
        }
    }

    /// A part of the share that is set again and again.
    pub(crate) fn part(self: &Arc<UnsentShare>) -> UnsentPart {
        UnsentPart { share: Arc::clone(self), bytes: 0 }
    }
}

/// Shared bytes that a connection has not sent.
#[derive(Debug)]
pub(crate) struct SharedUse {
    share: Arc<UnsentShare>,
    address: Address,
}

impl Drop for SharedUse {
    fn drop(&mut self) {
        if planted::is("unsent bytes not given back") {
            return;
        }
        {
            let mut counted = self.share.counted.lock();
            let Some(place) = counted.shared.iter().position(|address| *address == self.address) else { return };
            counted.shared.swap_remove(place);
            self.share.all.release(self.address);
        }
        self.share.removed();
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

/// The bytes of an answer over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct AnswerBytes {
    /// How many no other connection has.
    own: usize,
    shared: Vec<Bytes>,
}

impl AnswerBytes {
    /// What it costs to send them, in units of requests.
    pub(crate) fn weight(&self) -> u32 {
        weight::of_answer(self.own, self.shared.iter().map(Bytes::len).sum())
    }

    pub(crate) fn own(own: usize) -> AnswerBytes {
        AnswerBytes { own, shared: Vec::new() }
    }
}

/// The body that `write` appends to a buffer, with its parts that other connections share, and how much there is of both.
pub(crate) fn body(write: impl FnOnce(&mut BytesMut)) -> (Body, AnswerBytes) {
    let mut out = BytesMut::new();
    let shared = sharing(&mut out, write);
    let bytes = AnswerBytes { own: out.len(), shared: shared.iter().map(|part| part.bytes.clone()).collect() };
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
        (0, _) => (Body::empty(), bytes),
        (1, Some(only)) if only.len() <= PIECE_BYTES => (Body::from(only.clone()), bytes),
        _ => (Body::new(Parts(parts)), bytes),
    }
}

/// The body with these bytes, which other connections share.
pub(crate) fn shared_body(bytes: Bytes) -> (Body, AnswerBytes) {
    let answer = AnswerBytes { own: 0, shared: vec![bytes.clone()] };
    (Body::new(Parts(VecDeque::from([bytes]))), answer)
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

/// A body whose bytes are counted until the HTTP library has all of them.
struct CountedBody {
    body: Body,
    _own: UnsentPart,
    _shared: Vec<SharedUse>,
}

/// Counts the body of an answer, if it is large.
pub(crate) fn counted(body: Body, AnswerBytes { own, shared }: &AnswerBytes, share: &Arc<UnsentShare>) -> Body {
    if *own < COUNTED_MIN && shared.is_empty() {
        return body;
    }
    let mut part = share.part();
    part.set(*own);
    let shared = shared.iter().map(|bytes| share.use_shared(bytes)).collect();
    Body::new(CountedBody { body, _own: part, _shared: shared })
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
