//! Verifies a data directory that no node has open, or a backup: every checksum in it, the chain of each shard's entries from one known place to the
//! next, and the sums that are kept beside what they count. Nothing that a node keeps in it is changed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::Arc,
};

use boxoffice_core::version::{NEWEST, WriteVersion};
use boxoffice_env::World;
use boxoffice_shard::{Link, Position, Record, ShardId, SnapshotMeta};
use boxoffice_storage::{
    archive_files::ArchiveFiles,
    chain_file::{self, ChainPlace},
    identity::{self, Identity},
    log,
    snapshot::{self, Snapshot},
    snapshot_files::SnapshotFiles,
};
use bytes::Bytes;

use crate::{
    error::ReplicationError,
    inspect::{self, DirectoryContent, LoggedReplicas, REPLACED_MAX},
    restore::{BackupSource, RestoreError},
};

/// What a data directory has, and what is wrong with it.
pub struct Verification {
    pub identity: Identity,
    /// The shards of which something is there.
    pub shards: Vec<VerifiedShard>,
    /// Segments of the log, archived ones among them.
    pub segments: u64,
    pub snapshots: u64,
    /// Everything that is wrong, in words. Empty if nothing was found.
    pub findings: Vec<String>,
}

/// What was verified of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedShard {
    pub shard: ShardId,
    /// Entries that are chained to a known place, or to the beginning of the shard.
    pub chained: u64,
    /// The first of them. 0 if there is none.
    pub from: u64,
    /// Entries without a known place before them.
    pub unchained: u64,
    /// Known places that the chain has met: snapshots, kept places, and lines of a receipt.
    pub places: u64,
    /// The last entry, and the chain with it. A cluster's last entries may not be committed.
    pub last: Option<(Position, u128)>,
}

/// Verifies the data directory at `dir`, and compares it with a receipt that was printed before. `compare` compares its entities with
/// each other if nothing is wrong with each of them, and returns what is wrong.
///
/// # Errors
/// There is no data directory, a node has it open, or the file system fails. What is damaged is no error but a finding.
pub fn verify(
    world: &World,
    dir: &Path,
    receipt: &[ChainPlace],
    compare: impl FnOnce(&DirectoryContent) -> Vec<String>,
) -> Result<Verification, ReplicationError> {
    let disk = Arc::clone(&world.disk);
    let identity =
        identity::read(&*disk, dir)?.ok_or_else(|| ReplicationError::NoDataDirectory { dir: dir.to_owned() })?;
    let _lock = identity::lock(&*disk, dir)?;
    let mut findings = Vec::new();
    let mut walks: BTreeMap<ShardId, Walk> = BTreeMap::new();
    let mut replicas = LoggedReplicas::default();

    let snapshots =
        read_snapshots(&SnapshotFiles::open(Arc::clone(&disk), &dir.join("snapshots"))?, &mut walks, &mut findings)?;
    let archive_dir = dir.join("archive");
    let archives = ArchiveFiles::open(Arc::clone(&disk), &archive_dir, &WriteVersion::new(NEWEST))?;
    let kept = SnapshotFiles::open(Arc::clone(&disk), &archive_dir)?;
    let snapshots = snapshots + read_snapshots(&kept, &mut walks, &mut findings)?;
    match chain_file::read(&*disk, &archive_dir) {
        Ok(kept) => {
            findings
                .extend(kept.damaged.iter().map(|(line, why)| format!("line {line} of the places of chains: {why}")));
            for place in kept.places {
                walk(&mut walks, place.shard).know(place.position(), place.chain, "a kept place");
            }
        }
        Err(error) => findings.push(format!("the places of chains cannot be read: {error}")),
    }
    for place in receipt {
        walk(&mut walks, place.shard).know(place.position(), place.chain, RECEIPT);
    }

    let log_dir = dir.join("log");
    let in_log: BTreeSet<u64> = log::segment_numbers(&*disk, &log_dir)?.into_iter().collect();
    let mut segments = 0;
    let mut last = None;
    for number in archives.list()?.into_iter().filter(|number| !in_log.contains(number)) {
        segments += 1;
        // A segment that could not be archived is given up.
        if last.replace(number).is_some_and(|last| last + 1 != number) {
            walks.values_mut().for_each(Walk::lose);
        }
        let table = archives.table(number);
        let read = table.and_then(|table| {
            table.map_or(Ok(()), |table| table.records(|record| take(&mut walks, &mut replicas, record)))
        });
        if let Err(error) = read {
            findings.push(error.to_string());
            // What follows is not chained to what came before.
            walks.values_mut().for_each(Walk::lose);
        }
    }
    if last.is_some_and(|last| in_log.first() != Some(&(last + 1))) {
        walks.values_mut().for_each(Walk::lose);
    }
    let mut undecodable = None;
    let recovery = log::inspect(&*disk, &log_dir, &mut |record| match Record::decode_all(Bytes::copy_from_slice(
        record.payload,
    )) {
        Ok(records) => records.into_iter().for_each(|record| take(&mut walks, &mut replicas, record)),
        Err(why) => {
            undecodable = undecodable
                .take()
                .or(Some(ReplicationError::UndecodableRecord { seq: record.seq, why: why.to_string() }))
        }
    });
    findings.extend(undecodable.map(|error| error.to_string()));
    let is_log_whole = recovery.is_ok();
    match recovery {
        Ok(recovery) => segments += recovery.segments as u64,
        Err(error) => findings.push(error.to_string()),
    }

    let shards = ended(walks, &mut findings, |shard| is_log_whole && !replicas.is_gone(shard));
    if is_log_whole {
        findings.extend(counted(world, dir, compare).unwrap_or_else(|error| vec![error.to_string()]));
    }
    Ok(Verification { identity, shards, segments, snapshots, findings })
}

/// Verifies the entries of a backup, and compares them with a receipt that was printed before. Returns its shards, and what is wrong.
///
/// # Errors
/// The backup cannot be read.
pub fn verify_backup(
    source: &dyn BackupSource,
    receipt: &[ChainPlace],
) -> Result<(Vec<VerifiedShard>, Vec<String>), RestoreError> {
    let (mut walks, mut replicas) = (BTreeMap::new(), LoggedReplicas::default());
    for shard in 0..=source.shards() {
        let Some(payload) = source.snapshot(shard).map_err(RestoreError::Source)? else { continue };
        let meta = snapshot::decode(&payload).map_err(|why| RestoreError::Shard { shard, why })?.meta;
        walk(&mut walks, shard).begin(&meta);
    }
    for place in receipt {
        walk(&mut walks, place.shard).know(place.position(), place.chain, RECEIPT);
    }
    source.entries(&mut |record| {
        take(&mut walks, &mut replicas, record);
        Ok(())
    })?;
    let mut findings = Vec::new();
    let shards = ended(walks, &mut findings, |_| true);
    Ok((shards, findings))
}

/// Ends the walks. Returns the shards of which something is there. `is_whole` says whether a shard has everything after its newest
/// snapshot.
fn ended(
    walks: BTreeMap<ShardId, Walk>,
    findings: &mut Vec<String>,
    is_whole: impl Fn(ShardId) -> bool,
) -> Vec<VerifiedShard> {
    let mut shards = Vec::new();
    for (shard, mut walk) in walks {
        walk.end(is_whole(shard));
        findings.extend(walk.findings.iter().map(|finding| format!("shard {shard}: {finding}")));
        if walk.verified.chained + walk.verified.unchained > 0 || walk.verified.last.is_some() {
            shards.push(walk.verified);
        }
    }
    shards
}

const RECEIPT: &str = "the receipt";

fn walk(walks: &mut BTreeMap<ShardId, Walk>, shard: ShardId) -> &mut Walk {
    walks.entry(shard).or_insert_with(|| Walk::new(shard))
}

/// Reads every snapshot, and learns the places that they name. Returns how many there are.
fn read_snapshots(
    files: &SnapshotFiles,
    walks: &mut BTreeMap<ShardId, Walk>,
    findings: &mut Vec<String>,
) -> Result<u64, ReplicationError> {
    let names = files.list()?;
    for name in &names {
        let (shard, index) = (name.shard, name.index);
        let payload = match files.load(*name) {
            Ok(Ok(payload)) => payload,
            Ok(Err(why)) => {
                findings.push(format!("the snapshot {why}"));
                continue;
            }
            Err(error) => {
                findings.push(error.to_string());
                continue;
            }
        };
        let Snapshot { meta, store_batches, cut } = match snapshot::decode(&payload) {
            Ok(snapshot) => snapshot,
            Err(why) => {
                findings.push(ReplicationError::BadSnapshot { shard, why }.to_string());
                continue;
            }
        };
        if snapshot::encode(&meta, store_batches, &snapshot::encode_state(&cut)) != payload {
            findings
                .push(format!("the snapshot of shard {shard} at entry {index} is read otherwise than it was written"));
        }
        walk(walks, shard).begin(&meta);
    }
    Ok(names.len() as u64)
}

fn take(walks: &mut BTreeMap<ShardId, Walk>, replicas: &mut LoggedReplicas, record: Record) {
    if replicas.begins_anew(&record) {
        walk(walks, record.shard()).begin_anew();
    }
    if let Record::Entry { shard, position, kind, payload } = record {
        walk(walks, shard).entry(Link::of(shard, position, kind, &payload));
    }
}

/// Applies every entry of the log, counts everything, and compares it. Returns what is wrong. Forged entries may break any
/// rule of the states that they are applied to, which then panic.
fn counted(
    world: &World,
    dir: &Path,
    compare: impl FnOnce(&DirectoryContent) -> Vec<String>,
) -> Result<Vec<String>, ReplicationError> {
    let counting = AssertUnwindSafe(|| {
        let content = inspect::read(world, dir, |_| {})?;
        let found = recount(&content)?;
        // What is found in one shard is found again where shards are compared.
        Ok(if found.is_empty() { compare(&content) } else { found })
    });
    panic::catch_unwind(counting).unwrap_or_else(|_| {
        Ok(vec!["the entries after the newest snapshots cannot be applied, so no leader has written them".into()])
    })
}

/// Counts everything in a directory, with every entry of its log applied. Returns what is wrong.
fn recount(content: &DirectoryContent) -> Result<Vec<String>, ReplicationError> {
    let mut findings = Vec::new();
    for shard in &content.shards {
        let broken = shard.kept.audit().violations.into_iter();
        findings.extend(broken.map(|violation| format!("shard {}: {violation}", shard.shard)));
        if let Some(history) = &content.history {
            findings.extend(history.recount(shard.shard)?);
        }
    }
    Ok(findings)
}

/// Where the chain of a shard is known from.
struct Known {
    term: u64,
    chain: u128,
    from: &'static str,
}

/// A shard's entries, chained in order.
struct Walk {
    verified: VerifiedShard,
    /// Places that must be met, by index.
    known: BTreeMap<u64, Known>,
    /// The index of the newest snapshot. 0 without one.
    snapshot: u64,
    /// The last entries, which may still be replaced.
    window: VecDeque<Link>,
    /// The last entry behind the window. `None` after a beginning or a loss.
    last: Option<u64>,
    /// The chain with it, if it is chained to a known place.
    chain: Option<Option<u128>>,
    /// The last place that was met.
    met: u64,
    /// Where the entries begin that end the log.
    run: u64,
    findings: Vec<String>,
}

impl Walk {
    fn new(shard: ShardId) -> Walk {
        let verified = VerifiedShard { shard, chained: 0, from: 0, unchained: 0, places: 0, last: None };
        let (known, window, findings) = (BTreeMap::new(), VecDeque::new(), Vec::new());
        Walk { verified, known, snapshot: 0, window, last: None, chain: None, met: 0, run: 0, findings }
    }

    /// The shard has this snapshot.
    fn begin(&mut self, meta: &SnapshotMeta) {
        self.snapshot = self.snapshot.max(meta.position.index);
        if let Some(chain) = meta.chain {
            self.know(meta.position, chain, "its snapshot");
        }
    }

    fn know(&mut self, position: Position, chain: u128, from: &'static str) {
        let Position { index, term } = position;
        match self.known.get(&index) {
            Some(other) if (other.term, other.chain) != (term, chain) => {
                self.findings.push(format!("{from} and {} have different chains at entry {index}", other.from));
            }
            Some(_) => {}
            None => _ = self.known.insert(index, Known { term, chain, from }),
        }
    }

    /// Takes the next entry of the log. It replaces those with the same or a higher index.
    fn entry(&mut self, link: Link) {
        let index = link.position().index;
        while self.window.back().is_some_and(|last| last.position().index >= index) {
            self.window.pop_back();
        }
        self.window.push_back(link);
        while self.window.len() > REPLACED_MAX {
            self.chain_next();
        }
    }

    /// The entries that follow continue a snapshot, and not those before.
    fn begin_anew(&mut self) {
        self.window.clear();
        (self.last, self.chain) = (None, None);
    }

    /// Entries are lost that were named as damaged.
    fn lose(&mut self) {
        while !self.window.is_empty() {
            self.chain_next();
        }
        (self.last, self.chain) = (None, None);
    }

    fn chain_next(&mut self) {
        let Some(link) = self.window.pop_front() else { return };
        let Position { index, term } = link.position();
        match self.last {
            Some(last) if index <= last => {
                self.findings.push(format!("entry {index} stands after entry {last}"));
                return;
            }
            Some(last) if index > last + 1 => {
                self.findings.push(format!("entries {} to {} are missing", last + 1, index - 1));
                self.chain = None;
            }
            Some(_) => {}
            None => self.run = index,
        }
        self.last = Some(index);
        let before = self.chain.or_else(|| match index {
            1 => Some(None),
            _ => self.known.get(&(index - 1)).map(|known| Some(known.chain)),
        });
        self.chain = before.map(|before| link.after(before));
        match self.chain {
            Some(_) if self.verified.from == 0 => (self.verified.from, self.verified.chained) = (index, 1),
            Some(_) => self.verified.chained += 1,
            None => self.verified.unchained += 1,
        }
        if let Some(known) = self.known.get(&index) {
            match self.chain {
                Some(chain) if (term, chain) != (known.term, Some(known.chain)) => self.findings.push(format!(
                    "the entries {} to {index} are not those that were decided: their chain is not that of {} at entry {index}",
                    self.met + 1,
                    known.from
                )),
                Some(_) => self.verified.places += 1,
                None => {}
            }
            (self.chain, self.met) = (Some(Some(known.chain)), index);
        }
        self.verified.last = self.chain.flatten().map(|chain| (link.position(), chain));
    }

    /// The log ends here. `is_whole` is whether it has everything after the newest snapshot.
    fn end(&mut self, is_whole: bool) {
        while !self.window.is_empty() {
            self.chain_next();
        }
        if is_whole && self.last.is_some() && self.run > self.snapshot + 1 {
            let (from, to) = (self.snapshot + 1, self.run - 1);
            self.findings.push(format!("entries {from} to {to} are missing between its snapshot and the log"));
        }
        // A line of a receipt is about what must still be provable.
        let (from, last) = (self.verified.from, self.last.unwrap_or(self.snapshot));
        for index in self.known.iter().filter(|(_, known)| known.from == RECEIPT).map(|(index, _)| *index) {
            let why = match from {
                0 => "cannot be proven: the shard has no chained entry here".to_owned(),
                _ if index + 1 < from => format!("cannot be proven: the entries begin at {from}"),
                _ if index > last => format!("is missing: the entries end at {last}"),
                _ => continue,
            };
            self.findings.push(format!("entry {index} of the receipt {why}"));
        }
    }
}
