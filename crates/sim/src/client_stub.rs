//! How buyers send commands: one command to one node with a deadline, and again with the same request id until its
//! outcome is known.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, Answered, CartAudit, CartState, Claim, Outcome},
    command::{CartCommand, Command},
    id::{Entity, Id, Request, RequestHash},
    portion::Content,
    refusal::Refusal,
};
use boxoffice_node::api::{self, Failure, ReplySink, ReplyTo};
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    gateway::Webhooks, machine::Machine, network::SimNetwork, oracle::Oracle, rng::around, shown::Times, trace::Trace,
    wall_clocks::WallClocks,
};

/// Time-outs of attempts. Some are shorter than any change of leaders.
const TIMEOUTS_MS: [u64; 4] = [300, 1_000, 5_000, 5_000];
/// The time in which an answer at the time-out still arrives, in milliseconds.
const LATE_MS: u64 = 100;
/// A client that knows that nothing happened gives up this many times as often.
const GIVES_UP_SOONER: u32 = 4;

/// Attempts of a repeated change.
const REPEATS: usize = 4;
/// How long after a pause a node may still believe that it leads, in milliseconds.
const DEPOSED_MS: u64 = 10_000;

/// The limit for a read, longer than any fault.
const READ_MS: u64 = 600_000;

/// Whether a content was bought under an offer.
fn is_offered(content: &Content) -> bool {
    match content {
        Content::Seats(seats) => seats.iter().any(|priced| priced.bought_as.is_some()),
        Content::Places { bought_as, .. } => bought_as.is_some(),
        Content::Units { .. } | Content::Slot { .. } => false,
    }
}

/// The client of the cluster that all tasks share.
pub(crate) struct ClientStub {
    pub(crate) machines: Vec<Arc<Machine>>,
    /// The cluster's id, once it is founded.
    cluster: OnceLock<u128>,
    /// When everything was healed, in milliseconds of the run.
    pub(crate) healed_ms: OnceLock<u64>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) oracle: Mutex<Oracle>,
    pub(crate) wall_clocks: WallClocks,
    pub(crate) network: SimNetwork,
    /// The life of a cart after a touch, in milliseconds.
    life_ms: u64,
    /// The number of granted changes, and the machine that answered the last one.
    pub(crate) granted: watch::Sender<(u64, u64)>,
}

/// The end of a change.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// One attempt was answered.
    Known {
        /// The answer or refusal.
        outcome: Outcome,
        /// When the first attempt was made, in milliseconds of the run.
        called_ms: u64,
        /// When the answer came.
        acked_ms: u64,
        /// The outcome of an earlier attempt is unknown. After a refusal that attempt may still take effect.
        maybe: bool,
        /// The request of all attempts.
        request: Request,
    },
    /// It did not happen.
    Not,
    /// It may have happened, or may happen later.
    Unknown,
}

impl Ended {
    /// The answer, if it was granted.
    pub(crate) fn granted(&self) -> Option<&Answered> {
        match self {
            Ended::Known { outcome: Ok(answered), .. } => Some(answered),
            Ended::Known { outcome: Err(_), .. } | Ended::Not | Ended::Unknown => None,
        }
    }

    /// The refusal, if it was refused.
    pub(crate) fn refused(&self) -> Option<&Refusal> {
        match self {
            Ended::Known { outcome: Err(refusal), .. } => Some(refusal),
            Ended::Known { outcome: Ok(_), .. } | Ended::Not | Ended::Unknown => None,
        }
    }
}

struct AnswerSlot(Mutex<Option<oneshot::Sender<api::Result>>>);

impl ReplySink for AnswerSlot {
    fn answer(&self, _: u64, result: api::Result) {
        if let Some(sender) = self.0.lock().take() {
            // The attempt may have timed out.
            let _ = sender.send(result);
        }
    }
}

impl Webhooks for ClientStub {
    fn deliver<'a>(&'a self, rng: &'a mut SmallRng, paid: Command) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move { self.attempt(rng, paid, None).await.is_ok() })
    }
}

impl ClientStub {
    pub(crate) fn new(
        machines: Vec<Arc<Machine>>,
        (trace, network): (Arc<Trace>, SimNetwork),
        wall_clocks: WallClocks,
        life_ms: u64,
    ) -> ClientStub {
        let (cluster, healed_ms, oracle) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let granted = watch::Sender::new((0, 0));
        ClientStub { machines, cluster, healed_ms, trace, oracle, wall_clocks, network, life_ms, granted }
    }

    /// Machines that are members of the cluster.
    pub(crate) fn members(&self) -> Vec<Arc<Machine>> {
        self.machines.iter().filter(|machine| machine.is_member()).cloned().collect()
    }

    pub(crate) fn set_cluster_id(&self, cluster: u128) {
        self.cluster.set(cluster).expect("a cluster is founded once");
    }

    /// The life of a cart after a touch, in milliseconds.
    pub(crate) fn life_ms(&self) -> u64 {
        self.life_ms
    }

    pub(crate) fn cluster_id(&self) -> u128 {
        *self.cluster.get().expect("it was founded at the begin")
    }

    /// One attempt at a random node.
    pub(crate) async fn attempt(&self, rng: &mut SmallRng, command: Command, request: Option<Request>) -> api::Result {
        let members = self.members();
        let machine = members.choose(rng).expect("a cluster has members");
        let timeout_ms = *TIMEOUTS_MS.choose(rng).expect("there are some");
        self.attempt_at(machine, (command, request), timeout_ms).await
    }

    /// One attempt at this node.
    async fn attempt_at(
        &self,
        machine: &Machine,
        (command, request): (Command, Option<Request>),
        timeout_ms: u64,
    ) -> api::Result {
        let (sender, receiver) = oneshot::channel();
        let reply = ReplyTo::new(Arc::new(AnswerSlot(Mutex::new(Some(sender)))), 0).with_timeout(timeout_ms);
        machine.submit(command, request, reply);
        let result = match timeout(Duration::from_millis(timeout_ms + LATE_MS), receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(Failure::Unknown),
        };
        if let (Ok(Ok(_)), Some(_)) = (&result, request) {
            self.granted.send_modify(|(count, last)| (*count, *last) = (*count + 1, machine.number));
        }
        result
    }

    /// Tries a change until its outcome is known. After one in `gives_up` unknown outcomes it gives up.
    pub(crate) async fn change(&self, rng: &mut SmallRng, who: &str, command: Command, gives_up: u32) -> Ended {
        let number: u64 = rng.random();
        let request = Request { id: RequestHash(number), body: number };
        let entity = command.entity();
        let called_ms = self.trace.now_ms();
        let mut maybe = false;
        loop {
            let result = self.attempt(rng, command.clone(), Some(request)).await;
            let acked_ms = self.trace.now_ms();
            match result {
                // The first attempt is still under way.
                Ok(Err(Refusal::InProgress | Refusal::PaymentPending)) => {
                    maybe = true;
                    // A gateway may be out for longer than clients wait.
                    if rng.random_range(0..gives_up.saturating_mul(4)) == 0 {
                        return Ended::Unknown;
                    }
                }
                Ok(outcome) => {
                    self.note(who, &command, &outcome);
                    self.oracle.lock().tally.ended(&command, &outcome);
                    self.look_at_offers(who, (&command, &outcome), (called_ms, acked_ms));
                    if let Ok(answered) = &outcome {
                        let mut oracle = self.oracle.lock();
                        oracle.changed(&(entity, number), (called_ms, acked_ms), &answered.at);
                        self.look_at_times(&mut oracle, who, (called_ms, acked_ms), &answered.answer);
                        if let Answer::Order { order, .. } = &answered.answer {
                            let wrong = self.wall_clocks.wrong_date(order.at, (called_ms, acked_ms));
                            wrong.into_iter().for_each(|wrong| oracle.violation(format!("{who}: {wrong}")));
                        }
                    }
                    return Ended::Known { outcome, called_ms, acked_ms, maybe, request };
                }
                Err(failure) => {
                    maybe |= matches!(failure, Failure::Unknown | Failure::Internal);
                    self.not_answered(who, (&command, false), failure);
                    self.trace.note(&format!("{who}: {failure:?}"));
                    let chance = if maybe { gives_up } else { gives_up / GIVES_UP_SOONER };
                    if rng.random_range(0..chance) == 0 {
                        return if maybe { Ended::Unknown } else { Ended::Not };
                    }
                }
            }
            sleep(Duration::from_millis(around(rng, 500))).await;
        }
    }

    /// Checks that offers sell from their begin on, and never before.
    fn look_at_offers(&self, who: &str, (command, outcome): (&Command, &Outcome), (called_ms, acked_ms): Times) {
        let mut oracle = self.oracle.lock();
        match outcome {
            Ok(Answered { answer: Answer::Held(held), .. }) => {
                for line in &held.lines {
                    let (Entity::Session(session), true) = (&line.entity, is_offered(&line.content)) else { continue };
                    // Members buy before everybody else.
                    if line.content.uses() == 0 {
                        oracle.sells(session, acked_ms);
                    }
                    if let Command::Cart(_, CartCommand::Hold { guest: true, .. }) = command {
                        let is_early = |release_at| self.wall_clocks.is_early(release_at, acked_ms);
                        let kept = oracle.kept_of(session, line.content.seats(), is_early);
                        if !kept.is_empty() {
                            oracle.violation(format!("{who}: a guest has {kept:?} of {session}, which are kept"));
                        }
                    }
                }
            }
            Ok(_) => {}
            Err(refusal) => {
                let Command::Cart(_, CartCommand::Hold { lines, .. }) = command else { return };
                let refused: Vec<(usize, &Refusal)> = match refusal {
                    Refusal::Lines(all) => all.iter().map(|one| (usize::from(one.line), &one.refusal)).collect(),
                    one => vec![(0, one)],
                };
                for (place, refusal) in refused {
                    let Refusal::NotOnSale { opens_at: Some(opens_at), .. } = refusal else { continue };
                    if let Some(Entity::Session(session)) = lines.get(place).map(|line| &line.entity) {
                        oracle.opens_at.entry(session.clone()).or_insert(*opens_at);
                        oracle.not_open_yet(session, called_ms);
                    }
                }
            }
        }
        let early: Vec<Id> = oracle.early(|opens_at, first_ms| self.wall_clocks.is_early(opens_at, first_ms));
        for session in early {
            oracle.violation(format!("{who}: session {session} has sold before its sale has opened"));
        }
    }

    /// Repeats a change with a final outcome. The answer must be the same, or unknown.
    pub(crate) async fn repeat(
        &self,
        rng: &mut SmallRng,
        who: &str,
        command: Command,
        (request, refused): (Request, Option<Refusal>),
    ) {
        let entity = command.entity();
        for _ in 0..REPEATS {
            match self.attempt(rng, command.clone(), Some(request)).await {
                Ok(Err(Refusal::InProgress)) => {}
                Ok(outcome) => {
                    self.note(who, &command, &outcome);
                    let mut oracle = self.oracle.lock();
                    oracle.tally.count(if refused.is_none() { "repeats" } else { "repeats of declines" });
                    match (outcome, refused) {
                        (Ok(answered), None) => oracle.answered_again(&(entity, request.body), &answered.at),
                        (Err(refusal), Some(before)) if refusal == before => {}
                        (outcome, Some(before)) => {
                            oracle.violation(format!("{who}: {command:?} was told {before}, and then {outcome:?}"));
                        }
                        (Err(refusal), None) => {
                            oracle.violation(format!(
                                "{who}: {command:?} was granted, and its repeat is refused: {refusal}"
                            ));
                        }
                    }
                    return;
                }
                Err(failure) => self.not_answered(who, (&command, true), failure),
            }
            sleep(Duration::from_millis(around(rng, 500))).await;
        }
    }

    /// Checks an attempt without an answer. A change that gives something back is never shed, nor is the repeat of a
    /// granted checkout. Only carts are checked, because other entities may have left memory or may not be known at the
    /// node yet.
    fn not_answered(&self, who: &str, (command, was_granted): (&Command, bool), failure: Failure) {
        let mut oracle = self.oracle.lock();
        oracle.unanswered(failure);
        // A late attempt is busy with 0 and has no time for another one.
        let Failure::Busy(1..) = failure else { return };
        let Command::Cart(_, of_cart) = command else { return };
        oracle.tally.count("shed");
        match of_cart {
            CartCommand::Release { .. }
            | CartCommand::Cancel
            | CartCommand::CancelCheckout { .. }
            | CartCommand::Refund { .. } => {
                oracle.violation(format!("{who}: {command:?} gives something back and was shed"));
            }
            // A paused ex-leader does not know what its successor granted.
            CartCommand::Checkout { .. } if was_granted && !self.has_just_gone_on() => {
                oracle.violation(format!("{who}: {command:?} had an outcome, and its repeat was shed"));
            }
            _ => {}
        }
    }

    /// Whether a node has just resumed after a pause.
    fn has_just_gone_on(&self) -> bool {
        let now_ms = self.trace.now_ms();
        let recent = |went_on_ms: u64| went_on_ms > 0 && now_ms - went_on_ms < DEPOSED_MS;
        self.members().iter().any(|machine| recent(machine.went_on_ms()))
    }

    /// Tries a read until it is answered. `None`, with a violation, if that takes longer than any fault.
    pub(crate) async fn read(&self, rng: &mut SmallRng, who: &str, command: Command) -> Option<Outcome> {
        let until_ms = self.trace.now_ms() + READ_MS;
        loop {
            let called_ms = self.trace.now_ms();
            match self.attempt(rng, command.clone(), None).await {
                Ok(outcome) => {
                    self.read_was(who, &command, called_ms, &outcome);
                    return Some(outcome);
                }
                Err(_) if called_ms > until_ms => {
                    let what = format!("{who} has tried to read {} for {READ_MS} ms", command.entity());
                    self.oracle.lock().violation(what);
                    return None;
                }
                Err(failure) => self.oracle.lock().unanswered(failure),
            }
            sleep(Duration::from_millis(around(rng, 500))).await;
        }
    }

    /// Tries a read once at this node.
    pub(crate) async fn read_once(&self, machine: &Machine, who: &str, command: Command) {
        let called_ms = self.trace.now_ms();
        let timeout_ms = TIMEOUTS_MS[0];
        match self.attempt_at(machine, (command.clone(), None), timeout_ms).await {
            Ok(outcome) => self.read_was(who, &command, called_ms, &outcome),
            Err(failure) => self.oracle.lock().unanswered(failure),
        }
    }

    /// Checks an answered read.
    fn read_was(&self, who: &str, command: &Command, called_ms: u64, outcome: &Outcome) {
        self.note(who, command, outcome);
        if let Ok(answered) = outcome {
            let times = (called_ms, self.trace.now_ms());
            let mut oracle = self.oracle.lock();
            oracle.read(times, answered);
            self.look_at_times(&mut oracle, who, times, &answered.answer);
        }
    }

    /// Checks the holds of a live cart or an order. A hold that it disowned before `before_ms` must be no line. Later
    /// an inventory may have asked about a hold of an order once more before its sale.
    pub(crate) fn disowned(&self, audit: &CartAudit, before_ms: u64) -> Option<String> {
        if !matches!(audit.cart.state, CartState::Active | CartState::Done) || !self.network.disowns(audit.cart.id) {
            return None;
        }
        self.oracle.lock().tally.count("carts looked at that had disowned a hold");
        let told = |claim: &&Claim| self.network.disowned_ms(claim.hold, &claim.entity);
        let disowned = |claim: &&Claim| told(claim).filter(|at_ms| *at_ms < before_ms);
        let line =
            audit.holds.iter().filter(|claim| claim.portion.is_some()).find(|claim| disowned(claim).is_some())?;
        let at_ms = disowned(&line);
        Some(format!("cart {} has {line:?}, of which it said {at_ms:?} that it is not its own", audit.cart.id))
    }

    /// Checks the times in an answer.
    fn look_at_times(&self, oracle: &mut Oracle, who: &str, times: Times, answer: &Answer) {
        let wrong = self.wall_clocks.wrong(answer, self.life_ms, times);
        wrong.into_iter().for_each(|wrong| oracle.violation(format!("{who}: {wrong}")));
    }

    fn note(&self, who: &str, command: &Command, outcome: &Outcome) {
        let entity = command.entity();
        match outcome {
            Ok(answered) => {
                let at: Vec<String> =
                    answered.at.iter().map(|at| format!("{}@{}/{}", at.entity, at.version, at.position)).collect();
                self.trace.note(&format!("{who}: {entity} ok {}", at.join(" ")));
            }
            Err(refusal) => self.trace.note(&format!("{who}: {entity} {}", refusal.name())),
        }
    }
}
