//! How buyers ask: one command at a node, with a deadline; and again with the same request id until something is known.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use boxoffice_core::{
    answer::{Answer, Answered, CartAudit, CartState, Claim, Outcome},
    command::{CartCommand, Command},
    id::{Request, RequestHash},
    refusal::Refusal,
};
use boxoffice_node::door::{self, Failure, ReplySink, ReplyTo};
use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::{
    gateway::Webhooks, machine::Machine, network::SimNetwork, oracle::Oracle, rng::around, shown::Times, trace::Trace,
    wall_clocks::WallClocks,
};

/// How long one attempt waits for its answer: some are too impatient for any change of leaders.
const TIMEOUTS_MS: [u64; 4] = [300, 1_000, 5_000, 5_000];
/// An answer that comes at the last moment is on its way for so long at the most, in milliseconds.
const LATE_MS: u64 = 100;
/// Who is certain that nothing happened gives up so many times as often.
const GIVES_UP_SOONER: u32 = 4;

/// How often something is tried that was granted already.
const REPEATS: usize = 4;
/// How long after a pause a node may still take itself for a leader that it no longer is, in milliseconds.
const DEPOSED_MS: u64 = 10_000;

/// Longer than any trouble: so long a read is tried.
const READ_MS: u64 = 600_000;

/// The way to the cluster for everybody who asks.
pub(crate) struct ClientStub {
    /// All machines.
    pub(crate) machines: Vec<Arc<Machine>>,
    /// The cluster's id, once it is founded.
    cluster: OnceLock<u128>,
    /// When everything was healed, in milliseconds of the run.
    pub(crate) healed_ms: OnceLock<u64>,
    /// What happens.
    pub(crate) trace: Arc<Trace>,
    /// What was answered.
    pub(crate) oracle: Mutex<Oracle>,
    /// What all walls show.
    pub(crate) wall_clocks: WallClocks,
    /// The links.
    pub(crate) network: SimNetwork,
    /// How long a cart lives that was just touched, in milliseconds.
    life_ms: u64,
}

/// How a change ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// It was answered; the answer is of one attempt, the first of which began then.
    Known {
        /// The answer or refusal.
        outcome: Outcome,
        /// When the first attempt was made, in milliseconds of the run.
        called_ms: u64,
        /// When the answer came.
        acked_ms: u64,
        /// An attempt before it ended without anybody knowing how: if this is a refusal, that one may still take
        /// effect.
        maybe: bool,
        /// What it was asked with.
        request: Request,
    },
    /// It did not happen.
    Not,
    /// It may or may not have happened, now or later.
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
}

struct Slot(Mutex<Option<oneshot::Sender<door::Result>>>);

impl ReplySink for Slot {
    fn answer(&self, _: u64, result: door::Result) {
        if let Some(sender) = self.0.lock().take() {
            // The attempt may have been given up.
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
    /// The way to these machines.
    pub(crate) fn new(
        machines: Vec<Arc<Machine>>,
        (trace, network): (Arc<Trace>, SimNetwork),
        wall_clocks: WallClocks,
        life_ms: u64,
    ) -> ClientStub {
        let (cluster, healed_ms, oracle) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        ClientStub { machines, cluster, healed_ms, trace, oracle, wall_clocks, network, life_ms }
    }

    /// Machines that are members of the cluster.
    pub(crate) fn members(&self) -> Vec<Arc<Machine>> {
        self.machines.iter().filter(|machine| machine.is_member()).cloned().collect()
    }

    /// The cluster is founded.
    pub(crate) fn set_cluster_id(&self, cluster: u128) {
        self.cluster.set(cluster).expect("a cluster is founded once");
    }

    /// How long a cart lives that was just touched, in milliseconds.
    pub(crate) fn life_ms(&self) -> u64 {
        self.life_ms
    }

    /// The cluster's id.
    pub(crate) fn cluster_id(&self) -> u128 {
        *self.cluster.get().expect("it was founded at the begin")
    }

    /// One attempt at a random node.
    pub(crate) async fn attempt(&self, rng: &mut SmallRng, command: Command, request: Option<Request>) -> door::Result {
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
    ) -> door::Result {
        let (sender, receiver) = oneshot::channel();
        let reply = ReplyTo::new(Arc::new(Slot(Mutex::new(Some(sender)))), 0).within(timeout_ms);
        machine.submit(command, request, reply);
        match timeout(Duration::from_millis(timeout_ms + LATE_MS), receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(Failure::Unknown),
        }
    }

    /// A change, tried until it is known how it ended; or, one time in `gives_up` unknowns, left as it is.
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
                    // A gateway may be away for longer than anybody waits.
                    if rng.random_range(0..gives_up.saturating_mul(4)) == 0 {
                        return Ended::Unknown;
                    }
                }
                Ok(outcome) => {
                    self.note(who, &command, &outcome);
                    self.oracle.lock().tally.ended(&command, &outcome);
                    if let Ok(answered) = &outcome {
                        let mut oracle = self.oracle.lock();
                        oracle.changed((&entity, number), (called_ms, acked_ms), &answered.at);
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

    /// A change that was granted, or refused for good, asked for once more: it is told the same, or nothing is known of
    /// it.
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
                        (Ok(answered), None) => oracle.answered_again((&entity, request.body), &answered.at),
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

    /// An attempt was not answered. What gives something back is never shed, and neither is the repeat of what was
    /// granted: a cart is asked here, for other things may have left memory, or not yet have come to the node that is
    /// asked.
    fn not_answered(&self, who: &str, (command, was_granted): (&Command, bool), failure: Failure) {
        let mut oracle = self.oracle.lock();
        oracle.unanswered(failure);
        // Too late is another thing: it has no time to try again.
        let Failure::Busy(1..) = failure else { return };
        let Command::Cart(_, of_cart) = command else { return };
        oracle.tally.count("shed");
        match of_cart {
            CartCommand::Release { .. } | CartCommand::Cancel | CartCommand::Refund { .. } => {
                oracle.violation(format!("{who}: {command:?} gives something back and was shed"));
            }
            // A leader that stood still does not know what its successor granted.
            CartCommand::Checkout { .. } if was_granted && !self.has_just_gone_on() => {
                oracle.violation(format!("{who}: {command:?} had an outcome, and its repeat was shed"));
            }
            _ => {}
        }
    }

    /// Whether a node went on a moment ago after it had stood still.
    fn has_just_gone_on(&self) -> bool {
        let now_ms = self.trace.now_ms();
        let recent = |went_on_ms: u64| went_on_ms > 0 && now_ms - went_on_ms < DEPOSED_MS;
        self.members().iter().any(|machine| recent(machine.went_on_ms()))
    }

    /// A read, tried until it is answered; `None`, and a violation, if nothing troubles anybody for longer than that
    /// takes.
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

    /// A read at this node, tried once.
    pub(crate) async fn read_once(&self, machine: &Machine, who: &str, command: Command) {
        let called_ms = self.trace.now_ms();
        let timeout_ms = TIMEOUTS_MS[0];
        match self.attempt_at(machine, (command.clone(), None), timeout_ms).await {
            Ok(outcome) => self.read_was(who, &command, called_ms, &outcome),
            Err(failure) => self.oracle.lock().unanswered(failure),
        }
    }

    /// A read that began then was answered just now.
    fn read_was(&self, who: &str, command: &Command, called_ms: u64, outcome: &Outcome) {
        self.note(who, command, outcome);
        if let Ok(answered) = outcome {
            let times = (called_ms, self.trace.now_ms());
            let mut oracle = self.oracle.lock();
            oracle.read(times, answered);
            self.look_at_times(&mut oracle, who, times, &answered.answer);
        }
    }

    /// What is wrong with the holds of a cart that lives or has become an order: one that it had disowned before then
    /// is no line. Of what an order has bought, the inventory may have asked once more before it was sold.
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

    /// What is told of times must fit the walls.
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
