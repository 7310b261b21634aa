//! The chain of hashes over the entries of a shard.
//!
//! A link is the first 16 bytes of the BLAKE3 hash of 64 bytes, which is one block: the link before it (16; the first one has the number
//! of the shard there), the index (8), the term (8, with its highest bit set for a change of members) and the BLAKE3 hash of the payload
//! (32). Numbers are little-endian. The payload stands in it by its hash, so that an entry can be redacted later and its place
//! still be proven.
//!
//! The first entry of turns that was written under [`CHAINED`] begins the chain, and every entry after it continues it. So all replicas
//! have the same links, and each link tells all entries before it.

use boxoffice_core::version::CHAINED;
use bytes::BufMut as _;

use crate::name::{Position, ShardId};
use crate::record::EntryKind;

/// What an entry adds to the chain of its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    shard: ShardId,
    position: Position,
    kind: EntryKind,
    payload: [u8; 32],
    begins: bool,
}

impl Link {
    /// Of the entry at this position.
    pub fn of(shard: ShardId, position: Position, kind: EntryKind, payload: &[u8]) -> Link {
        let begins = begins(kind, payload);
        Link { shard, position, kind, payload: *blake3::hash(payload).as_bytes(), begins }
    }

    /// The position of the entry.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The chain with this entry, after the chain before it. `None` if it has not begun.
    pub fn after(&self, before: Option<u128>) -> Option<u128> {
        if before.is_none() && !self.begins {
            return None;
        }
        let Position { index, term } = self.position;
        let is_of_members = u64::from(self.kind == EntryKind::Members);
        let mut block = [0; 64];
        let mut rest = &mut block[..];
        rest.put_u128_le(before.unwrap_or_else(|| self.shard.into()));
        rest.put_u64_le(index);
        rest.put_u64_le(is_of_members << 63 | term);
        rest.put_slice(&self.payload);
        let hash = blake3::hash(&block);
        hash.as_bytes().first_chunk().copied().map(u128::from_le_bytes)
    }
}

/// Whether an entry begins the chain if there is none.
pub(crate) fn begins(kind: EntryKind, payload: &[u8]) -> bool {
    kind == EntryKind::Turns && payload.first().is_some_and(|version| *version >= CHAINED.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Position = Position { index: 7, term: 3 };

    fn turns(payload: &[u8]) -> Link {
        Link::of(1, AT, EntryKind::Turns, payload)
    }

    /// The value is pinned, because chains are compared with printed ones.
    #[test]
    fn a_link_is_the_hash_of_what_it_says() {
        let payload = [CHAINED.number(), 1, 2, 3];
        let hashed = blake3::hash(&payload);
        let link = |before: u128, term: u64| {
            let bytes =
                [&before.to_le_bytes()[..], &7_u64.to_le_bytes(), &term.to_le_bytes(), hashed.as_bytes()].concat();
            u128::from_le_bytes(blake3::hash(&bytes).as_bytes()[..16].try_into().unwrap())
        };
        assert_eq!(turns(&payload).after(Some(5)), Some(link(5, 3)));
        assert_eq!(turns(&payload).after(None), Some(link(1, 3)), "the first of shard 1");
        assert_eq!(Link::of(1, AT, EntryKind::Members, &payload).after(Some(5)), Some(link(5, 1 << 63 | 3)));
        assert_eq!(format!("{:032x}", link(5, 3)), "cc026b1285f317c6f641465fef011335");
    }

    #[test]
    fn the_first_entry_of_the_version_begins_and_everything_after_it_continues() {
        let (old, new) = ([CHAINED.number() - 1, 9], [CHAINED.number(), 9]);
        assert_eq!(turns(&old).after(None), None);
        assert_eq!(turns(&[]).after(None), None, "the first entry of a leader");
        assert_eq!(Link::of(1, AT, EntryKind::Members, &new).after(None), None);
        let first = turns(&new).after(None);
        assert!(first.is_some() && first != turns(&new).after(Some(2)));
        for later in [turns(&old), turns(&[]), Link::of(1, AT, EntryKind::Members, &new)] {
            assert!(later.after(first).is_some_and(|link| Some(link) != first));
        }
    }

    #[test]
    fn each_part_of_an_entry_changes_the_link() {
        let payload = [CHAINED.number(), 1];
        let same = turns(&payload).after(Some(1));
        assert_ne!(Link::of(2, AT, EntryKind::Turns, &payload).after(None), turns(&payload).after(None), "the shard");
        let others = [
            Link::of(1, Position { index: 8, ..AT }, EntryKind::Turns, &payload),
            Link::of(1, Position { term: 4, ..AT }, EntryKind::Turns, &payload),
            Link::of(1, AT, EntryKind::Members, &payload),
            turns(&[CHAINED.number(), 2]),
        ];
        assert!(others.iter().all(|other| other.after(Some(1)) != same));
        assert_ne!(turns(&payload).after(Some(2)), same);
    }
}
