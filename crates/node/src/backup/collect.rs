//! Takes a backup from running nodes, without a node of its own: the state of each shard from one node that has a replica of it, then
//! the mark, then the entries up to the mark.
//!
//! A node that is lost meanwhile is replaced by another one with a replica: its log goes on where the backup is.

use std::{collections::BTreeMap, time::Duration};

use boxoffice_replication::backup::{Collected, Gap};
use boxoffice_shard::{Record, ShardId};
use boxoffice_wire::{
    call::{BackupPart, BackupQuery},
    status::{BackupPlaces, BackupShard},
};
use bytes::{Buf, Bytes};
use smol_str::SmolStr;

use super::{BackupAnswer, MarkCut};

/// How often is looked whether every shard has the mark.
const LOOK: Duration = Duration::from_millis(100);

/// How often a part is read anew, because a newer one took its place or a node was lost.
const ATTEMPTS: usize = 5;

/// A node, as a backup asks it.
pub trait BackupPort {
    /// Asks. `None` if the part is not there any more.
    ///
    /// # Errors
    /// Why the node gives no answer, in words.
    fn ask(&self, query: BackupQuery) -> impl Future<Output = Result<Option<BackupAnswer>, String>> + Send;
}

/// Where a backup is written.
pub trait BackupSink {
    /// A shard begins, perhaps anew: what it had is void. `snapshot` is absent if its entries begin with the first one.
    ///
    /// # Errors
    /// Why it cannot be written, in words.
    fn begin(&mut self, shard: ShardId, snapshot: Option<Bytes>) -> Result<(), String>;

    /// A record of an ended entity of a shard.
    ///
    /// # Errors
    /// As [`BackupSink::begin`].
    fn record(&mut self, shard: ShardId, record: Bytes) -> Result<(), String>;

    /// The next entry of a shard.
    ///
    /// # Errors
    /// As [`BackupSink::begin`].
    fn entry(&mut self, entry: Record) -> Result<(), String>;
}

/// Why there is no backup.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// No node that was named has a replica of these shards.
    #[error("no named node has a replica of shards {}; name more nodes", list(.0))]
    NoReplica(Vec<ShardId>),
    /// These shards did not get the mark in time, because they have no leader.
    #[error("shards {} have no leader, or did not go on in time", list(.0))]
    NoMark(Vec<ShardId>),
    /// Entries between the last backup and the node's log are gone.
    #[error("entries from {from} on of shard {shard} are gone from the logs and archives of its nodes", shard = .0.shard, from = .0.from)]
    Gap(Gap),
    /// A node gives no answer.
    #[error("{0}")]
    Node(String),
    /// It cannot be written.
    #[error("{0}")]
    Sink(String),
}

fn list(shards: &[ShardId]) -> String {
    shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A backup while it is taken.
#[derive(Default)]
pub struct Collector {
    collected: Collected,
    /// The place in the list of nodes from which each shard is read.
    nodes: BTreeMap<ShardId, usize>,
    shards: u16,
    /// The highest mark that was known when the state of a shard was read. Only cuts behind it are whole.
    base_mark: u64,
    mark: u64,
}

impl Collector {
    /// Goes on after an earlier backup, which has the entries of each shard up to the one that is given. Its last mark was `mark`.
    pub fn after(shards: u16, ends: &BTreeMap<ShardId, u64>, mark: u64) -> Collector {
        let mut collector = Collector { shards, base_mark: mark, mark, ..Collector::default() };
        ends.iter().for_each(|(shard, last)| collector.collected.begin(*shard, *last));
        collector
    }

    /// Reads the state of every shard.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub async fn base<P: BackupPort>(ports: &[P], sink: &mut impl BackupSink) -> Result<Collector, NotTaken> {
        let mut collector = Collector::default();
        let mut last_error = None;
        for (number, port) in ports.iter().enumerate() {
            let places = match places(port, BTreeMap::new(), false).await {
                Ok(places) => places,
                Err(error) => {
                    last_error = Some(error);
                    continue;
                }
            };
            collector.shards = places.shard_count;
            for BackupShard { shard, .. } in places.shards {
                if collector.nodes.contains_key(&shard) {
                    continue;
                }
                match collector.base_of((number, port), shard, sink).await {
                    Ok(()) => {}
                    Err(error @ NotTaken::Sink(_)) => return Err(error),
                    // Another node may have it.
                    Err(error) => last_error = Some(error),
                }
            }
        }
        let missing: Vec<ShardId> =
            (0..=collector.shards).filter(|shard| !collector.nodes.contains_key(shard)).collect();
        match (missing.is_empty(), last_error) {
            (true, _) => Ok(collector),
            (false, Some(error)) => Err(error),
            (false, None) => Err(NotTaken::NoReplica(missing)),
        }
    }

    /// Reads the state of a shard.
    async fn base_of<P: BackupPort>(
        &mut self,
        (number, port): (usize, &P),
        shard: ShardId,
        sink: &mut impl BackupSink,
    ) -> Result<(), NotTaken> {
        let mut found = None;
        for _ in 0..ATTEMPTS {
            let has_snapshot = places(port, BTreeMap::new(), false)
                .await?
                .shards
                .iter()
                .find(|place| place.shard == shard)
                .map(|place| place.snapshot > 0)
                .ok_or(NotTaken::NoReplica(vec![shard]))?;
            if !has_snapshot {
                found = Some(None);
                break;
            }
            if let Some(snapshot) = whole(port, BackupPart::Snapshot(shard)).await? {
                found = Some(Some(snapshot));
                break;
            }
        }
        let snapshot =
            found.ok_or_else(|| NotTaken::Node(format!("the snapshot of shard {shard} changes too fast")))?;
        let last = match &snapshot {
            Some(payload) => {
                boxoffice_storage::snapshot::decode(payload)
                    .map_err(|why| NotTaken::Node(format!("the snapshot of shard {shard}: {why}")))?
                    .meta
                    .position
                    .index
            }
            None => 0,
        };
        sink.begin(shard, snapshot).map_err(NotTaken::Sink)?;
        let mut from = None;
        loop {
            let query = BackupQuery::Read { part: BackupPart::Records(shard), from };
            let Some(BackupAnswer::Piece { mut bytes, next }) = port.ask(query).await.map_err(NotTaken::Node)? else {
                return Err(NotTaken::Node(format!("the records of shard {shard} are gone")));
            };
            while bytes.remaining() >= size_of::<u32>() {
                let length = bytes.get_u32_le() as usize;
                if bytes.remaining() < length {
                    return Err(NotTaken::Node(format!("a record of shard {shard} is cut off")));
                }
                sink.record(shard, bytes.split_to(length)).map_err(NotTaken::Sink)?;
            }
            from = next;
            if from.is_none() {
                break;
            }
        }
        self.collected.begin(shard, last);
        self.nodes.insert(shard, number);
        // Asked afterwards: what was read is in the cut at every higher mark.
        self.base_mark = self.base_mark.max(places(port, BTreeMap::new(), false).await?.mark);
        Ok(())
    }

    /// Raises the mark, waits until every shard has it, for at most `wait`, and reads the entries up to it.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub async fn end<P: BackupPort>(
        &mut self,
        ports: &[P],
        sink: &mut impl BackupSink,
        wait: Duration,
    ) -> Result<(), NotTaken> {
        let is_incremental = self.nodes.is_empty();
        for attempt in 1.. {
            self.raise(ports).await?;
            let places = self.marked(ports, wait).await?;
            let mut again = false;
            for (number, places) in &places {
                match self.log(&ports[*number], places, sink).await {
                    Ok(()) => {}
                    Err(NotTaken::Gap(Gap { shard, .. })) if !is_incremental && attempt < ATTEMPTS => {
                        // A snapshot from another node has taken the place of entries.
                        self.base_of((*number, &ports[*number]), shard, sink).await?;
                        again = true;
                    }
                    Err(NotTaken::Node(_)) if attempt < ATTEMPTS => again = true,
                    Err(error) => return Err(error),
                }
            }
            if !again {
                return Ok(());
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn raise<P: BackupPort>(&mut self, ports: &[P]) -> Result<(), NotTaken> {
        let mut last_error = NotTaken::NoReplica(Vec::new());
        for port in ports {
            match places(port, BTreeMap::new(), true).await {
                Ok(places) => {
                    self.mark = places.mark;
                    self.shards = places.shard_count;
                    return Ok(());
                }
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    /// Waits until each shard has the mark at one of the nodes. Returns the places of those nodes, with their shards.
    async fn marked<P: BackupPort>(
        &mut self,
        ports: &[P],
        wait: Duration,
    ) -> Result<Vec<(usize, BackupPlaces)>, NotTaken> {
        let begun = tokio::time::Instant::now();
        loop {
            let after: BTreeMap<u16, u64> =
                (0..=self.shards).map(|shard| (shard, self.collected.last(shard).unwrap_or(0))).collect();
            let mut found = Vec::new();
            for (number, port) in ports.iter().enumerate() {
                if let Ok(places) = places(port, after.clone(), false).await {
                    found.push((number, places));
                }
            }
            let has = |places: &BackupPlaces, shard: ShardId| {
                places.shards.iter().any(|place| place.shard == shard && place.mark >= self.mark)
            };
            let mut missing = Vec::new();
            let mut chosen = BTreeMap::new();
            for shard in 0..=self.shards {
                // The node of before, if it still has it.
                let before = self.nodes.get(&shard);
                let of = found.iter().filter(|(_, places)| has(places, shard)).map(|(number, _)| *number);
                match of.min_by_key(|number| (before != Some(number), *number)) {
                    Some(number) => _ = chosen.insert(shard, number),
                    None => missing.push(shard),
                }
            }
            if missing.is_empty() {
                for (number, places) in &mut found {
                    places.shards.retain(|place| chosen.get(&place.shard) == Some(number));
                }
                found.retain(|(_, places)| !places.shards.is_empty());
                self.nodes = chosen;
                return Ok(found);
            }
            if begun.elapsed() >= wait {
                return Err(NotTaken::NoMark(missing));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reads the entries of a node's shards from its log.
    async fn log<P: BackupPort>(
        &mut self,
        port: &P,
        places: &BackupPlaces,
        sink: &mut impl BackupSink,
    ) -> Result<(), NotTaken> {
        let is_read = |shard: ShardId| places.shards.iter().any(|place| place.shard == shard);
        let mut failed = None;
        self.collected.begin_log();
        for number in places.first_segment..=places.last_segment {
            let Some(mut records) = whole(port, BackupPart::Segment(number)).await? else {
                return Err(NotTaken::Node(format!("segment {number} of the log went away")));
            };
            while !records.is_empty() {
                let record = Record::decode(&mut records)
                    .map_err(|why| NotTaken::Node(format!("segment {number} of the log: {why}")))?;
                if is_read(record.shard()) {
                    let write = &mut |entry| failed = failed.take().or(sink.entry(entry).err());
                    self.collected.take(record, write).map_err(NotTaken::Gap)?;
                }
            }
        }
        for place in &places.shards {
            let write = &mut |entry| failed = failed.take().or(sink.entry(entry).err());
            self.collected.committed(place.shard, place.committed, write).map_err(NotTaken::Gap)?;
            if self.collected.end(place.shard, self.mark).is_none() {
                // The log that was read ends before it, although the node has it: it was lost meanwhile.
                return Err(NotTaken::Node(format!("the log ends before the mark of shard {}", place.shard)));
            }
        }
        failed.map_or(Ok(()), |why| Err(NotTaken::Sink(why)))
    }

    /// The number of shards besides the directory.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// The mark at which the backup ends.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// The last entry of each shard in the backup.
    pub fn ends(&self) -> BTreeMap<ShardId, u64> {
        (0..=self.shards).filter_map(|shard| Some((shard, self.collected.last(shard)?))).collect()
    }

    /// The cuts that can be restored, each with the true time of its mark, in milliseconds since 1970. The last one is the backup's end.
    pub fn cuts(&self) -> Vec<(u64, MarkCut)> {
        let of = |mark: u64| {
            let ends = (0..=self.shards).map(|shard| Some((shard, self.collected.end(shard, mark)?)));
            Some(MarkCut { mark, ends: ends.collect::<Option<_>>()? })
        };
        let marks = self.collected.marks(0).filter(|(mark, _)| *mark > self.base_mark && *mark <= self.mark);
        marks.filter_map(|(mark, at_ms)| Some((at_ms, of(mark)?))).collect()
    }
}

async fn places<P: BackupPort>(port: &P, after: BTreeMap<u16, u64>, mark: bool) -> Result<BackupPlaces, NotTaken> {
    match port.ask(BackupQuery::Places { after, mark }).await.map_err(NotTaken::Node)? {
        Some(BackupAnswer::Places(places)) => Ok(*places),
        Some(BackupAnswer::Piece { .. }) | None => Err(NotTaken::Node("it does not say its places".into())),
    }
}

/// All pieces of a part. `None` if it went away.
async fn whole<P: BackupPort>(port: &P, part: BackupPart) -> Result<Option<Bytes>, NotTaken> {
    for _ in 0..ATTEMPTS {
        let (mut found, mut from): (Vec<u8>, Option<SmolStr>) = (Vec::new(), None);
        loop {
            let is_first = from.is_none();
            match port.ask(BackupQuery::Read { part, from }).await.map_err(NotTaken::Node)? {
                Some(BackupAnswer::Piece { bytes, next: Some(next) }) => {
                    found.extend_from_slice(&bytes);
                    from = Some(next);
                }
                Some(BackupAnswer::Piece { bytes, next: None }) => {
                    found.extend_from_slice(&bytes);
                    return Ok(Some(found.into()));
                }
                // A newer one took its place.
                None if !is_first => break,
                Some(BackupAnswer::Places(_)) | None => return Ok(None),
            }
        }
    }
    Ok(None)
}
