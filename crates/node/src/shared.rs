//! What every part of a node shares, and the ways between its parts.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, Answered},
    ask::Ask,
    command::{CartCommand, ClusterCommand, Command},
    host::{Effect, Input},
    id::{Entity, Request},
    payment::{GatewayCall, GatewayOutcome},
    refusal::Refusal,
};
use boxoffice_env::{DurablePosition, Lane, StoreError, World};
use boxoffice_feeds::Feeds;
use boxoffice_shard::{NodeId, ShardId, ring::shard_of};
use boxoffice_storage::{
    archive_files::ArchiveFiles,
    data_epoch::EpochTracker,
    history::{HistoryStore, HistoryStoreError},
    identity::{ClusterId, DataDirectory},
    peer_positions::PeerPositions,
    snapshot_files::SnapshotFiles,
};
use boxoffice_wire::{FirstCommand, joining};
use bytes::Bytes;

use crate::{
    actor::{self, AtWork, Letter},
    admission::{Admission, Class},
    cell::{self, Caller, Served, ShardCell},
    clocks::Clocks,
    config::NodeConfig,
    contain::PanicLog,
    door::{Failure, ReplyTo},
    far_feeds::FarFeeds,
    joint::{Lent, Loan},
    metrics::Metrics,
    pool::Pool,
    replicators::Replicators,
    routing::{self, Asked, Calls, Histories, Message as Far, Parked, Waiting},
    status::Samples,
    streams::Streams,
    tasks::Tasks,
    ticket::Ticket,
    timers::Timers,
};

/// How long the replication waits before it tries again to read a store for which there is no room.
const STORE_AGAIN: Duration = Duration::from_millis(100);

/// The shard of the directory: its number is not worked out from a key.
const DIRECTORY_SHARD: u16 = 0;

/// What else is known of a command for an entity that this node leads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    /// The command is decided only in this term.
    pub(crate) term: Option<u64>,
    /// An attempt before this one may have been admitted.
    pub(crate) is_repeat: bool,
}

/// The parts of a node that all others reach.
pub(crate) struct Shared {
    pub(crate) config: NodeConfig,
    pub(crate) cluster: ClusterId,
    pub(crate) world: World,
    /// By number; the first is the directory's.
    pub(crate) cells: Vec<Arc<ShardCell>>,
    pub(crate) replicators: Replicators,
    pub(crate) timers: Timers,
    pub(crate) pool: Pool,
    pub(crate) tasks: Tasks,
    pub(crate) feeds: Feeds,
    pub(crate) metrics: Metrics,
    /// Which commands are taken.
    pub(crate) admission: Arc<Admission>,
    pub(crate) panic_log: PanicLog,
    pub(crate) samples: Samples,
    /// The node is going down: no new commands.
    pub(crate) draining: AtomicBool,
    /// The disk is nearly full: no new changes.
    pub(crate) read_only: AtomicBool,
    /// The disk has no room for what leaves memory.
    pub(crate) history_full: AtomicBool,
    /// Entities that have left memory. It is closed before the lock on the data directory ends.
    pub(crate) history: HistoryStore,
    /// Old segments of the log, and where those in use are.
    pub(crate) archives: ArchiveFiles,
    pub(crate) log_dir: std::path::PathBuf,
    /// Where snapshots are kept.
    pub(crate) snapshot_files: SnapshotFiles,
    /// Histories being read.
    pub(crate) histories: tokio::sync::Semaphore,
    /// No other node is in the cluster.
    pub(crate) alone: AtomicBool,
    /// Histories that are read at other nodes.
    pub(crate) far_histories: Histories,
    /// Clients' calls that may be at other nodes. By itself, so that who looks after it does not keep the node alive.
    pub(crate) calls: Arc<Calls>,
    /// Replies, and asks that nobody repeats, for shards whose leader is not known or cannot be sent anything.
    pub(crate) parked: Parked,
    /// Asks that other shards have not replied to. By itself, as the calls are.
    pub(crate) asked: Arc<Asked>,
    /// Snapshots on their way from and to other nodes.
    pub(crate) streams: Arc<Streams>,
    /// Feeds of entities that are on other nodes, and of ours that others watch.
    pub(crate) far_feeds: FarFeeds,
    /// What time it is.
    pub(crate) clocks: Clocks,
    /// To which epoch versions belong.
    pub(crate) epochs: EpochTracker,
    /// Something happened that the keeper of places wants to look at.
    pub(crate) placing: tokio::sync::Notify,
    /// Shards led here that have reached the target configuration of this version.
    pub(crate) reached: parking_lot::Mutex<std::collections::BTreeMap<u16, u64>>,
    /// Spreads what is sent without knowing a leader.
    pub(crate) turn: AtomicU16,
    /// How far the disks of the others are, as they have said.
    pub(crate) peer_positions: PeerPositions,
    /// Drawn when this process began.
    pub(crate) run: u64,
    /// When the leader of the directory was heard last, if that is another node; monotonic milliseconds.
    pub(crate) directory_heard_ms: AtomicU64,
    /// Up to which record the log is durable.
    pub(crate) durable: AtomicU64,
    /// Why the node cannot go on, once it cannot.
    pub(crate) failed: tokio::sync::watch::Sender<Option<String>>,
    /// When it was started, in monotonic milliseconds.
    pub(crate) started_ms: u64,
    /// Holds the lock on the data directory as long as anything of the node is alive.
    pub(crate) _directory: DataDirectory,
}

impl Shared {
    /// How far this node's disk is.
    pub(crate) fn durable_position(&self) -> DurablePosition {
        let disk = self._directory.identity().disk as u64;
        DurablePosition { disk, run: self.run, durable: self.durable.load(Ordering::Relaxed) }
    }

    /// Asks the store for what the replication cannot go on without. While there is no room to open it the node is
    /// read-only, and this waits.
    ///
    /// # Errors
    /// Others than want of room.
    pub(crate) fn patiently<T>(
        &self,
        ask: impl Fn(&HistoryStore) -> Result<T, HistoryStoreError>,
    ) -> Result<T, HistoryStoreError> {
        loop {
            match ask(&self.history) {
                Err(HistoryStoreError::Store(error)) if error.is_full() => self.wait_for_store(&error),
                answer => return answer,
            }
        }
    }

    /// Nothing is decided, and nobody is to rely on this node, before the store can be read again.
    pub(crate) fn wait_for_store(&self, error: &StoreError) {
        if !self.read_only.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the store cannot be read: only reads are served until it can");
            self.placing.notify_one();
        }
        thread::sleep(STORE_AGAIN);
    }

    /// The shard an entity lives in.
    pub(crate) fn cell_of(&self, entity: &Entity) -> &Arc<ShardCell> {
        let shard = match entity {
            Entity::Directory | Entity::Cluster => DIRECTORY_SHARD,
            _ => shard_of(entity.hash_prefix(), self.config.shards),
        };
        &self.cells[usize::from(shard)]
    }

    /// Takes a client's command: counts it against the node's admission and hands it to its entity's actor.
    pub(crate) fn submit(self: &Arc<Self>, command: Command, request: Option<Request>, reply: ReplyTo) {
        self.metrics.commands.fetch_add(1, Ordering::Relaxed);
        if self.draining.load(Ordering::Relaxed) {
            return reply.answer(Err(Failure::Draining));
        }
        if !self.knows_secret(&command) {
            return reply.answer(Ok(Err(Refusal::WrongSecret)));
        }
        if self.is_alone() {
            return self.take_here(command, request, Given::default(), reply);
        }
        if let Some(retry_after_ms) = self.sheds_far(&command, request) {
            return reply.answer(Err(Failure::Busy(retry_after_ms)));
        }
        self.calls.begin(self, command, request, reply);
    }

    /// Whether a client's command that comes now is shed, and then after how many milliseconds its client should try again. It
    /// is counted then, and not to be submitted.
    pub(crate) fn sheds(&self, command: &Command, request: Option<Request>) -> Option<u32> {
        if !self.admission.may_shed() || self.draining.load(Ordering::Relaxed) {
            return None;
        }
        let entity = command.entity();
        let cell = self.cell_of(&entity);
        if !self.is_alone() && !cell.leads() {
            return self.sheds_far(command, request);
        }
        let class = || match request {
            Some(request) if self.calls.knows(&entity, request.id) => None,
            Some(_) | None => cell.class_of(&entity, command, request),
        };
        self.sheds_now(class)
    }

    /// The same for a command of which only the head was read; `None` also where the rest of it would tell.
    pub(crate) fn sheds_first(&self, command: &dyn Fn() -> Option<FirstCommand>) -> Option<u32> {
        if !self.admission.may_shed() || self.draining.load(Ordering::Relaxed) {
            return None;
        }
        let command = command()?;
        let class = || match command {
            FirstCommand::Read => Some(Class::Read),
            FirstCommand::OpenCart { cart, rid } => {
                let cart = Entity::Cart(cart);
                match self.calls.knows(&cart, rid) {
                    true => None,
                    false => self.cell_of(&cart).class_of_opening(&cart, rid),
                }
            }
        };
        self.sheds_now(class)
    }

    /// The same for a command that another node decides. What that node may have admitted before is not shed here: only reads,
    /// and what begins a cart that this node has not heard of.
    fn sheds_far(&self, command: &Command, request: Option<Request>) -> Option<u32> {
        if !self.admission.may_shed() {
            return None;
        }
        let entity = command.entity();
        let cell = self.cell_of(&entity);
        if cell.leads() {
            return None;
        }
        let class = || match request {
            Some(request) if self.calls.knows(&entity, request.id) => None,
            Some(_) | None => cell.class_of(&entity, command, request).filter(|class| *class <= Class::Begin),
        };
        self.sheds_now(class)
    }

    fn sheds_now(&self, class: impl FnOnce() -> Option<Class>) -> Option<u32> {
        let retry_after_ms = self.admission.sheds(class, self.world.clock.monotonic_ms())?;
        self.metrics.busy.fetch_add(1, Ordering::Relaxed);
        Some(retry_after_ms)
    }

    fn is_busy(&self, retry_after_ms: u32, reply: ReplyTo) {
        self.metrics.busy.fetch_add(1, Ordering::Relaxed);
        reply.answer(Err(Failure::Busy(retry_after_ms)));
    }

    /// Whether a machine that wants to join shows that it knows what the nodes here show each other. Without it, it would
    /// become a member that no node deals with.
    fn knows_secret(&self, command: &Command) -> bool {
        let Command::Cluster(ClusterCommand::Join { node, machine, proof }) = command else { return true };
        let Some(secret) = &self.config.peer_secret else { return true };
        let shown = proof.as_ref().map_or(&[][..], |proof| &proof[..]);
        joining::is_proof(secret.as_ref(), &self.cluster.to_string(), *node, machine, shown)
    }

    /// Whether there is no other node.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// Whether an entity's shard has no replica here.
    pub(crate) fn is_elsewhere(&self, entity: &Entity) -> bool {
        !self.is_alone() && self.cell_of(entity).replica_here().is_none()
    }

    /// Whether a shard is on other nodes only, as the cluster's table says.
    pub(crate) fn is_far(&self, cell: &ShardCell) -> bool {
        cell.replica_here().is_none() && !cell.belief.lock().homes.is_empty()
    }

    /// Who leads a shard, as far as is known here.
    pub(crate) fn leader_of(&self, cell: &ShardCell) -> Option<NodeId> {
        if cell.leads() { Some(self.config.node_id) } else { cell.belief.lock().known() }
    }

    /// Whether every shard has a leader, as far as is known here; else how many have none.
    pub(crate) fn all_led(&self) -> Result<(), usize> {
        let is_led = |cell: &ShardCell| cell.leads() || cell.known_leader().is_some() || self.is_far(cell);
        match self.cells.iter().filter(|cell| !is_led(cell)).count() {
            0 => Ok(()),
            without => Err(without),
        }
    }

    /// Whether this node leads a shard that another node could lead.
    pub(crate) fn leads_for_others(&self) -> bool {
        !self.is_alone() && self.cells.iter().any(|cell| cell.leads() && cell.voters.load(Ordering::Relaxed) > 1)
    }

    /// Takes a command whose entity this node is believed to lead.
    pub(crate) fn take_here(
        self: &Arc<Self>,
        command: Command,
        request: Option<Request>,
        given: Given,
        reply: ReplyTo,
    ) {
        // What a gateway says has no request id and changes something all the same.
        let changes = request.is_some() || matches!(command, Command::Cart(_, CartCommand::Paid { .. }));
        if changes && self.read_only.load(Ordering::Relaxed) {
            return reply.answer(Err(Failure::ReadOnly));
        }
        let entity = command.entity();
        let cell = self.cell_of(&entity);
        let class = || if given.is_repeat { None } else { cell.class_of(&entity, &command, request) };
        let buys = matches!(command, Command::Cart(_, CartCommand::Checkout { .. }));
        let pass = match self.admission.admit(buys, class, self.world.clock.monotonic_ms()) {
            Ok(pass) => pass,
            Err(retry_after_ms) => return self.is_busy(retry_after_ms, reply),
        };
        let from = cell.enter(pass, request.map(|request| cell::key_of(&entity, request.id)), reply);
        let input = Input::Command { from, request, command };
        if let Err(Input::Command { from, .. }) = self.send_in(&entity, given.term, input) {
            from.answer(Err(Failure::NotReady));
        }
    }

    /// Puts an input into the mailbox of an entity's actor, starting one if need be; gives it back if this node does
    /// not lead the entity's shard.
    #[expect(clippy::result_large_err, reason = "it goes back to its sender; a box would cost every command")]
    pub(crate) fn send(self: &Arc<Self>, entity: &Entity, input: Input<Caller>) -> Result<(), Input<Caller>> {
        self.send_in(entity, None, input)
    }

    /// The same, if a term is given only while this node leads in it.
    #[expect(clippy::result_large_err, reason = "as above")]
    fn send_in(
        self: &Arc<Self>,
        entity: &Entity,
        term: Option<u64>,
        input: Input<Caller>,
    ) -> Result<(), Input<Caller>> {
        let cell = self.cell_of(entity);
        let mut lead = cell.lead.lock();
        let leads_in = lead.reign.map(|reign| reign.epoch.0);
        if term.is_some_and(|term| leads_in != Some(term)) {
            return Err(input);
        }
        let Some(served) = actor::served(self, cell, &mut lead, entity) else { return Err(input) };
        served.under_way.sent();
        // Sent under the lock, so that an actor that leaves its entity has seen every message for it.
        served.cast(Letter::Input(input));
        Ok(())
    }

    /// Takes up the state of an inventory for a cart that asks it. If messages wait for the inventory, it is sent the cart's host
    /// instead. The loan comes back if this node does not lead in that term.
    pub(crate) fn lend(self: &Arc<Self>, term: u64, loan: Box<Loan>) -> Lent {
        let cell = self.cell_of(&loan.inventory);
        let mut lead = cell.lead.lock();
        if lead.reign.is_none_or(|reign| reign.epoch.0 != term) {
            return Lent::Not(loan);
        }
        let Some(served) = actor::served(self, cell, &mut lead, &loan.inventory) else { return Lent::Not(loan) };
        // Nothing is sent while the lock is held: what the inventory is told it is told in order.
        if served.under_way.has_no_mail()
            && let Some(serving) = served.desk.borrow_if(|serving| serving.may_be_borrowed())
        {
            drop(lead);
            return Lent::Beside(loan, AtWork { served, serving });
        }
        served.under_way.sent();
        served.cast(Letter::Lent(loan));
        Lent::Sent
    }

    /// Wakes an entity only if an actor serves it: one that was dropped had nothing under way.
    pub(crate) fn wake_if_served(&self, entity: &Entity) {
        let lead = self.cell_of(entity).lead.lock();
        if let Some(served) = lead.actors.get(entity) {
            served.under_way.sent();
            served.cast(Letter::Input(Input::Wake));
        }
    }

    /// Does what the core said of the entity `from`.
    pub(crate) fn carry_out(self: &Arc<Self>, from: &Entity, effect: Effect<Caller>) {
        // An ask or reply that cannot be delivered is lost like one on a broken link: the asker asks again.
        match effect {
            Effect::Answer { to, outcome: Err(refusal) } if refusal.is_internal() => to.answer(Err(Failure::Internal)),
            Effect::Answer { to, mut outcome } => {
                // Only the node knows the epoch its watchers resume in.
                if let Ok(Answered { answer: Answer::Map(map), .. }) = &mut outcome {
                    map.epoch = self.feeds.epoch();
                }
                to.answer(Ok(outcome));
            }
            Effect::Ask { to, ask } => {
                self.note_ask(&to, from, &ask);
                if let Err(Input::Ask { from, ask }) = self.send(&to, Input::Ask { from: from.clone(), ask }) {
                    self.ask_far(&to, &from, &ask);
                }
            }
            Effect::Reply { to, reply } => {
                if self.is_between_shards(&to, from) {
                    self.asked.replied(self.cell_of(from).id, (from, &to), &reply);
                }
                if let Err(Input::Reply { from, reply }) = self.send(&to, Input::Reply { from: from.clone(), reply }) {
                    let (from, reply) = (Cow::Borrowed(&from), Cow::Borrowed(&reply));
                    self.reply_far(&to, Far::Reply { to: Cow::Borrowed(&to), from, reply });
                }
            }
            Effect::Pay(call) => self.pay(call),
        }
    }

    /// Whether what one entity says to the other may be lost although the term of the sender goes on: a term of one shard
    /// that ends takes with it what all its entities ask each other.
    fn is_between_shards(&self, to: &Entity, from: &Entity) -> bool {
        !self.is_alone() && self.cell_of(to).id != self.cell_of(from).id
    }

    /// Remembers an ask that wants a reply, wherever its shard is led: it is asked again when that has another leader.
    fn note_ask(&self, to: &Entity, from: &Entity, ask: &Ask) {
        if ask.wants_reply() && self.is_between_shards(to, from) {
            self.asked.note(self.cell_of(to).id, (to, from), ask, self.world.clock.monotonic_ms());
        }
    }

    /// Asks an entity at another node. What wants a reply is asked again until it has one, or the asker does so itself.
    fn ask_far(&self, to: &Entity, from: &Entity, ask: &Ask) {
        if self.is_alone() {
            return;
        }
        let cell = self.cell_of(to);
        let message = routing::encoded_ask(to, from, ask);
        if !ask.wants_reply() {
            return self.send_or_park(cell, message);
        }
        if !self.send_to_leader(cell, message) {
            self.asked.again(cell.id, false, self.world.clock.monotonic_ms());
        }
    }

    /// Asks once more whoever leads the shard now.
    pub(crate) fn ask_again(self: &Arc<Self>, shard: ShardId, message: Bytes) {
        let cell = &self.cells[usize::from(shard)];
        if cell.leads() {
            if let Ok(message) = Far::decode(&message) {
                routing::take(self, self.config.node_id, message);
            }
        } else if !self.send_to_leader(cell, message) {
            self.asked.again(shard, false, self.world.clock.monotonic_ms());
        }
    }

    /// Sends a reply to the node that leads its entity's shard, as far as is known.
    fn reply_far(&self, to: &Entity, message: Far<'_>) {
        if !self.is_alone() {
            self.send_or_park(self.cell_of(to), message.encode());
        }
    }

    fn send_or_park(&self, cell: &ShardCell, message: Bytes) {
        // Who was believed to lead and cannot be reached is not believed any more: somebody else may be known.
        if !self.send_to_leader(cell, message.clone()) && !self.send_to_leader(cell, message.clone()) {
            self.park(cell, [Waiting { message, came_from: None }]);
        }
    }

    fn park(&self, cell: &ShardCell, waiting: impl IntoIterator<Item = Waiting>) {
        self.parked.park(cell.id, waiting, self.world.clock.monotonic_ms() + routing::AGAIN_MS);
        self.asked.wake();
    }

    /// Passes on to the leader what the node `from` has sent here for an entity of a shard that this node does not lead, and
    /// does not send again. If it may have been passed on before, it waits a moment, so that nothing circles at the speed of
    /// the network while leaders change.
    pub(crate) fn pass_on(&self, cell: &ShardCell, (from, sender): (NodeId, &Entity), message: Bytes) {
        let is_first_hand = self.cell_of(sender).belief.lock().known() == Some(from);
        let waiting = Waiting { message, came_from: Some(from) };
        if !is_first_hand || !self.send_parked_one(cell, &waiting, false) {
            self.park(cell, [waiting]);
        }
    }

    /// Sends what waits for a leader of the shard; what cannot be sent goes on waiting. Who leads may be news.
    pub(crate) fn send_parked(self: &Arc<Self>, shard: ShardId, is_news: bool) {
        let cell = &self.cells[usize::from(shard)];
        let waiting = self.parked.take(shard);
        if !cell.leads() {
            let unsent = waiting.into_iter().filter(|waiting| !self.send_parked_one(cell, waiting, is_news));
            return self.park(cell, unsent.collect::<Vec<_>>());
        }
        for Waiting { message, .. } in waiting {
            if let Ok(message) = Far::decode(&message) {
                routing::take(self, self.config.node_id, message);
            }
        }
    }

    /// Sends one message that waits. What another node has sent here goes only to a node that is known to lead, and, unless
    /// that is news, not back.
    fn send_parked_one(&self, cell: &ShardCell, waiting: &Waiting, is_news: bool) -> bool {
        let Waiting { message, came_from } = waiting;
        let Some(came_from) = came_from else { return self.send_to_leader(cell, message.clone()) };
        let known = cell.belief.lock().known();
        let leader = known.filter(|node| *node != self.config.node_id && (is_news || node != came_from));
        leader.is_some_and(|node| self.send_to(cell, node, message.clone()))
    }

    /// Whether there is a node to send it to that can be reached.
    fn send_to_leader(&self, cell: &ShardCell, message: Bytes) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let leader = cell.leader(turn).filter(|node| *node != self.config.node_id);
        leader.is_some_and(|node| self.send_to(cell, node, message))
    }

    fn send_to(&self, cell: &ShardCell, node: NodeId, message: Bytes) -> bool {
        let sent = self.world.net.send(node, Lane::Calls, message);
        cell.note_sent(&sent);
        sent.is_ok()
    }

    /// A shard has a leader that may be another one than before: what waits for one goes to it.
    pub(crate) fn leader_changed(self: &Arc<Self>, shard: ShardId, leader: Option<NodeId>) {
        self.calls.leader_changed(self, shard, leader);
        if leader.is_none() {
            return;
        }
        self.asked.again(shard, true, self.world.clock.monotonic_ms());
        self.send_parked(shard, true);
    }

    /// The link to a node is up or lost: what was asked there and not replied to may be lost with it.
    pub(crate) fn link_changed(&self, node: NodeId, up: bool) {
        let now_ms = self.world.clock.monotonic_ms();
        for cell in self.cells.iter().filter(|cell| cell.belief.lock().known() == Some(node)) {
            self.asked.again(cell.id, up, now_ms);
        }
    }

    /// Asks the gateway; what it says goes to the cart that pays.
    fn pay(self: &Arc<Self>, call: GatewayCall) {
        let (key, step) = (call.key(), call.step());
        self.metrics.gateway_calls.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::downgrade(self);
        let done = move |outcome: GatewayOutcome| {
            let Some(shared) = shared.upgrade() else { return };
            shared.metrics.paid(&outcome);
            if let GatewayOutcome::Failed { reason } = &outcome {
                tracing::warn!(%key, ?step, %reason, "the payment gateway failed for good: an operator has to see to it");
            }
            // If the shard is led elsewhere by now, its new leader asks the gateway itself.
            drop(shared.send(&Entity::Cart(key.cart), Input::Paid { key, step, outcome }));
        };
        self.world.gateway.call(call, Box::new(done));
    }

    /// Carries out what was held back until the log had the turn at `index`.
    pub(crate) fn settle(self: &Arc<Self>, ticket: Ticket, index: u64) {
        let parts = || std::iter::once(&ticket).chain(ticket.cart.as_deref());
        for Ticket { versions: (_, until), served, .. } in parts() {
            if let Some(served) = served {
                served.committed.fetch_max(*until, Ordering::Release);
            }
        }
        let inventory = ticket.cart.is_some().then(|| (ticket.entity.clone(), ticket.versions.0));
        let Ticket { entity, versions: (after, _), events: _, effects, served, cart } = ticket;
        self.settle_part(&entity, (served, after), effects, index, None);
        if let Some(cart) = cart {
            let Ticket { entity, versions: (after, _), events: _, effects, served, cart: _ } = *cart;
            self.settle_part(&entity, (served, after), effects, index, inventory);
        }
    }

    /// The same of one entity; an answer of a cart tells of the inventory of a joint turn as well.
    fn settle_part(
        self: &Arc<Self>,
        entity: &Entity,
        (served, after): (Option<Arc<Served>>, u64),
        effects: Vec<Effect<Caller>>,
        index: u64,
        inventory: Option<(Entity, u64)>,
    ) {
        for mut effect in effects {
            if served.is_some() {
                set_position(&mut effect, entity, after, index);
            }
            if let Some((inventory, after)) = &inventory {
                set_position_in_answer(&mut effect, inventory, *after, index);
            }
            self.carry_out(entity, effect);
        }
        if let Some(served) = served.filter(|served| served.under_way.settled()) {
            actor::rests(self, &served);
        }
    }
}

/// What came of a turn says where that is: the versions of the entity after the one that the turn began with.
fn set_position(effect: &mut Effect<Caller>, entity: &Entity, after: u64, index: u64) {
    if let Effect::Reply { reply, .. } = effect {
        reply.set_position(index);
    }
    set_position_in_answer(effect, entity, after, index);
}

fn set_position_in_answer(effect: &mut Effect<Caller>, entity: &Entity, after: u64, index: u64) {
    if let Effect::Answer { outcome: Ok(answered), .. } = effect {
        for at in answered.at.iter_mut().filter(|at| at.entity == *entity && at.version > after) {
            at.position = index;
        }
    }
}
