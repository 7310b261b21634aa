//! A damaged data directory of a cluster's node, and its change to a new one of the same node.
//!
//! Such a directory has forgotten what it promised, so it takes no part any more. What was found is noted in the file `damage` before
//! anything else, with the number that the next directory is to have. A later process goes on from there. Only when the cluster has
//! granted that number, the files are set aside in `damaged-DATE/` and the identity is replaced. The data directory itself may be a
//! mount point, which cannot be renamed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use boxoffice_core::calendar::Date;
use boxoffice_core::version::OLDEST_READ;
use boxoffice_env::{Disk, OpenMode, World};
use serde::{Deserialize, Serialize};

use crate::identity::{
    self, ARCHIVE, CHECKSUM, EPOCH, HISTORY, Identity, IdentityError, Joining, LOG, SNAPSHOTS, checksum, failed, hex128,
};
use crate::snapshot_files::SnapshotName;

/// The note of what was found.
const FILE: &str = "damage";
/// More than any such note needs.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// The longest reason that is noted, in characters.
const WHY_CHARS_MAX: usize = 2_000;
/// The beginning of the names of directories that were set aside.
const SET_ASIDE: &str = "damaged-";
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// A finding that makes a data directory unusable for its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The data directory that was found damaged.
    pub disk: u128,
    /// The number that the next one is to have.
    pub next: u128,
    /// When it was found, in milliseconds since 1970.
    pub at_ms: u64,
    /// Nothing that was promised is forgotten, so the node serves until it may replace the directory.
    pub is_latent: bool,
    pub why: String,
}

/// The fields of the file but the checksum, which follows them.
#[derive(Serialize, Deserialize)]
struct NotedFields {
    disk: String,
    next: String,
    at_ms: u64,
    is_latent: bool,
    why: String,
}

/// Notes durably that the data directory at `dir`, with this identity, is damaged. Unless the finding is latent, it must not be used any
/// more. A finding that is noted already stays, and a latent one becomes one that is not.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn note(
    world: &World,
    dir: &Path,
    identity: &Identity,
    (why, is_latent): (&str, bool),
) -> Result<Finding, IdentityError> {
    let disk = &*world.disk;
    let known = noted(disk, dir, identity)?;
    let next = known.as_ref().map_or_else(|| world.rng.u128(), |known| known.next);
    if let Some(known) = known.filter(|known| is_latent || !known.is_latent) {
        return Ok(known);
    }
    let why = why.chars().take(WHY_CHARS_MAX).collect();
    let finding = Finding { disk: identity.disk, next, at_ms: world.clock.wall_ms(), is_latent, why };
    let hex = |number: u128| format!("{number:032x}");
    let fields = NotedFields {
        disk: hex(finding.disk),
        next: hex(finding.next),
        at_ms: finding.at_ms,
        is_latent,
        why: finding.why.clone(),
    };
    let fields = toml::to_string(&fields).expect("plain fields have a text");
    let said = format!("# What was found in this data directory. The node replaces it.\n{fields}");
    identity::write_file(disk, dir, FILE, format!("{said}{CHECKSUM}{}", checksum(&said)).as_bytes())?;
    Ok(finding)
}

/// The noted finding about the data directory at `dir` with this identity, if there is one. A note that cannot be read itself is
/// removed, because the next start finds the damage again.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn noted(disk: &dyn Disk, dir: &Path, identity: &Identity) -> Result<Option<Finding>, IdentityError> {
    let path = dir.join(FILE);
    let file = match disk.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", &path)(error)),
    };
    let mut bytes = vec![0; file.length().map_err(failed("measure", &path))?.min(FILE_BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed("read", &path))?;
    match read(&bytes).filter(|finding| finding.disk == identity.disk) {
        Some(finding) => Ok(Some(finding)),
        // It tells of a directory that was replaced before the process ended.
        None => remove(disk, dir, &path).map(|()| None),
    }
}

fn read(bytes: &[u8]) -> Option<Finding> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.rsplit_once(CHECKSUM).filter(|(said, found)| *found == checksum(said))?;
    let NotedFields { disk, next, at_ms, is_latent, why } = toml::from_str(text).ok()?;
    Some(Finding { disk: hex128(&disk)?, next: hex128(&next)?, at_ms, is_latent, why })
}

/// Makes the data directory at `dir` that of a node which has just joined, as the cluster has granted it: sets the files of the
/// damaged one aside and replaces the identity. An interrupted call is repeated. Returns the directory with the files, or `None` if
/// there was no room to keep them. Only the newest is kept.
///
/// # Errors
/// [`IdentityError::InUse`], [`IdentityError::Io`].
pub fn renew(
    world: &World,
    dir: &Path,
    (identity, finding): (&Identity, &Finding),
    joining: &Joining,
) -> Result<Option<PathBuf>, IdentityError> {
    let disk = &*world.disk;
    let _lock = identity::lock(disk, dir)?;
    let name = format!("{SET_ASIDE}{}", date(finding.at_ms));
    let kept = dir.join(&name);
    for older in disk.list_dirs(dir).map_err(failed("list", dir))? {
        if older.starts_with(SET_ASIDE) && older != name {
            let path = dir.join(older);
            disk.move_dir(&path, None).map_err(failed("remove", &path))?;
        }
    }
    let is_kept = has_room(disk, dir)?;
    if is_kept {
        disk.create_dir_all(&kept).map_err(failed("create", &kept))?;
        // With it `boxoffice verify` reads what was set aside.
        identity::copy(disk, dir, &kept)?;
    }
    for part in [LOG, SNAPSHOTS, HISTORY, ARCHIVE] {
        let from = dir.join(part);
        match disk.move_dir(&from, is_kept.then(|| kept.join(part)).as_deref()) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("move", &from)(error)),
            Ok(()) | Err(_) => {}
        }
    }
    let epoch = dir.join(EPOCH);
    match disk.remove(&epoch) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("remove", &epoch)(error)),
        Ok(()) | Err(_) => {}
    }
    disk.sync_dir(dir).map_err(failed("sync", dir))?;
    let renewed = Identity {
        cluster: joining.cluster,
        disk: joining.disk,
        created_at_ms: world.clock.wall_ms(),
        has_log: false,
        peers: joining.peers.clone(),
        generation_min: joining.generation_min,
        ..identity.clone()
    };
    identity::write(disk, dir, &renewed, OLDEST_READ)?;
    remove(disk, dir, &dir.join(FILE))?;
    Ok(is_kept.then_some(kept))
}

/// Whether twice the newest snapshots of all shards fit beside the damaged files.
fn has_room(disk: &dyn Disk, dir: &Path) -> Result<bool, IdentityError> {
    let snapshots = dir.join(SNAPSHOTS);
    let mut names: Vec<_> =
        disk.list(&snapshots).unwrap_or_default().iter().filter_map(|name| SnapshotName::parse(name)).collect();
    names.sort_unstable();
    let mut bytes = 0;
    for (at, name) in names.iter().enumerate() {
        let is_newest = names.get(at + 1).is_none_or(|next| next.shard != name.shard);
        let file = disk.open(&snapshots.join(name.file_name()), OpenMode::Read);
        if is_newest {
            bytes += file.and_then(|file| file.length()).unwrap_or(0);
        }
    }
    Ok(disk.free_bytes(dir).map_err(failed("measure", dir))? >= 2 * bytes)
}

fn remove(disk: &dyn Disk, dir: &Path, path: &Path) -> Result<(), IdentityError> {
    disk.remove(path).map_err(failed("remove", path))?;
    disk.sync_dir(dir).map_err(failed("sync", dir))
}

/// Day and time in UTC, for a name.
fn date(at_ms: u64) -> String {
    let day = Date::new(1970, 1, 1).and_then(|first| first.days_later(u32::try_from(at_ms / DAY_MS).ok()?));
    let seconds = at_ms % DAY_MS / 1_000;
    let time = [seconds / 3_600, seconds / 60 % 60, seconds % 60].map(|part| format!("{part:02}")).concat();
    day.map_or_else(|| at_ms.to_string(), |day| format!("{day}-{time}"))
}

#[cfg(test)]
mod tests;
