//! `boxoffice admin upgrade`: the version of the cluster.

use boxoffice_client::{Client, Error};

use super::print;
use crate::{
    args::{NodeArgs, UpgradeCommand},
    failure::Outcome,
    node_client::{self, say},
};

pub(super) fn run(node_args: &NodeArgs, what: UpgradeCommand) -> Outcome {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        match what {
            UpgradeCommand::Show => print(&lines(node_args, &client).await?),
            UpgradeCommand::Finish => {
                client.admin_finish_upgrade().await.map_err(|error| node_args.failure(error))?;
                match client.nodes().await {
                    Ok(cluster) => {
                        let version = cluster.value.cluster_version;
                        say(&format!("the cluster is at version {version}, and every member reads it"));
                    }
                    Err(Error::Refused(no)) if no.name == "not_found" => {
                        say("the node is alone, and writes under the newest version that its program reads");
                    }
                    Err(error) => return Err(node_args.failure(error)),
                }
            }
        }
        Ok(())
    })
}

/// The version of the cluster, the versions of the members' programs, and what is left to do.
async fn lines(node_args: &NodeArgs, client: &Client) -> Result<Vec<String>, crate::failure::Failure> {
    let cluster = match client.nodes().await {
        Ok(cluster) => cluster.value,
        Err(Error::Refused(no)) if no.name == "not_found" => {
            let line = "The node is alone. If its directory is older than its program, `boxoffice admin upgrade finish` finishes the upgrade.";
            return Ok(vec![line.into()]);
        }
        Err(error) => return Err(node_args.failure(error)),
    };
    let status = client.status().await.map_err(|error| node_args.failure(error))?.value;
    let mut lines = vec![format!("The cluster is at version {}.", cluster.cluster_version)];
    for member in cluster.members.iter().filter(|member| member.state != "gone") {
        let (node, program) = (member.node, &member.program);
        lines.push(match member.reads_up_to {
            Some(version) => format!("  node {node}: program {program}, which reads versions up to {version}"),
            None => format!("  node {node}: it has not started yet"),
        });
    }
    lines.push(match status.upgrade.as_str() {
        "" => "No upgrade has begun: no member reads a higher version.".into(),
        upgrade => format!("An upgrade has begun: {upgrade}."),
    });
    Ok(lines)
}
