//! The status of the whole cluster. Each node is asked for its own status at its address in the cluster's table.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use boxoffice_client::{Client, ClusterStatus, Error, FollowerStatus, MemberStatus, NodeStatus, PlaceStatus};
use boxoffice_wire::cluster::node_of;

use super::nodes::{on_its_way, table};
use crate::{args::NodeArgs, config::Operators, failure::Failure};

/// How long one of the other nodes may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The statuses of the nodes.
pub(super) struct ClusterReport {
    cluster: ClusterStatus,
    /// The status of each member, or why it is missing.
    nodes: BTreeMap<u64, Result<NodeStatus, String>>,
}

impl ClusterReport {
    /// Asks the other nodes of the cluster. `own` is the status of the node that was asked already. `None` if there are no
    /// others.
    ///
    /// # Errors
    /// The node does not tell the members.
    pub(super) async fn collect(
        node_args: &NodeArgs,
        client: &Client,
        own: NodeStatus,
    ) -> Result<Option<ClusterReport>, Failure> {
        let cluster = match client.nodes().await {
            Ok(reply) => reply.value,
            // A node that is alone has no members.
            Err(Error::Refused(no)) if no.name == "not_found" => return Ok(None),
            Err(error @ (Error::Unknown(_) | Error::Failed(_))) => {
                return Err(match own.state.as_str() {
                    "ready" => node_args.failure(error),
                    state => no_majority(&own.node, state),
                });
            }
            Err(error) => return Err(node_args.failure(error)),
        };
        let others = |member: &&MemberStatus| member.state != "gone" && own.node != member.node.to_string();
        let asked: Vec<_> = cluster.members.iter().filter(others).map(|member| status_of(node_args, member)).collect();
        let mut nodes: BTreeMap<_, _> = futures_util::future::join_all(asked).await.into_iter().collect();
        if let Ok(node) = own.node.parse() {
            nodes.insert(node, Ok(own));
        }
        Ok(Some(ClusterReport { cluster, nodes }))
    }

    /// How it is known that a member serves and is healthy: it says so itself, or another node has a link to it. `None` if nothing
    /// says so.
    pub(super) fn serves(&self, node: u64) -> Option<String> {
        let member = self.cluster.members.iter().find(|member| member.node == node)?;
        if member.awaits_disk || !matches!(member.state.as_str(), "serving" | "draining") {
            return None;
        }
        if let Some(Ok(status)) = self.nodes.get(&node) {
            return Some(format!("it is {} at {}", status.state, member.client));
        }
        let mut others = self.nodes.iter().filter_map(|(other, status)| Some((other, status.as_ref().ok()?)));
        let (linked, _) = others.find(|(_, status)| status.linked.contains(&node))?;
        Some(format!("node {linked} has a link to it"))
    }

    /// The nodes, the shards, and the moving shards in lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new(), "The whole cluster:".into(), String::new()];
        let mut rows = vec![["node", "state", "clients at", "is", "leads", "copies"].map(str::to_owned)];
        rows.extend(self.cluster.members.iter().map(|member| self.node(member)));
        lines.extend(table(&rows));
        lines.push(String::new());
        let mut rows = vec![
            ["shard", "leader", "committed", "distance", "copies and how many entries they are behind"]
                .map(str::to_owned),
        ];
        rows.extend(self.cluster.places.iter().map(|place| self.shard(place)));
        lines.extend(table(&rows));
        let moving: Vec<String> =
            self.cluster.places.iter().filter_map(|place| on_its_way(place, &self.cluster.members)).collect();
        lines.push(String::new());
        lines.push(if moving.is_empty() { "No shard is moving.".into() } else { format!("{} moving:", moving.len()) });
        lines.extend(moving);
        lines
    }

    fn node(&self, member: &MemberStatus) -> [String; 6] {
        let (is, leads, copies) = match self.nodes.get(&member.node) {
            Some(Ok(status)) => {
                let roles = |wanted: &[&str]| {
                    status.shards.iter().filter(|shard| wanted.contains(&shard.role.as_str())).count().to_string()
                };
                let here = roles(&["leader", "follower", "candidate", "learner"]);
                (status.state.to_string(), roles(&["leader"]), here)
            }
            Some(Err(why)) => (format!("not reached: {why}"), "?".into(), "?".into()),
            None => ("gone".into(), "0".into(), "0".into()),
        };
        [member.node.to_string(), member.state.to_string(), member.client.to_string(), is, leads, copies]
    }

    /// A shard as its leader says. If two nodes lead it, the one in the later term counts.
    fn shard(&self, place: &PlaceStatus) -> [String; 5] {
        let led = self.nodes.iter().filter_map(|(node, status)| {
            let shards = &status.as_ref().ok()?.shards;
            let led = shards.iter().find(|shard| shard.shard == place.shard && shard.role == "leader")?;
            Some((led.term, *node, led))
        });
        let Some((_, node, led)) = led.max_by_key(|(term, node, _)| (*term, *node)) else {
            return [place.shard.to_string(), "none known".into(), "?".into(), "?".into(), "?".into()];
        };
        let wanted = node_of(&place.leader).filter(|wanted| *wanted != node);
        let leader = wanted.map_or(node.to_string(), |wanted| format!("{node}, to be {wanted}"));
        let behind: Vec<String> = led.followers.iter().map(follower).collect();
        let unconfirmed = if led.unconfirmed { ", not confirmed" } else { "" };
        let distance = format!("{} ms{unconfirmed}", led.distance_ms);
        [place.shard.to_string(), leader, led.committed.to_string(), distance, behind.join(", ")]
    }
}

/// The failure where a node answers and the nodes that keep the table of members cannot decide.
fn no_majority(node: &str, state: &str) -> Failure {
    Failure::Node(format!(
        "node {node} answers ({state}), but no majority of the nodes that keep the table of members, so nothing can be decided. \
         Start the nodes that are down; if a majority is lost for good, restore a backup"
    ))
}

fn follower(follower: &FollowerStatus) -> String {
    let FollowerStatus { replica, lag, heard } = follower;
    if *heard { format!("{replica} {lag}") } else { format!("{replica} {lag} (not heard of)") }
}

async fn status_of(node_args: &NodeArgs, member: &MemberStatus) -> (u64, Result<NodeStatus, String>) {
    let at = NodeArgs { address: operators_at(node_args, &member.client), ..node_args.clone() };
    let asked = async {
        let client = at.connect().await.map_err(|failure| short(&failure.to_string()))?;
        client.status().await.map(|reply| reply.value).map_err(|error| short(&at.failure(error).to_string()))
    };
    let status = tokio::time::timeout(TIMEOUT, asked).await;
    (member.node, status.unwrap_or_else(|_| Err(format!("no answer in {} s", TIMEOUT.as_secs()))))
}

/// The address to ask a member at: its clients' port with a key. Without a key, its operators' port on this machine, at the
/// default distance.
fn operators_at(node_args: &NodeArgs, client: &str) -> String {
    let has_key = node_args.admin_token.is_some() || node_args.admin_token_file.is_some();
    let clients = client.parse::<SocketAddr>().ok().filter(|address| !has_key && address.ip().is_loopback());
    match clients.map(|address| Operators::Auto.address(address)) {
        Some(Ok(operators)) => format!("http://{operators}"),
        Some(Err(_)) | None => client.to_owned(),
    }
}

/// The first sentence, without the remedy, for a table.
fn short(why: &str) -> String {
    why.split(". ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use boxoffice_client::{CopiesStatus, Timestamp};
    use expect_test::expect;

    use super::*;
    use crate::admin::tests::node_status;

    fn member(node: u64, state: &'static str) -> MemberStatus {
        MemberStatus {
            node,
            state: state.into(),
            awaits_disk: false,
            peer: format!("10.0.0.{node}:7280").into(),
            client: format!("10.0.0.{node}:7180").into(),
            program: "0.1.0".into(),
            since: Timestamp(1_798_140_605_123),
            first_generation: 1,
            reads_up_to: Some(17),
        }
    }

    #[test]
    fn the_report_shows_replicas_behind_and_moving_shards() {
        let replicas = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<_>>();
        let place = |shard, voters: &[&str], from: Option<&[&str]>| PlaceStatus {
            shard,
            voters: replicas(voters),
            learners: Vec::new(),
            leader: voters[0].into(),
            from: from.map(|from| CopiesStatus { voters: replicas(from), learners: Vec::new() }),
        };
        let cluster = ClusterStatus {
            version: 12,
            node: None,
            replicas: 3,
            cluster_version: 17,
            members: vec![member(1, "serving"), member(2, "draining"), member(3, "serving"), member(4, "gone")],
            places: vec![
                place(0, &["1.1", "2.3", "3.4"], None),
                place(1, &["3.5", "1.7", "5.9"], Some(&["2.2", "3.5", "1.7"])),
            ],
        };
        let mut one = node_status("1", &["leader", "follower"]);
        one.shards[0].followers = vec![
            FollowerStatus { replica: "2.3".into(), lag: 0, heard: true },
            FollowerStatus { replica: "3.4".into(), lag: 12, heard: false },
        ];
        one.linked = vec![2];
        let three = node_status("3", &["follower", "follower"]);
        let nodes = BTreeMap::from([(1, Ok(one)), (2, Err("no answer in 2 s".into())), (3, Ok(three))]);
        let report = ClusterReport { cluster, nodes };
        expect![[r#"

            The whole cluster:

            node  state     clients at     is                             leads  copies
            1     serving   10.0.0.1:7180  ready                          1      2
            2     draining  10.0.0.2:7180  not reached: no answer in 2 s  ?      ?
            3     serving   10.0.0.3:7180  ready                          0      2
            4     gone      10.0.0.4:7180  gone                           0      0

            shard  leader      committed  distance  copies and how many entries they are behind
            0      1           391        0 ms      2.3 0, 3.4 12 (not heard of)
            1      none known  ?          ?         ?

            1 moving:
              shard 1    2.2 3.5 1.7 -> 3.5 1.7 5.9: node 2 is drained"#]]
        .assert_eq(&report.lines().join("\n"));
        // Node 2 does not answer here, but node 1 has a link to it. Node 3 answers, and node 4 is gone.
        let serves = [1, 2, 3, 4, 5].map(|node| report.serves(node));
        let expected = [
            Some("it is ready at 10.0.0.1:7180"),
            Some("node 1 has a link to it"),
            Some("it is ready at 10.0.0.3:7180"),
        ];
        assert_eq!(serves.each_ref().map(Option::as_deref), [expected[0], expected[1], expected[2], None, None]);
        let mut silent = report;
        if let Some(Ok(one)) = silent.nodes.get_mut(&1) {
            one.linked.clear();
        }
        assert_eq!(silent.serves(2), None, "no node has a link to it");
        silent.cluster.members[2].awaits_disk = true;
        assert_eq!(silent.serves(3), None, "it is replaced already");
    }
}
