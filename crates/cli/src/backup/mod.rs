//! `boxoffice backup` takes the state of a running cluster into a directory, and `boxoffice restore` makes a data directory of it.

pub mod files;
pub mod temporary;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use boxoffice_client::{Client, Error, Timestamp, Unreadable};
use boxoffice_env::{World, background};
use boxoffice_node::backup::{
    BackupAnswer, BackupPort, Collector, NotTaken, RestoreError, Restored, Target, restore as restore_cut,
};
use boxoffice_node::verify::verify;
use boxoffice_wire::{call::BackupQuery, repr, status::BackupPiece};

use crate::{
    args::{Backup, NodeArgs, Restore},
    failure::{Failure, Outcome},
    node_client::{block_on, say},
    progress::Progress,
};
use files::{Cut, Manifest, Part, Reading, Writing};

/// How long one piece may take. A node sends it when its pace allows it.
const PIECE_TIME: Duration = Duration::from_secs(60);

/// How often a busy node is asked again, and after how long.
const BUSY_TIMES: usize = 100;
const BUSY_AFTER: Duration = Duration::from_millis(100);

/// How often a full backup is begun in all, and after how long again. Each time begins with snapshots that are newer than what went away.
const FULL_TIMES: usize = 5;
const FULL_AFTER: Duration = Duration::from_millis(500);

/// Takes a backup, and says what it took.
pub fn run(args: &Backup) -> Outcome {
    take(args).map(|taken| _ = say(&taken))
}

/// Takes a backup. Returns what it took, in words.
pub fn take(args: &Backup) -> Result<String, Failure> {
    let wait = crate::length_of_time::parse_time(&args.wait).map_err(Failure::Usage)?;
    // The node may be on this machine.
    background::give_way();
    block_on(async {
        let progress = Arc::new(Progress::of_bytes("backup", None));
        let member = |address: &String| NodeArgs { address: address.clone(), ..args.node_args.clone() };
        let (mut ports, mut unreached): (Vec<Port>, Option<String>) = (Vec::new(), None);
        for node in [args.node_args.clone()].into_iter().chain(args.members.iter().map(member)) {
            match node.connect().await {
                Ok(client) => ports.push(Port::new(client, node, Arc::clone(&progress))),
                // Another one may have the same shards.
                Err(Failure::Unreachable(why)) => {
                    unreached.get_or_insert(why);
                }
                Err(failure) => return Err(failure),
            }
        }
        match unreached {
            Some(why) if ports.is_empty() => return Err(Failure::Unreachable(why)),
            Some(why) => eprintln!("boxoffice: {why}"),
            None => {}
        }
        take_from(args, &ports, Duration::from_millis(wait)).await
    })
}

async fn take_from(args: &Backup, ports: &[Port], wait: Duration) -> Result<String, Failure> {
    let (dir, begun) = (&args.dir, Instant::now());
    let (cluster, shards) = ports[0].cluster().await?;
    files::make_dir(dir)?;
    let mut manifest = match Manifest::read(dir)? {
        Some(manifest) if manifest.cluster != cluster => {
            let other = manifest.cluster;
            return Err(Failure::Refused(format!(
                "{} is a backup of cluster {other}, and the node is of cluster {cluster}; name another directory",
                dir.display()
            )));
        }
        Some(manifest) => manifest,
        None => {
            // Whatever else is in the directory, such as the data of a node, is not a backup's.
            check_is_empty(dir)?;
            Manifest::new(cluster, shards)
        }
    };
    // A restore refuses the directory until its list says that it is complete.
    if manifest.parts.is_empty() {
        manifest.write(dir)?;
    }
    let number = manifest.parts.last().map_or(1, |part| part.number + 1);
    let full = async || {
        let take = async || {
            let mut writing = Writing::begin(dir, number)?;
            Ok(full(ports, &mut writing, wait).await.map(|collector| (collector, writing, true)))
        };
        until_all_is_there(take, FULL_AFTER, |why| eprintln!("boxoffice: {why}; taking everything anew")).await
    };
    let taken = match manifest.parts.last().filter(|_| !args.full) {
        Some(last) => {
            let mut writing = Writing::begin(dir, number)?;
            let mut collector = Collector::after(manifest.shards, &last.ends, last.mark);
            match collector.end(ports, &mut writing, wait).await {
                Ok(()) => Ok((collector, writing, false)),
                Err(gap @ NotTaken::Gap(_)) => {
                    eprintln!("boxoffice: {gap}; taking everything anew");
                    drop(writing);
                    full().await?
                }
                Err(error) => Err(error),
            }
        }
        None => full().await?,
    };
    let (collector, writing, is_full) = taken.map_err(|error| {
        if manifest.parts.is_empty() {
            manifest.incomplete = Some(error.to_string());
            // It says so already, without the reason.
            let _ = manifest.write(dir);
        }
        Failure::Refused(format!("no backup was taken: {error}"))
    })?;
    let bytes = writing.bytes;
    let files = writing.finish()?;
    let cut = |(at_ms, cut): (u64, boxoffice_node::backup::MarkCut)| Cut { mark: cut.mark, at_ms, ends: cut.ends };
    let cuts: Vec<Cut> = collector.cuts().into_iter().map(cut).collect();
    let Some(last) = cuts.last().cloned() else {
        return Err(Failure::Refused("no backup was taken: the last mark has no entry in every shard".into()));
    };
    manifest.parts.push(Part { number, is_full, mark: collector.mark(), ends: collector.ends(), cuts, files });
    manifest.incomplete = None;
    manifest.program = crate::version::VERSION.into();
    manifest.write(dir)?;
    Ok(format!(
        "{} of {} shards in {}, {} in {:.1} s; it can be restored to {}",
        if is_full { "a full backup" } else { "what is new" },
        u32::from(manifest.shards) + 1,
        dir.join(number.to_string()).display(),
        size(bytes),
        begun.elapsed().as_secs_f64(),
        at(last.at_ms)
    ))
}

async fn full(ports: &[Port], writing: &mut Writing, wait: Duration) -> Result<Collector, NotTaken> {
    let mut collector = Collector::base(ports, writing).await?;
    collector.end(ports, writing, wait).await?;
    Ok(collector)
}

/// Takes everything, and again if entries went away between the snapshots and the reading of the log. `tell` is told why.
async fn until_all_is_there<T>(
    mut take: impl AsyncFnMut() -> Result<Result<T, NotTaken>, Failure>,
    pause: Duration,
    mut tell: impl FnMut(&NotTaken),
) -> Result<Result<T, NotTaken>, Failure> {
    for _ in 1..FULL_TIMES {
        match take().await? {
            Err(gap @ NotTaken::Gap(_)) => tell(&gap),
            taken => return Ok(taken),
        }
        tokio::time::sleep(pause).await;
    }
    take().await
}

/// A node that is asked.
struct Port {
    client: Client,
    args: NodeArgs,
    progress: Arc<Progress>,
}

impl Port {
    fn new(client: Client, args: NodeArgs, progress: Arc<Progress>) -> Port {
        Port { client: client.with_deadline(PIECE_TIME), args, progress }
    }

    /// The cluster, and its number of shards.
    async fn cluster(&self) -> Result<(String, u16), Failure> {
        let places = self.client.backup(Vec::new(), false).await.map_err(|error| self.args.failure(error))?.value;
        Ok((places.cluster.to_string(), places.shard_count))
    }

    async fn ask_once(&self, query: &BackupQuery) -> Result<BackupAnswer, Error> {
        match query.clone() {
            BackupQuery::Places { after, mark } => {
                let reply = self.client.backup(after.into_iter().collect(), mark).await?;
                Ok(BackupAnswer::Places(Box::new(reply.value)))
            }
            BackupQuery::Read { part, from } => {
                let BackupPiece { data, next } = self.client.backup_read(part, from).await?.value;
                let bytes = STANDARD.decode(data.as_bytes());
                let bytes =
                    bytes.map_err(|error| Error::Protocol(Unreadable(format!("a piece is no base64: {error}"))))?;
                self.progress.add(bytes.len() as u64);
                Ok(BackupAnswer::Piece { bytes: bytes.into(), next })
            }
        }
    }
}

impl BackupPort for Port {
    async fn ask(&self, query: BackupQuery) -> Result<Option<BackupAnswer>, String> {
        for _ in 0..BUSY_TIMES {
            match self.ask_once(&query).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(Error::Refused(no)) if no.name == "not_found" => return Ok(None),
                Err(Error::Failed(fail)) if fail.kind == boxoffice_wire::FailKind::Busy => {
                    tokio::time::sleep(BUSY_AFTER).await;
                }
                Err(error) => return Err(self.args.failure(error).to_string()),
            }
        }
        Err(format!("the node at {} stays busy", self.args.address))
    }
}

/// Makes a data directory from a backup.
pub fn restore(args: &Restore) -> Outcome {
    let manifest = Manifest::complete(&args.backup)?;
    let cut = cut_of(&manifest, args.at.as_deref())?;
    check_is_empty(&args.data_dir)?;
    let reading = Reading::at(&args.backup, &manifest, cut);
    let bytes = reading.check()?;
    say(&format!("all files of the backup are as they were written: {}", size(bytes)));
    let shards = args.shards.unwrap_or(manifest.shards);
    let Restored { cluster, entities, ended, entries, .. } = make(&reading, cut, &args.data_dir, shards)?;
    say(&format!(
        "{}: cluster {cluster}, {shards} shards, as of {}: {entities} entities in memory, {ended} ended; {entries} entries applied",
        args.data_dir.display(),
        at(cut.at_ms)
    ));
    let verifying = Progress::of_items("verifying what was restored");
    let verified =
        verify(&World::standalone(), &args.data_dir, &[]).map_err(|error| Failure::Node(error.to_string()))?;
    drop(verifying);
    for finding in &verified.findings {
        say(&format!("FOUND {finding}"));
    }
    if !verified.findings.is_empty() {
        say(
            "look at each FOUND before you start it: what does not fit came to another node by clients that talk to each other",
        );
    }
    say(&format!(
        "set `node.shards = {shards}` in the configuration, and start it with `boxoffice serve --data-dir {}`; others join it with \
         empty directories",
        args.data_dir.display()
    ));
    Ok(())
}

/// The cut that `--at` names, or the last one.
pub fn cut_of<'a>(manifest: &'a Manifest, time: Option<&str>) -> Result<&'a Cut, Failure> {
    let at_ms = time.map(read_time).transpose()?;
    manifest.cut_at(at_ms).map_err(|first| {
        let first = first.map_or_else(|| "it has none".to_owned(), |cut| format!("the first is {}", at(cut.at_ms)));
        Failure::Refused(format!("the backup cannot be restored to an instant that early: {first}"))
    })
}

/// Makes the data directory of a cut.
pub fn make(reading: &Reading<'_>, cut: &Cut, dir: &Path, shards: u16) -> Result<Restored, Failure> {
    let target = Target { dir, node: 1, shards };
    restore_cut(&World::standalone(), reading, &cut.to_mark_cut(), target).map_err(|error| match error {
        RestoreError::Target(error) => Failure::Node(error.to_string()),
        error => Failure::Refused(error.to_string()),
    })
}

/// Neither a backup nor a restore writes into a directory that has anything else.
fn check_is_empty(dir: &Path) -> Result<(), Failure> {
    let has_any = match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(Failure::Usage(format!("cannot read {}: {error}", dir.display()))),
    };
    match has_any {
        true => Err(Failure::Refused(format!(
            "{} is not empty; name a directory that is, or does not exist",
            dir.display()
        ))),
        false => Ok(()),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

fn read_time(text: &str) -> Result<u64, Failure> {
    repr::timestamp(text)
        .map(|at| at.0)
        .ok_or_else(|| Failure::Usage(format!("{text:?} is no time like 2026-12-24T20:00:07Z")))
}

fn at(ms: u64) -> String {
    repr::rfc3339(Timestamp(ms)).map_or_else(|| ms.to_string(), |text| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use boxoffice_node::backup::Gap;

    /// What comes of backups of which each of the first ones ends so. Returns it with how often one was begun, and what was told.
    fn taken(ends: &[NotTakenFor]) -> (Result<(), String>, usize, Vec<String>) {
        let (mut begun, mut told) = (0, Vec::new());
        let take = async || {
            begun += 1;
            Ok(match ends.get(begun - 1) {
                Some(NotTakenFor::Gap) => Err(NotTaken::Gap(Gap { shard: 2, from: 1, found: 60 })),
                Some(NotTakenFor::Node) => Err(NotTaken::Node("it stays busy".into())),
                None => Ok(()),
            })
        };
        let ended = block_on(until_all_is_there(take, Duration::ZERO, |why| told.push(why.to_string())));
        let ended = ended.expect("nothing is written").map_err(|why| why.to_string());
        (ended, begun, told)
    }

    enum NotTakenFor {
        Gap,
        Node,
    }

    #[test]
    fn a_full_backup_begins_anew_a_few_times_if_entries_went_away() {
        use NotTakenFor::{Gap, Node};
        const WHY: &str = "entries from 1 on of shard 2 are gone from the logs and archives of its nodes";
        assert_eq!(taken(&[]), (Ok(()), 1, Vec::new()));
        assert_eq!(taken(&[Gap, Gap]), (Ok(()), 3, vec![WHY.to_owned(); 2]));
        assert_eq!(taken(&[Gap, Gap, Gap, Gap]), (Ok(()), 5, vec![WHY.to_owned(); 4]));
        // The last one is not told as one that is begun anew.
        assert_eq!(taken(&[Gap, Gap, Gap, Gap, Gap]), (Err(WHY.into()), 5, vec![WHY.to_owned(); 4]));
        assert_eq!(taken(&[Gap, Node]), (Err("it stays busy".into()), 2, vec![WHY.to_owned()]));
    }
}
