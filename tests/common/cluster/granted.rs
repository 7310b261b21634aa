//! What was granted, held against itself: a version of an entity is one change, and who asks after an answer gets a later one.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::common::{Granted, Record};

impl Record {
    /// # Panics
    /// If two requests were told the same version of an entity, or one that was asked after another's answer an earlier one.
    pub(crate) fn check_versions(&self) {
        let mut entities: BTreeMap<&str, Vec<(u64, &Granted)>> = BTreeMap::new();
        for granted in &self.granted {
            for (entity, version) in &granted.at {
                entities.entry(entity).or_default().push((*version, granted));
            }
        }
        for (entity, mut changes) in entities {
            changes.sort_by_key(|(version, _)| *version);
            for pair in changes.windows(2) {
                assert_ne!(pair[0].0, pair[1].0, "version {} of {entity} was told twice: {pair:?}", pair[0].0);
            }
            // In the order of versions nobody was called after a later one was answered.
            let mut earliest: Option<(u64, &Granted)> = None;
            for &(version, granted) in changes.iter().rev() {
                if let Some((later, of)) = earliest {
                    assert!(
                        of.answered >= granted.called,
                        "{entity}: version {later} was answered before {version} was asked for: {of:?} {granted:?}"
                    );
                }
                if earliest.is_none_or(|(_, of)| granted.answered < of.answered) {
                    earliest = Some((version, granted));
                }
            }
        }
    }

    /// The longest time between two answers that granted something, since then, in milliseconds.
    pub(crate) fn longest_gap_ms(&self, since: Instant) -> u128 {
        let mut times: Vec<_> = self.granted.iter().map(|granted| granted.answered).collect();
        times.retain(|time| *time >= since.into_std());
        times.sort();
        times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).max().unwrap_or_default()
    }
}
