//! The task behind a client: one connection after the other, every frame of it in and out.
//!
//! One task polls everything: what came in, what callers want sent, the one timer. A wake-up reads all there is, takes
//! all there is to send and flushes once; reading never waits for writing, so that two full sockets cannot block each other.

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
    hello::Hello,
    limits::close::{self, Advice, advice},
    reply::{CountsWatching, FromAnswer, RawEvent, RawVerdict, ServerFrame, Watching, request},
    version::Added,
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
    config::{ClientConfig, ShownCustomer},
    feeds::{FeedSink, Feeds},
    link::{Incoming, Link, LinkError},
    pending::{Pending, Sent},
    request_id::random_u64,
};

/// Requests handed over and not yet looked at; callers wait beyond this.
pub(crate) const SUBMIT_QUEUE: usize = 1_024;

/// Requests looked at that cannot be sent yet: the connection is down, or as many as allowed are under way.
const WAITING_MAX: usize = 1_024;

/// Frames read before callers get their turn, so that a flood of them starves nobody.
const FRAMES_A_TURN: usize = 512;

/// A connection on which nothing comes for so long is dead: the server pings much more often.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// The id of the client's own frames, which nobody waits for.
const OWN_ID: u64 = 0;

/// A request on its way to the connection.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) id: u64,
    pub(crate) frame: Bytes,
    /// A field that not every node knows.
    pub(crate) newest: Option<Added>,
    /// Until when it may wait to be sent.
    pub(crate) until: Instant,
    /// How long it waits for its answer while nothing at all comes from the node.
    pub(crate) silence_max: Duration,
    /// Until when it waits for its answer.
    pub(crate) deadline: Instant,
    pub(crate) asker: Asker,
}

/// Who wants the answer.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A caller.
    Caller(oneshot::Sender<Outcome>),
    /// A watch: the frames of the feed it is granted go into the sink.
    Watch(oneshot::Sender<Outcome>, FeedSink),
}

impl Asker {
    pub(crate) fn tell(self, outcome: Outcome) {
        let (Asker::Caller(tell) | Asker::Watch(tell, _)) = self;
        // The caller may have given up; then nobody wants to know.
        let _ = tell.send(outcome);
    }

    fn has_gone(&self) -> bool {
        let (Asker::Caller(tell) | Asker::Watch(tell, _)) = self;
        tell.is_closed()
    }
}

/// What became of a letter.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The frame that answers it, and over the how-manieth connection it came.
    Answer(Bytes, u64),
    /// It was sent, and the connection broke before an answer.
    Lost,
    /// It was sent, and there was no answer before the deadline, or nothing at all came from the node for too long.
    Overdue,
    /// It was never sent.
    NotSent,
    /// It was never sent, since there is no connection and it was not to wait for one.
    HandedBack,
    /// It was never sent, and there will be no connection any more.
    Closed,
    /// It was never sent, since the node is older than a field of it; why, in words.
    TooOld(String),
}

/// The node that a connection must be to. Until its hello says so, the connection is shown no customer and sent no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedNode {
    /// Its id.
    pub(crate) node: u64,
    /// The id of its cluster; empty if this client may not see it.
    pub(crate) cluster: SmolStr,
    /// Its address must not be loopback, link-local or unspecified.
    pub(crate) only_remote: bool,
}

impl ExpectedNode {
    /// Why the node that says this is another one.
    fn mismatch(&self, hello: &Hello) -> Option<String> {
        let is_node = hello.node.parse() == Ok(self.node);
        let is_of_cluster = self.cluster.is_empty() || hello.cluster == self.cluster;
        (!is_node || !is_of_cluster)
            .then(|| format!("node {} is expected there, and it says it is node {}", self.node, hello.node))
    }
}

/// How the connection is, for all who want to know.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// There is none yet, or none any more; and why, if it was tried.
    Connecting(Option<SmolStr>),
    /// There is one; what the server said of itself, once it has.
    Connected(Option<Arc<Hello>>),
    /// There will be none any more.
    Closed(SmolStr),
}

/// The task.
pub(crate) struct Post {
    config: Arc<ClientConfig>,
    /// `None` if any node will do.
    expected: Option<ExpectedNode>,
    letters: mpsc::Receiver<Letter>,
    state: watch::Sender<State>,
    /// Whether the newest connection is to a local address.
    is_local: Arc<AtomicBool>,
    /// Whether the client's hello was sent over this connection.
    greeted: bool,
    waiting: VecDeque<Letter>,
    /// How many connections there were, this one counted.
    connections: u64,
    pending: Pending,
    feeds: Feeds,
    alarm: Pin<Box<Sleep>>,
    alarm_at: Instant,
    heard: Instant,
    back_off: BackOff,
    rng: SmallRng,
    /// All clients are gone.
    finished: bool,
}

/// How a connection ended.
struct End {
    advice: Advice,
    why: String,
}

impl Post {
    pub(crate) fn new(
        config: Arc<ClientConfig>,
        expected: Option<ExpectedNode>,
        letters: mpsc::Receiver<Letter>,
        state: watch::Sender<State>,
        is_local: Arc<AtomicBool>,
    ) -> Post {
        let now = Instant::now();
        Post {
            config,
            expected,
            letters,
            state,
            is_local,
            greeted: false,
            waiting: VecDeque::new(),
            connections: 0,
            pending: Pending::default(),
            feeds: Feeds::default(),
            alarm: Box::pin(sleep_until(now + SILENCE_MAX)),
            alarm_at: now + SILENCE_MAX,
            heard: now,
            back_off: BackOff::default(),
            rng: SmallRng::seed_from_u64(random_u64()),
            finished: false,
        }
    }

    /// Runs until all clients are gone, or the server says to stay away.
    pub(crate) async fn run(mut self) {
        let mut turn = 0;
        let only_remote = self.expected.as_ref().is_some_and(|expected| expected.only_remote);
        while !self.finished {
            let address = self.config.addresses[turn % self.config.addresses.len()].clone();
            turn += 1;
            let config = Arc::clone(&self.config);
            let Some(connected) = self.meanwhile(Link::connect(&address, &config, only_remote)).await else {
                break;
            };
            let end = match connected {
                Ok(mut link) => {
                    debug!(address, "connected");
                    self.connections += 1;
                    self.is_local.store(link.is_local(), Ordering::Relaxed);
                    self.state.send_replace(State::Connected(None));
                    let end = self.serve(&mut link).await;
                    self.pending.lose();
                    self.feeds.lose();
                    link.close().await;
                    end
                }
                Err(LinkError::NotTaken { why }) => {
                    End { advice: Advice::Stay, why: format!("{} {why}", close::UNAUTHENTICATED) }
                }
                Err(error @ LinkError::NotRemote { .. }) => End { advice: Advice::Stay, why: error.to_string() },
                Err(error) => End { advice: Advice::BackOff, why: error.to_string() },
            };
            if self.finished {
                break;
            }
            debug!(address, why = end.why, "not connected");
            let Some(wait) = self.back_off.wait(end.advice, &mut self.rng) else {
                warn!(address, why = end.why, "the connection is given up");
                self.close(&end.why);
                return;
            };
            self.state.send_replace(State::Connecting(Some(SmolStr::new(&end.why))));
            if self.meanwhile(tokio::time::sleep(wait)).await.is_none() {
                break;
            }
        }
        self.close("all its users are gone");
    }

    fn close(mut self, why: &str) {
        self.state.send_replace(State::Closed(SmolStr::new(why)));
        self.letters.close();
        while let Ok(letter) = self.letters.try_recv() {
            self.waiting.push_back(letter);
        }
        self.waiting.drain(..).for_each(|letter| letter.asker.tell(Outcome::NotSent));
    }

    /// Does something else to its end while there is no connection, minding deadlines; `None` if nobody needs one any more.
    async fn meanwhile<T>(&mut self, something: impl Future<Output = T>) -> Option<T> {
        let mut something = pin!(something);
        poll_fn(|context| {
            self.poll_letters(context);
            if self.finished {
                return Poll::Ready(None);
            }
            self.poll_alarm(context);
            if !self.config.wait_for_connection {
                self.waiting.drain(..).for_each(|letter| letter.asker.tell(Outcome::HandedBack));
                // The queue may have had more than there was room for.
                self.poll_letters(context);
                if !self.waiting.is_empty() {
                    context.waker().wake_by_ref();
                }
            }
            something.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Serves one connection to its end.
    async fn serve(&mut self, link: &mut Link) -> End {
        let mut unflushed = false;
        self.greeted = false;
        self.heard = Instant::now();
        self.ring_at(self.heard + SILENCE_MAX);
        let mut leave_at: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|context| {
            let turn = match self.poll_turn(link, &mut unflushed, &mut leave_at, context) {
                Ok(turn) => turn,
                Err(end) => return Poll::Ready(end),
            };
            if self.finished {
                return Poll::Ready(End { advice: Advice::Stay, why: "all its users are gone".into() });
            }
            if let Some(leave) = &mut leave_at
                && leave.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(End { advice: Advice::Now, why: "the node is going away".into() });
            }
            turn
        })
        .await
    }

    /// The first frame: who this is.
    fn greet(&mut self, link: &mut Link) -> Result<(), String> {
        let (customer, customer_token) = match &self.config.customer {
            Some(ShownCustomer { id, token }) => (Some(id.clone()), Some(SmolStr::new(token))),
            None => (None, None),
        };
        let hello = ClientHello { client: SmolStr::new(&self.config.name), token: None, customer, customer_token };
        let mut frame = BytesMut::new();
        request(self.config.encoding, &mut frame, OWN_ID, Op::Hello, None, None, &hello);
        link.send(frame.freeze())
    }

    /// One wake-up: everything in, everything out, one flush.
    fn poll_turn(
        &mut self,
        link: &mut Link,
        unflushed: &mut bool,
        leave_at: &mut Option<Pin<Box<Sleep>>>,
        context: &mut Context<'_>,
    ) -> Result<Poll<End>, End> {
        let broken = |why: String| End { advice: Advice::BackOff, why };
        let mut frames = 0;
        while let Poll::Ready(incoming) = link.poll_incoming(context) {
            match incoming {
                Incoming::Frame(frame) => self.incoming(frame, leave_at)?,
                Incoming::Ping => *unflushed = true,
                Incoming::Over(code, why) => {
                    return Err(End { advice: advice(code), why });
                }
            }
            frames += 1;
            if frames == FRAMES_A_TURN {
                context.waker().wake_by_ref();
                break;
            }
        }
        if frames > 0 {
            self.heard = Instant::now();
        }
        if !self.greeted && (self.expected.is_none() || self.is_introduced()) {
            self.greet(link).map_err(broken)?;
            (self.greeted, *unflushed) = (true, true);
        }
        loop {
            self.poll_letters(context);
            if !self.poll_send(link, unflushed, context).map_err(broken)? {
                break;
            }
        }
        if *unflushed && let Poll::Ready(flushed) = link.poll_flush(context) {
            flushed.map_err(broken)?;
            *unflushed = false;
        }
        if self.poll_alarm(context) && self.heard + SILENCE_MAX <= Instant::now() {
            return Err(broken(format!("nothing was heard for {SILENCE_MAX:?}")));
        }
        Ok(Poll::Pending)
    }

    /// Sends what waits, as far as it may; whether that made room for more.
    fn poll_send(&mut self, link: &mut Link, unflushed: &mut bool, context: &mut Context<'_>) -> Result<bool, String> {
        let mut made_room = false;
        if !self.greeted {
            // This may be the wrong node: its requests go by another one at once.
            made_room = !self.waiting.is_empty();
            self.waiting.drain(..).for_each(|letter| letter.asker.tell(Outcome::HandedBack));
        }
        while self.pending.len() < self.config.under_way_max && !self.waiting.is_empty() {
            let Poll::Ready(room) = link.poll_room(context) else {
                return Ok(false);
            };
            room?;
            if !self.is_version_known(self.waiting.front().expect("one is waiting")) {
                // The server's first frame says it.
                return Ok(false);
            }
            let letter = self.waiting.pop_front().expect("one is waiting");
            made_room = true;
            if letter.asker.has_gone() {
                continue;
            }
            if let Some(why) = self.too_old_for(&letter) {
                letter.asker.tell(Outcome::TooOld(why));
                continue;
            }
            let Letter { id, frame, asker, silence_max, deadline, .. } = letter;
            if matches!(asker, Asker::Watch(..)) {
                self.give_up_feeds(link)?;
            }
            link.send(frame)?;
            *unflushed = true;
            self.pending.sent(id, Sent { asker, at: Instant::now(), silence_max, deadline });
        }
        Ok(made_room)
    }

    /// Whether the node's version is known, or not needed for this letter.
    fn is_version_known(&self, letter: &Letter) -> bool {
        letter.newest.is_none() || self.is_introduced()
    }

    /// Whether the node has said who it is.
    fn is_introduced(&self) -> bool {
        matches!(&*self.state.borrow(), State::Connected(Some(_)))
    }

    /// Why the node is not sent this letter, if it does not know a field of it.
    fn too_old_for(&self, letter: &Letter) -> Option<String> {
        let newest = letter.newest?;
        match &*self.state.borrow() {
            State::Connected(Some(hello)) if hello.minor < newest.minor => Some(newest.refusal(hello.minor)),
            State::Connected(_) | State::Connecting(_) | State::Closed(_) => None,
        }
    }

    /// Tells the server which feeds nobody reads any more, before another is asked for.
    fn give_up_feeds(&mut self, link: &mut Link) -> Result<(), String> {
        for feed in self.feeds.abandoned() {
            let mut frame = BytesMut::new();
            request(self.config.encoding, &mut frame, OWN_ID, Op::Unwatch, None, None, &Unwatch { feed });
            link.send(frame.freeze())?;
        }
        Ok(())
    }

    /// Takes what callers have handed over, as far as there is room.
    fn poll_letters(&mut self, context: &mut Context<'_>) {
        while self.waiting.len() < WAITING_MAX {
            match self.letters.poll_recv(context) {
                Poll::Ready(Some(letter)) => {
                    self.ring_at(letter.until);
                    self.waiting.push_back(letter);
                }
                // All clients are gone, and with them everybody who could wait for an answer.
                Poll::Ready(None) => {
                    self.finished = true;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Makes sure the alarm rings at this time, or before.
    fn ring_at(&mut self, at: Instant) {
        if at < self.alarm_at {
            self.alarm_at = at;
            self.alarm.as_mut().reset(at);
        }
    }

    /// Ends what is overdue when the alarm rings; whether it rang. It is set for the earliest deadline ever noted, so it
    /// rings once for thousands of requests that were answered long before.
    fn poll_alarm(&mut self, context: &mut Context<'_>) -> bool {
        let mut rang = false;
        while self.alarm.as_mut().poll(context).is_ready() {
            rang = true;
            let now = Instant::now();
            let next = self.pending.expire(now, self.heard);
            self.waiting.retain_mut(|letter| letter.until > now || !not_sent(letter));
            let next_waiting = self.waiting.iter().map(|letter| letter.until).min();
            // While nothing is connected nothing is heard either; the alarm then only minds deadlines.
            let silence = (self.heard + SILENCE_MAX).max(now + Duration::from_secs(1));
            self.alarm_at = [next, next_waiting].into_iter().flatten().fold(silence, Instant::min);
            self.alarm.as_mut().reset(self.alarm_at);
        }
        rang
    }

    /// Hands on what the server sent.
    fn incoming(&mut self, frame: Bytes, leave_at: &mut Option<Pin<Box<Sleep>>>) -> Result<(), End> {
        let encoding = self.config.encoding;
        let read = ServerFrame::read(encoding, &frame);
        let read = read.map_err(|error| End { advice: Advice::BackOff, why: error.to_string() })?;
        match read {
            ServerFrame::Answer(Some(OWN_ID), _, _) | ServerFrame::Other => {}
            ServerFrame::Answer(Some(id), verdict, _) => {
                self.back_off.worked();
                let Some(asker) = self.pending.answered(id) else {
                    return Ok(());
                };
                if let (Asker::Watch(_, sink), RawVerdict::Ok(body, _)) = (&asker, verdict) {
                    // Noted before the next frame is read, which may be the feed's first.
                    granted(encoding, body).into_iter().for_each(|feed| self.feeds.follow(feed, sink.clone()));
                }
                asker.tell(Outcome::Answer(frame, self.connections));
            }
            ServerFrame::Answer(None, verdict, _) => {
                warn!(?verdict, "the server could not read a frame")
            }
            ServerFrame::Feed(feed, event) => {
                self.feeds.frame(feed, &frame);
                if matches!(event, RawEvent::Ended(_)) {
                    self.feeds.ended(feed);
                }
            }
            ServerFrame::Notice(notice) => {
                debug!(notice = %notice.name, "the server has a notice");
                if let Some(wait) = notice.reconnect_ms {
                    *leave_at = Some(Box::pin(tokio::time::sleep(Duration::from_millis(wait))));
                }
            }
            ServerFrame::Hello(hello) => {
                if let Some(why) = self.expected.as_ref().and_then(|expected| expected.mismatch(&hello)) {
                    return Err(End { advice: Advice::Stay, why });
                }
                self.state.send_replace(State::Connected(Some(Arc::from(hello))));
            }
        }
        Ok(())
    }
}

/// The feeds that an answer to `watch` grants.
fn granted(encoding: Encoding, body: &[u8]) -> Vec<u64> {
    if let Ok(Watching { feed }) = Watching::from_answer(encoding, body) {
        return vec![feed];
    }
    let many = CountsWatching::from_answer(encoding, body);
    many.map(|many| many.feeds.iter().map(|of| of.feed).collect()).unwrap_or_default()
}

/// Tells a waiting letter's asker that it was never sent; always true.
fn not_sent(letter: &mut Letter) -> bool {
    let (nobody, _) = oneshot::channel();
    std::mem::replace(&mut letter.asker, Asker::Caller(nobody)).tell(Outcome::NotSent);
    true
}
