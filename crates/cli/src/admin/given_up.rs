//! `boxoffice admin remove` and `replace`: nodes that will not come back, or not with their disks.

use boxoffice_client::Client;

use super::cluster::ClusterReport;
use crate::{
    args::NodeArgs,
    failure::{Failure, Outcome},
    node_client::{self, say},
};

pub(super) fn remove(node_args: &NodeArgs, node: u64, force: bool) -> Outcome {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        if !force {
            check_gone(node_args, &client, node, "removed").await?;
        }
        client.admin_remove(node, force).await.map_err(|error| node_args.failure(error))?;
        say(&format!("node {node} is removed: do not start it again; its shards are copied to others"));
        Ok(())
    })
}

pub(super) fn replace(node_args: &NodeArgs, node: u64, force: bool) -> Outcome {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        if !force {
            check_gone(node_args, &client, node, "replaced").await?;
        }
        client.admin_replace(node).await.map_err(|error| node_args.failure(error))?;
        say(&format!(
            "node {node} is awaited with another disk: type `boxoffice admin invite` here, and paste the line on its machine, \
             where the data directory is empty, into `boxoffice join --node {node}`"
        ));
        Ok(())
    })
}

/// Refuses to give up a node that serves and is healthy, because its copies would be lost although they are good.
async fn check_gone(node_args: &NodeArgs, client: &Client, node: u64, what: &str) -> Outcome {
    let status = client.status().await.map_err(|error| node_args.failure(error))?.value;
    let report = ClusterReport::collect(node_args, client, status).await?;
    match report.and_then(|report| report.serves(node)) {
        None => Ok(()),
        Some(why) => Err(Failure::Refused(format!(
            "node {node} serves and is healthy ({why}), so nothing was changed: `boxoffice admin drain {node}` moves its shards \
             away and lets it go, and with --force it is {what} at once"
        ))),
    }
}
