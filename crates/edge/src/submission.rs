//! Commands submitted to the node for one HTTP request, until they are answered or the deadline has passed.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use boxoffice_core::{command::Command, id::Request as RequestKey};
use boxoffice_node::api::{self, Failure, ReplySink, ReplyTo};
use boxoffice_wire::{
    Fail, FailKind, Op, Rejection,
    call::{Item, Shape},
    encode::Verdict,
    permission::VenueRule,
};
use tokio::time::{Instant, sleep_until};

use crate::{
    answer_queue::{AnswerQueue, Waiting},
    batch::Batch,
    budgets::{Charge, Owners},
    caller::{self, Caller},
    failures::fail_of,
    roster::Place,
    shared::{ConnectionPermit, Phase, Shared},
    venues,
};

/// The commands of one HTTP request.
pub(crate) struct Submission {
    shared: Arc<Shared>,
    caller: Caller,
    owners: Owners,
    sink: Arc<Sink>,
    place: Arc<Place>,
    address: IpAddr,
    deadline: Instant,
    /// How much longer the buyer will be there than the client waits, in milliseconds.
    spare_ms: u64,
}

/// Receives the answers. A command is counted until it is answered, even if the client has given up.
struct Sink {
    answers: AnswerQueue,
    under_way: Arc<AtomicUsize>,
    shared: Arc<Shared>,
}

/// A command that is not answered yet.
struct PendingCommand {
    shape: Shape,
    charge: Option<Charge>,
    reads_order: bool,
    guesses_code: bool,
}

impl ReplySink for Sink {
    fn answer(&self, tag: u64, result: api::Result) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.shared.metrics.under_way.fetch_sub(1, Ordering::Relaxed);
        self.answers.answer(tag, result);
    }
}

impl Submission {
    /// Begins a submission for a caller.
    ///
    /// # Errors
    /// [`FailKind::Busy`] if the connection has too many commands under way.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        permit: &ConnectionPermit,
        caller: Caller,
        deadline: Instant,
    ) -> Result<Submission, FailKind> {
        // Commands whose client has given up count as well.
        if permit.under_way.load(Ordering::Relaxed) >= shared.config.limits.requests_under_way_max {
            return Err(FailKind::Busy);
        }
        let under_way = Arc::clone(&permit.under_way);
        let sink =
            Sink { answers: AnswerQueue::new(Arc::clone(&permit.unsent)), under_way, shared: Arc::clone(shared) };
        let owners = caller.owners(permit);
        let (shared, place) = (Arc::clone(shared), Arc::clone(&permit.place));
        let address = permit.address();
        Ok(Submission { shared, caller, owners, sink: Arc::new(sink), place, address, deadline, spare_ms: 0 })
    }

    /// The same for a buyer who will be there for this much longer than the client waits, in milliseconds.
    #[must_use]
    pub(crate) fn with_spare(self, spare_ms: u64) -> Submission {
        Submission { spare_ms, ..self }
    }

    /// Submits the command of an op and waits for its verdict. `None` stands for the gateway, which uses no op.
    pub(crate) async fn command(
        self,
        op: Option<Op>,
        command: Command,
        key: Option<RequestKey>,
        shape: Shape,
    ) -> Verdict {
        let pending = match self.charge(op, &command, shape) {
            Ok(pending) => pending,
            Err(verdict) => return verdict,
        };
        // The gateway is not limited to venues.
        let rule = op.map_or(VenueRule::Refused, |op| op.permission().venues);
        self.submit(0, rule, pending.charge.as_ref(), command, key);
        match self.answers().await.pop() {
            Some((_, result)) => self.verdict(result, &pending),
            None => {
                self.unknown(&pending);
                Verdict::Fail(Fail::new(FailKind::Unknown))
            }
        }
    }

    /// Submits the items of a batch and waits for their verdicts.
    pub(crate) async fn batch(self, items: Vec<Result<Item, Rejection>>) -> Vec<Verdict> {
        let mut batch = Batch::new(0, Instant::now(), self.deadline, items);
        let mut under_way: BTreeMap<u64, PendingCommand> = BTreeMap::new();
        loop {
            while let Some((index, item)) = batch.start() {
                let tag = index as u64;
                match self.charge(Some(item.op), &item.command, item.shape) {
                    Ok(pending) => {
                        let rule = item.op.permission().venues;
                        self.submit(tag, rule, pending.charge.as_ref(), item.command, item.key);
                        under_way.insert(tag, pending);
                    }
                    Err(verdict) => batch.ended(index, verdict),
                }
            }
            if let Some(verdicts) = batch.verdicts() {
                return verdicts;
            }
            let answers = self.answers().await;
            if answers.is_empty() {
                batch.give_up();
                for (tag, pending) in std::mem::take(&mut under_way) {
                    self.unknown(&pending);
                    batch.ended(tag as usize, Verdict::Fail(Fail::new(FailKind::Unknown)));
                }
                continue;
            }
            for (tag, result) in answers {
                let pending = under_way.remove(&tag).expect("an item is answered once");
                batch.ended(tag as usize, self.verdict(result, &pending));
            }
        }
    }

    /// Charges a command to the caller's budgets.
    fn charge(&self, op: Option<Op>, command: &Command, shape: Shape) -> Result<PendingCommand, Verdict> {
        let fits = self.shared.backend.check_size(command);
        fits.map_err(|why| Verdict::Rejected(Rejection::TooLarge(why)))?;
        let charge = self.shared.budgets.begin(&self.owners, command, Instant::now());
        let charge = charge.map_err(|over| Verdict::Rejected(over.rejection()))?;
        let (reads_order, guesses_code) = (op.is_some_and(caller::reads_order), self.caller.guesses_code(command));
        Ok(PendingCommand { shape, charge, reads_order, guesses_code })
    }

    /// Submits a command under this rule for callers that are limited to venues. Its answer comes with this tag.
    pub(crate) fn submit(
        &self,
        tag: u64,
        rule: VenueRule,
        charge: Option<&Charge>,
        command: Command,
        key: Option<RequestKey>,
    ) {
        self.sink.under_way.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.under_way.fetch_add(1, Ordering::Relaxed);
        let sink = Arc::clone(&self.sink) as Arc<dyn ReplySink>;
        let left_ms = self.deadline.saturating_duration_since(Instant::now()).as_millis() as u64;
        let patience_ms = left_ms.saturating_add(self.spare_ms);
        let reply = ReplyTo::new(sink, tag).with_timeout(left_ms).with_patience(patience_ms);
        venues::submit(&self.shared, &self.caller.access, rule, (&self.owners, charge), command, key, reply);
    }

    /// Waits for the next answers. Empty if the deadline passes or the port closes before.
    pub(crate) async fn answers(&self) -> Vec<(u64, api::Result)> {
        let mut taken = VecDeque::new();
        let mut phase = self.shared.phase.clone();
        let over = async {
            tokio::select! {
                () = sleep_until(self.deadline) => {}
                // An error means that the port is gone, which is as good as closed.
                _ = phase.wait_for(|phase| *phase == Phase::Closed) => {}
            }
        };
        let answered = async {
            while taken.is_empty() {
                self.sink.answers.ready().await;
                self.sink.answers.take(&mut taken);
            }
        };
        tokio::select! {
            biased;
            () = answered => {}
            () = over => {}
        }
        taken.into_iter().map(|Waiting { tag, result, .. }| (tag, result)).collect()
    }

    /// No answer came in time.
    fn unknown(&self, pending: &PendingCommand) {
        if let Some(charge) = &pending.charge {
            let now = self.shared.backend.now();
            let _ = self.shared.budgets.end(charge, &Err(Failure::Unknown), Instant::now(), now);
        }
    }

    fn verdict(&self, result: api::Result, pending: &PendingCommand) -> Verdict {
        if let Ok(Err(refusal)) = &result {
            self.shared.metrics.refused(refusal);
        }
        if let Some(charge) = &pending.charge {
            let now = self.shared.backend.now();
            if let Some((cart, until)) = self.shared.budgets.end(charge, &result, Instant::now(), now) {
                self.place.set_cart(cart, until);
            }
            if let Some(over) = charge.over() {
                return Verdict::Rejected(over.rejection());
            }
        }
        if pending.guesses_code {
            self.shared.codes.note(self.address, Instant::now(), &result);
        }
        match self.caller.redact(&self.shared, pending.reads_order, result) {
            Ok(outcome) => Verdict::decided(outcome, pending.shape),
            Err(failure) => Verdict::Fail(fail_of(failure)),
        }
    }
}
