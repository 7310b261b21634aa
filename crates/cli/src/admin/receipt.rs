//! `boxoffice admin receipt`: the chains of hashes over the entries of a node's shards.

use boxoffice_client::{NodeStatus, ShardStatus};
use boxoffice_core::version::NEWEST;
use boxoffice_storage::chain_file::{self, ChainPlace};

use crate::{
    args::NodeArgs,
    failure::{Failure, Outcome},
    node_client::{self, say},
};

/// Prints the receipt of a node.
pub fn print(node_args: &NodeArgs) -> Outcome {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let status = client.status().await.map_err(|error| node_args.failure(error))?.value;
        say(lines(&status)?.trim_end());
        Ok(())
    })
}

/// A line that says of what it is a receipt, and a line for each shard, as `boxoffice verify` reads them.
///
/// # Errors
/// The entries are not chained yet.
fn lines(status: &NodeStatus) -> Result<String, Failure> {
    let places: Vec<_> = status.shards.iter().filter_map(place).collect();
    if places.is_empty() {
        let why = "this node has no chained entry yet: ask again in a second, or finish the upgrade of the cluster";
        return Err(Failure::Refused(why.into()));
    }
    let of = format!(
        "# cluster {}, node {}: version of the line, shard, entry, term, chain of all entries up to it, time in milliseconds, checksum\n",
        status.cluster, status.node
    );
    Ok(places.iter().fold(of, |text, place| text + &chain_file::line(NEWEST, place)))
}

fn place(shard: &ShardStatus) -> Option<ChainPlace> {
    let end = shard.chain.as_ref()?;
    Some(ChainPlace {
        shard: shard.shard.try_into().ok()?,
        index: end.index,
        term: end.term,
        chain: u128::from_str_radix(&end.hash, 16).ok()?,
        at_ms: end.at.0,
    })
}
