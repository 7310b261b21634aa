//! The task behind a client. It keeps one connection open at a time and moves every frame in and out.
//!
//! One task polls the socket, the requests of callers and a single timer. A wake-up reads everything that has arrived,
//! sends everything that may be sent, and flushes once. Reading never waits for writing, so two full sockets cannot
//! block each other.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use boxoffice_wire::{
    Encoding, Op,
    body::{ClientHello, Unwatch},
    envelope::with_patience,
    hello::Hello,
    limits::close::{self, Advice, advice},
    reply::{CountsWatching, FromBody, RawEvent, RawVerdict, ServerFrame, Watching, request},
    version::{Added, PATIENCE_MINOR},
};
use bytes::{Bytes, BytesMut};
use rand::{SeedableRng, rngs::SmallRng};
use smol_str::SmolStr;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, Sleep, sleep_until},
};
use tracing::{debug, warn};

use crate::{
    back_off::BackOff,
    config::{ClientConfig, CustomerCredentials},
    feeds::Feeds,
    pending::{Pending, PendingRequest},
    request_id::random_u64,
    waiter::{AttemptOutcome, Waiter},
    ws_connection::{ConnectError, Incoming, WsConnection},
};

/// Capacity of the channel from callers to the task. Callers wait while it is full.
pub(crate) const SUBMIT_QUEUE: usize = 1_024;

/// Requests that the task keeps while there is no connection, or while the maximum is under way.
const QUEUED_MAX: usize = 1_024;

/// Frames read in one wake-up before requests are sent, so that a flood of frames does not starve callers.
const FRAMES_PER_WAKE_UP: usize = 512;

/// A connection on which nothing arrives for this long is dead. The server pings much more often.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// The error of a client whose connection task has ended.
pub(crate) const TASK_ENDED: &str = "the connection task has ended";

/// The request id of frames that the task sends on its own. No caller waits for their answers.
const INTERNAL_ID: u64 = 0;

/// A request on its way to the connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: u64,
    pub(crate) frame: Bytes,
    /// A field of the request that older nodes do not know.
    pub(crate) newest_field: Option<Added>,
    /// Until when the buyer is there, if that is later than the deadline and the node may want to know.
    pub(crate) patient_until: Option<Instant>,
    /// The request is dropped if it was not sent by then.
    pub(crate) send_by: Instant,
    /// How long the request waits for its answer while nothing at all arrives from the node.
    pub(crate) silence_max: Duration,
    /// Until when the request waits for its answer.
    pub(crate) deadline: Instant,
    pub(crate) waiter: Waiter,
}

/// The node that a connection must be to. Until the node's hello says that it is this node, the client sends it neither
/// the customer nor a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedNode {
    pub(crate) node: u64,
    /// The id of its cluster. Empty if this client may not see it.
    pub(crate) cluster: SmolStr,
    /// Its address must not be loopback, link-local or unspecified.
    pub(crate) only_remote: bool,
}

impl ExpectedNode {
    /// Describes the difference if this hello is of another node.
    fn mismatch(&self, hello: &Hello) -> Option<String> {
        let is_node = hello.node.parse() == Ok(self.node);
        let is_of_cluster = self.cluster.is_empty() || hello.cluster == self.cluster;
        (!is_node || !is_of_cluster)
            .then(|| format!("expected node {} at this address, but it says it is node {}", self.node, hello.node))
    }
}

/// The state of the connection.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionState {
    /// There is no connection now. With the reason, once an attempt has failed.
    Connecting(Option<SmolStr>),
    /// There is a connection. With the server's hello, once it has arrived.
    Connected(Option<Arc<Hello>>),
    /// The client does not connect any more. With the reason.
    Closed(SmolStr),
}

/// The task.
pub(crate) struct ConnectionTask {
    config: Arc<ClientConfig>,
    /// `None` if any node will do.
    expected: Option<ExpectedNode>,
    outgoing: mpsc::Receiver<Outgoing>,
    state: watch::Sender<ConnectionState>,
    /// Whether the newest connection is to a local address.
    is_local: Arc<AtomicBool>,
    /// Whether the client's hello was sent over this connection.
    hello_sent: bool,
    queued: VecDeque<Outgoing>,
    /// Connections so far, including the current one.
    connection_count: u64,
    pending: Pending,
    feeds: Feeds,
    timer: Pin<Box<Sleep>>,
    timer_at: Instant,
    last_received: Instant,
    back_off: BackOff,
    rng: SmallRng,
    clients_dropped: bool,
}

/// How a connection ended.
struct Disconnect {
    advice: Advice,
    reason: String,
}

impl ConnectionTask {
    pub(crate) fn new(
        config: Arc<ClientConfig>,
        expected: Option<ExpectedNode>,
        outgoing: mpsc::Receiver<Outgoing>,
        state: watch::Sender<ConnectionState>,
        is_local: Arc<AtomicBool>,
    ) -> ConnectionTask {
        let now = Instant::now();
        ConnectionTask {
            config,
            expected,
            outgoing,
            state,
            is_local,
            hello_sent: false,
            queued: VecDeque::new(),
            connection_count: 0,
            pending: Pending::default(),
            feeds: Feeds::default(),
            timer: Box::pin(sleep_until(now + SILENCE_MAX)),
            timer_at: now + SILENCE_MAX,
            last_received: now,
            back_off: BackOff::default(),
            rng: SmallRng::seed_from_u64(random_u64()),
            clients_dropped: false,
        }
    }

    /// Runs until all clients are dropped, or the server says to stay away.
    pub(crate) async fn run(mut self) {
        let mut attempts = 0;
        // Attempts in a row that met a port which speaks TLS, or does not, other than this client.
        let mut misspoken = 0;
        let only_remote = self.expected.as_ref().is_some_and(|expected| expected.only_remote);
        while !self.clients_dropped {
            let address = self.config.addresses[attempts % self.config.addresses.len()].clone();
            attempts += 1;
            let config = Arc::clone(&self.config);
            let connect = WsConnection::connect(&address, &config, only_remote);
            let Some(connected) = self.while_disconnected(connect).await else {
                break;
            };
            misspoken = match &connected {
                Err(ConnectError::SpeaksTls { .. } | ConnectError::SpeaksPlain { .. }) => misspoken + 1,
                _ => 0,
            };
            let end = match connected {
                Ok(mut connection) => {
                    debug!(address, "connected");
                    self.connection_count += 1;
                    self.is_local.store(connection.is_local(), Ordering::Relaxed);
                    self.state.send_replace(ConnectionState::Connected(None));
                    let end = self.serve(&mut connection).await;
                    self.pending.connection_lost();
                    self.feeds.connection_lost();
                    connection.close().await;
                    end
                }
                Err(ConnectError::Unauthorized { reason }) => {
                    Disconnect { advice: Advice::Stay, reason: format!("{} {reason}", close::UNAUTHENTICATED) }
                }
                // If no address is better, another attempt is as vain as this one.
                Err(error) if misspoken >= self.config.addresses.len() => {
                    Disconnect { advice: Advice::Stay, reason: error.to_string() }
                }
                Err(error @ ConnectError::LocalAddress { .. }) => {
                    Disconnect { advice: Advice::Stay, reason: error.to_string() }
                }
                Err(error) => Disconnect { advice: Advice::BackOff, reason: error.to_string() },
            };
            if self.clients_dropped {
                break;
            }
            debug!(address, reason = end.reason, "not connected");
            let Some(wait) = self.back_off.next_wait(end.advice, &mut self.rng) else {
                warn!(address, reason = end.reason, "the client gives up this connection and does not reconnect");
                self.close(&end.reason);
                return;
            };
            self.state.send_replace(ConnectionState::Connecting(Some(SmolStr::new(&end.reason))));
            if self.while_disconnected(tokio::time::sleep(wait)).await.is_none() {
                break;
            }
        }
        self.close("all clients were dropped");
    }

    fn close(mut self, reason: &str) {
        self.state.send_replace(ConnectionState::Closed(SmolStr::new(reason)));
        self.outgoing.close();
        while let Ok(request) = self.outgoing.try_recv() {
            self.queued.push_back(request);
        }
        self.queued.drain(..).for_each(|request| request.waiter.complete(AttemptOutcome::NotSent));
    }

    /// Runs a future to its end while there is no connection, and ends requests at their deadlines meanwhile. `None` if
    /// all clients were dropped.
    async fn while_disconnected<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.poll_outgoing(context);
            if self.clients_dropped {
                return Poll::Ready(None);
            }
            self.poll_timer(context);
            if !self.config.wait_for_connection {
                self.queued.drain(..).for_each(|request| request.waiter.complete(AttemptOutcome::NotConnected));
                // The channel may have held more than the queue had room for.
                self.poll_outgoing(context);
                if !self.queued.is_empty() {
                    context.waker().wake_by_ref();
                }
            }
            future.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, connection: &mut WsConnection) -> Disconnect {
        let mut unflushed = false;
        self.hello_sent = false;
        self.last_received = Instant::now();
        self.set_timer(self.last_received + SILENCE_MAX);
        let mut leave_at: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context| {
            let polled = match self.poll_connection(connection, &mut unflushed, &mut leave_at, context) {
                Ok(polled) => polled,
                Err(end) => return Poll::Ready(end),
            };
            if self.clients_dropped {
                return Poll::Ready(Disconnect { advice: Advice::Stay, reason: "all clients were dropped".into() });
            }
            if let Some(leave) = &mut leave_at
                && leave.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Disconnect {
                    advice: Advice::Now,
                    reason: "the node asked its clients to reconnect".into(),
                });
            }
            polled
        })
        .await
    }

    /// Sends the client's hello, the first frame of a connection.
    fn send_hello(&mut self, connection: &mut WsConnection) -> Result<(), String> {
        let (customer, customer_token) = match &self.config.customer {
            Some(CustomerCredentials { id, token }) => (Some(id.clone()), Some(SmolStr::new(token))),
            None => (None, None),
        };
        let hello = ClientHello { client: SmolStr::new(&self.config.name), token: None, customer, customer_token };
        let mut frame = BytesMut::new();
        request(self.config.encoding, &mut frame, INTERNAL_ID, Op::Hello, None, None, &hello);
        connection.send(frame.freeze())
    }

    /// One wake-up: reads everything, sends everything, flushes once.
    fn poll_connection(
        &mut self,
        connection: &mut WsConnection,
        unflushed: &mut bool,
        leave_at: &mut Option<Pin<Box<Sleep>>>,
        context: &mut Context<'_>,
    ) -> Result<Poll<Disconnect>, Disconnect> {
        let broken = |reason: String| Disconnect { advice: Advice::BackOff, reason };
        let mut frames = 0;
        while let Poll::Ready(incoming) = connection.poll_incoming(context) {
            match incoming {
                Incoming::Frame(frame) => self.on_frame(frame, leave_at)?,
                Incoming::Ping => *unflushed = true,
                Incoming::Closed(code, reason) => {
                    return Err(Disconnect { advice: advice(code), reason });
                }
            }
            frames += 1;
            if frames == FRAMES_PER_WAKE_UP {
                context.waker().wake_by_ref();
                break;
            }
        }
        if frames > 0 {
            self.last_received = Instant::now();
        }
        if !self.hello_sent && (self.expected.is_none() || self.has_server_hello()) {
            self.send_hello(connection).map_err(broken)?;
            (self.hello_sent, *unflushed) = (true, true);
        }
        loop {
            self.poll_outgoing(context);
            if !self.poll_send(connection, unflushed, context).map_err(broken)? {
                break;
            }
        }
        if *unflushed && let Poll::Ready(flushed) = connection.poll_flush(context) {
            flushed.map_err(broken)?;
            *unflushed = false;
        }
        if self.poll_timer(context) && self.last_received + SILENCE_MAX <= Instant::now() {
            return Err(broken(format!("nothing arrived for {SILENCE_MAX:?}")));
        }
        Ok(Poll::Pending)
    }

    /// Sends queued requests as far as the limits allow. Returns whether the queue has room again.
    fn poll_send(
        &mut self,
        connection: &mut WsConnection,
        unflushed: &mut bool,
        context: &mut Context<'_>,
    ) -> Result<bool, String> {
        let mut made_room = false;
        if !self.hello_sent {
            // This may be the wrong node. Its requests go to another node at once.
            made_room = !self.queued.is_empty();
            self.queued.drain(..).for_each(|request| request.waiter.complete(AttemptOutcome::NotConnected));
        }
        while self.pending.len() < self.config.under_way_max && !self.queued.is_empty() {
            let Poll::Ready(ready) = connection.poll_ready(context) else {
                return Ok(false);
            };
            ready?;
            if !self.is_version_known(self.queued.front().expect("the queue is not empty")) {
                // The server's hello is its first frame and tells the version.
                return Ok(false);
            }
            let request = self.queued.pop_front().expect("the queue is not empty");
            made_room = true;
            if request.waiter.is_gone() {
                continue;
            }
            if let Some(reason) = self.node_too_old(&request) {
                request.waiter.complete(AttemptOutcome::NodeTooOld(reason));
                continue;
            }
            let frame = self.frame_to_send(&request);
            let Outgoing { id, waiter, silence_max, deadline, .. } = request;
            if matches!(waiter, Waiter::Watch(..)) {
                self.unwatch_abandoned(connection)?;
            }
            connection.send(frame)?;
            *unflushed = true;
            self.pending.insert(id, PendingRequest { waiter, sent_at: Instant::now(), silence_max, deadline });
        }
        Ok(made_room)
    }

    /// The frame of a request, with the buyer's patience if the node knows that field.
    fn frame_to_send(&self, request: &Outgoing) -> Bytes {
        let Some(until) = request.patient_until else { return request.frame.clone() };
        let knows_patience = match &*self.state.borrow() {
            ConnectionState::Connected(Some(hello)) => hello.minor >= PATIENCE_MINOR,
            ConnectionState::Connected(None) | ConnectionState::Connecting(_) | ConnectionState::Closed(_) => false,
        };
        if !knows_patience {
            return request.frame.clone();
        }
        let patience_ms = until.saturating_duration_since(Instant::now()).as_millis();
        let patience_ms = u64::try_from(patience_ms).unwrap_or(u64::MAX);
        with_patience(self.config.encoding, &request.frame, patience_ms).freeze()
    }

    /// Whether the node's version is known, or not needed for this request.
    fn is_version_known(&self, request: &Outgoing) -> bool {
        request.newest_field.is_none() || self.has_server_hello()
    }

    fn has_server_hello(&self) -> bool {
        matches!(&*self.state.borrow(), ConnectionState::Connected(Some(_)))
    }

    /// The reason why the node cannot be sent this request, if it is too old to know one of its fields.
    fn node_too_old(&self, request: &Outgoing) -> Option<String> {
        let newest = request.newest_field?;
        match &*self.state.borrow() {
            ConnectionState::Connected(Some(hello)) if hello.minor < newest.minor => Some(newest.refusal(hello.minor)),
            ConnectionState::Connected(_) | ConnectionState::Connecting(_) | ConnectionState::Closed(_) => None,
        }
    }

    /// Ends the feeds that no watch reads any more. The task does this before it asks for another feed.
    fn unwatch_abandoned(&mut self, connection: &mut WsConnection) -> Result<(), String> {
        for feed in self.feeds.take_abandoned(self.pending.sinks()) {
            let mut frame = BytesMut::new();
            request(self.config.encoding, &mut frame, INTERNAL_ID, Op::Unwatch, None, None, &Unwatch { feed });
            connection.send(frame.freeze())?;
        }
        Ok(())
    }

    /// Takes requests from callers while the queue has room.
    fn poll_outgoing(&mut self, context: &mut Context<'_>) {
        while self.queued.len() < QUEUED_MAX {
            match self.outgoing.poll_recv(context) {
                Poll::Ready(Some(request)) => {
                    self.set_timer(request.send_by);
                    self.queued.push_back(request);
                }
                // All clients are dropped, and with them every caller that could wait for an answer.
                Poll::Ready(None) => {
                    self.clients_dropped = true;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Makes sure that the timer fires at this time or before.
    fn set_timer(&mut self, at: Instant) {
        if at < self.timer_at {
            self.timer_at = at;
            self.timer.as_mut().reset(at);
        }
    }

    /// Ends overdue requests when the timer fires. Returns whether it fired. The timer is set for the earliest deadline
    /// ever noted, so it fires once for thousands of requests that were answered long before.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> bool {
        let mut fired = false;
        while self.timer.as_mut().poll(context).is_ready() {
            fired = true;
            let now = Instant::now();
            let next = self.pending.expire(now, self.last_received);
            self.queued.retain_mut(|request| request.send_by > now || !complete_not_sent(request));
            let next_queued = self.queued.iter().map(|request| request.send_by).min();
            // Nothing arrives without a connection. The timer only watches deadlines then.
            let silence = (self.last_received + SILENCE_MAX).max(now + Duration::from_secs(1));
            self.timer_at = [next, next_queued].into_iter().flatten().fold(silence, Instant::min);
            self.timer.as_mut().reset(self.timer_at);
        }
        fired
    }

    fn on_frame(&mut self, frame: Bytes, leave_at: &mut Option<Pin<Box<Sleep>>>) -> Result<(), Disconnect> {
        let encoding = self.config.encoding;
        let read = ServerFrame::read(encoding, &frame);
        let read = read.map_err(|error| Disconnect { advice: Advice::BackOff, reason: error.to_string() })?;
        match read {
            ServerFrame::Answer(Some(INTERNAL_ID), _, _) | ServerFrame::Other => {}
            ServerFrame::Answer(Some(id), verdict, _) => {
                self.back_off.reset();
                let Some(waiter) = self.pending.remove(id) else {
                    return Ok(());
                };
                if let (Waiter::Watch(_, sink), RawVerdict::Ok(body, _)) = (&waiter, verdict) {
                    // The next frame may be the first of the feed, so the feed is registered before that frame is read.
                    granted_feeds(encoding, body).into_iter().for_each(|feed| self.feeds.follow(feed, sink.clone()));
                }
                waiter.complete(AttemptOutcome::Answer(frame, self.connection_count));
            }
            ServerFrame::Answer(None, verdict, _) => {
                warn!(?verdict, "the server could not read a frame")
            }
            ServerFrame::Feed(feed, event) => {
                self.feeds.dispatch(feed, &frame);
                if matches!(event, RawEvent::Ended(_)) {
                    self.feeds.ended(feed);
                }
            }
            ServerFrame::Notice(notice) => {
                debug!(notice = %notice.name, "the server sent a notice");
                if let Some(wait) = notice.reconnect_ms {
                    *leave_at = Some(Box::pin(tokio::time::sleep(Duration::from_millis(wait))));
                }
            }
            ServerFrame::Hello(hello) => {
                if let Some(reason) = self.expected.as_ref().and_then(|expected| expected.mismatch(&hello)) {
                    return Err(Disconnect { advice: Advice::Stay, reason });
                }
                self.state.send_replace(ConnectionState::Connected(Some(Arc::from(hello))));
            }
        }
        Ok(())
    }
}

/// The feeds that an answer to `watch` grants.
fn granted_feeds(encoding: Encoding, body: &[u8]) -> Vec<u64> {
    if let Ok(Watching { feed }) = Watching::from_body(encoding, body) {
        return vec![feed];
    }
    let many = CountsWatching::from_body(encoding, body);
    many.map(|many| many.feeds.iter().map(|session| session.feed).collect()).unwrap_or_default()
}

/// Tells the waiter of a queued request that the request was not sent. Always returns true.
fn complete_not_sent(request: &mut Outgoing) -> bool {
    let (unused, _) = oneshot::channel();
    std::mem::replace(&mut request.waiter, Waiter::Caller(unused)).complete(AttemptOutcome::NotSent);
    true
}
