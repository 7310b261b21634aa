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

use boxoffice_declare::Stored;

/// A version of everything in a data directory. A cluster has one at any time, which its table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
#[stored(transparent)]
pub struct ClusterVersion(u8);

/// Every version that this program reads, ascending, each with the release that raised it. Numbers below the first were those of the
/// formats of single files and of builds before a release promised to read what an earlier one had written.
pub const VERSIONS: &[(ClusterVersion, &str)] = &[(ClusterVersion(17), "0.2.0"), (CHAINED, "0.3.0")];

/// The first version under which the entries of a shard are chained by their hashes.
pub const CHAINED: ClusterVersion = ClusterVersion(18);

/// The first version under which entries and messages between nodes carry marks.
pub const MARKED: ClusterVersion = CHAINED;
/// The first version under which a node replaces its own damaged disk.
pub const RENEWS: ClusterVersion = CHAINED;

/// The first version under which sessions have offers, and terms that change.
pub const OFFERS: ClusterVersion = CHAINED;

/// The lowest version that this program reads.
pub const OLDEST_READ: ClusterVersion = VERSIONS[0].0;

/// The highest version that a release reads and can write.
pub const NEWEST: ClusterVersion = VERSIONS[VERSIONS.len() - 1].0;

/// The version after [`NEWEST`], so that upgrades can be tried before there is a next release. It has one field, one event and one
/// message between nodes more, all named after a rehearsal. A process of a debug build reads and writes it after [`rehearse`].
pub const NEXT: ClusterVersion = ClusterVersion(NEWEST.0 + 1);

/// The highest version that this process reads.
static NEWEST_READ: AtomicU8 = AtomicU8::new(NEWEST.0);

/// The highest version that this process reads and can write.
pub fn newest() -> ClusterVersion {
    ClusterVersion(NEWEST_READ.load(Ordering::Relaxed))
}

/// Lets this process read and write [`NEXT`] from now on.
#[cfg(debug_assertions)]
pub fn rehearse() {
    NEWEST_READ.store(NEXT.0, Ordering::Relaxed);
}

/// The versions that a program reads. It can write each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct ReadVersions {
    #[n(0)]
    pub oldest: ClusterVersion,
    #[n(1)]
    pub newest: ClusterVersion,
}

impl ReadVersions {
    /// Those of this process.
    pub fn own() -> ReadVersions {
        ReadVersions { oldest: OLDEST_READ, newest: newest() }
    }

    /// Whether it can be a member of a cluster of this version.
    ///
    /// # Errors
    /// Why not, and the release that goes between if there is one.
    pub fn check(self, cluster: ClusterVersion) -> Result<(), Unfit> {
        if (self.oldest..=self.newest).contains(&cluster) { Ok(()) } else { Err(Unfit { reads: self, cluster }) }
    }
}

/// What a node says of itself to other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct NodeVersions {
    #[n(0)]
    pub reads: ReadVersions,
    /// The version under which it writes.
    #[n(1)]
    pub writes: ClusterVersion,
}

impl NodeVersions {
    /// A node of this program that writes under the newest version.
    pub fn newest() -> NodeVersions {
        NodeVersions { reads: ReadVersions::own(), writes: newest() }
    }
}

/// A program whose versions do not include that of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    reads: ReadVersions,
    cluster: ClusterVersion,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfit { reads: ReadVersions { oldest, newest }, cluster } = *self;
        write!(f, "it reads versions {oldest} to {newest}, and the cluster is at version {cluster}")?;
        if cluster > newest {
            return match cluster.release() {
                Some(release) => write!(f, ": start release {release}, or a later one that reads version {cluster}"),
                None => write!(f, ": start a release that reads version {cluster}"),
            };
        }
        // Each release reads what the one before it wrote.
        match oldest.release() {
            Some(release) => {
                write!(f, ": release {release} goes between; start it, finish its upgrade, and then start this one")
            }
            None => {
                write!(f, ": start the first release of version {oldest}, finish its upgrade, and then start this one")
            }
        }
    }
}

impl core::error::Error for Unfit {}

/// The newest version of hellos and frames between nodes that this program speaks, and of the placement, because nodes with different
/// placements must not form a cluster.
pub const LINK: u16 = 12;

/// The oldest one that it speaks.
pub const LINK_OLDEST: u16 = 12;

/// Bytes of a version that this program does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// The version under which they were written.
    pub found: u32,
}

impl OtherVersion {
    /// Whether a later program wrote them. Otherwise an earlier one did.
    pub fn is_newer(self) -> bool {
        self.found > u32::from(newest().0)
    }
}

impl fmt::Display for OtherVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found;
        if self.is_newer() {
            return write!(f, "written under version {found}, this program reads up to {}", newest());
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
        known.filter(|version| (OLDEST_READ..=newest()).contains(version)).ok_or(OtherVersion { found })
    }

    /// The version with this number, whether this program reads it or not.
    pub const fn numbered(number: u8) -> ClusterVersion {
        ClusterVersion(number)
    }

    /// Its number, as it is written.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether what came with that version may be written under this one.
    pub fn has(self, version: ClusterVersion) -> bool {
        self >= version
    }

    /// The release that raised it, if this program knows it.
    pub fn release(self) -> Option<&'static str> {
        if cfg!(debug_assertions) && self == NEXT {
            return Some("next");
        }
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

    /// Writes under a higher version from now on. The identity of the data directory must hold it already.
    /// A lower one changes nothing.
    pub fn raise(&self, version: ClusterVersion) {
        self.0.fetch_max(version.0, Ordering::AcqRel);
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
        assert_eq!(older, "written under version 9, this program reads from 17 on, which release 0.2.0 began");
    }
}
