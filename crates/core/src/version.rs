//! The versions of what is stored and of what travels between nodes. There is one number for everything in a data directory, and one
//! for links.
//!
//! Entries of the log, its segments, snapshots, records of the store and archives begin with the version of the cluster under which
//! they were written, and a reader refuses a higher one before it decodes anything else. The identity of a data directory holds the
//! highest version under which anything in it may be written, so an older program is refused at the door.
//!
//! To change what is stored, add a row to [`VERSIONS`] and write the new bytes only if the version that is handed in has reached that
//! row. A reader tells old bytes from new ones by what they contain, or by their version.

use alloc::sync::Arc;
use core::{
    fmt,
    sync::atomic::{AtomicU8, Ordering},
};

/// A version of everything in a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterVersion(u8);

/// Every version that this program reads, ascending, each with the release that raised it. Numbers below the first were those of the
/// formats of single files, before a release promised to read what an earlier one had written.
pub const VERSIONS: &[(ClusterVersion, &str)] = &[(ClusterVersion(16), "0.2.0")];

/// The lowest version that this program reads.
pub const OLDEST_READ: ClusterVersion = VERSIONS[0].0;

/// The highest version that this program reads and can write.
pub const NEWEST: ClusterVersion = VERSIONS[VERSIONS.len() - 1].0;

/// The version of hellos and frames between nodes, and of the placement, because nodes with different placements must not form a
/// cluster.
pub const LINK: u16 = 11;

/// Bytes of a version that this program does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// The version under which they were written.
    pub found: u32,
}

impl OtherVersion {
    /// Whether a later program wrote them. Otherwise an earlier one did.
    pub fn is_newer(self) -> bool {
        self.found > u32::from(NEWEST.0)
    }
}

impl fmt::Display for OtherVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found;
        if self.is_newer() {
            return write!(f, "written under version {found}, this program reads up to {NEWEST}");
        }
        let release = OLDEST_READ.release().unwrap_or_default();
        write!(
            f,
            "written under version {found}, this program reads from {OLDEST_READ} on, which release {release} began"
        )
    }
}

impl core::error::Error for OtherVersion {}

impl ClusterVersion {
    /// The version with this number.
    ///
    /// # Errors
    /// [`OtherVersion`] if this program does not read what was written under it.
    pub fn read(number: impl Into<u32>) -> Result<ClusterVersion, OtherVersion> {
        let found = number.into();
        let known = u8::try_from(found).ok().map(ClusterVersion);
        known.filter(|version| (OLDEST_READ..=NEWEST).contains(version)).ok_or(OtherVersion { found })
    }

    /// The version with this number, whether this program reads it or not. For tests.
    #[doc(hidden)]
    pub const fn numbered(number: u8) -> ClusterVersion {
        ClusterVersion(number)
    }

    /// Its number, as it is written.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The release that raised it, if this program knows it.
    pub fn release(self) -> Option<&'static str> {
        VERSIONS.iter().find(|(version, _)| *version == self).map(|(_, release)| *release)
    }
}

impl fmt::Display for ClusterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The version under which a node writes, shared by everything of it that writes.
#[derive(Clone, Debug)]
pub struct WriteVersion(Arc<AtomicU8>);

impl WriteVersion {
    /// Writes under this version.
    pub fn new(version: ClusterVersion) -> WriteVersion {
        WriteVersion(Arc::new(AtomicU8::new(version.0)))
    }

    /// The version as it is now.
    pub fn get(&self) -> ClusterVersion {
        ClusterVersion(self.0.load(Ordering::Acquire))
    }

    /// Writes under another version from now on. The identity of the data directory must hold it already.
    pub fn set(&self, version: ClusterVersion) {
        self.0.store(version.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString};

    use super::{ClusterVersion, NEWEST, OLDEST_READ, OtherVersion, VERSIONS};

    #[test]
    fn versions_ascend_and_each_has_a_release() {
        assert!(VERSIONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!((OLDEST_READ.release(), NEWEST.release()), (Some("0.2.0"), VERSIONS.last().map(|(_, text)| *text)));
        // The highest number that one of eight formats had before there was one for all.
        assert!(OLDEST_READ.number() > 10);
    }

    #[test]
    fn a_version_of_another_program_is_refused_with_both_numbers() {
        assert_eq!(ClusterVersion::read(NEWEST.number()), Ok(NEWEST));
        let refused = |found: u32| {
            let refusal = ClusterVersion::read(found).expect_err("it is not read");
            assert_eq!(refusal, OtherVersion { found });
            refusal.to_string()
        };
        let newer = u32::from(NEWEST.number()) + 1;
        assert_eq!(refused(newer), format!("written under version {newer}, this program reads up to {NEWEST}"));
        assert!(
            refused(newer + 255)
                .starts_with(&format!("written under version {}, this program reads up to", newer + 255))
        );
        let older = refused(9);
        assert_eq!(older, "written under version 9, this program reads from 16 on, which release 0.2.0 began");
    }
}
