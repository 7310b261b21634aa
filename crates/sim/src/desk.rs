//! How buyers ask: one command at a node, with a deadline; and again with the same request id until something is known.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    answer::{Answered, Outcome},
    command::Command,
    id::{Request, RequestHash},
    refusal::Refusal,
};
use boxoffice_node::door::{self, Failure, ReplySink, ReplyTo};
use parking_lot::Mutex;
use rand::{Rng, rngs::SmallRng};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::{dice::around, machine::Machine, oracle::Oracle, trace::Trace};

/// How long one attempt waits for its answer.
const ATTEMPT_MS: u64 = 5_000;

/// The way to the cluster for everybody who asks.
pub(crate) struct Desk {
    /// All machines.
    pub(crate) machines: Vec<Arc<Machine>>,
    /// What happens.
    pub(crate) trace: Arc<Trace>,
    /// What was answered.
    pub(crate) oracle: Mutex<Oracle>,
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

impl Desk {
    /// One attempt at a random node.
    pub(crate) async fn attempt(
        &self,
        dice: &mut SmallRng,
        command: Command,
        request: Option<Request>,
    ) -> door::Result {
        let (sender, receiver) = oneshot::channel();
        let reply = ReplyTo::new(Arc::new(Slot(Mutex::new(Some(sender)))), 0);
        self.machines[dice.random_range(0..self.machines.len())].submit(command, request, reply);
        match timeout(Duration::from_millis(ATTEMPT_MS), receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(Failure::Unknown),
        }
    }

    /// A change, tried until it is known how it ended; or, one time in `gives_up` unknowns, left as it is.
    pub(crate) async fn change(&self, dice: &mut SmallRng, who: &str, command: Command, gives_up: u32) -> Ended {
        let number: u64 = dice.random();
        let request = Request { id: RequestHash(number), body: number };
        let entity = command.entity();
        let called_ms = self.trace.now_ms();
        let mut maybe = false;
        loop {
            let result = self.attempt(dice, command.clone(), Some(request)).await;
            let acked_ms = self.trace.now_ms();
            match result {
                // The first attempt is still under way.
                Ok(Err(Refusal::InProgress)) => maybe = true,
                Ok(outcome) => {
                    self.note(who, &command, &outcome);
                    if let Ok(answered) = &outcome {
                        let mut oracle = self.oracle.lock();
                        oracle.changed((&entity, number), (called_ms, acked_ms), &answered.at);
                    }
                    return Ended::Known { outcome, called_ms, acked_ms };
                }
                Err(failure) => {
                    maybe |= failure == Failure::Unknown;
                    self.oracle.lock().unanswered(failure);
                    self.trace.note(&format!("{who}: {failure:?}"));
                    if dice.random_range(0..gives_up) == 0 {
                        return if maybe { Ended::Unknown } else { Ended::Not };
                    }
                }
            }
            sleep(Duration::from_millis(around(dice, 500))).await;
        }
    }

    /// A read, tried until it is answered.
    pub(crate) async fn read(&self, dice: &mut SmallRng, who: &str, command: Command) -> Outcome {
        loop {
            let called_ms = self.trace.now_ms();
            match self.attempt(dice, command.clone(), None).await {
                Ok(outcome) => {
                    self.note(who, &command, &outcome);
                    if let Ok(answered) = &outcome {
                        self.oracle.lock().read((called_ms, self.trace.now_ms()), answered);
                    }
                    return outcome;
                }
                Err(failure) => self.oracle.lock().unanswered(failure),
            }
            sleep(Duration::from_millis(around(dice, 500))).await;
        }
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
