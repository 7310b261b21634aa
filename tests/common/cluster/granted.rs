//! What was granted, held against itself and against what the nodes say happened: each change of a session has a version of its
//! own, and who asks after an answer is told a later one.
//!
//! What is asked again (by the client, or by a cart of a session) is answered as it was the first time. So a version that was
//! told is that of the change; which change has which version, histories say.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{Granted, Port, Record, Theatre};

/// What happened to an entity, by version.
type History = BTreeMap<u64, (String, String)>;

impl Record {
    /// A request that began after an answer got no earlier version than that answer.
    ///
    /// # Panics
    /// If not.
    pub(crate) fn check_order(&self) {
        let mut entities: BTreeMap<&str, Vec<(u64, &Granted)>> = BTreeMap::new();
        for granted in &self.granted {
            for (entity, version) in &granted.at {
                entities.entry(entity).or_default().push((*version, granted));
            }
        }
        for (entity, mut changes) in entities {
            changes.sort_by_key(|(version, _)| *version);
            // Of all that were told a later version: the one who was answered first.
            let mut first: Option<(u64, &Granted)> = None;
            for told in changes.chunk_by(|one, other| one.0 == other.0).rev() {
                for (version, granted) in told {
                    if let Some((later, of)) = first {
                        assert!(
                            of.answered >= granted.called,
                            "{entity}: {later} was told before {version} was asked for: {of:?} {granted:?}"
                        );
                    }
                }
                let earliest = told.iter().copied().chain(first).min_by_key(|(_, granted)| granted.answered);
                first = earliest;
            }
        }
    }

    /// Every hold and sale that was granted happened, at a version of its own, which is the one that was told.
    ///
    /// # Panics
    /// If not.
    pub(crate) async fn check_histories(&self, port: &Port, theatre: &Theatre) {
        for session in &theatre.sessions {
            let entity = format!("session/{session}");
            let Some(history) = history(port, &entity).await else { continue };
            for granted in self.granted.iter().filter(|granted| granted.at.contains_key(&entity)) {
                let word = match granted.op {
                    "cart.hold_seats" | "cart.hold_best" | "cart.hold_all" => "held",
                    "cart.checkout" => "sold",
                    _ => continue,
                };
                let told = granted.at[&entity];
                let cart = granted.at.keys().find_map(|entity| entity.strip_prefix("cart/")).expect("a cart");
                let by = format!("cart {cart} ");
                let own = history.get(&told).is_some_and(|(event, details)| event == word && details.contains(&by));
                assert!(own, "{granted:?} was granted; that is not what happened to {entity} at {told}: {history:#?}");
            }
            // A later version cannot be told before it is there.
            let last = history.last_key_value().map_or(0, |(version, _)| *version);
            let told = self.versions.get(&entity).copied().unwrap_or_default();
            assert!(told <= last, "{entity} is at {last}, {told} was told");
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

/// The whole history of an entity; none where this node has it only from some version on.
async fn history(port: &Port, entity: &str) -> Option<History> {
    let mut history = History::new();
    let mut before = Value::Null;
    loop {
        let asked = json!({"entity": entity, "limit": 1_000, "before": before});
        let page = port.read("admin.history", asked).await.ok();
        for entry in page["entries"].as_array().expect("entries") {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let version = entry["version"].as_u64().expect("a version");
            let twice = history.insert(version, (text("event"), text("details")));
            assert_eq!(twice, None, "version {version} of {entity} happened twice");
        }
        if page["complete"] == true {
            let versions: Vec<u64> = history.keys().copied().collect();
            let whole: Vec<u64> = (1..=versions.len() as u64).collect();
            assert_eq!(versions, whole, "{entity} skips versions");
            return Some(history);
        }
        before = page["cursor"].clone();
        if before.is_null() {
            return None;
        }
    }
}
