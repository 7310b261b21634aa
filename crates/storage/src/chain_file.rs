//! Known places of the chains of a node's shards, beside the archives.
//!
//! A text file with a line for each place: version, shard, index, term, chain (hexadecimal), true time in milliseconds, CRC-32C of the
//! line so far (hexadecimal). Lines are appended and synced. Without a line, a verification begins at a later place.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxoffice_core::version::{ClusterVersion, WriteVersion};
use boxoffice_env::{Disk, DiskFile, OpenMode};
use boxoffice_shard::{Position, ShardId};
use tracing_mutex::parkinglot::Mutex;

/// A place is kept at every entry whose index is a multiple of this.
pub const CHAIN_EVERY: u64 = 4_096;

/// The file in the directory of archives.
pub const FILE: &str = "chain";

/// The chain of a shard's entries at one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPlace {
    pub shard: ShardId,
    /// The entry.
    pub index: u64,
    pub term: u64,
    /// The chain with this entry, [`boxoffice_shard::Link`].
    pub chain: u128,
    /// True time of the entry, milliseconds since 1970.
    pub at_ms: u64,
}

impl ChainPlace {
    /// Where its entry is.
    pub fn position(&self) -> Position {
        Position { index: self.index, term: self.term }
    }
}

/// The places in a file, and what is wrong with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChainPlaces {
    /// In the order of the file.
    pub places: Vec<ChainPlace>,
    /// The numbers of lines that cannot be read, from 1 on, and why. An end without a line end was being written, and is none.
    pub damaged: Vec<(usize, String)>,
}

/// The file of a node that runs.
pub struct ChainFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    dir: PathBuf,
    /// The version under which lines are written.
    version: WriteVersion,
    open: Mutex<Option<Open>>,
}

struct Open {
    file: Arc<dyn DiskFile>,
    end: u64,
    /// The highest index of each shard. A node that starts applies entries again.
    newest: BTreeMap<ShardId, u64>,
}

impl ChainFile {
    /// The file in the directory of archives, which exists. It is opened with the first place.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, version: &WriteVersion) -> ChainFile {
        ChainFile { disk, path: dir.join(FILE), dir: dir.to_owned(), version: version.clone(), open: Mutex::new(None) }
    }

    /// Appends places that are not there yet, durably.
    ///
    /// # Errors
    /// As the disk says. The file is opened again with the next place.
    pub fn append(&self, places: &[ChainPlace]) -> io::Result<()> {
        let mut open = self.open.lock();
        // A line that failed to be written is cut off when the file is opened again.
        let mut now = match open.take() {
            Some(now) => now,
            None => self.open()?,
        };
        let mut lines = String::new();
        for place in places {
            let newest = now.newest.entry(place.shard).or_default();
            if place.index > *newest {
                *newest = place.index;
                lines.push_str(&line(self.version.get(), place));
            }
        }
        if !lines.is_empty() {
            now.file.write_all_at(lines.as_bytes(), now.end)?;
            now.file.sync_data()?;
            now.end += lines.len() as u64;
        }
        *open = Some(now);
        Ok(())
    }

    /// Removes damaged lines, durably. Returns their numbers from 1 on, and what is wrong with each.
    ///
    /// # Errors
    /// As the disk says. Then the file is as before.
    pub fn mend(&self) -> io::Result<Vec<(usize, String)>> {
        let mut open = self.open.lock();
        let bytes = match self.disk.open(&self.path, OpenMode::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            file => whole(&*file?)?,
        };
        let damaged = parse(&bytes).damaged;
        if damaged.is_empty() {
            return Ok(damaged);
        }
        *open = None;
        let numbered = bytes.split_inclusive(|byte| *byte == b'\n').zip(1..);
        let good = numbered.filter(|(_, number)| damaged.iter().all(|(other, _)| other != number));
        let kept: Vec<u8> = good.flat_map(|(line, _)| line).copied().collect();
        let path = self.path.with_extension("new");
        match self.disk.remove(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.open(&path, OpenMode::Create)?;
        file.write_all_at(&kept, 0)?;
        file.sync_data()?;
        self.disk.rename(&path, &self.path)?;
        self.disk.sync_dir(&self.dir)?;
        Ok(damaged)
    }

    fn open(&self) -> io::Result<Open> {
        let file = match self.disk.open(&self.path, OpenMode::Write) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let file = self.disk.open(&self.path, OpenMode::Create)?;
                self.disk.sync_dir(&self.dir)?;
                file
            }
            other => other?,
        };
        let bytes = whole(&*file)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) as u64;
        if end < bytes.len() as u64 {
            file.set_length(end)?;
        }
        let mut newest = BTreeMap::new();
        for ChainPlace { shard, index, .. } in parse(&bytes).places {
            let newest = newest.entry(shard).or_default();
            *newest = index.max(*newest);
        }
        Ok(Open { file, end, newest })
    }
}

/// Reads the file in the directory of archives. A missing one has no places.
///
/// # Errors
/// As the disk says.
pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<ChainPlaces> {
    match disk.open(&dir.join(FILE), OpenMode::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(ChainPlaces::default()),
        file => Ok(parse(&whole(&*file?)?)),
    }
}

fn whole(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.length()?).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The line of a place, with its end.
pub fn line(version: ClusterVersion, place: &ChainPlace) -> String {
    let ChainPlace { shard, index, term, chain, at_ms } = place;
    let mut line = format!("{version} {shard} {index} {term} {chain:032x} {at_ms}");
    let sum = crc32c::crc32c(line.as_bytes());
    writeln!(line, " {sum:08x}").expect("a text takes everything");
    line
}

/// Reads lines. What follows the last line end is none.
pub fn parse(bytes: &[u8]) -> ChainPlaces {
    let mut found = ChainPlaces::default();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // What follows the last line end.
    lines.pop();
    for (at, line) in lines.into_iter().enumerate() {
        match place(line) {
            Ok(place) => found.places.push(place),
            Err(why) => found.damaged.push((at + 1, why)),
        }
    }
    found
}

fn place(line: &[u8]) -> Result<ChainPlace, String> {
    let bad_sum = || "it has a bad checksum".to_owned();
    let text = std::str::from_utf8(line).map_err(|_| bad_sum())?;
    let (fields, sum) = text.rsplit_once(' ').ok_or_else(bad_sum)?;
    if sum != format!("{:08x}", crc32c::crc32c(fields.as_bytes())) {
        return Err(bad_sum());
    }
    let (version, rest) = fields.split_once(' ').ok_or("it has no version")?;
    let version: u32 = version.parse().map_err(|_| "its version is no number")?;
    ClusterVersion::read(version).map_err(|other| format!("it was {other}"))?;
    let known = || {
        let mut fields = rest.split(' ');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (shard, index, term) = (ShardId::try_from(number()?).ok()?, number()?, number()?);
        let chain = u128::from_str_radix(fields.next()?, 16).ok()?;
        let at_ms = fields.next()?.parse().ok()?;
        fields.next().is_none().then_some(ChainPlace { shard, index, term, chain, at_ms })
    };
    known().ok_or_else(|| "it has other fields".to_owned())
}

#[cfg(test)]
mod tests {
    use boxoffice_core::version::NEWEST;
    use boxoffice_env::MemoryDisk;

    use super::*;

    const DIR: &str = "archive";

    fn place(shard: ShardId, index: u64) -> ChainPlace {
        ChainPlace { shard, index, term: 3, chain: 7 << 90 | u128::from(index), at_ms: 1_764_000_000_000 }
    }

    fn file(disk: &MemoryDisk) -> ChainFile {
        disk.create_dir_all(Path::new(DIR)).unwrap();
        ChainFile::new(Arc::new(disk.clone()), Path::new(DIR), &WriteVersion::new(NEWEST))
    }

    fn places(disk: &MemoryDisk) -> ChainPlaces {
        read(disk, Path::new(DIR)).unwrap()
    }

    #[test]
    fn places_are_kept_once_and_through_restarts_and_power_cuts() {
        let disk = MemoryDisk::new();
        assert_eq!(places(&disk), ChainPlaces::default());
        let before = file(&disk);
        before.append(&[place(1, 4_096), place(2, 4_096), place(1, 4_096)]).unwrap();
        disk.power_cut(&mut || false);
        let after = file(&disk);
        after.append(&[place(1, 4_096), place(1, 8_192)]).unwrap();
        after.append(&[place(2, 4_096)]).unwrap();
        let expected = ChainPlaces { places: vec![place(1, 4_096), place(2, 4_096), place(1, 8_192)], damaged: vec![] };
        assert_eq!(places(&disk), expected);
    }

    #[test]
    fn an_unfinished_line_is_none_and_every_changed_byte_is_found() {
        let disk = MemoryDisk::new();
        file(&disk).append(&[place(1, 4_096), place(1, 8_192)]).unwrap();
        let open = || disk.open(&Path::new(DIR).join(FILE), OpenMode::Write).unwrap();
        let bytes = whole(&*open()).unwrap();
        let (first, _) = bytes.split_at(bytes.len() / 2);
        for at in 0..first.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let found = parse(&flipped);
            assert!(!found.damaged.is_empty() && !found.places.contains(&place(1, 4_096)), "byte {at}: {found:?}");
        }
        open().write_all_at(b"18 1 12", bytes.len() as u64).unwrap();
        assert_eq!(places(&disk).damaged, vec![]);
        file(&disk).append(&[place(1, 12_288)]).unwrap();
        assert_eq!(places(&disk).places, [place(1, 4_096), place(1, 8_192), place(1, 12_288)]);
    }

    #[test]
    fn damaged_lines_are_removed_and_the_others_stay() {
        let disk = MemoryDisk::new();
        let chain = file(&disk);
        assert_eq!(chain.mend().unwrap(), []);
        let all = [place(1, 4_096), place(2, 4_096), place(1, 8_192)];
        chain.append(&all).unwrap();
        assert_eq!(chain.mend().unwrap(), []);
        let length = line(NEWEST, &all[0]).len() as u64;
        disk.open(&Path::new(DIR).join(FILE), OpenMode::Write).unwrap().write_all_at(b"?", length).unwrap();
        assert_eq!(chain.mend().unwrap(), [(2, "it has a bad checksum".to_owned())]);
        disk.power_cut(&mut || false);
        chain.append(&[place(1, 8_192), place(1, 12_288)]).unwrap();
        assert_eq!(places(&disk), ChainPlaces { places: vec![all[0], all[2], place(1, 12_288)], damaged: vec![] });
    }

    #[test]
    fn lines_of_a_later_version_are_named() {
        let later = ClusterVersion::numbered(NEWEST.number() + 1);
        let found = parse(line(later, &place(1, 4_096)).as_bytes());
        let why = format!("it was written under version {later}, this program reads up to {NEWEST}");
        assert_eq!(found, ChainPlaces { places: vec![], damaged: vec![(1, why)] });
    }
}
