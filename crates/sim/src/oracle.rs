//! Checks all answers by their versions. Also checks that all clients see the same state of an entity at one version.

use std::collections::{BTreeMap, VecDeque};

use boxoffice_core::{
    answer::{Answer, Answered, At, MapView},
    id::{Entity, Id},
    portion::PricedSeat,
    seat::Seat,
    time::Timestamp,
};
use boxoffice_node::api::Failure;
use boxoffice_workload::calls::Calls;

use crate::{
    settings::{CODE_USES, QUOTA_MAX},
    shown::{Shown, Times, shown_by},
    tally::Tally,
};

/// Violations that are kept.
const TOLD_MAX: usize = 20;

/// Granted changes of one entity that are kept.
const GRANTED_MAX: usize = 8;

/// A change: its entity and the number of its request.
type Request = (Entity, u64);

/// All answers so far.
#[derive(Default)]
pub(crate) struct Oracle {
    calls: Calls<Entity, Request, u64>,
    /// Whole maps that were read, by session and version.
    pub(crate) maps: BTreeMap<(Id, u64), (MapView, Times)>,
    /// The states that watchers have seen, by entity and version. A session has a map and counts.
    shown: BTreeMap<(Entity, u64), Vec<Shown>>,
    /// States that watchers have seen.
    pub(crate) sights: u64,
    /// Answered changes.
    pub(crate) changes: u64,
    /// Answered reads.
    pub(crate) reads: u64,
    /// Attempts with an unknown outcome.
    pub(crate) unknown: u64,
    /// Attempts that were turned away.
    pub(crate) turned_away: u64,
    pub(crate) tally: Tally,
    /// The newest granted changes of each cart: the position of its entry, and the number of the request.
    pub(crate) granted: BTreeMap<Entity, VecDeque<(u64, u64)>>,
    /// When each session with offers first sold anything under one. Its offers open together.
    pub(crate) selling_ms: BTreeMap<Id, u64>,
    /// When the sale of each session opens, as far as buyers were told.
    pub(crate) opens_at: BTreeMap<Id, Timestamp>,
    /// The seats that each session keeps for the desk, and when they are released.
    pub(crate) kept: BTreeMap<Id, (Vec<Seat>, Timestamp)>,
    pub(crate) violations: Vec<String>,
}

impl Oracle {
    pub(crate) fn violation(&mut self, what: String) {
        if self.violations.len() < TOLD_MAX {
            self.violations.push(what);
        }
    }

    /// Counts an attempt without an answer.
    pub(crate) fn unanswered(&mut self, failure: Failure) {
        match failure {
            Failure::Unknown => self.unknown += 1,
            // The panic is a violation of its own.
            Failure::Internal | Failure::Busy(_) | Failure::NotReady | Failure::Draining | Failure::ReadOnly => {
                self.turned_away += 1;
            }
        }
    }

    /// Checks a granted change. A version without a position need not be that of the change, but the entity has reached it.
    pub(crate) fn changed(&mut self, request: &Request, times: Times, at: &[At]) {
        self.changes += 1;
        self.answered_again(request, at);
        for At { entity, version, position } in at {
            if *position == 0 {
                self.calls.reached(times, entity, *version);
                continue;
            }
            if *entity == request.0 && matches!(entity, Entity::Cart(_)) {
                let granted = self.granted.entry(entity.clone()).or_default();
                granted.push_back((*position, request.1));
                if granted.len() > GRANTED_MAX {
                    granted.pop_front();
                }
            }
            let wrong = self.calls.changed(request, times, (entity, *version, Some(*position)));
            wrong.into_iter().for_each(|wrong| self.violation(wrong));
        }
    }

    /// Checks that a repeat names the same versions as its request.
    pub(crate) fn answered_again(&mut self, request: &Request, at: &[At]) {
        let at = at.iter().map(|at| (at.entity.clone(), at.version)).collect();
        let wrong = self.calls.answered(request, at);
        wrong.into_iter().for_each(|wrong| self.violation(wrong));
    }

    /// Counts and checks a state that a watcher has seen.
    pub(crate) fn shown(&mut self, who: &str, entity: Entity, version: u64, shown: Shown) {
        self.sights += 1;
        self.seen(who, entity, version, shown);
    }

    /// Checks a state that a client has seen. Each version has one state for all clients.
    fn seen(&mut self, who: &str, entity: Entity, version: u64, shown: Shown) {
        let alike = |known: &&Shown| std::mem::discriminant(*known) == std::mem::discriminant(&shown);
        let all = self.shown.entry((entity, version)).or_default();
        match all.iter().find(alike) {
            Some(known) if *known == shown => {}
            Some(known) => {
                let what = format!("{who} was shown {shown:?} at {version}, and another client {known:?}");
                self.violation(what);
            }
            None => all.push(shown),
        }
    }

    /// Seats of a session that were sold to a guest, and are kept by now.
    pub(crate) fn kept_of(&self, session: &Id, sold: &[PricedSeat], is_early: impl Fn(Timestamp) -> bool) -> Vec<Seat> {
        let Some((kept, release_at)) = self.kept.get(session) else { return Vec::new() };
        let sold = sold.iter().map(|priced| priced.seat).filter(|seat| kept.contains(seat));
        sold.filter(|_| is_early(*release_at)).collect()
    }

    /// Notes that a session sells under its offers.
    pub(crate) fn sells(&mut self, session: &Id, acked_ms: u64) {
        let first_ms = self.selling_ms.entry(session.clone()).or_insert(acked_ms);
        *first_ms = acked_ms.min(*first_ms);
    }

    /// Sessions that have sold before their sale has opened, each once.
    pub(crate) fn early(&mut self, is_early: impl Fn(Timestamp, u64) -> bool) -> Vec<Id> {
        let sold = |id: &Id, opens_at: &Timestamp| {
            self.selling_ms.get(id).is_some_and(|first_ms| is_early(*opens_at, *first_ms))
        };
        let early: Vec<Id> = self.opens_at.iter().filter(|(id, at)| sold(id, at)).map(|(id, _)| id.clone()).collect();
        early.iter().for_each(|id| _ = self.opens_at.remove(id));
        early
    }

    /// Checks the refusal of an offer that has not opened yet. Once it has sold something, it never is again.
    pub(crate) fn not_open_yet(&mut self, session: &Id, called_ms: u64) {
        self.tally.count("holds before the sale has opened");
        if let Some(first_ms) = self.selling_ms.get(session).filter(|first_ms| **first_ms < called_ms) {
            self.violation(format!("session {session} has sold at {first_ms} and was not open at {called_ms} ms"));
        }
    }

    /// Checks an answered read.
    pub(crate) fn read(&mut self, times: Times, answered: &Answered) {
        self.reads += 1;
        for At { entity, version, .. } in &answered.at {
            let wrong = self.calls.read(times, entity, *version);
            wrong.into_iter().for_each(|wrong| self.violation(wrong));
        }
        if let Answer::CustomerAudit(audit) = &answered.answer {
            for (quota, held, sold) in &audit.quotas {
                if held + sold > QUOTA_MAX.into() {
                    let what = format!("{} has {held} and bought {sold} of {quota}, more than one may", audit.customer);
                    self.violation(what);
                }
            }
        }
        if let Answer::CodeAudit(audit) = &answered.answer
            && audit.counts.held + audit.counts.sold > CODE_USES.into()
        {
            self.violation(format!("code {} has {:?}, more than it is good for", audit.code, audit.counts));
        }
        if let Answer::Map(map) = &answered.answer {
            self.maps.entry((map.session.clone(), map.version)).or_insert_with(|| (map.clone(), times));
            self.seen("a reader", Entity::Session(map.session.clone()), map.version, shown_by(map));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_repeats_and_reads_are_compared() {
        let at = |version, position| vec![At { entity: Entity::Directory, version, position }];
        let request = |number| (Entity::Directory, number);
        let mut oracle = Oracle::default();
        oracle.changed(&request(1), (0, 5), &at(3, 9));
        oracle.changed(&request(2), (6, 7), &at(3, 0));
        assert_eq!(oracle.violations, [""; 0], "a version without a position may be another change's");
        oracle.changed(&request(3), (6, 7), &at(2, 8));
        oracle.answered_again(&request(1), &at(4, 0));
        oracle.read((8, 9), &Answered { answer: Answer::Done, at: at(2, 0) });
        assert_eq!(oracle.violations.len(), 3, "{:#?}", oracle.violations);
    }
}
