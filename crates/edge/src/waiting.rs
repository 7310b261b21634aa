//! Waiting for the node: one command, several, or the items of a batch, until they are answered or their time is over.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use boxoffice_core::{command::Command, id::Request as RequestKey};
use boxoffice_node::door::{self, ReplySink, ReplyTo};
use boxoffice_wire::{
    Fail, FailKind, Rejection,
    call::{Item, Shape},
    encode::Verdict,
};
use tokio::time::{Instant, sleep_until};

use crate::{
    answers::Answers,
    batch::Batch,
    budgets::{Charge, Owners},
    caller::{self, Caller},
    failures::fail_of,
    shared::{Guest, Phase, Shared},
    venues,
};

/// The commands of one HTTP request.
pub(crate) struct Waiting {
    shared: Arc<Shared>,
    caller: Caller,
    owners: Owners,
    sink: Arc<Sink>,
    deadline: Instant,
}

/// Where their answers go; what is submitted is counted until it is answered, whether anybody still waits or not.
struct Sink {
    answers: Answers,
    under_way: Arc<AtomicUsize>,
    shared: Arc<Shared>,
}

/// What is kept of a command until it is answered.
struct Asked {
    shape: Shape,
    charge: Option<Charge>,
    reads_order: bool,
}

impl Asked {
    fn of(command: &Command, shape: Shape) -> Asked {
        Asked { shape, charge: None, reads_order: caller::reads_order(command) }
    }
}

impl ReplySink for Sink {
    fn answer(&self, tag: u64, result: door::Result) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.shared.metrics.under_way.fetch_sub(1, Ordering::Relaxed);
        self.answers.answer(tag, result);
    }
}

impl Waiting {
    /// For commands that this caller sent over this connection and that may take until `deadline`; `busy` if as many are under way as may be.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        guest: &Guest,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Waiting, FailKind> {
        // Those whose client has given up waiting count as well.
        if guest.under_way.load(Ordering::Relaxed) >= shared.config.limits.requests_under_way_max {
            return Err(FailKind::Busy);
        }
        let under_way = Arc::clone(&guest.under_way);
        let sink = Sink { answers: Answers::default(), under_way, shared: Arc::clone(shared) };
        let owners = caller.owners(guest);
        Ok(Waiting { shared: Arc::clone(shared), caller, owners, sink: Arc::new(sink), deadline })
    }

    /// What becomes of a command.
    pub(crate) async fn command(self, command: Command, key: Option<RequestKey>, shape: Shape) -> Verdict {
        let mut asked = Asked::of(&command, shape);
        asked.charge = match self.shared.budgets.begin(&self.owners, &command, Instant::now()) {
            Ok(charge) => charge,
            Err(over) => return Verdict::Rejected(over.rejection()),
        };
        self.submit(0, command, key);
        match self.answers().await.pop() {
            Some((_, result)) => self.verdict(result, &asked),
            None => Verdict::Fail(Fail::new(FailKind::Unknown)),
        }
    }

    /// What becomes of the items of a batch.
    pub(crate) async fn batch(self, items: Vec<Result<Item, Rejection>>) -> Vec<Verdict> {
        let mut batch = Batch::new(0, Instant::now(), self.deadline, items);
        let mut under_way: BTreeMap<u64, Asked> = BTreeMap::new();
        loop {
            while let Some((index, item)) = batch.start() {
                let tag = index as u64;
                let mut asked = Asked::of(&item.command, item.shape);
                match self.shared.budgets.begin(&self.owners, &item.command, Instant::now()) {
                    Ok(charge) => asked.charge = charge,
                    Err(over) => {
                        batch.ended(index, Verdict::Rejected(over.rejection()));
                        continue;
                    }
                }
                under_way.insert(tag, asked);
                self.submit(tag, item.command, item.key);
            }
            if let Some(verdicts) = batch.verdicts() {
                return verdicts;
            }
            let answers = self.answers().await;
            if answers.is_empty() {
                batch.give_up();
                for (tag, _) in std::mem::take(&mut under_way) {
                    batch.ended(tag as usize, Verdict::Fail(Fail::new(FailKind::Unknown)));
                }
                continue;
            }
            for (tag, result) in answers {
                let asked = under_way.remove(&tag).expect("an item is answered once");
                batch.ended(tag as usize, self.verdict(result, &asked));
            }
        }
    }

    /// Hands a command to the node; its answer comes with this tag.
    pub(crate) fn submit(&self, tag: u64, command: Command, key: Option<RequestKey>) {
        self.sink.under_way.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.under_way.fetch_add(1, Ordering::Relaxed);
        let sink = Arc::clone(&self.sink) as Arc<dyn ReplySink>;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let reply = ReplyTo::new(sink, tag).within(left.as_millis() as u64);
        venues::submit(&self.shared, &self.caller.access, command, key, reply);
    }

    /// The next answers; none when the deadline comes, or the door closes, before there are some.
    pub(crate) async fn answers(&self) -> Vec<(u64, door::Result)> {
        let mut taken = Vec::new();
        let mut phase = self.shared.phase.clone();
        let over = async {
            tokio::select! {
                () = sleep_until(self.deadline) => {}
                // A door that is gone is closed as well.
                _ = phase.wait_for(|phase| *phase == Phase::Closed) => {}
            }
        };
        let answered = async {
            while taken.is_empty() {
                self.sink.answers.there().await;
                self.sink.answers.take(&mut taken);
            }
        };
        tokio::select! {
            biased;
            () = answered => {}
            () = over => {}
        }
        taken
    }

    fn verdict(&self, result: door::Result, asked: &Asked) -> Verdict {
        if let Ok(Err(refusal)) = &result {
            self.shared.metrics.refused(refusal);
        }
        if let Some(charge) = asked.charge {
            self.shared.budgets.end(charge, &result, Instant::now(), self.shared.backend.now());
        }
        match self.caller.told(&self.shared, asked.reads_order, result) {
            Ok(outcome) => Verdict::decided(outcome, asked.shape),
            Err(failure) => Verdict::Fail(fail_of(failure)),
        }
    }
}
