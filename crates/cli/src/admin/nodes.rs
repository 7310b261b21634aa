//! `boxoffice admin nodes` and `drain`: the members of a cluster.

use boxoffice_client::{ClusterStatus, CopiesStatus, MemberStatus, PlaceStatus};
use boxoffice_wire::cluster::node_of;
use smol_str::SmolStr;

use super::{as_json, print};
use crate::{
    args::NodeArgs,
    failure::Outcome,
    node_client::{self, date_and_time, say},
};

/// Shows members, and shards on their way.
pub(super) fn show(node_args: &NodeArgs, json: bool) -> Outcome {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let cluster = client.nodes().await.map_err(|error| node_args.failure(error))?.value;
        print(&if json { vec![as_json(&cluster)] } else { lines(&cluster) });
        Ok(())
    })
}

pub(super) fn drain(node_args: &NodeArgs, node: u64, force: bool) -> Outcome {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        client.admin_drain(node, force).await.map_err(|error| node_args.failure(error))?;
        say(&format!(
            "node {node} is drained: it is gone, and its process has ended, when everything is elsewhere; \
             `boxoffice admin drain {node} --cancel` keeps it"
        ));
        Ok(())
    })
}

pub(super) fn keep(node_args: &NodeArgs, node: u64) -> Outcome {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        client.admin_undrain(node).await.map_err(|error| node_args.failure(error))?;
        say(&format!("node {node} stays"));
        Ok(())
    })
}

/// The members as a table, and the shards that move below it. The cluster's table does not know which nodes are up.
pub(super) fn lines(cluster: &ClusterStatus) -> Vec<String> {
    let mut rows = vec![
        ["node", "state", "peers at", "clients at", "program", "copies", "votes", "to lead", "since"]
            .map(str::to_owned),
    ];
    rows.extend(cluster.members.iter().map(|member| row(member, &cluster.places)));
    let mut lines = table(&rows);
    let moving: Vec<String> = cluster.places.iter().filter_map(|place| on_its_way(place, &cluster.members)).collect();
    let serving = cluster.members.iter().filter(|member| member.state == "serving").count();
    lines.push(String::new());
    lines.push(format!("{} shards, {} copies of each wanted", cluster.places.len(), cluster.replicas));
    if serving < 3 && cluster.replicas > 1 {
        lines.push("One voter in each shard until three nodes serve: the loss of its disk loses data.".into());
    }
    lines.push(match moving.len() {
        0 => "No shard is moving.".into(),
        1 => "One shard is moving:".into(),
        count => format!("{count} shards are moving:"),
    });
    lines.extend(moving);
    lines.push("So it is meant to be. Who answers and leads now: `boxoffice admin status`.".into());
    lines
}

fn row(member: &MemberStatus, places: &[PlaceStatus]) -> [String; 9] {
    let is_there = |replicas: &[SmolStr]| replicas.iter().any(|replica| node_of(replica) == Some(member.node));
    let count = |holds: &dyn Fn(&PlaceStatus) -> bool| places.iter().filter(|place| holds(place)).count().to_string();
    let state = if member.awaits_disk { format!("{} (no disk)", member.state) } else { member.state.to_string() };
    [
        member.node.to_string(),
        state,
        member.peer.to_string(),
        member.client.to_string(),
        member.program.to_string(),
        count(&|place| is_there(&place.voters) || is_there(&place.learners)),
        count(&|place| is_there(&place.voters)),
        count(&|place| node_of(&place.leader) == Some(member.node)),
        date_and_time(member.since),
    ]
}

/// A moving shard in words, with the reason.
pub(super) fn on_its_way(place: &PlaceStatus, members: &[MemberStatus]) -> Option<String> {
    let from = place.from.as_ref()?;
    let CopiesStatus { voters, learners } = from;
    let (to, why) = (replicas(&place.voters, &place.learners), why(from, place, members));
    Some(format!("  shard {:<4} {} -> {to}: {why}", place.shard, replicas(voters, learners)))
}

/// Why a shard moves.
fn why(from: &CopiesStatus, place: &PlaceStatus, members: &[MemberStatus]) -> String {
    let nodes = |voters: &[SmolStr], learners: &[SmolStr]| -> Vec<u64> {
        voters.iter().chain(learners).filter_map(|replica| node_of(replica)).collect()
    };
    let (before, after) = (nodes(&from.voters, &from.learners), nodes(&place.voters, &place.learners));
    let state = |node: u64| members.iter().find(|member| member.node == node).map_or("", |member| &member.state);
    let left = || before.iter().filter(|node| !after.contains(node));
    if let Some(node) = left().find(|node| state(**node) == "gone") {
        return format!("node {node} was removed");
    }
    if let Some(node) = left().find(|node| state(**node) == "draining") {
        return format!("node {node} is drained");
    }
    let renewed = |replica: &&SmolStr| {
        let old = from.voters.iter().chain(&from.learners).find(|old| node_of(old) == node_of(replica));
        old.is_some_and(|old| old != *replica)
    };
    if let Some(replica) = place.voters.iter().chain(&place.learners).find(renewed) {
        return format!("node {} has another disk", node_of(replica).unwrap_or_default());
    }
    if let Some(node) = after.iter().find(|node| !before.contains(node)) {
        return format!("node {node} gets its share");
    }
    match (from.voters.len(), place.voters.len()) {
        (before, after) if before < after => "enough nodes serve for more voters".into(),
        (before, after) if before > after => "too few nodes serve for this many voters".into(),
        _ => "copies are evened out".into(),
    }
}

/// `1.1 2.4 + 3.7`: voters, then learners.
fn replicas(voters: &[SmolStr], learners: &[SmolStr]) -> String {
    match learners {
        [] => voters.join(" "),
        learners => format!("{} + {}", voters.join(" "), learners.join(" ")),
    }
}

/// Rows in columns as wide as their widest cell.
pub(super) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use boxoffice_client::Timestamp;
    use expect_test::expect;

    use super::*;

    fn member(node: u64, state: &'static str) -> MemberStatus {
        MemberStatus {
            node,
            state: state.into(),
            awaits_disk: state == "joining",
            peer: format!("10.0.0.{node}:7280").into(),
            client: format!("10.0.0.{node}:7180").into(),
            program: "0.1.0".into(),
            since: Timestamp(1_798_140_605_123),
            first_generation: 1,
            reads_up_to: Some(17),
        }
    }

    fn place(shard: u32, voters: &[&str], learners: &[&str], from: Option<&[&str]>) -> PlaceStatus {
        let texts = |replicas: &[&str]| replicas.iter().map(SmolStr::new).collect::<Vec<_>>();
        let from = from.map(|voters| CopiesStatus { voters: texts(voters), learners: Vec::new() });
        PlaceStatus { shard, voters: texts(voters), learners: texts(learners), leader: voters[0].into(), from }
    }

    #[test]
    fn members_are_a_table_and_what_moves_is_below() {
        let cluster = ClusterStatus {
            version: 12,
            node: None,
            replicas: 3,
            cluster_version: 17,
            members: vec![member(1, "serving"), member(2, "draining"), member(3, "joining")],
            places: vec![place(0, &["1.1"], &["2.3"], None), place(1, &["2.2", "1.7", "3.5"], &[], Some(&["2.2"]))],
        };
        expect![[r#"
            node  state              peers at       clients at     program  copies  votes  to lead  since
            1     serving            10.0.0.1:7280  10.0.0.1:7180  0.1.0    2       2      1        2026-12-24 19:30 UTC
            2     draining           10.0.0.2:7280  10.0.0.2:7180  0.1.0    2       1      1        2026-12-24 19:30 UTC
            3     joining (no disk)  10.0.0.3:7280  10.0.0.3:7180  0.1.0    1       1      0        2026-12-24 19:30 UTC

            2 shards, 3 copies of each wanted
            One voter in each shard until three nodes serve: the loss of its disk loses data.
            One shard is moving:
              shard 1    2.2 -> 2.2 1.7 3.5: node 1 gets its share
            So it is meant to be. Who answers and leads now: `boxoffice admin status`."#]]
        .assert_eq(&lines(&cluster).join("\n"));
    }
}
