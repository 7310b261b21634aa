//! The changes of operators that an entity remembers. A late repeat gets the same answer, and does not undo later changes (P9).
//!
//! The content of a put is not stored twice. A repeat brings it along, and the hash of its body proves that it is the same.
//! Only the rest of the answer is stored.

use alloc::{sync::Arc, vec::Vec};
use core::fmt::Debug;

use boxoffice_declare::Stored;

use crate::{
    id::{Request, RequestHash},
    refusal::Refusal,
    stored::{Decode, Encode},
};

/// How many changes one entity remembers. The oldest is forgotten first. Operators change an entity rarely, and repeat a change
/// within seconds.
pub(crate) const CHANGES_MAX: usize = 32;

/// The newest changes of an entity, oldest first, at most `MAX`. `T` is the part of the answer that the request does not have.
/// Copies share memory.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
#[stored(transparent, bounds(T: Encode + Decode + Debug))]
pub(crate) struct Changes<T, const MAX: usize = CHANGES_MAX> {
    newest: Option<Arc<[Change<T>]>>,
}

/// A change that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
#[stored(bounds(T: Encode + Decode + Debug))]
pub(crate) struct Change<T> {
    #[n(0)]
    request: Request,
    /// The entity's version with it.
    #[n(1)]
    pub(crate) version: u64,
    /// The part of its answer that the request does not have.
    #[n(2)]
    pub(crate) detail: T,
}

impl<T, const MAX: usize> Default for Changes<T, MAX> {
    fn default() -> Changes<T, MAX> {
        Changes { newest: None }
    }
}

impl<T: Copy, const MAX: usize> Changes<T, MAX> {
    /// Whether no change is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// The change that was granted under this request id, if it is remembered. Refused if it had another body.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<Change<T>, Refusal>> {
        let known = self.all().iter().find(|known| known.request.id == request.id)?;
        Some(if known.request.body == request.body { Ok(*known) } else { Err(Refusal::RequestIdReused) })
    }

    /// Whether a change with this request id is remembered.
    pub(crate) fn knows(&self, id: RequestHash) -> bool {
        self.all().iter().any(|known| known.request.id == id)
    }

    /// The entity's version with the newest change. 0 if there was none.
    pub(crate) fn newest_version(&self) -> u64 {
        self.all().last().map_or(0, |newest| newest.version)
    }

    /// Adds a change.
    pub(crate) fn remember(&mut self, request: Request, version: u64, detail: T) {
        let before = self.all();
        let kept = &before[before.len().saturating_sub(MAX - 1)..];
        let all: Vec<Change<T>> = kept.iter().copied().chain([Change { request, version, detail }]).collect();
        self.newest = Some(all.into());
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.newest.as_deref().map_or(0, |newest| 2 * size_of::<usize>() + size_of_val(newest))
    }

    fn all(&self) -> &[Change<T>] {
        self.newest.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{CHANGES_MAX, Changes};
    use crate::{
        id::{Request, RequestHash},
        refusal::Refusal,
    };

    fn request(number: u64) -> Request {
        Request { id: RequestHash(number), body: 10 * number }
    }

    #[test]
    fn the_newest_are_kept_and_another_body_is_refused() {
        let mut changes: Changes<u64> = Changes::default();
        assert_eq!((changes.answered(request(0)), changes.heap_bytes()), (None, 0));
        for number in 0..=CHANGES_MAX as u64 {
            changes.remember(request(number), number + 1, number + 100);
        }
        assert_eq!(changes.answered(request(0)), None, "the oldest is forgotten");
        for number in 1..=CHANGES_MAX as u64 {
            let known = changes.answered(request(number)).expect("a remembered request").expect("the same body");
            assert_eq!((known.version, known.detail), (number + 1, number + 100));
        }
        let other = Request { body: 0, ..request(1) };
        assert_eq!(changes.answered(other), Some(Err(Refusal::RequestIdReused)));
        assert!(changes.knows(RequestHash(1)) && !changes.knows(RequestHash(0)));
    }

    #[test]
    fn one_change_takes_some_bytes_and_none_takes_two_pointers() {
        assert_eq!(size_of::<Changes<()>>(), 2 * size_of::<usize>());
        let mut changes: Changes<()> = Changes::default();
        changes.remember(request(1), 1, ());
        assert_eq!(changes.heap_bytes(), 40);
        let read: Changes<()> =
            crate::stored::read(&crate::stored::append(&changes, alloc::vec::Vec::new())).expect("read");
        assert_eq!(read, changes);
    }
}
