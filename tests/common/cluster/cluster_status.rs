//! Checks whether several nodes are ready, and whether their replicas have applied the same position.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Replicas of a shard, given enough nodes.
const REPLICAS: usize = 3;

/// The most voters of the directory.
const DIRECTORY_VOTERS: usize = 5;

/// The status of several nodes at about the same time.
pub(super) struct ClusterStatus {
    pub(super) statuses: BTreeMap<u64, Value>,
    pub(super) table: Value,
}

impl ClusterStatus {
    pub(super) fn check_ready(&self) -> Result<(), String> {
        for (id, status) in &self.statuses {
            if status["state"] != "ready" {
                return Err(format!("node {id} is {}", status["state"]));
            }
        }
        let members = self.table["members"].as_array().ok_or("no members")?;
        let serving: BTreeSet<u64> = members
            .iter()
            .filter(|member| member["state"] == "serving")
            .filter_map(|member| member["node"].as_u64())
            .collect();
        if let Some(other) = self.statuses.keys().find(|id| !serving.contains(id)) {
            return Err(format!("node {other} does not serve yet: {members:?}"));
        }
        let places = self.table["places"].as_array().ok_or("no places")?;
        for place in places {
            let shard = place["shard"].as_u64().ok_or("a shard without a number")?;
            let most = if shard == 0 { DIRECTORY_VOTERS } else { REPLICAS };
            // Two voters tolerate no more failures than one, and four no more than three.
            let nodes = serving.len().min(most);
            let wanted = nodes - usize::from(nodes % 2 == 0);
            let voters = place["voters"].as_array().map_or(0, Vec::len);
            if voters != wanted || place.get("from").is_some_and(|from| !from.is_null()) {
                return Err(format!("shard {shard} should have {wanted} voters: {place}"));
            }
        }
        for shard in 0..places.len() as u64 {
            let led = |status: &&Value| role(status, shard).is_some_and(|role| role == "leader");
            match self.statuses.values().filter(led).count() {
                1 => {}
                leaders => return Err(format!("shard {shard} has {leaders} leaders")),
            }
        }
        Ok(())
    }

    pub(super) fn check_applied(&self) -> Result<(), String> {
        let mut applied: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
        for (id, status) in &self.statuses {
            for shard in status["shards"].as_array().ok_or("no shards")? {
                let number = |name: &str| shard[name].as_u64().ok_or(format!("no {name}: {shard}"));
                // A node also reports shards without a local replica.
                if self.has_replica(*id, number("shard")?) {
                    applied.entry(number("shard")?).or_default().insert(*id, number("applied")?);
                }
            }
        }
        for (shard, nodes) in applied {
            if nodes.values().collect::<BTreeSet<_>>().len() > 1 {
                return Err(format!("shard {shard} is applied up to {nodes:?}"));
            }
        }
        Ok(())
    }
}

impl ClusterStatus {
    fn has_replica(&self, node: u64, shard: u64) -> bool {
        let replicas = |place: &Value| {
            let all = ["voters", "learners"].into_iter().filter_map(|kind| place[kind].as_array()).flatten();
            all.filter_map(|replica| replica.as_str()?.split_once('.')?.0.parse::<u64>().ok()).any(|id| id == node)
        };
        let places = self.table["places"].as_array();
        places.into_iter().flatten().any(|place| place["shard"] == shard && replicas(place))
    }
}

fn role(status: &Value, shard: u64) -> Option<&str> {
    let shards = status["shards"].as_array()?;
    shards.iter().find(|replica| replica["shard"] == shard)?["role"].as_str()
}
