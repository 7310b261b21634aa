//! Granted calls and the versions that their answers name.
//!
//! - No two changes of an entity have the same version.
//! - A request that began after an answer has a higher version, and a read no lower one (real-time order).
//! - Positions in the log ascend with versions.
//! - A repeat of a request names the same versions (P9).

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::{Debug, Display},
};

/// A change: its request, its position in the log if the answer has it, and when it was called and answered.
type TimedChange<R, T> = (R, Option<u64>, (T, T));

/// Calls by entity `E`, request `R` and time `T`, in the order of their answers. A call without an answer is not added.
#[derive(Clone, Debug)]
pub struct Calls<E, R, T> {
    entities: BTreeMap<E, Versions<R, T>>,
    /// The versions in the first answer to each request.
    answers: BTreeMap<R, Vec<(E, u64)>>,
}

#[derive(Clone, Debug)]
struct Versions<R, T> {
    changes: BTreeMap<u64, TimedChange<R, T>>,
    /// The highest version by the time of its answer. Both ascend.
    highest: Vec<(T, u64)>,
}

impl<R, T: Ord + Copy + Debug> Versions<R, T> {
    /// Adds an answer. Returns the highest version that had been answered before the call.
    fn answered(&mut self, version: u64, (called, answered): (T, T)) -> u64 {
        let before = self.highest[..self.highest.partition_point(|(time, _)| *time < called)].last().copied();
        let last = self.highest.last().copied();
        assert!(last.is_none_or(|(time, _)| time <= answered), "{last:?} is later than {version} at {answered:?}");
        if last.is_none_or(|(_, highest)| version > highest) {
            self.highest.push((answered, version));
        }
        before.map_or(0, |(_, version)| version)
    }
}

impl<E: Ord + Clone + Debug + Display, R: Ord + Clone + Debug, T: Ord + Copy + Debug> Calls<E, R, T> {
    /// Adds that a request got this version of an entity. Returns what is wrong.
    pub fn changed(
        &mut self,
        request: &R,
        times: (T, T),
        (entity, version, position): (&E, u64, Option<u64>),
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let known = self.of(entity);
        let before = known.answered(version, times);
        let change = (request.clone(), position, times);
        if let Some(other) = known.changes.get(&version) {
            if (&other.0, other.1) != (request, position) {
                wrong.push(format!("{entity} has version {version} twice: {change:?} and {other:?}"));
            }
            return wrong;
        }
        if version <= before {
            wrong.push(format!("{entity} had answered {before} before a call got {version}: {change:?}"));
        }
        let ascends = |one: Option<u64>, other: Option<u64>| one.zip(other).is_none_or(|(one, other)| one <= other);
        let below = known.changes.range(..version).next_back().filter(|(_, below)| !ascends(below.1, position));
        let above = known.changes.range(version..).next().filter(|(_, above)| !ascends(position, above.1));
        for other in below.into_iter().chain(above) {
            wrong.push(format!("{entity}: the position of version {version} {change:?} does not fit to {other:?}"));
        }
        known.changes.insert(version, change);
        wrong
    }

    /// Adds that an entity was read at this version. Returns what is wrong.
    pub fn read(&mut self, times: (T, T), entity: &E, version: u64) -> Option<String> {
        let before = self.of(entity).answered(version, times);
        (version < before).then(|| format!("{entity} had answered {before} before a read of {version} at {times:?}"))
    }

    /// Adds that an answer named this version of an entity, by a change of any time. Later calls must not get less.
    pub fn reached(&mut self, times: (T, T), entity: &E, version: u64) {
        self.of(entity).answered(version, times);
    }

    /// Adds the versions in an answer. Returns how they differ from those in the first answer to the request. A repeat
    /// may name more entities, and one several times, because more of a sale is known by then.
    pub fn answered(&mut self, request: &R, at: Vec<(E, u64)>) -> Option<String> {
        match self.answers.entry(request.clone()) {
            Entry::Vacant(place) => {
                place.insert(at);
                None
            }
            Entry::Occupied(known) => {
                let known = known.get();
                let differs =
                    |entity| only(known, entity).zip(only(&at, entity)).is_some_and(|(one, other)| one != other);
                let is_wrong = at.iter().any(|(entity, _)| differs(entity));
                is_wrong.then(|| format!("{request:?} was granted at {known:?}, and its repeat at {at:?}"))
            }
        }
    }

    /// The highest version of an entity in any answer, or 0.
    pub fn highest(&self, entity: &E) -> u64 {
        self.entities.get(entity).and_then(|known| known.highest.last()).map_or(0, |(_, version)| *version)
    }

    /// The versions of an entity with the requests that got them.
    pub fn changes(&self, entity: &E) -> impl Iterator<Item = (u64, &R)> {
        self.entities
            .get(entity)
            .into_iter()
            .flat_map(|known| &known.changes)
            .map(|(version, change)| (*version, &change.0))
    }

    /// Adds calls of other entities.
    ///
    /// # Panics
    /// If both have calls of the same entity, because their order would not be checked.
    pub fn append(&mut self, other: Calls<E, R, T>) {
        for (entity, versions) in other.entities {
            assert!(self.entities.insert(entity.clone(), versions).is_none(), "both have calls of {entity}");
        }
        self.answers.extend(other.answers);
    }

    fn of(&mut self, entity: &E) -> &mut Versions<R, T> {
        let none = || Versions { changes: BTreeMap::new(), highest: Vec::new() };
        self.entities.entry(entity.clone()).or_insert_with(none)
    }
}

impl<E, R, T> Default for Calls<E, R, T> {
    fn default() -> Self {
        Calls { entities: BTreeMap::new(), answers: BTreeMap::new() }
    }
}

/// The version of an entity that occurs once.
fn only<E: PartialEq>(all: &[(E, u64)], of: &E) -> Option<u64> {
    let mut found = all.iter().filter(|(entity, _)| entity == of);
    found.next().filter(|_| found.next().is_none()).map(|(_, version)| *version)
}

#[cfg(test)]
mod tests {
    type Calls = super::Calls<&'static str, u64, u64>;

    /// A change of an entity: request, times, version and position.
    type TimedChange = (u64, (u64, u64), u64, Option<u64>);

    /// Checks that changes of one entity have the breaches with these words.
    #[track_caller]
    fn check(changes: &[TimedChange], words: &[&str]) {
        let mut calls = Calls::default();
        let changes = changes.iter();
        let wrong: Vec<String> = changes.flat_map(|c| calls.changed(&c.0, c.1, (&"e", c.2, c.3))).collect();
        let fits = wrong.len() == words.len() && wrong.iter().zip(words).all(|(wrong, word)| wrong.contains(word));
        assert!(fits, "{wrong:#?} are not {words:?}");
    }

    #[test]
    fn a_version_belongs_to_one_request_and_its_repeats() {
        check(&[(1, (0, 5), 1, Some(9)), (1, (6, 9), 1, Some(9)), (2, (6, 9), 2, Some(9))], &[]);
        check(&[(1, (0, 5), 1, Some(9)), (2, (0, 5), 1, Some(9))], &["version 1 twice"]);
        check(&[(1, (0, 5), 1, Some(9)), (1, (0, 5), 1, Some(10))], &["version 1 twice"]);
        check(&[(1, (0, 5), 1, None), (2, (0, 5), 1, None)], &["version 1 twice"]);
    }

    #[test]
    fn versions_follow_real_time_and_the_log() {
        check(&[(1, (0, 5), 2, None), (2, (6, 7), 1, None)], &["answered 2"]);
        check(&[(1, (0, 5), 2, None), (2, (3, 7), 1, None)], &[]);
        // A lower version that is answered later does not hide a higher one.
        let late = (4, (20, 21), 4, None);
        check(&[(1, (0, 5), 5, None), (2, (1, 9), 3, None), (3, (8, 10), 6, None), late], &["answered 6"]);
        check(&[(1, (0, 5), 2, Some(9)), (2, (3, 7), 1, Some(10))], &["the position of version 1"]);
        check(&[(1, (0, 5), 1, Some(9)), (2, (3, 7), 2, Some(8))], &["the position of version 2"]);
    }

    #[test]
    fn a_read_is_not_older_than_earlier_answers() {
        let mut calls = Calls::default();
        assert_eq!(calls.changed(&1, (0, 5), (&"e", 3, None)), [""; 0]);
        assert_eq!(calls.read((6, 7), &"e", 3), None);
        assert_eq!(calls.read((4, 8), &"e", 2), None, "they overlapped");
        assert!(calls.read((6, 9), &"e", 2).is_some());
        // A change and a read are not older than a read either.
        assert_eq!(calls.read((9, 10), &"e", 5), None);
        assert!(calls.read((11, 12), &"e", 4).is_some());
        assert_eq!(calls.changed(&2, (11, 13), (&"e", 4, None)).len(), 1);
        // A repeat may name an old version, and shows how far the entity is.
        calls.reached((13, 14), &"e", 2);
        calls.reached((14, 15), &"e", 7);
        assert!(calls.read((16, 17), &"e", 6).is_some());
        assert_eq!((calls.highest(&"e"), calls.highest(&"f")), (7, 0));
    }

    #[test]
    fn a_repeat_names_the_same_versions() {
        let mut calls = Calls::default();
        assert_eq!(calls.answered(&1, vec![("e", 3), ("f", 1)]), None);
        assert_eq!(calls.answered(&1, vec![("e", 3), ("g", 2)]), None, "more of a sale is known");
        assert_eq!(calls.answered(&1, vec![("f", 1), ("f", 2)]), None, "an entity sold several times");
        assert!(calls.answered(&1, vec![("e", 4)]).is_some());
    }
}
