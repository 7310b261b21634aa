//! Checks granted requests against the histories of the nodes.
//!
//! A repeated request gets its first answer again. So the version in an answer is that of the change, and the history shows the
//! change with that version.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{Port, Record, Theatre};

/// The events of an entity by version.
type History = BTreeMap<u64, (String, String)>;

impl Record {
    /// Checks that every granted hold and sale is in the history with the version of its answer.
    ///
    /// # Panics
    /// If one is not.
    pub(crate) async fn check_histories(&self, port: &Port, theatre: &Theatre) {
        for session in &theatre.sessions {
            let entity = format!("session/{session}");
            let Some(history) = history(port, &entity).await else { continue };
            for (told, request) in self.calls.changes(&entity) {
                let word = match request.op {
                    "cart.hold_seats" | "cart.hold_best" | "cart.hold_all" => "held",
                    "cart.checkout" => "sold",
                    _ => continue,
                };
                let by = format!("cart {}", request.cart.as_ref().expect("a cart"));
                let own = history.get(&told).is_some_and(|(event, details)| event == word && details.contains(&by));
                assert!(own, "{request:?} was granted; that is not what happened to {entity} at {told}: {history:#?}");
            }
            // No answer can have a later version.
            let last = history.last_key_value().map_or(0, |(version, _)| *version);
            let told = self.calls.highest(&entity);
            assert!(told <= last, "{entity} is at {last}, {told} was told");
        }
    }

    /// The longest time between two grants since `since`, in milliseconds.
    pub(crate) fn longest_gap_ms(&self, since: Instant) -> u128 {
        let since = self.granted.partition_point(|time| *time < since.into_std());
        self.granted[since..].windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).max().unwrap_or_default()
    }
}

/// The whole history of an entity. `None` if this node has only a part of it.
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
