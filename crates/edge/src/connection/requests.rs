//! What a connection does with each request, and with what becomes of it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use boxoffice_core::{
    command::Command,
    id::{CartId, Request as RequestKey},
    refusal::Refusal,
};
use boxoffice_node::door::{self, Failure, ReplyTo};
use boxoffice_wire::{
    Call, Fail, FailKind, Head, Op, Rejection, Request,
    body::ClientHello,
    encode::{self, Verdict},
    envelope::Rejected,
    limits::close,
};
use smol_str::format_smolstr;
use tokio::time::Instant;

use super::{
    frames::End,
    task::{Connection, GoneAbout},
    turns::{Change, Turns},
    under_way::{Asked, Asker},
};
use crate::{
    access::{Denied, Ended as AccessEnded},
    batch::Batch,
    budgets::weight_of,
    caller,
    errand::{self, Errand, Found},
    failures::{fail_of, not_of_a_node},
    members,
    metrics::Ended,
    venues,
};

/// Frames that are no request at all before the connection is closed: a client of another protocol is soon told.
const MALFORMED_FRAMES_MAX: u32 = 16;

/// Requests beyond the rate of their network that one connection may send in [`OVERS_TIME`], before it is closed: refusing them
/// takes time as well.
const OVERS_MAX: u32 = 1_000;
const OVERS_TIME: Duration = Duration::from_secs(10);

/// Batches of one connection at the same time.
const BATCHES_MAX: usize = 4;

/// Audits of the node that one connection has under way: each reads everything the node keeps.
const AUDITS_MAX: usize = 2;

/// Errands of one connection at the same time, audits counted: each asks many entities, or reads the log.
const ERRANDS_MAX: usize = 8;

impl Connection {
    /// Takes a frame in. Whether its caller may ask that, and whether the node has time for it, is looked at before its body.
    pub(super) fn frame(&mut self, frame: &[u8], now: Instant) -> Result<(), End> {
        let head = match Head::read(self.frames.encoding(), frame) {
            Ok(head) => head,
            Err(rejected) => return self.rejected(rejected, now),
        };
        let (id, op) = (head.id, head.op);
        if !self.lets_in(id, op, now)? {
            return Ok(());
        }
        if let Some(retry_after_ms) = self.shared.backend.sheds_first(&|| head.first_command()) {
            return self.failed(id, op, &fail_of(Failure::Busy(retry_after_ms)), now, now);
        }
        match head.request() {
            Ok(request) => self.perform(request, now),
            Err(why) => self.malformed(id, &why),
        }
    }

    /// A frame is not even the head of a request. It counts as much as any other.
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
        match self.shared.budgets.request(&self.owners, 1, now) {
            Ok(()) => self.malformed(id, &why),
            Err(over) => {
                self.malformed(id, &over.rejection())?;
                self.is_over_the_rate(now)
            }
        }
    }

    fn malformed(&mut self, id: u64, why: &Rejection) -> Result<(), End> {
        self.shared.metrics.rejected_frames.fetch_add(1, Ordering::Relaxed);
        self.frames.write(|encoding, out| encode::rejection(encoding, out, Some(id), why))
    }

    /// Whether this connection's caller may ask for an op now. If not, the request is answered.
    fn lets_in(&mut self, id: u64, op: Op, now: Instant) -> Result<bool, End> {
        if self.clocks.is_draining() {
            self.fail(id, op, FailKind::Draining, now, now)?;
            return Ok(false);
        }
        if let Err(ended) = self.caller.access.check(&self.shared) {
            return Err(end_of_access(ended));
        }
        // What is denied counts as well.
        if let Err(over) = self.shared.budgets.request(&self.owners, weight_of(op), now) {
            self.refuse(id, op, &over.rejection(), now)?;
            self.is_over_the_rate(now)?;
            return Ok(false);
        }
        match self.caller.access.may(&self.shared, op) {
            Ok(()) => return Ok(true),
            Err(Denied::Refused(denial, why)) => {
                self.caller.denied(&self.shared, denial, &why);
                self.refuse(id, op, &why, now)?;
            }
            Err(Denied::Failed(kind)) => self.fail(id, op, kind, now, now)?,
        }
        Ok(false)
    }

    /// Does what a request asks for, or begins to. Whether its caller may ask for the op was looked at.
    pub(super) fn perform(&mut self, request: Request, now: Instant) -> Result<(), End> {
        let Request { id, op, deadline_ms, key, shape, mut call } = request;
        if let Err(why) = self.caller.admit(&self.shared, &mut call) {
            return self.refuse(id, op, &why, now);
        }
        let deadline = now + Duration::from_millis(deadline_ms);
        match call {
            Call::Command(command) => {
                if self.is_full() {
                    return self.fail(id, op, FailKind::Busy, now, now);
                }
                if let Some(retry_after_ms) = self.shared.backend.sheds(&command, key) {
                    return self.failed(id, op, &fail_of(Failure::Busy(retry_after_ms)), now, now);
                }
                let charge = match self.shared.budgets.begin(&self.owners, &command, now) {
                    Ok(charge) => charge,
                    Err(over) => return self.refuse(id, op, &over.rejection(), now),
                };
                let reads_order = caller::reads_order(&command);
                let (asker, cart) = (Asker::Client(id), Turns::cart_of(&command, key.as_ref()));
                let entity = command.entity();
                let elsewhere = self.shared.backend.leader_elsewhere(&entity).is_some().then_some(entity);
                let asked = Asked { asker, op, shape, charge, reads_order, cart, elsewhere, at: now, deadline };
                self.submit(asked, command, key);
                Ok(())
            }
            Call::SearchCity(search) => self.go_about(id, op, Errand::City(search), now, deadline),
            Call::History { entity, seat, limit, before } => {
                let venues = Arc::clone(&self.caller.access.venues);
                self.go_about(id, op, Errand::History { entity, seat, limit, before, venues }, now, deadline)
            }
            Call::Watch { .. } | Call::WatchCounts { .. } if self.watcher.is_none() => {
                self.carried = Some(Request { id, op, deadline_ms, key, shape, call });
                Ok(())
            }
            Call::Watch { entity, since } => self.watch(id, entity, since, now),
            Call::WatchCounts { sessions } => self.watch_counts(id, sessions, now),
            Call::Unwatch { feed } => {
                if self.watcher.as_mut().is_some_and(|watcher| watcher.unwatch(feed)) {
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
            Call::Hello(hello) => self.say_hello(id, &hello, now),
            Call::Status => {
                let status = self.shared.status();
                self.ended(op, Ended::Ok, now, now);
                self.frames.write(|encoding, out| encode::ok(encoding, out, id, &status))
            }
            Call::Shards => {
                let shards = members::shard_map(&self.shared);
                self.ended(op, Ended::Ok, now, now);
                self.frames.write(|encoding, out| encode::ok(encoding, out, id, &shards))
            }
            Call::AuditNode if !self.caller.access.venues.is_empty() => self.refuse(id, op, &not_of_a_node(), now),
            Call::AuditNode => {
                if self.audits_under_way >= AUDITS_MAX {
                    return self.fail(id, op, FailKind::Busy, now, now);
                }
                self.go_about(id, op, Errand::Audit, now, deadline)
            }
        }
    }

    /// A request was beyond the rate of the client's network; too many of these end the connection.
    fn is_over_the_rate(&mut self, now: Instant) -> Result<(), End> {
        let (since, count) = self.overs.filter(|(since, _)| now - *since < OVERS_TIME).unwrap_or((now, 0));
        self.overs = Some((since, count + 1));
        if count < OVERS_MAX {
            return Ok(());
        }
        Err(End::Close(close::TOO_MANY_REQUESTS, "too many requests a second".into()))
    }

    /// The client says who it is. One whose key or token does not fit is told so, after a while where many such come from, and
    /// let go.
    fn say_hello(&mut self, id: u64, hello: &ClientHello, now: Instant) -> Result<(), End> {
        let why = match self.caller.after_hello(&self.shared, self.guest.port, hello) {
            Ok(caller) => {
                if caller.access.is_of_the_house() {
                    self.guest.lift();
                }
                self.owners = caller.owners(&self.guest);
                self.caller = caller;
                self.read_as_allowed();
                return self.done(id, Op::Hello, now);
            }
            Err(why) => why,
        };
        if let Some(wait) = self.shared.wait_after_guess(&self.guest, &why) {
            let ending = Err(Box::new(Verdict::Rejected(why)));
            self.errands.push(Box::pin(async move {
                tokio::time::sleep(wait).await;
                GoneAbout { id, op: Op::Hello, at: now, ending }
            }));
            return Ok(());
        }
        self.refuse(id, Op::Hello, &why, now)?;
        ended_by(&why)
    }

    /// The node has answered what somebody here still waits for.
    pub(super) fn answered(&mut self, asked: Asked, result: door::Result, now: Instant) -> Result<(), End> {
        if let Ok(Err(refusal)) = &result {
            self.shared.metrics.refused(refusal);
        }
        if let Some(charge) = asked.charge {
            self.shared.budgets.end(charge, &result, now, self.shared.backend.now());
        }
        let result = self.caller.told(&self.shared, asked.reads_order, result);
        match asked.asker {
            Asker::Client(id) => match result {
                Ok(outcome) => {
                    let ended = if outcome.is_ok() { Ended::Ok } else { Ended::No };
                    self.ended(asked.op, ended, asked.at, now);
                    // Looked up now: while the command was under way another node may have become the leader.
                    let leader = asked.elsewhere.and_then(|entity| self.shared.backend.leader_elsewhere(&entity));
                    self.frames.write(|encoding, out| {
                        encode::outcome(encoding, out, id, &outcome, asked.shape, leader);
                    })
                }
                Err(failure) => self.failed(id, asked.op, &fail_of(failure), asked.at, now),
            },
            Asker::Batch { batch, item } => {
                let verdict = match result {
                    Ok(outcome) => Verdict::decided(outcome, asked.shape),
                    Err(failure) => Verdict::Fail(fail_of(failure)),
                };
                self.item_ended(batch, item, verdict, now)
            }
        }
    }

    /// The time of a command is over; if its answer still comes, nobody waits for it.
    pub(super) fn overdue(&mut self, asked: Asked, now: Instant) -> Result<(), End> {
        match asked.asker {
            Asker::Client(id) => self.fail(id, asked.op, FailKind::Unknown, asked.at, now),
            Asker::Batch { batch, item } => {
                self.batch(batch).give_up();
                self.item_ended(batch, item, Verdict::Fail(Fail::new(FailKind::Unknown)), now)
            }
        }
    }

    /// Begins what the door itself goes about.
    fn go_about(&mut self, id: u64, op: Op, errand: Errand, now: Instant, deadline: Instant) -> Result<(), End> {
        if self.errands.len() >= ERRANDS_MAX {
            return self.fail(id, op, FailKind::Busy, now, now);
        }
        self.audits_under_way += usize::from(op == Op::AdminAudit);
        let going = errand::run(Arc::clone(&self.shared), Arc::clone(&self.guest), errand, deadline);
        self.errands.push(Box::pin(async move { GoneAbout { id, op, at: now, ending: going.await } }));
        Ok(())
    }

    /// An errand has come to its end.
    pub(super) fn gone_about(&mut self, gone: GoneAbout) -> Result<(), End> {
        let GoneAbout { id, op, at, ending } = gone;
        let now = Instant::now();
        self.audits_under_way -= usize::from(op == Op::AdminAudit);
        let ended = match &ending {
            Ok(_) => Ended::Ok,
            Err(verdict) => match **verdict {
                Verdict::Ok(..) => Ended::Ok,
                Verdict::No(_) | Verdict::Rejected(_) => Ended::No,
                Verdict::Fail(_) => Ended::Fail,
            },
        };
        self.ended(op, ended, at, now);
        self.frames.write(|encoding, out| match &ending {
            Ok(Found::Audit(audit)) => encode::ok(encoding, out, id, &**audit),
            Ok(Found::City(page)) => encode::ok(encoding, out, id, page),
            Ok(Found::History(page)) => encode::ok(encoding, out, id, page),
            Err(verdict) => encode::verdict(encoding, out, id, verdict),
        })?;
        match ending {
            Err(verdict) => match *verdict {
                Verdict::Rejected(why) => ended_by(&why),
                Verdict::Ok(..) | Verdict::No(_) | Verdict::Fail(_) => Ok(()),
            },
            Ok(_) => Ok(()),
        }
    }

    fn submit(&mut self, asked: Asked, command: Command, key: Option<RequestKey>) {
        let left = asked.deadline.saturating_duration_since(asked.at);
        let cart = asked.cart;
        let tag = self.under_way.submit(asked);
        let change = Change { tag, command, key };
        let change = match cart {
            Some(cart) => self.turns.take(cart, change),
            None => Some(change),
        };
        change.into_iter().for_each(|change| self.hand_in(change, left));
    }

    fn hand_in(&self, change: Change, left: Duration) {
        let Change { tag, command, key } = change;
        let reply = ReplyTo::new(Arc::clone(&self.sink), tag).within(left.as_millis() as u64);
        venues::submit(&self.shared, &self.caller.access, command, key, reply);
    }

    /// A command is over: the change of its cart that waited for it is handed in.
    pub(super) fn next_turn(&mut self, cart: Option<CartId>, mut tag: u64, now: Instant) {
        let Some(cart) = cart else { return };
        while let Some(next) = self.turns.over(cart, tag) {
            match self.under_way.deadline_of(next.tag) {
                Some(deadline) => return self.hand_in(next, deadline.saturating_duration_since(now)),
                // Its client was told long ago that its time is over.
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

    fn item_ended(&mut self, place: usize, item: usize, verdict: Verdict, now: Instant) -> Result<(), End> {
        self.batch(place).ended(item, verdict);
        self.advance(place, now)
    }

    /// Submits the items whose turn it is, and answers the batch when all are done.
    fn advance(&mut self, place: usize, now: Instant) -> Result<(), End> {
        let Batch { id, at, deadline, .. } = *self.batch(place);
        while let Some((index, item)) = self.batch(place).start() {
            let asker = Asker::Batch { batch: place, item: index };
            let charge = match self.shared.budgets.begin(&self.owners, &item.command, now) {
                Ok(charge) => charge,
                Err(over) => {
                    self.batch(place).ended(index, Verdict::Rejected(over.rejection()));
                    continue;
                }
            };
            let reads_order = caller::reads_order(&item.command);
            let cart = Turns::cart_of(&item.command, item.key.as_ref());
            let (op, shape) = (Op::Batch, item.shape);
            let asked = Asked { asker, op, shape, charge, reads_order, cart, elsewhere: None, at, deadline };
            self.submit(asked, item.command, item.key);
        }
        if let Some(verdicts) = self.batch(place).verdicts() {
            self.batches[place] = None;
            self.ended(Op::Batch, Ended::Ok, at, now);
            self.frames.write(|encoding, out| encode::batch(encoding, out, id, &verdicts))?;
        }
        Ok(())
    }

    /// Whether as many requests are under way as may be. Those whose client has given up waiting count as well.
    fn is_full(&self) -> bool {
        self.under_way.submitted() >= self.shared.config.limits.requests_under_way_max
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

/// Whether a connection ends with this refusal: it does if its client is not who it says.
fn ended_by(why: &Rejection) -> Result<(), End> {
    match why {
        Rejection::Unauthenticated(words) => Err(End::Close(close::UNAUTHENTICATED, words.to_string().into())),
        Rejection::Refusal(_)
        | Rejection::UnknownOp(_)
        | Rejection::TooLarge(_)
        | Rejection::RateLimited { .. }
        | Rejection::UnsupportedVersion(_) => Ok(()),
    }
}

/// What a client has shown holds no longer.
pub(super) fn end_of_access(ended: AccessEnded) -> End {
    let code = match ended {
        AccessEnded::Revoked => close::UNAUTHENTICATED,
        AccessEnded::Expired => close::TOKEN_EXPIRED,
    };
    End::Close(code, ended.words().into())
}
