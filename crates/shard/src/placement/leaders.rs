//! Which voter of each shard should lead. Nodes lead about the same number of shards, and leaders stay where they can.

use std::collections::{BTreeMap, BTreeSet};

use super::{MemberState, Place, Situation, target::Target};
use crate::name::{DIRECTORY, NodeId, ShardId};

/// The leader of every shard with these targets, in the order of the places. The targets of `changed` are new.
pub(super) fn choose(situation: &Situation, targets: &[Target], changed: &BTreeSet<ShardId>) -> Vec<NodeId> {
    let may_lead: Vec<Vec<NodeId>> = situation
        .places
        .iter()
        .zip(targets)
        .map(|(place, target)| {
            // A moving shard keeps its leader. So does a shard with a lost replica, because naming its nodes would recreate the
            // replica too early.
            let is_bound = place.moving || place.all().any(|replica| situation.lost_its_disk(replica));
            let is_bound = is_bound && !changed.contains(&place.shard);
            if is_bound { vec![place.leader] } else { candidates(situation, place, target) }
        })
        .collect();
    let shards = (0..may_lead.len()).filter(|index| situation.places[*index].shard != DIRECTORY);
    let shards: Vec<usize> = shards.collect();
    let serving = situation.members.iter().filter(|member| member.state == MemberState::Serving).count();
    let least = shards.len().div_ceil(serving.max(1));
    // If shards have one voter only, a node may have to lead more than its share.
    let led = (least..=shards.len()).find_map(|leads_max| {
        let mut table = LeaderAssignment { situation, may_lead: &may_lead, leads_max, led: BTreeMap::new() };
        table.fill(&shards).then_some(table.led)
    });
    let mut chosen: Vec<NodeId> = situation.places.iter().map(|place| place.leader).collect();
    for (node, shards) in led.unwrap_or_default() {
        shards.into_iter().for_each(|index| chosen[index] = node);
    }
    for (index, place) in situation.places.iter().enumerate() {
        if place.shard == DIRECTORY && !may_lead[index].contains(&place.leader) {
            chosen[index] = may_lead[index][0];
        }
    }
    chosen
}

/// Voters that may lead, best first: existing voters, on nodes that stay.
fn candidates(situation: &Situation, place: &Place, target: &Target) -> Vec<NodeId> {
    let replica = |node: NodeId| place.all().find(|replica| replica.node == node);
    let there = |node: NodeId| replica(node).is_some_and(|replica| situation.has_its_disk(replica));
    let serves = |node: NodeId| situation.state(node) == MemberState::Serving;
    let lost = |node: NodeId| replica(node).is_some_and(|replica| !situation.has_its_disk(replica));
    let mut best: Vec<NodeId> = target.voters.iter().copied().filter(|node| serves(*node) && !lost(*node)).collect();
    best.sort_by_key(|node| (*node != place.leader, !there(*node), *node));
    if best.is_empty() {
        // There is no better leader. The node is being drained and has not been moved yet, or has to come back first.
        let drains = |node: &NodeId| situation.state(*node) == MemberState::Draining;
        let other = target.voters.iter().copied().find(drains).unwrap_or(target.voters[0]);
        let keeps = target.voters.contains(&place.leader) && situation.state(place.leader) != MemberState::Gone;
        best.push(if keeps { place.leader } else { other });
    }
    best
}

/// The assignment of leaders in progress.
struct LeaderAssignment<'a> {
    situation: &'a Situation,
    may_lead: &'a [Vec<NodeId>],
    leads_max: usize,
    led: BTreeMap<NodeId, Vec<usize>>,
}

impl LeaderAssignment<'_> {
    /// Whether every shard has a leader.
    fn fill(&mut self, shards: &[usize]) -> bool {
        let mut others = Vec::new();
        for index in shards {
            let leader = self.situation.places[*index].leader;
            if self.may_lead[*index].contains(&leader) && self.has_room(leader) {
                self.led.entry(leader).or_default().push(*index);
            } else {
                others.push(*index);
            }
        }
        others.into_iter().all(|index| self.give(index, &mut BTreeSet::new()))
    }

    fn has_room(&self, node: NodeId) -> bool {
        self.led.get(&node).map_or(0, Vec::len) < self.leads_max
    }

    /// Assigns a shard to one of its voters with room. If there is none, makes room by moving another shard.
    fn give(&mut self, index: usize, asked: &mut BTreeSet<NodeId>) -> bool {
        let may_lead = self.may_lead;
        let roomy = may_lead[index].iter().filter(|node| self.has_room(**node));
        if let Some(node) = roomy.min_by_key(|node| self.led.get(node).map_or(0, Vec::len)) {
            self.led.entry(*node).or_default().push(index);
            return true;
        }
        for node in &may_lead[index] {
            if !asked.insert(*node) {
                continue;
            }
            for other in self.led.get(node).cloned().unwrap_or_default() {
                if self.give(other, asked) {
                    let shards = self.led.entry(*node).or_default();
                    shards.retain(|led| *led != other);
                    shards.push(index);
                    return true;
                }
            }
        }
        false
    }
}
