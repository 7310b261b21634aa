//! `boxoffice verify`: proves what a data directory, a backup or a running cluster holds.

use std::{fs, path::Path};

use boxoffice_env::World;
use boxoffice_node::verify::{self, Verification, VerifiedShard, verify_backup};
use boxoffice_replication::error::ReplicationError;
use boxoffice_storage::{
    chain_file::{self, ChainPlace},
    identity::IdentityError,
};

use crate::{
    args::{Backup, Verify},
    backup::{
        self,
        files::{Manifest, Reading},
        temporary::Temporary,
    },
    failure::{Failure, Outcome},
    node_client::say,
    progress::Progress,
};

/// Verifies what is asked for, and prints what was verified and what is wrong.
pub fn run(args: &Verify) -> Outcome {
    let receipt = args.receipt.as_deref().map_or_else(|| Ok(Vec::new()), read_receipt)?;
    if args.running {
        return running(args, &receipt);
    }
    if let Some(manifest) = Manifest::read(&args.dir)? {
        return of_backup(&args.dir, &manifest, &receipt, &Temporary::new("verify")?);
    }
    let progress = Progress::of_items("verifying");
    let verified = verify::verify(&World::standalone(), &args.dir, &receipt).map_err(|error| not_read(&error))?;
    drop(progress);
    let Verification { identity, shards, segments, snapshots, findings } = verified;
    say(&format!("cluster {}  node {}  shards {}", identity.cluster, identity.node, identity.shards));
    say(&format!(
        "read: {segments} segments of the log, {snapshots} snapshots, the store, {} shards with entries",
        shards.len()
    ));
    conclude(&shards, &findings, || {
        format!("{}; keep the directory as it is, and start no node in it", args.dir.display())
    })
}

/// Why a data directory is not read. That of a running node is verified in another way.
fn not_read(error: &ReplicationError) -> Failure {
    let is_used = matches!(error, ReplicationError::Identity(IdentityError::InUse { .. }));
    let remedy = if is_used { ". `boxoffice verify --running` verifies what a running cluster has" } else { "" };
    Failure::Node(format!("{error}{remedy}"))
}

/// Verifies a running cluster by a backup of it.
fn running(args: &Verify, receipt: &[ChainPlace]) -> Outcome {
    let temporary = Temporary::new("verify")?;
    let dir = temporary.path().join("backup");
    let backup = Backup {
        dir: dir.clone(),
        members: args.members.clone(),
        wait: "60s".into(),
        full: true,
        node_args: args.node_args.clone(),
    };
    backup::run(&backup)?;
    of_backup(&dir, &Manifest::complete(&dir)?, receipt, &temporary)
}

/// Verifies every file of a backup, the chains of its entries, and the data directory that a restore makes of it
/// in `temporary`.
fn of_backup(dir: &Path, manifest: &Manifest, receipt: &[ChainPlace], temporary: &Temporary) -> Outcome {
    let _ = Manifest::complete(dir)?;
    let mut findings = manifest.changed_files(dir);
    let mut shards = Vec::new();
    let last = manifest.cut_at(None).map_err(|_| Failure::Refused(format!("{} has no cut", dir.display())))?;
    say(&format!(
        "a backup of cluster {}  shards {}  parts {}",
        manifest.cluster,
        manifest.shards,
        manifest.parts.len()
    ));
    let reading = Reading::at(dir, manifest, last);
    if findings.is_empty() {
        let (found, wrong) = verify_backup(&reading, receipt).map_err(|error| Failure::Refused(error.to_string()))?;
        (shards, findings) = (found, wrong);
    }
    if findings.is_empty() {
        let restored = temporary.path().join("data");
        let made = backup::make(&reading, last, &restored, manifest.shards);
        let verified = made.and_then(|_| {
            verify::verify(&World::standalone(), &restored, &[]).map_err(|error| Failure::Node(error.to_string()))
        });
        findings = verified?.findings;
    }
    conclude(&shards, &findings, || format!("the backup in {}; keep it as it is, and take another one", dir.display()))
}

/// Prints the shards and what is wrong. `place` says where, and what to do.
fn conclude(shards: &[VerifiedShard], findings: &[String], place: impl FnOnce() -> String) -> Outcome {
    if !shards.is_empty() {
        say(&format!(
            "{:>6} {:>9} {:>9} {:>9} {:>7}  chain at the last entry",
            "shard", "from", "to", "entries", "places"
        ));
    }
    for shard in shards {
        say(&of_shard(shard));
    }
    for finding in findings {
        say(&format!("FOUND {finding}"));
    }
    match findings.len() {
        0 => {
            say("nothing is wrong");
            Ok(())
        }
        1 => Err(Failure::Refused(format!("1 finding in {}", place()))),
        count => Err(Failure::Refused(format!("{count} findings in {}", place()))),
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

fn of_shard(verified: &VerifiedShard) -> String {
    let VerifiedShard { shard, chained, from, unchained, places, last } = *verified;
    let (to, chain) = match last {
        Some((position, chain)) => (position.index, format!("{chain:032x}")),
        None => (0, "none: no known place before the entries".into()),
    };
    let more = if unchained > 0 { format!("; {unchained} entries before them are not chained") } else { String::new() };
    format!("{shard:>6} {from:>9} {to:>9} {chained:>9} {places:>7}  {chain}{more}")
}
