//! One file of the log: a header page, then records, then zeros.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{LogConfig, LogError};
use boxoffice_core::version::ClusterVersion;
use boxoffice_env::{Disk, DiskFile, OpenMode, Rng};

/// The position of the first record. The page before it is never written again.
pub(super) const PAGE: usize = 4096;
const MAGIC: &[u8; 8] = b"BOXO-LOG";
const CRC_AT: usize = PAGE - 4;
/// The name of a segment while it is made.
pub(super) const UNFINISHED: &str = "spare.tmp";
/// Zeros are written in pieces of this size with a sync after each, so that a record's sync waits for one piece at
/// most.
pub(super) const PIECE: usize = 256 << 10;
/// The size of pieces when records wait for the segment.
pub(super) const LARGE_PIECE: usize = 2 << 20;

/// A segment whose page has been written or verified.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) bytes: u64,
    pub(super) salt: u64,
}

/// The name of segment `number`.
pub(super) fn name(number: u64) -> String {
    format!("{number:016}.log")
}

/// The number in a segment's name, `None` for other files.
pub(super) fn number_in(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 16).then(|| digits.parse().ok()).flatten()
}

/// How a segment is made.
pub(super) struct NewSegment<'a> {
    pub(super) number: u64,
    /// The file [`UNFINISHED`] is a released segment of the right size.
    pub(super) is_recycled: bool,
    /// Called with the written bytes before each piece. It may wait, and returns the piece's size, [`LARGE_PIECE`] at
    /// most. An error aborts.
    pub(super) pace: &'a dyn Fn(u64) -> io::Result<usize>,
}

/// Makes a segment that is filled with zeros, durable, and under its name.
pub(super) fn make(
    disk: &dyn Disk,
    rng: &dyn Rng,
    dir: &Path,
    config: &LogConfig,
    new: &NewSegment<'_>,
) -> io::Result<Segment> {
    let unfinished = dir.join(UNFINISHED);
    let file = match new.is_recycled {
        true => disk.open(&unfinished, OpenMode::Write)?,
        false => {
            let needed = config.segment_bytes.saturating_add(config.keep_free_bytes);
            if disk.free_bytes(dir)? < needed {
                return Err(io::ErrorKind::StorageFull.into());
            }
            remove_if_there(disk, &unfinished)?;
            disk.open(&unfinished, OpenMode::Create)?
        }
    };
    let (number, bytes, salt) = (new.number, config.segment_bytes, rng.u64());
    if let Err(error) = fill(&*file, &page(config.version.get(), number, bytes, config.owner, salt), bytes, new.pace) {
        // Half a segment is useless and only takes space.
        let _ = disk.remove(&unfinished);
        return Err(error);
    }
    let path = dir.join(name(number));
    disk.rename(&unfinished, &path)?;
    disk.sync_dir(dir)?;
    Ok(Segment { number, path, file, bytes, salt })
}

fn fill(file: &dyn DiskFile, page: &[u8], bytes: u64, pace: &dyn Fn(u64) -> io::Result<usize>) -> io::Result<()> {
    let zeros = vec![0; LARGE_PIECE];
    let mut at = 0;
    while at < bytes {
        let piece = (bytes - at).min(pace(at)? as u64);
        file.write_all_at(&zeros[..piece as usize], at)?;
        if at == 0 {
            file.write_all_at(page, 0)?;
        }
        file.sync_data()?;
        at += piece;
    }
    Ok(())
}

/// Removes the file at `path` if there is one.
pub(super) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn page(version: ClusterVersion, number: u64, bytes: u64, owner: u128, salt: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[..8].copy_from_slice(MAGIC);
    page[8..12].copy_from_slice(&u32::from(version.number()).to_le_bytes());
    page[16..24].copy_from_slice(&number.to_le_bytes());
    page[24..32].copy_from_slice(&bytes.to_le_bytes());
    page[32..48].copy_from_slice(&owner.to_le_bytes());
    page[48..56].copy_from_slice(&salt.to_le_bytes());
    let crc = crc32c::crc32c(&page[..CRC_AT]);
    page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    page
}

/// Whether segment `number` has no record.
pub(super) fn is_empty(disk: &dyn Disk, dir: &Path, number: u64) -> Result<bool, LogError> {
    let path = dir.join(name(number));
    let file = disk.open(&path, OpenMode::Read).map_err(LogError::io("open", &path))?;
    let mut first = [0; super::record::LINE];
    match file.read_exact_at(&mut first, PAGE as u64) {
        Ok(()) => Ok(first.iter().all(|&byte| byte == 0)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(LogError::io("read", &path)(error)),
    }
}

/// Opens segment `number` and verifies that it is a complete segment of `owner`, if one is given. Returns it with its
/// owner and all its bytes.
pub(super) fn open(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    owner: Option<u128>,
    mode: OpenMode,
) -> Result<(Segment, u128, Vec<u8>), LogError> {
    let path = dir.join(name(number));
    let io = |doing| LogError::io(doing, &path);
    let damaged = |offset: usize, why: &str| LogError::Damaged {
        file: path.clone(),
        offset: offset as u64,
        seq: None,
        why: why.to_owned(),
    };
    let file = disk.open(&path, mode).map_err(io("open"))?;
    let length = file.length().map_err(io("measure"))?;
    if length < PAGE as u64 {
        return Err(damaged(0, "the file is cut short"));
    }
    let mut bytes = vec![0; PAGE];
    file.read_exact_at(&mut bytes, 0).map_err(io("read"))?;
    if &bytes[..8] != MAGIC {
        return Err(damaged(0, "it does not begin like a segment of a log"));
    }
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let crc = u32::from_le_bytes(bytes[CRC_AT..PAGE].try_into().expect("four bytes"));
    if crc != crc32c::crc32c(&bytes[..CRC_AT]) {
        return Err(damaged(0, "the checksum of its first page does not match"));
    }
    let version = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
    ClusterVersion::read(version).map_err(|version| LogError::OtherVersion { file: path.clone(), version })?;
    let found_owner = u128::from_le_bytes(bytes[32..48].try_into().expect("sixteen bytes"));
    if let Some(owner) = owner.filter(|&owner| owner != found_owner) {
        return Err(LogError::Foreign { file: path, found: found_owner, owner });
    }
    if u64_at(16) != number {
        return Err(damaged(0, &format!("it is segment {} under another name", u64_at(16))));
    }
    if u64_at(24) != length {
        let why = format!("the file has {length} bytes and was made with {}", u64_at(24));
        return Err(damaged(length as usize, &why));
    }
    let salt = u64_at(48);
    let whole = usize::try_from(length).map_err(|_| damaged(0, "too large for this machine"))?;
    bytes.resize(whole, 0);
    file.read_exact_at(&mut bytes[PAGE..], PAGE as u64).map_err(io("read"))?;
    Ok((Segment { number, path, file, bytes: length, salt }, found_owner, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_both_ways() {
        assert_eq!(number_in(&name(42)), Some(42));
        assert_eq!(name(42), "0000000000000042.log");
        for other in ["42.log", "0000000000000042.log~", "000000000000004x.log", UNFINISHED, ""] {
            assert_eq!(number_in(other), None, "{other}");
        }
    }
}
