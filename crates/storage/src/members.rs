//! Where the members of the cluster serve clients, as the node last knew. A node whose copy of the cluster's table is damaged asks
//! there for another disk.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use boxoffice_env::{Disk, NodeId, OpenMode};

use crate::identity::{self, CHECKSUM, IdentityError, checksum, failed};

/// The file in the data directory. Each line has a node and its address for clients, and the last one a checksum.
const FILE: &str = "members";
/// More than the addresses of any cluster need.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Saves the addresses durably.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn save(disk: &dyn Disk, dir: &Path, addresses: &BTreeMap<NodeId, String>) -> Result<(), IdentityError> {
    let said: String = addresses.iter().map(|(node, address)| format!("{node} {address}\n")).collect();
    identity::write_file(disk, dir, FILE, format!("{said}{CHECKSUM}{}", checksum(&said)).as_bytes())
}

/// The saved addresses. Empty if there are none, or if they cannot be read.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn load(disk: &dyn Disk, dir: &Path) -> Result<BTreeMap<NodeId, String>, IdentityError> {
    let path = dir.join(FILE);
    let file = match disk.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(failed("open", &path)(error)),
    };
    let mut bytes = vec![0; file.length().map_err(failed("measure", &path))?.min(FILE_BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed("read", &path))?;
    Ok(read(&bytes).unwrap_or_else(|| {
        tracing::warn!(file = %path.display(), "the addresses of the members cannot be read");
        BTreeMap::new()
    }))
}

fn read(bytes: &[u8]) -> Option<BTreeMap<NodeId, String>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (said, _) = text.rsplit_once(CHECKSUM).filter(|(said, found)| *found == checksum(said))?;
    let member = |line: &str| line.split_once(' ').and_then(|(node, at)| Some((node.parse().ok()?, at.to_owned())));
    said.lines().map(member).collect()
}

#[cfg(test)]
mod tests {
    use boxoffice_env::MemoryDisk;

    use super::*;

    #[test]
    fn addresses_are_read_back_unless_they_are_damaged() {
        let (disk, dir) = (MemoryDisk::new(), Path::new("/data"));
        disk.create_dir_all(dir).unwrap();
        assert_eq!(load(&disk, dir).unwrap(), BTreeMap::new());
        let saved = BTreeMap::from([(2, "10.0.0.2:7180".to_owned()), (3, "[::1]:7180".to_owned())]);
        save(&disk, dir, &saved).unwrap();
        disk.power_cut(&mut || false);
        assert_eq!(load(&disk, dir).unwrap(), saved);
        let file = disk.open(&dir.join(FILE), OpenMode::Write).unwrap();
        file.write_all_at(b"4", 0).unwrap();
        assert_eq!(load(&disk, dir).unwrap(), BTreeMap::new());
    }
}
