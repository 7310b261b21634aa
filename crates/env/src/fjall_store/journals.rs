//! The journals of `fjall`, read and mended before it opens them.
//!
//! What was not synced before a power cut may be lost in any order, so a journal may have whole batches behind lost ones. `fjall`
//! refuses such a journal, or drops what follows without a word. Here the journals are read first. The store gives each batch a
//! number and the number up to which batches were synced when it was written ([`Numbers`]). So a batch that is missing is noticed,
//! and a later one proves that it was synced.
//!
//! Everything behind the first missing batch is cut off, because the log has its entries again. A batch that a snapshot needs is
//! not there again, so damage before it is refused, and nothing is changed.
//!
//! A batch is a start (tag 1, count of items, sequence number), its items (tag 2, type, compression, keyspace, lengths, key, value),
//! and an end (tag 3, xxh3 of the items, magic), with little-endian numbers.

use std::io;
use std::path::Path;
use std::sync::Arc;

use boxoffice_core::planted;
use xxhash_rust::xxh3::Xxh3;

use super::super::disk::{Disk, DiskFile, OpenMode};
use super::NUMBER_KEY;

/// The suffix of fjall's journals.
const JOURNALS: &str = ".jnl";
/// The unit in which journals are read and rewritten.
const PIECE: usize = 256 << 10;
/// Made journals consist of zeros, which are compared in pieces of this size.
const ZEROS: [u8; 4_096] = [0; 4_096];

/// Tags of a batch's parts.
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
/// Bytes of the parts, without key and value.
const START_BYTES: usize = 13;
const ITEM_BYTES: usize = 21;
const END_BYTES: usize = 13;
const MAGIC: &[u8] = b"FJL\x03";
/// The most items of a batch. It only keeps a search from following any four bytes.
const ITEMS_MAX: u32 = 1 << 20;
/// Written beside a journal before it replaces it.
const ASIDE: &str = ".new";

/// What each batch says of itself, under a key of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The batch's number. The first is 1.
    pub(super) batch: u64,
    /// All batches up to this one were synced when the batch was written.
    pub(super) synced: u64,
}

impl Numbers {
    pub(super) fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.batch.to_be_bytes());
        bytes[8..].copy_from_slice(&self.synced.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Numbers> {
        let (batch, synced) = bytes.split_first_chunk()?;
        Some(Numbers { batch: u64::from_be_bytes(*batch), synced: u64::from_be_bytes(synced.try_into().ok()?) })
    }
}

/// Why journals cannot be opened.
pub(super) enum JournalError {
    Io(io::Error),
    /// A batch that is needed is damaged.
    Damaged {
        journal: String,
        /// The byte from which the journal cannot be read.
        at: u64,
        /// The last batch before it.
        last: u64,
    },
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> JournalError {
        JournalError::Io(error)
    }
}

/// Batches that stand one behind the other, with ascending numbers.
#[derive(Clone, Debug)]
struct Run {
    from: u64,
    to: u64,
    first: u64,
    last: u64,
    /// The highest number that one of them knows as synced.
    synced: u64,
}

/// A journal as it was read.
struct Journal {
    name: String,
    file: Arc<dyn DiskFile>,
    runs: Vec<Run>,
    /// Whether there is anything but zeros behind them.
    has_rest: bool,
}

impl Journal {
    /// Whether there is anything between the first `runs` runs.
    fn has_holes(&self, runs: usize) -> bool {
        let mut at = 0;
        !self.runs[..runs].iter().all(|run| run.from == std::mem::replace(&mut at, run.to))
    }
}

/// Cuts off what the journals in `dir` have behind the first missing batch, rewrites the rest with the same bytes, and syncs it.
/// `in_tables` says which batch is the last one in tables. The caller has the store's lock, and syncs the directory.
///
/// # Errors
/// [`JournalError::Damaged`] if the batch `needed` is missing then. Nothing is changed in that case.
pub(super) fn prepare(
    disk: &dyn Disk,
    dir: &Path,
    needed: u64,
    in_tables: impl Fn() -> io::Result<u64>,
) -> Result<(), JournalError> {
    let mut journals = read(disk, dir)?;
    if !is_whole(&journals) && !planted::is("a journal's end is trusted") {
        mend(disk, dir, &journals, needed, in_tables)?;
        journals = read(disk, dir)?;
    }
    for Journal { file, runs, has_rest, .. } in &journals {
        let end = if *has_rest { file.length()? } else { runs.last().map_or(0, |run| run.to) };
        rewrite(&**file, end)?;
    }
    Ok(())
}

/// Rewrites a file up to `end` with the same bytes, and syncs it.
pub(super) fn rewrite(file: &dyn DiskFile, end: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    for at in (0..end).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min((end - at) as usize)];
        file.read_exact_at(piece, at)?;
        file.write_all_at(piece, at)?;
    }
    file.sync_data()
}

fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Journal>> {
    let mut journals = Vec::new();
    for name in names(disk, dir)? {
        let file = disk.open(&dir.join(&name), OpenMode::Write)?;
        let (runs, has_rest) = Reader::new(&*file)?.runs()?;
        journals.push(Journal { name, file, runs, has_rest });
    }
    Ok(journals)
}

/// Cuts off everything behind the first missing batch.
fn mend(
    disk: &dyn Disk,
    dir: &Path,
    journals: &[Journal],
    needed: u64,
    in_tables: impl Fn() -> io::Result<u64>,
) -> Result<(), JournalError> {
    let mut last = in_tables()?;
    // The journal and its run from which everything is cut off.
    let mut end = (journals.len() - 1, journals[journals.len() - 1].runs.len());
    'runs: for (place, journal) in journals.iter().enumerate() {
        for (number, run) in journal.runs.iter().enumerate() {
            if run.first > last + 1 {
                end = (place, number);
                break 'runs;
            }
            last = last.max(run.last);
        }
    }
    let (place, runs) = end;
    let journal = &journals[place];
    let at = journal.runs[..runs].last().map_or(0, |run| run.to);
    if last < needed && !planted::is("a synced batch is dropped in silence") {
        return Err(JournalError::Damaged { journal: journal.name.clone(), at, last });
    }
    let synced = journals.iter().flat_map(|journal| &journal.runs).map(|run| run.synced).max().unwrap_or(0);
    tell(dir, &journal.name, (at, last, synced), runs < journal.runs.len() || journal.has_rest);
    // The newest go first, so that none stands behind a hole if the power fails now.
    for behind in journals[place + 1..].iter().rev() {
        disk.remove(&dir.join(&behind.name))?;
        disk.sync_dir(dir)?;
    }
    for (at, journal) in journals[..=place].iter().enumerate().rev() {
        let kept = if at == place { runs } else { journal.runs.len() };
        if kept < journal.runs.len() || journal.has_rest || journal.has_holes(kept) {
            keep(disk, dir, journal, &journal.runs[..kept])?;
        }
    }
    Ok(())
}

/// Tells the operator what was cut off, and whether the disk has lost what it had promised to keep.
fn tell(dir: &Path, journal: &str, (at, last, synced): (u64, u64, u64), is_cut: bool) {
    let dir = dir.display();
    if last < synced {
        tracing::error!(
            %dir, journal, at, last, synced,
            "a synced batch of the store is damaged; it is cut off with all behind it, and made again of the log; check the disk"
        );
    } else if is_cut {
        tracing::warn!(
            %dir, journal, at, last,
            "the store's journal ends with what was not synced when the power was lost; it is cut off, and made again of the log"
        );
    } else {
        tracing::error!(%dir, journal, last, "the store's journal is damaged where tables have its batches too; check the disk");
    }
}

pub(super) fn is_journal(name: &str) -> bool {
    name.ends_with(JOURNALS)
}

/// The names of the journals in `dir`, oldest first.
fn names(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    let mut names = disk.list(dir)?;
    names.retain(|name| is_journal(name));
    let number = |name: &String| name.strip_suffix(JOURNALS).and_then(|name| name.parse::<u64>().ok());
    names.sort_by_key(number);
    Ok(names)
}

/// Whether there is nothing to cut off. Journals that are gone are in tables.
fn is_whole(journals: &[Journal]) -> bool {
    let runs: Vec<&Run> = journals.iter().flat_map(|journal| &journal.runs).collect();
    journals.iter().all(|journal| !journal.has_rest && !journal.has_holes(journal.runs.len()))
        && runs.windows(2).all(|pair| pair[1].first == pair[0].last + 1)
}

/// Keeps these runs of a journal and nothing else.
fn keep(disk: &dyn Disk, dir: &Path, journal: &Journal, runs: &[Run]) -> io::Result<()> {
    let path = dir.join(&journal.name);
    if !journal.has_holes(runs.len()) {
        journal.file.set_length(runs.last().map_or(0, |run| run.to))?;
        return journal.file.sync_data();
    }
    let aside = dir.join(format!("{}{ASIDE}", journal.name));
    match disk.remove(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let file = disk.open(&aside, OpenMode::Create)?;
    let mut piece = vec![0; PIECE];
    let mut to = 0;
    for run in runs {
        for from in (run.from..run.to).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min((run.to - from) as usize)];
            journal.file.read_exact_at(piece, from)?;
            file.write_all_at(piece, to)?;
            to += piece.len() as u64;
        }
    }
    file.sync_data()?;
    disk.rename(&aside, &path)?;
    disk.sync_dir(dir)
}

/// Reads a journal in pieces.
struct Reader<'a> {
    file: &'a dyn DiskFile,
    length: u64,
    piece: Vec<u8>,
    /// Where the piece begins.
    begins: u64,
}

/// A whole batch.
struct Batch {
    to: u64,
    numbers: Numbers,
}

impl Reader<'_> {
    fn new(file: &dyn DiskFile) -> io::Result<Reader<'_>> {
        Ok(Reader { file, length: file.length()?, piece: Vec::new(), begins: 0 })
    }

    /// The bytes from `at` on that are read, at least `least` of them if the journal has them.
    fn some(&mut self, at: u64, least: usize) -> io::Result<&[u8]> {
        let ends = self.begins + self.piece.len() as u64;
        if at < self.begins || at >= ends || (ends - at < least as u64 && ends < self.length) {
            self.piece.resize(PIECE.min(self.length.saturating_sub(at) as usize), 0);
            self.file.read_exact_at(&mut self.piece, at)?;
            self.begins = at;
        }
        Ok(&self.piece[(at - self.begins) as usize..])
    }

    /// Exactly these bytes, if the journal has them.
    fn exact<const BYTES: usize>(&mut self, at: u64) -> io::Result<Option<[u8; BYTES]>> {
        Ok(self.some(at, BYTES)?.first_chunk().copied())
    }

    /// The runs, and whether there is anything but zeros behind them.
    fn runs(&mut self) -> io::Result<(Vec<Run>, bool)> {
        let (mut runs, mut at): (Vec<Run>, _) = (Vec::new(), 0);
        loop {
            let batch = match self.batch(at)? {
                Some(batch) => batch,
                None => match self.search(at)? {
                    Ok((found, batch)) => {
                        at = found;
                        batch
                    }
                    Err(has_rest) => return Ok((runs, has_rest)),
                },
            };
            let Batch { to, numbers: Numbers { batch, synced } } = batch;
            match runs.last_mut() {
                Some(run) if run.to == at && run.last + 1 == batch => {
                    (run.to, run.last, run.synced) = (to, batch, run.synced.max(synced));
                }
                Some(_) | None => runs.push(Run { from: at, to, first: batch, last: batch, synced }),
            }
            at = to;
        }
    }

    /// The batch at `at`, if it is whole.
    fn batch(&mut self, at: u64) -> io::Result<Option<Batch>> {
        let Some(start) = self.exact::<START_BYTES>(at)? else { return Ok(None) };
        let items = u32::from_le_bytes(*start[1..].first_chunk().expect("four bytes"));
        if start[0] != START || items == 0 || items > ITEMS_MAX {
            return Ok(None);
        }
        let (mut at, mut sum, mut numbers) = (at + START_BYTES as u64, Xxh3::new(), None);
        for _ in 0..items {
            let Some(item) = self.exact::<ITEM_BYTES>(at)? else { return Ok(None) };
            let key = u64::from(u16::from_le_bytes([item[11], item[12]]));
            let value = u64::from(u32::from_le_bytes([item[17], item[18], item[19], item[20]]));
            let bytes = ITEM_BYTES as u64 + key + value;
            if item[0] != ITEM || at + bytes > self.length {
                return Ok(None);
            }
            if key == NUMBER_KEY.len() as u64 {
                const WHOLE: usize = ITEM_BYTES + NUMBER_KEY.len() + 16;
                let whole = if value == 16 { self.exact::<WHOLE>(at)? } else { None };
                let named = whole.filter(|item| item[ITEM_BYTES..].starts_with(NUMBER_KEY));
                numbers = named.and_then(|item| Numbers::decode(&item[WHOLE - 16..])).or(numbers);
            }
            let end = at + bytes;
            while at < end {
                let part = self.some(at, 1)?;
                let part = &part[..part.len().min((end - at) as usize)];
                sum.update(part);
                at += part.len() as u64;
            }
        }
        let Some(end) = self.exact::<END_BYTES>(at)? else { return Ok(None) };
        let is_whole = end[0] == END && end[1..9] == sum.digest().to_le_bytes() && &end[9..] == MAGIC;
        Ok(numbers.filter(|_| is_whole).map(|numbers| Batch { to: at + END_BYTES as u64, numbers }))
    }

    /// The next whole batch behind `from` and where it begins. Without one, whether there is anything but zeros.
    fn search(&mut self, from: u64) -> io::Result<Result<(u64, Batch), bool>> {
        let (mut at, mut has_rest) = (from, false);
        while at < self.length {
            let part = self.some(at, 1)?;
            let part = &part[..part.len().min(ZEROS.len())];
            if *part == ZEROS[..part.len()] {
                at += part.len() as u64;
                continue;
            }
            has_rest = true;
            let Some(start) = part.iter().position(|byte| *byte == START) else {
                at += part.len() as u64;
                continue;
            };
            at += start as u64;
            if let Some(batch) = self.batch(at)?
                && at > from
            {
                return Ok(Ok((at, batch)));
            }
            at += 1;
        }
        Ok(Err(has_rest))
    }
}

/// A batch as fjall writes it.
#[cfg(test)]
pub(super) fn encoded(number: u64, synced: u64, value: &[u8]) -> Vec<u8> {
    let item = |key: &[u8], value: &[u8]| {
        let mut item = vec![ITEM, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        item.extend_from_slice(&(key.len() as u16).to_le_bytes());
        let length = (value.len() as u32).to_le_bytes();
        [&item[..], &length, &length, key, value].concat()
    };
    let items = [item(NUMBER_KEY, &Numbers { batch: number, synced }.encode()), item(b"key", value)].concat();
    let mut sum = Xxh3::new();
    sum.update(&items);
    let mut start = vec![START, 2, 0, 0, 0];
    start.extend_from_slice(&number.to_le_bytes());
    [&start[..], &items, &[END], &sum.digest().to_le_bytes(), MAGIC].concat()
}

#[cfg(test)]
mod tests {
    use super::super::super::memory_disk::MemoryDisk;
    use super::*;

    const DIR: &str = "/data/history";

    /// Journals of ten batches each, of which four were synced when each was written, and what the first has left.
    fn disk(journals: u64) -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        for journal in 0..journals {
            let file = disk.open(&path(journal), OpenMode::Create).unwrap();
            file.set_length(1 << 20).unwrap();
            let numbers = journal * 10 + 1..=journal * 10 + 10;
            let batches: Vec<u8> =
                numbers.flat_map(|number| encoded(number, number.saturating_sub(4), b"value")).collect();
            file.write_all_at(&batches, 0).unwrap();
        }
        disk
    }

    fn path(journal: u64) -> std::path::PathBuf {
        Path::new(DIR).join(format!("{journal}{JOURNALS}"))
    }

    fn length() -> u64 {
        encoded(1, 0, b"value").len() as u64
    }

    /// Damages a byte of a batch.
    fn damage(disk: &MemoryDisk, number: u64) {
        let file = disk.open(&path((number - 1) / 10), OpenMode::Write).unwrap();
        file.write_all_at(&[7], (number - 1) % 10 * length() + 40).unwrap();
    }

    /// The numbers of the batches that are left.
    fn left(disk: &MemoryDisk) -> Vec<u64> {
        let runs = read(disk, Path::new(DIR)).unwrap().into_iter().flat_map(|journal| {
            assert!(!journal.has_rest && !journal.has_holes(journal.runs.len()), "{}", journal.name);
            journal.runs
        });
        runs.flat_map(|run| run.first..=run.last).collect()
    }

    fn prepared(disk: &MemoryDisk, needed: u64, in_tables: u64) -> Result<Vec<u64>, String> {
        match prepare(disk, Path::new(DIR), needed, || Ok(in_tables)) {
            Ok(()) => Ok(left(disk)),
            Err(JournalError::Damaged { journal, at, last }) => Err(format!("{journal} at {at}: up to {last}")),
            Err(JournalError::Io(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn everything_behind_the_first_missing_batch_is_cut_off() {
        let whole = disk(3);
        assert_eq!(prepared(&whole, 30, 0), Ok((1..=30).collect()));
        damage(&whole, 17);
        damage(&whole, 25);
        assert_eq!(prepared(&whole, 16, 0), Ok((1..=16).collect()));
        assert_eq!(disk_names(&whole), ["0.jnl", "1.jnl"]);
        let first = disk(1);
        damage(&first, 1);
        assert_eq!(prepared(&first, 0, 0), Ok(Vec::new()));
    }

    #[test]
    fn a_damaged_batch_that_is_needed_is_refused_and_nothing_is_changed() {
        let disk = disk(3);
        damage(&disk, 17);
        let before = disk.changes();
        assert_eq!(prepared(&disk, 17, 0), Err(format!("1.jnl at {}: up to 16", 6 * length())));
        assert_eq!(disk.changes(), before);
        assert_eq!(prepared(&disk, 16, 0), Ok((1..=16).collect()));
    }

    #[test]
    fn a_damaged_batch_that_tables_have_is_no_end() {
        let disk = disk(3);
        damage(&disk, 3);
        damage(&disk, 12);
        damage(&disk, 30);
        let left = (1..=29).filter(|number| ![3, 12].contains(number)).collect();
        assert_eq!(prepared(&disk, 29, 12), Ok(left));
    }

    #[test]
    fn a_journal_that_is_gone_is_a_missing_batch() {
        let disk = disk(3);
        disk.remove(&path(1)).unwrap();
        assert_eq!(prepared(&disk, 11, 0), Err("2.jnl at 0: up to 10".to_owned()));
        assert_eq!(prepared(&disk, 10, 0), Ok((1..=10).collect()));
    }

    fn disk_names(disk: &MemoryDisk) -> Vec<String> {
        names(disk, Path::new(DIR)).unwrap()
    }
}
