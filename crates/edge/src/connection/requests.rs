//! The requests of a connection, and their answers.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::{
    command::Command,
    id::{CartId, Request as RequestKey},
    refusal::Refusal,
};
use boxoffice_node::api::{self, CallTimes, Failure, ReplyTo};
use boxoffice_wire::{
    Call, Encoding, Fail, FailKind, Head, Op, Rejection, Request,
    call::HelloFields,
    encode::{self, Verdict},
    envelope::Rejected,
    limits::close,
    permission::VenueRule,
    weight,
};
use bytes::BytesMut;
use futures_util::FutureExt as _;
use smol_str::format_smolstr;
use tokio::time::Instant;

use super::{
    cart_queues::{CartQueues, QueuedChange},
    frames::End,
    state::{Connection, FinishedQuery, PendingHello},
    under_way::{PendingCommand, Waiter},
};
use crate::{
    access::{Denied, Row},
    admission::NotAdmitted,
    batch::Batch,
    budgets::{Charge, OverBudget},
    caller::{self, Caller},
    failures::fail_of,
    fan_out::{self, FanOutQuery, QueryResult},
    members,
    metrics::Ended,
    planted, venues,
};

/// Frames that are not requests before the connection is closed. A client of another protocol soon reaches this number.
const MALFORMED_FRAMES_MAX: u32 = 16;

/// Requests beyond the rate of their network that one connection may send in [`OVER_RATE_TIME`] before it is closed. Refusing
/// them takes time as well.
const OVER_RATE_MAX: u32 = 1_000;
const OVER_RATE_TIME: Duration = Duration::from_secs(10);

/// Batches of one connection at the same time.
const BATCHES_MAX: usize = 4;

/// Audits of one connection at the same time that read everything that the node holds, or ask carts.
const AUDITS_MAX: usize = 2;

/// Queries of one connection at the same time, with its audits. Each asks many entities, or reads the log.
const QUERIES_MAX: usize = 8;

impl Connection {
    /// Takes a frame in. Checks the caller's rights and the node's load before the body is read.
    pub(super) fn frame(&mut self, frame: &[u8], now: Instant) -> Result<(), End> {
        let head = match Head::read(self.frames.encoding(), frame) {
            Ok(head) => head,
            Err(rejected) => return self.rejected(rejected, now),
        };
        let (id, op) = (head.id, head.op);
        if !self.check_access(id, op, now)? {
            return Ok(());
        }
        if let Some(retry_after_ms) = self.shared.backend.sheds_first(&|| head.first_command(), self.unread_ms()) {
            return self.failed(id, op, &fail_of(Failure::Busy(retry_after_ms)), now, now);
        }
        match head.check_minor(self.shared.backend.minor()).and_then(|()| head.request()) {
            Ok(request) => {
                if let Err(over) = self.charge_size(&request.call, frame.len(), now) {
                    self.refuse(id, op, &over.rejection(), now)?;
                    return self.count_over_rate(now);
                }
                self.perform(request, now)
            }
            Err(why) => self.malformed(id, &why),
        }
    }

    /// Charges what a request costs by its size.
    fn charge_size(&self, call: &Call, bytes: usize, now: Instant) -> Result<(), OverBudget> {
        if self.owners.is_empty() {
            return Ok(());
        }
        let budgets = &self.shared.budgets;
        let ended = if let Call::Command(command) = call { budgets.ended_lines(command) } else { 0 };
        match weight::of_call(call, bytes).saturating_add(weight::of_ended_lines(ended)) {
            0 => Ok(()),
            units => budgets.request(&self.owners, units, now),
        }
    }

    /// Charges what the answer costs that was just written.
    fn owe_answer(&self, now: Instant) {
        let (own, shared) = self.frames.last_written();
        self.shared.budgets.owe(&self.owners, weight::of_answer(own, shared), now);
    }

    /// Refuses a frame that is not even the head of a request. It counts like any other.
    fn rejected(&mut self, rejected: Rejected, now: Instant) -> Result<(), End> {
        let Rejected { id, why } = rejected;
        let Some(id) = id else {
            self.frames.write(|encoding, out| encode::rejection(encoding, out, None, &why))?;
            self.shared.metrics.malformed_frames.fetch_add(1, Ordering::Relaxed);
            self.malformed += 1;
            if self.malformed == MALFORMED_FRAMES_MAX {
                return Err(End::Close(close::PROTOCOL, "too many frames that are no request".into()));
            }
            return Ok(());
        };
        match self.shared.budgets.request(&self.owners, weight::REQUEST, now) {
            Ok(()) => self.malformed(id, &why),
            Err(over) => {
                self.malformed(id, &over.rejection())?;
                self.count_over_rate(now)
            }
        }
    }

    /// Answers a request whose head or body cannot be read.
    fn malformed(&mut self, id: u64, why: &Rejection) -> Result<(), End> {
        self.shared.metrics.rejected_frames.fetch_add(1, Ordering::Relaxed);
        self.frames.write(|encoding, out| encode::rejection(encoding, out, Some(id), why))
    }

    /// Whether the caller may use an op now. If not, the request is answered.
    fn check_access(&mut self, id: u64, op: Op, now: Instant) -> Result<bool, End> {
        if self.timers.is_draining() {
            self.fail(id, op, FailKind::Draining, now, now)?;
            return Ok(false);
        }
        if let Err(ended) = self.caller.access.check(&self.shared) {
            return Err(End::Access(ended));
        }
        // Denied requests count as well.
        if let Err(over) = self.shared.budgets.request(&self.owners, op.weight(), now) {
            self.refuse(id, op, &over.rejection(), now)?;
            self.count_over_rate(now)?;
            return Ok(false);
        }
        match self.caller.access.may(&self.shared, Row::Op(op)) {
            Ok(()) => Ok(true),
            Err(denied) => self.deny(id, op, denied, now).map(|()| false),
        }
    }

    /// Answers a request that the caller may not make, and counts it.
    fn deny(&mut self, id: u64, op: Op, denied: Denied, now: Instant) -> Result<(), End> {
        match denied {
            Denied::Refused(denial, why) => {
                self.caller.denied(&self.shared, denial, &why);
                self.refuse(id, op, &why, now)
            }
            Denied::Failed(kind) => self.fail(id, op, kind, now, now),
        }
    }

    /// Carries out a request, or begins to. The caller's right to the op was checked before.
    pub(super) fn perform(&mut self, request: Request, now: Instant) -> Result<(), End> {
        let Request { id, op, deadline_ms, patience_ms, key, shape, mut call } = request;
        if let Err(denied) = self.caller.admit((&self.shared, self.permit.address()), op, &mut call) {
            return self.deny(id, op, denied, now);
        }
        let deadline = now + Duration::from_millis(deadline_ms);
        match call {
            Call::Command(command) => {
                if self.is_full() {
                    return self.fail(id, op, FailKind::Busy, now, now);
                }
                let times = CallTimes { unread_ms: self.unread_ms(), patience_ms };
                if let Some(retry_after_ms) = self.shared.backend.sheds(&command, key, times) {
                    return self.failed(id, op, &fail_of(Failure::Busy(retry_after_ms)), now, now);
                }
                if let Err(why) = self.shared.backend.check_size(&command) {
                    return self.refuse(id, op, &Rejection::TooLarge(why), now);
                }
                let charge = match self.shared.budgets.begin(&self.owners, &command, now) {
                    Ok(charge) => charge,
                    Err(over) => return self.refuse(id, op, &over.rejection(), now),
                };
                let (reads_order, guesses_code) = (caller::reads_order(op), self.caller.guesses_code(&command));
                let (waiter, cart) = (Waiter::Client(id), CartQueues::cart_of(&command, key.as_ref()));
                let entity = command.entity();
                let elsewhere = self.shared.backend.leader_elsewhere(&entity).is_some().then_some(entity);
                let pending = PendingCommand {
                    waiter,
                    op,
                    shape,
                    charge,
                    reads_order,
                    guesses_code,
                    cart,
                    elsewhere,
                    at: now,
                    deadline,
                };
                let spare_ms = patience_ms - deadline_ms;
                self.submit(pending, spare_ms, op.permission().venues, command, key);
                Ok(())
            }
            Call::NamedOrder(command) => {
                let caller = Box::new(self.caller.clone());
                self.start_query(id, op, FanOutQuery::NamedOrder { command, caller }, now, deadline)
            }
            Call::SearchCity(search) => self.start_query(id, op, FanOutQuery::City(search), now, deadline),
            Call::Backup(query) => {
                let by = self.caller.access.name.clone();
                self.start_query(id, op, FanOutQuery::Backup { query, by }, now, deadline)
            }
            Call::History { entity, seat, limit, before } => {
                let venues = Arc::clone(&self.caller.access.venues);
                self.start_query(id, op, FanOutQuery::History { entity, seat, limit, before, venues }, now, deadline)
            }
            Call::AsOf { entity, at } => {
                let venues = Arc::clone(&self.caller.access.venues);
                self.start_query(id, op, FanOutQuery::AsOf { entity, at, venues }, now, deadline)
            }
            Call::Watch { .. } | Call::WatchCounts { .. } if self.watcher.is_none() => {
                self.migrating_watch = Some(Request { id, op, deadline_ms, patience_ms, key, shape, call });
                Ok(())
            }
            Call::Watch { kind: _, entity, since } => self.watch(id, entity, since, now),
            Call::WatchCounts { sessions } => self.watch_counts(id, sessions, now),
            Call::Unwatch { feed } => {
                if self.watcher.as_mut().is_some_and(|watcher| watcher.unwatch(feed)) {
                    self.frames.drop_feed(feed);
                    return self.done(id, op, now);
                }
                self.refuse(id, op, &Refusal::NotFound(format_smolstr!("feed {feed}")).into(), now)
            }
            Call::Batch(items) => {
                let Some(place) = self.place_for_batch() else {
                    return self.fail(id, op, FailKind::Busy, now, now);
                };
                self.batches[place] = Some(Batch::new(id, now, deadline, items));
                self.advance(place, now)
            }
            Call::Hello(hello) => self.on_hello(id, hello, now),
            Call::Status => {
                let status = self.shared.status();
                self.ended(op, Ended::Ok, now, now);
                self.write_now(|encoding, out| encode::ok(encoding, out, id, &status))
            }
            Call::Shards => {
                let shards = members::shard_map(&self.shared);
                self.ended(op, Ended::Ok, now, now);
                self.write_now(|encoding, out| encode::ok(encoding, out, id, &shards))
            }
            Call::AuditNode => {
                if self.audits_under_way >= AUDITS_MAX {
                    return self.fail(id, op, FailKind::Busy, now, now);
                }
                self.start_query(id, op, FanOutQuery::Audit, now, deadline)
            }
            Call::AuditWithCarts(command) => {
                if self.audits_under_way >= AUDITS_MAX {
                    return self.fail(id, op, FailKind::Busy, now, now);
                }
                let venues = Arc::clone(&self.caller.access.venues);
                self.start_query(id, op, FanOutQuery::AuditWithCarts { command, venues }, now, deadline)
            }
        }
    }

    /// Counts a request beyond the rate of the client's network. Too many of them end the connection.
    fn count_over_rate(&mut self, now: Instant) -> Result<(), End> {
        let (since, count) = self.over_rate.filter(|(since, _)| now - *since < OVER_RATE_TIME).unwrap_or((now, 0));
        self.over_rate = Some((since, count + 1));
        if count < OVER_RATE_MAX {
            return Ok(());
        }
        Err(End::Close(close::TOO_MANY_REQUESTS, "too many requests a second".into()))
    }

    /// Takes the client's hello. The frames after it wait until its credentials were looked at, so one connection shows one at a
    /// time, and requests have the rights of the hello before them.
    fn on_hello(&mut self, id: u64, hello: HelloFields, now: Instant) -> Result<(), End> {
        let (shared, permit) = (Arc::clone(&self.shared), Arc::clone(&self.permit));
        let mut admission = Box::pin(self.caller.clone().after_hello(shared, permit, hello));
        match (&mut admission).now_or_never() {
            Some(admitted) => self.on_admitted(id, admitted, now),
            None => {
                self.hello = Some(PendingHello { id, at: now, admission });
                Ok(())
            }
        }
    }

    /// The credentials of a hello were looked at. Wrong ones end the connection.
    pub(super) fn on_admitted(
        &mut self,
        id: u64,
        admitted: Result<Caller, NotAdmitted>,
        at: Instant,
    ) -> Result<(), End> {
        let now = Instant::now();
        match admitted {
            Ok(caller) => {
                if caller.access.is_staff() {
                    self.permit.exempt();
                } else if self.permit.is_exempt()
                    && let Err(over) = self.permit.count_again()
                {
                    // A key let the connection be, and the caller shows none any more.
                    return Err(End::Close(close::TOO_MANY_REQUESTS, over.rejection().to_string().into()));
                }
                self.owners = caller.owners(&self.permit);
                self.access_end = caller.access.end(&self.shared);
                self.caller = caller;
                self.set_frame_bytes_max();
                self.ended(Op::Hello, Ended::Ok, at, now);
                self.frames.write(|encoding, out| encode::done(encoding, out, id))?;
                self.end_feeds_without_right()
            }
            Err(NotAdmitted::Rejected(why)) => {
                self.ended(Op::Hello, Ended::No, at, now);
                self.frames.write(|encoding, out| encode::rejection(encoding, out, Some(id), &why))?;
                match why {
                    Rejection::Unauthenticated(words) => {
                        Err(End::Close(close::UNAUTHENTICATED, words.to_string().into()))
                    }
                    // Nobody looked at the credentials, because the network has shown too many.
                    Rejection::RateLimited { .. } => self.count_over_rate(now),
                    Rejection::Refusal(_)
                    | Rejection::UnknownOp(_)
                    | Rejection::TooLarge(_)
                    | Rejection::UnsupportedVersion(_) => Ok(()),
                }
            }
            Err(NotAdmitted::Failed(kind)) => self.fail(id, Op::Hello, kind, at, now),
        }
    }

    /// Passes on the node's answer to a command.
    pub(super) fn on_answer(&mut self, pending: PendingCommand, result: api::Result, now: Instant) -> Result<(), End> {
        if let Ok(Err(refusal)) = &result {
            self.shared.metrics.refused(refusal);
        }
        if let Some(charge) = &pending.charge
            && let Some((cart, until)) = self.shared.budgets.end(charge, &result, now, self.shared.backend.now())
        {
            self.permit.place.set_cart(cart, until);
        }
        if let Some(over) = pending.charge.as_ref().and_then(Charge::over) {
            let why = over.rejection();
            return match pending.waiter {
                Waiter::Client(id) => {
                    self.ended(pending.op, Ended::No, pending.at, now);
                    self.frames.write(|encoding, out| encode::rejection(encoding, out, Some(id), &why))
                }
                Waiter::Batch { batch, item } => self.item_ended(batch, item, Verdict::Rejected(why), now),
            };
        }
        if pending.guesses_code {
            self.shared.codes.note(self.permit.address(), now, &result);
        }
        let result = self.caller.redact(&self.shared, pending.reads_order, result);
        match pending.waiter {
            Waiter::Client(id) => match result {
                Ok(outcome) => {
                    let ended = if outcome.is_ok() { Ended::Ok } else { Ended::No };
                    self.ended(pending.op, ended, pending.at, now);
                    // Looked up now, since the leader may have changed while the command was under way.
                    let leader = pending.elsewhere.and_then(|entity| self.shared.backend.leader_elsewhere(&entity));
                    self.frames.write(|encoding, out| {
                        encode::outcome(encoding, out, id, &outcome, pending.shape, leader);
                    })?;
                    self.owe_answer(now);
                    Ok(())
                }
                Err(failure) => self.failed(id, pending.op, &fail_of(failure), pending.at, now),
            },
            Waiter::Batch { batch, item } => {
                let verdict = match result {
                    Ok(outcome) => Verdict::decided(outcome, pending.shape),
                    Err(failure) => Verdict::Fail(fail_of(failure)),
                };
                self.item_ended(batch, item, verdict, now)
            }
        }
    }

    /// The deadline of a command has passed. Its answer will be dropped.
    pub(super) fn on_timeout(&mut self, pending: PendingCommand, now: Instant) -> Result<(), End> {
        if let Some(charge) = &pending.charge {
            let _ = self.shared.budgets.end(charge, &Err(Failure::Unknown), now, self.shared.backend.now());
        }
        match pending.waiter {
            Waiter::Client(id) => self.fail(id, pending.op, FailKind::Unknown, pending.at, now),
            Waiter::Batch { batch, item } => {
                self.batch(batch).give_up();
                self.item_ended(batch, item, Verdict::Fail(Fail::new(FailKind::Unknown)), now)
            }
        }
    }

    /// Starts a query.
    fn start_query(&mut self, id: u64, op: Op, query: FanOutQuery, now: Instant, deadline: Instant) -> Result<(), End> {
        if self.queries.len() >= QUERIES_MAX {
            return self.fail(id, op, FailKind::Busy, now, now);
        }
        self.audits_under_way += usize::from(op == Op::AdminAudit);
        let running =
            fan_out::run(Arc::clone(&self.shared), Arc::clone(&self.permit), self.owners.clone(), query, deadline);
        self.queries.push(Box::pin(async move { FinishedQuery { id, op, at: now, outcome: running.await } }));
        Ok(())
    }

    /// Answers with the outcome of a query.
    pub(super) fn on_query_finished(&mut self, finished: FinishedQuery) -> Result<(), End> {
        let FinishedQuery { id, op, at, outcome } = finished;
        let now = Instant::now();
        self.audits_under_way -= usize::from(op == Op::AdminAudit);
        let ended = match &outcome {
            Ok(_) => Ended::Ok,
            Err(verdict) => match **verdict {
                Verdict::Ok(..) => Ended::Ok,
                Verdict::No(_) | Verdict::Rejected(_) => Ended::No,
                Verdict::Fail(_) => Ended::Fail,
            },
        };
        self.ended(op, ended, at, now);
        self.frames.write(|encoding, out| match &outcome {
            Ok(QueryResult::Audit(audit)) => encode::ok(encoding, out, id, &**audit),
            Ok(QueryResult::Entity(verdict)) => encode::verdict(encoding, out, id, verdict),
            Ok(QueryResult::City(page)) => encode::ok(encoding, out, id, page),
            Ok(QueryResult::History(page)) => encode::ok(encoding, out, id, page),
            Ok(QueryResult::BackupPlaces(places)) => encode::ok(encoding, out, id, &**places),
            Ok(QueryResult::BackupPiece(piece)) => encode::ok(encoding, out, id, piece),
            Ok(QueryResult::AsOf(then)) => encode::ok(encoding, out, id, &**then),
            Err(verdict) => encode::verdict(encoding, out, id, verdict),
        })?;
        self.owe_answer(now);
        Ok(())
    }

    /// Notes a command as under way and submits it, behind the changes of the same cart that are under way on this connection.
    fn submit(
        &mut self,
        pending: PendingCommand,
        spare_ms: u64,
        rule: VenueRule,
        command: Command,
        key: Option<RequestKey>,
    ) {
        let left = pending.deadline.saturating_duration_since(pending.at);
        let cart = pending.cart;
        let tag = self.under_way.submit(pending);
        let queued = QueuedChange { tag, rule, command, key, spare_ms };
        let queued = match cart {
            Some(cart) => self.cart_queues.start_or_queue(cart, queued),
            None => Some(queued),
        };
        queued.into_iter().for_each(|queued| self.submit_now(queued, left));
    }

    /// How long what has arrived lies unread, in milliseconds. The runtime for selling measures its queues itself.
    fn unread_ms(&self) -> u64 {
        if self.watcher.is_some() { self.shared.watching_delay.ms() } else { 0 }
    }

    /// Hands a command to the node, whose answer comes to the connection's queue with its tag. The client waits for `left`.
    fn submit_now(&self, queued: QueuedChange, left: Duration) {
        let QueuedChange { tag, rule, command, key, spare_ms } = queued;
        let left_ms = left.as_millis() as u64;
        let reply = ReplyTo::new(Arc::clone(&self.sink), tag)
            .with_timeout(left_ms)
            .with_patience(left_ms.saturating_add(spare_ms))
            .with_unread(self.unread_ms());
        let charged = (&self.owners, self.under_way.charge_of(tag));
        venues::submit(&self.shared, &self.caller.access, rule, charged, command, key, reply);
    }

    /// A command has ended. Submits the next command of its cart.
    pub(super) fn submit_next(&mut self, cart: Option<CartId>, mut tag: u64, now: Instant) {
        let Some(cart) = cart else { return };
        while let Some(next) = self.cart_queues.next_after(cart, tag) {
            match self.under_way.deadline_of(next.tag) {
                Some(deadline) => return self.submit_now(next, deadline.saturating_duration_since(now)),
                // Its deadline has passed, and the client was told so.
                None => {
                    self.under_way.never_submitted();
                    tag = next.tag;
                }
            }
        }
    }

    fn place_for_batch(&mut self) -> Option<usize> {
        if let Some(place) = self.batches.iter().position(Option::is_none) {
            return Some(place);
        }
        let room = self.batches.len() < BATCHES_MAX;
        room.then(|| {
            self.batches.push(None);
            self.batches.len() - 1
        })
    }

    fn batch(&mut self, place: usize) -> &mut Batch {
        self.batches[place].as_mut().expect("items under way belong to a batch")
    }

    /// An item of a batch has its verdict. The next ones may begin.
    fn item_ended(&mut self, place: usize, item: usize, verdict: Verdict, now: Instant) -> Result<(), End> {
        self.batch(place).ended(item, verdict);
        self.advance(place, now)
    }

    /// Submits the items that may be submitted now, and answers the batch when all have ended.
    fn advance(&mut self, place: usize, now: Instant) -> Result<(), End> {
        let Batch { id, at, deadline, .. } = *self.batch(place);
        while let Some((index, item)) = self.batch(place).start() {
            let waiter = Waiter::Batch { batch: place, item: index };
            if let Err(why) = self.shared.backend.check_size(&item.command) {
                self.batch(place).ended(index, Verdict::Rejected(Rejection::TooLarge(why)));
                continue;
            }
            let charge = match self.shared.budgets.begin(&self.owners, &item.command, now) {
                Ok(charge) => charge,
                Err(over) => {
                    self.batch(place).ended(index, Verdict::Rejected(over.rejection()));
                    continue;
                }
            };
            let (reads_order, guesses_code) = (caller::reads_order(item.op), self.caller.guesses_code(&item.command));
            let cart = CartQueues::cart_of(&item.command, item.key.as_ref());
            let (op, shape) = (Op::Batch, item.shape);
            let pending = PendingCommand {
                waiter,
                op,
                shape,
                charge,
                reads_order,
                guesses_code,
                cart,
                elsewhere: None,
                at,
                deadline,
            };
            self.submit(pending, 0, item.op.permission().venues, item.command, item.key);
        }
        if let Some(verdicts) = self.batch(place).verdicts() {
            self.batches[place] = None;
            self.ended(Op::Batch, Ended::Ok, at, now);
            self.frames.write(|encoding, out| encode::batch(encoding, out, id, &verdicts))?;
            self.owe_answer(now);
        }
        Ok(())
    }

    /// Whether the maximum of requests is under way. Those whose client has given up count as well.
    fn is_full(&self) -> bool {
        self.under_way.submitted() >= self.shared.config.limits.requests_under_way_max
    }

    /// Writes an answer that was made while frames are read. It leaves before the next one is made, which may take long.
    fn write_now(&mut self, write: impl FnOnce(Encoding, &mut BytesMut)) -> Result<(), End> {
        self.frames.write(write)?;
        if planted::is("an answer waits for the frames behind it") {
            return Ok(());
        }
        self.frames.flush().map(drop)
    }

    fn done(&mut self, id: u64, op: Op, now: Instant) -> Result<(), End> {
        self.ended(op, Ended::Ok, now, now);
        self.frames.write(|encoding, out| encode::done(encoding, out, id))
    }

    pub(super) fn refuse(&mut self, id: u64, op: Op, why: &Rejection, now: Instant) -> Result<(), End> {
        self.ended(op, Ended::No, now, now);
        self.frames.write(|encoding, out| encode::rejection(encoding, out, Some(id), why))
    }

    pub(super) fn fail(&mut self, id: u64, op: Op, kind: FailKind, at: Instant, now: Instant) -> Result<(), End> {
        self.failed(id, op, &Fail::new(kind), at, now)
    }

    fn failed(&mut self, id: u64, op: Op, fail: &Fail, at: Instant, now: Instant) -> Result<(), End> {
        self.ended(op, Ended::Fail, at, now);
        self.frames.write(|encoding, out| encode::fail(encoding, out, id, fail))
    }

    pub(super) fn ended(&self, op: Op, ended: Ended, at: Instant, now: Instant) {
        self.shared.metrics.ended(op, ended, now - at);
    }
}
