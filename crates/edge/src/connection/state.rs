//! The state of a connection.

use std::{collections::VecDeque, pin::Pin, sync::Arc};

use boxoffice_feeds::Watcher;
use boxoffice_node::api::ReplySink;
use boxoffice_wire::{Op, Request, limits};
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::{
    AcceptedSocket, awaited::Awaited, cart_queues::CartQueues, frames::Frames, socket::Socket, timers::Timers,
    under_way::UnderWay,
};
use crate::{
    access_end::AccessEnd,
    admission::NotAdmitted,
    answer_queue::{AnswerQueue, Waiting},
    batch::Batch,
    budgets::Owners,
    caller::Caller,
    fan_out::QueryOutcome,
    metrics::Metrics,
    shared::{ConnectionPermit, GaugeGuard, Phase, Shared},
    unsent::UnsentPart,
};

/// A query that has ended.
pub(super) struct FinishedQuery {
    pub(super) id: u64,
    pub(super) op: Op,
    pub(super) at: Instant,
    pub(super) outcome: QueryOutcome,
}

/// A hello whose credentials are being looked at.
pub(super) struct PendingHello {
    pub(super) id: u64,
    pub(super) at: Instant,
    pub(super) admission: Pin<Box<dyn Future<Output = Result<Caller, NotAdmitted>> + Send>>,
}

/// The state of a connection.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) frames: Frames,
    pub(super) timers: Timers,
    pub(super) caller: Caller,
    /// Done when the caller's credentials are no longer valid. `None` for guests and for others whose rights do not end, so
    /// that they cost nothing.
    pub(super) access_end: Option<AccessEnd>,
    /// The hello whose credentials are being looked at. No frame is read meanwhile.
    pub(super) hello: Option<PendingHello>,
    /// The owners of the budgets that requests are charged to.
    pub(super) owners: Owners,
    pub(super) answers: Arc<AnswerQueue>,
    /// `answers`, as the node takes it.
    pub(super) sink: Arc<dyn ReplySink>,
    /// Answers that were taken from `answers` and not passed on yet.
    pub(super) taken: VecDeque<Waiting>,
    pub(super) under_way: UnderWay,
    pub(super) cart_queues: CartQueues,
    pub(super) batches: Vec<Option<Batch>>,
    pub(super) queries: FuturesUnordered<Pin<Box<dyn Future<Output = FinishedQuery> + Send>>>,
    /// The number of `queries` that are audits.
    pub(super) audits_under_way: usize,
    /// Made with the first `watch`, in the runtime for watching.
    pub(super) watcher: Option<Watcher>,
    /// Until when the client counts as one that reads more slowly than its feeds go on.
    pub(super) behind_until: Option<Instant>,
    /// Watches that wait for another node.
    pub(super) awaited: Awaited,
    /// The first `watch`, on its way to the runtime for watching.
    pub(super) migrating_watch: Option<Request>,
    pub(super) malformed: u32,
    /// The number of requests beyond the rate of the client's network, and since when they are counted.
    pub(super) over_rate: Option<(Instant, u32)>,
    pub(super) known_phase: Phase,
    /// Bytes read and written that are counted already.
    pub(super) counted: (u64, u64),
    /// Whether its place in the roster is one with feeds.
    pub(super) has_feeds: bool,
    pub(super) watchers: GaugeGuard,
    pub(super) submitted: GaugeGuard,
    /// Memory of the incomplete message.
    pub(super) room: GaugeGuard,
    /// Memory of frames that are not sent yet.
    pub(super) unsent: UnsentPart,
    _socket: GaugeGuard,
    pub(super) permit: Arc<ConnectionPermit>,
}

impl Connection {
    pub(super) fn new(accepted: AcceptedSocket, shared: Arc<Shared>) -> Connection {
        let AcceptedSocket { stream, session, read, encoding, caller, permit } = accepted;
        let answers = Arc::new(AnswerQueue::new(Arc::clone(&permit.unsent)));
        Connection {
            frames: Frames::new(Socket::new(stream, session, read), encoding, Arc::clone(&permit.unsent)),
            timers: Timers::new(Instant::now(), &shared.config.limits),
            owners: caller.owners(&permit),
            access_end: caller.access.end(&shared),
            hello: None,
            caller,
            sink: Arc::clone(&answers) as Arc<dyn ReplySink>,
            answers,
            taken: VecDeque::new(),
            under_way: UnderWay::default(),
            cart_queues: CartQueues::default(),
            batches: Vec::new(),
            queries: FuturesUnordered::new(),
            audits_under_way: 0,
            watcher: None,
            behind_until: None,
            awaited: Awaited::default(),
            migrating_watch: None,
            malformed: 0,
            over_rate: None,
            known_phase: Phase::Open,
            counted: (0, 0),
            has_feeds: false,
            watchers: GaugeGuard::new(&shared, |metrics: &Metrics| &metrics.watchers, 0),
            submitted: GaugeGuard::new(&shared, |metrics: &Metrics| &metrics.under_way, 0),
            room: GaugeGuard::new(&shared, |metrics: &Metrics| &metrics.frame_bytes, 0),
            unsent: permit.unsent.part(),
            _socket: GaugeGuard::new(&shared, |metrics: &Metrics| &metrics.sockets, 1),
            permit,
            shared,
        }
    }

    pub(super) fn into_frames(self: Box<Self>) -> Frames {
        self.frames
    }

    /// Sets the length of frames that the client may send. The long frames of an import take much memory.
    pub(super) fn set_frame_bytes_max(&mut self) {
        let roles = self.caller.access.roles;
        let open = Op::ALL.into_iter().filter(|op| op.is_open_to(roles));
        self.frames.set_bytes_max(open.map(Op::frame_bytes_max).max().unwrap_or(limits::FRAME_BYTES_MAX));
    }
}
