//! Checks all answers by their versions. No two changes have the same version. Log positions ascend with versions. A
//! change that was answered before a request has a lower version than the request's own (real-time order). An unknown
//! outcome is never taken for a failure.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{Answer, Answered, At, MapView},
    id::{Entity, Id},
};
use boxoffice_node::api::Failure;

use crate::{
    settings::QUOTA_MAX,
    shown::{Shown, Times, shown_by},
    tally::Tally,
};

/// Violations that are kept.
const TOLD_MAX: usize = 20;

/// A change: its entity and the number of its request.
type Key<'a> = (&'a Entity, u64);

/// All answers so far.
#[derive(Default)]
pub(crate) struct Oracle {
    entities: BTreeMap<Entity, Versions>,
    /// The versions with which each request was granted. A repeat must have the same (P9).
    granted: BTreeMap<(Entity, u64), Vec<(Entity, u64)>>,
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
    pub(crate) violations: Vec<String>,
}

/// The versions of one entity.
#[derive(Default)]
struct Versions {
    /// By version: the entity and number of the request, the log position, the times.
    changes: BTreeMap<u64, (Entity, u64, u64, Times)>,
    /// The highest version by the time of its answer. Both ascend.
    highest: Vec<(u64, u64)>,
}

impl Versions {
    /// The highest version answered before `ms`.
    fn before(&self, ms: u64) -> u64 {
        let later = self.highest.partition_point(|&(acked_ms, _)| acked_ms < ms);
        later.checked_sub(1).map_or(0, |last| self.highest[last].1)
    }

    fn answered(&mut self, version: u64, acked_ms: u64) {
        if self.highest.last().is_none_or(|&(_, highest)| version > highest) {
            self.highest.push((acked_ms, version));
        }
    }
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

    /// Checks a granted change.
    pub(crate) fn changed(&mut self, (entity, request): Key<'_>, (called_ms, acked_ms): Times, at: &[At]) {
        self.changes += 1;
        self.answered_again((entity, request), at);
        for At { entity: of, version, position } in at.iter().filter(|at| at.position != 0) {
            let line = self.entities.entry(of.clone()).or_default();
            let before = line.before(called_ms);
            let mut wrong = Vec::new();
            let known = line.changes.get(version);
            match known {
                Some((whose, number, place, _)) if (whose, *number, *place) == (entity, request, *position) => {}
                Some(other) => wrong.push(format!(
                    "{of} has version {version} twice: of request {request} of {entity} at {position}, and {other:?}"
                )),
                None if *version <= before => wrong.push(format!(
                    "{of}: request {request} of {entity} was asked at {called_ms} ms, when version {before} had been \
                     answered, and got version {version}"
                )),
                None => {}
            }
            if known.is_none() {
                let below = line.changes.range(..version).next_back();
                let above = line.changes.range(version..).next();
                for (other, fits) in [
                    (below, below.is_none_or(|(_, below)| below.2 <= *position)),
                    (above, above.is_none_or(|(_, above)| above.2 >= *position)),
                ] {
                    if !fits {
                        wrong.push(format!("{of}: version {version} stands at {position}, but {other:?}"));
                    }
                }
                let change = (entity.clone(), request, *position, (called_ms, acked_ms));
                line.changes.insert(*version, change);
            }
            line.answered(*version, acked_ms);
            wrong.into_iter().for_each(|wrong| self.violation(wrong));
        }
    }

    /// Checks that a repeat names the same versions as its request. More inventories may have sold an order since, and
    /// one of them several times.
    pub(crate) fn answered_again(&mut self, (entity, request): Key<'_>, at: &[At]) {
        let now: Vec<(Entity, u64)> = at.iter().map(|at| (at.entity.clone(), at.version)).collect();
        let known = self.granted.entry((entity.clone(), request)).or_insert_with(|| now.clone());
        let differs = |of: &Entity| match (only(known, of), only(&now, of)) {
            (Some(before), Some(again)) => before != again,
            _ => false,
        };
        if now.iter().any(|(of, _)| differs(of)) {
            let what = format!("request {request} of {entity} was granted at {known:?}, and told again at {now:?}");
            self.violation(what);
        }
    }

    /// Checks a state that a watcher has seen. Each version has one state for all clients.
    pub(crate) fn shown(&mut self, who: &str, entity: Entity, version: u64, shown: Shown) {
        self.sights += 1;
        if let (Entity::Session(session), Shown::Map(..)) = (&entity, &shown)
            && let Some((map, times)) = self.maps.get(&(session.clone(), version))
            && shown_by(map) != shown
        {
            self.violation(format!("{who} was shown {shown:?} of {entity} at {version}, read as {map:?} at {times:?}"));
        }
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

    /// Checks an answered read.
    pub(crate) fn read(&mut self, times: Times, answered: &Answered) {
        self.reads += 1;
        for At { entity, version, .. } in &answered.at {
            let line = self.entities.entry(entity.clone()).or_default();
            let before = line.before(times.0);
            line.answered(*version, times.1);
            if *version < before {
                self.violation(format!(
                    "{entity} was read at version {version}, {times:?}, when version {before} had been answered"
                ));
            }
        }
        if let Answer::CustomerAudit(audit) = &answered.answer {
            for (quota, held, sold) in &audit.quotas {
                if held + sold > QUOTA_MAX.into() {
                    let what = format!("{} has {held} and bought {sold} of {quota}, more than one may", audit.customer);
                    self.violation(what);
                }
            }
        }
        if let Answer::Map(map) = &answered.answer {
            let known = self.maps.entry((map.session.clone(), map.version)).or_insert_with(|| (map.clone(), times));
            if (&known.0.seats, &known.0.areas) != (&map.seats, &map.areas) {
                let what = format!("the map of {} at version {} was read twice and differs", map.session, map.version);
                self.violation(what);
            }
            let shown = self.shown.get(&(Entity::Session(map.session.clone()), map.version));
            let shown = shown.into_iter().flatten().find(|shown| matches!(shown, Shown::Map(..)));
            if let Some(shown) = shown.filter(|shown| **shown != shown_by(map)) {
                let what = format!("{map:?} was read, and watchers were shown {shown:?} at this version");
                self.violation(what);
            }
        }
    }
}

/// The version of an entity that occurs once.
fn only(all: &[(Entity, u64)], of: &Entity) -> Option<u64> {
    let mut found = all.iter().filter(|(entity, _)| entity == of);
    found.next().filter(|_| found.next().is_none()).map(|(_, version)| *version)
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::CartId;

    use super::*;

    const CART: Entity = Entity::Cart(CartId(1));

    fn at(version: u64, position: u64) -> Vec<At> {
        vec![At { entity: Entity::Directory, version, position }]
    }

    fn judged(changes: &[(u64, Times, Vec<At>)]) -> usize {
        let mut oracle = Oracle::default();
        for (request, times, at) in changes {
            oracle.changed((&CART, *request), *times, at);
        }
        oracle.violations.len()
    }

    #[test]
    fn a_version_belongs_to_one_request_and_its_repeats() {
        assert_eq!(judged(&[(1, (0, 5), at(1, 9)), (1, (6, 9), at(1, 9)), (2, (6, 9), at(2, 9))]), 0);
        assert_eq!(judged(&[(1, (0, 5), at(1, 9)), (2, (0, 5), at(1, 9))]), 1);
        assert_eq!(judged(&[(1, (0, 5), at(1, 9)), (1, (0, 5), at(1, 10))]), 1);
    }

    #[test]
    fn versions_follow_real_time_and_the_log() {
        assert_eq!(judged(&[(1, (0, 5), at(2, 9)), (2, (6, 7), at(1, 8))]), 1);
        assert_eq!(judged(&[(1, (0, 5), at(2, 9)), (2, (3, 7), at(1, 8))]), 0, "they overlapped");
        assert_eq!(judged(&[(1, (0, 5), at(2, 9)), (2, (3, 7), at(1, 10))]), 1, "but the log disagrees");
    }

    #[test]
    fn a_read_is_not_older_than_earlier_answers() {
        let mut oracle = Oracle::default();
        let read = |version| Answered { answer: Answer::Done, at: at(version, 0) };
        oracle.changed((&CART, 1), (0, 5), &at(3, 9));
        oracle.read((6, 7), &read(3));
        oracle.read((4, 7), &read(2));
        assert_eq!(oracle.violations, [""; 0]);
        oracle.read((6, 7), &read(2));
        assert_eq!(oracle.violations.len(), 1);
    }
}
