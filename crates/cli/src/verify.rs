//! `boxoffice verify`: proves what a data directory holds, without a node.

use std::{fs, path::Path};

use boxoffice_env::World;
use boxoffice_node::verify::{self, Verification, VerifiedShard};
use boxoffice_storage::chain_file::{self, ChainPlace};

use crate::{
    args::Verify,
    failure::{Failure, Outcome},
    node_client::say,
};

/// Verifies a data directory, and prints what was verified and what is wrong.
pub fn run(args: &Verify) -> Outcome {
    let receipt = args.receipt.as_deref().map_or_else(|| Ok(Vec::new()), read_receipt)?;
    let verified = verify::verify(&World::standalone(), &args.data_dir, &receipt)
        .map_err(|error| Failure::Node(error.to_string()))?;
    for line in lines(&verified) {
        say(&line);
    }
    match verified.findings.len() {
        0 => Ok(()),
        count => Err(Failure::Refused(format!(
            "{count} findings in {}; keep the directory as it is, and start no node in it",
            args.data_dir.display()
        ))),
    }
}

/// The lines of a receipt. Those that begin with `#` say what it is of.
fn read_receipt(path: &Path) -> Result<Vec<ChainPlace>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read the receipt {}: {error}", path.display())))?;
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let found = chain_file::parse((lines.join("\n") + "\n").as_bytes());
    let says_nothing = |line: usize| lines.get(line - 1).is_none_or(|line| line.is_empty() || line.starts_with('#'));
    match found.damaged.into_iter().find(|(line, _)| !says_nothing(*line)) {
        Some((line, why)) => Err(Failure::Usage(format!("{}, line {line}: {why}", path.display()))),
        None if found.places.is_empty() => Err(Failure::Usage(format!(
            "{} is no receipt: it has no line of a shard. `boxoffice admin receipt` prints one",
            path.display()
        ))),
        None => Ok(found.places),
    }
}

fn lines(verified: &Verification) -> Vec<String> {
    let Verification { identity, shards, segments, snapshots, findings } = verified;
    let mut lines = vec![
        format!("cluster {}  node {}  shards {}", identity.cluster, identity.node, identity.shards),
        format!(
            "read: {segments} segments of the log, {snapshots} snapshots, the store, {} shards with entries",
            shards.len()
        ),
    ];
    if !shards.is_empty() {
        lines.push(format!(
            "{:>6} {:>9} {:>9} {:>9} {:>7}  chain at the last entry",
            "shard", "from", "to", "entries", "places"
        ));
        lines.extend(shards.iter().map(of_shard));
    }
    lines.extend(findings.iter().map(|finding| format!("FOUND {finding}")));
    if findings.is_empty() {
        lines.push("nothing is wrong".into());
    }
    lines
}

fn of_shard(verified: &VerifiedShard) -> String {
    let VerifiedShard { shard, chained, from, unchained, places, last } = *verified;
    let (to, chain) = match last {
        Some((position, chain)) => (position.index, format!("{chain:032x}")),
        None => (0, "none: no known place before the entries".into()),
    };
    let more = if unchained > 0 { format!("; {unchained} entries before them are not chained") } else { String::new() };
    format!("{shard:>6} {from:>9} {to:>9} {chained:>9} {places:>7}  {chain}{more}")
}
