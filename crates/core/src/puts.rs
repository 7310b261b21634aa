//! The puts a thing remembers: a late repeat of one gets its answer, and does not undo the puts that came after it (P9).
//!
//! What was put is not kept a second time: a repeat brings it along, and the hash of its body says that it is the same.
//! Kept is what else the answer said.

use alloc::{sync::Arc, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    id::{Request, RequestHash},
    refusal::Refusal,
};

/// Puts that one thing remembers; beyond this the oldest is forgotten. Operators put a thing now and then, and repeat a
/// put within seconds.
pub(crate) const PUTS_MAX: usize = 32;

/// The newest puts of a thing, oldest first; `T` is what an answer said besides what was put. Copies share them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Puts<T> {
    newest: Option<Arc<[Put<T>]>>,
}

/// A put that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Put<T> {
    request: Request,
    /// The entity's version with it.
    pub(crate) version: u64,
    /// What the answer said of the state then.
    pub(crate) said: T,
}

impl<T> Default for Puts<T> {
    fn default() -> Puts<T> {
        Puts { newest: None }
    }
}

impl<T: Copy> Puts<T> {
    /// The put that was granted under this request id, if it is remembered; refused if it had another body.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<Put<T>, Refusal>> {
        let known = self.all().iter().find(|known| known.request.id == request.id)?;
        Some(if known.request.body == request.body { Ok(*known) } else { Err(Refusal::RequestIdReused) })
    }

    /// Whether a put with this request id is remembered.
    pub(crate) fn knows(&self, id: RequestHash) -> bool {
        self.all().iter().any(|known| known.request.id == id)
    }

    /// Keeps one more.
    pub(crate) fn remember(&mut self, request: Request, version: u64, said: T) {
        let before = self.all();
        let kept = &before[before.len().saturating_sub(PUTS_MAX - 1)..];
        let all: Vec<Put<T>> = kept.iter().copied().chain([Put { request, version, said }]).collect();
        self.newest = Some(all.into());
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.newest.as_deref().map_or(0, |newest| 2 * size_of::<usize>() + size_of_val(newest))
    }

    fn all(&self) -> &[Put<T>] {
        self.newest.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{PUTS_MAX, Puts};
    use crate::{
        id::{Request, RequestHash},
        refusal::Refusal,
    };

    fn request(number: u64) -> Request {
        Request { id: RequestHash(number), body: 10 * number }
    }

    #[test]
    fn the_newest_puts_are_kept_and_another_body_is_refused() {
        let mut puts = Puts::default();
        assert_eq!((puts.answered(request(0)), puts.heap_bytes()), (None, 0));
        for number in 0..=PUTS_MAX as u64 {
            puts.remember(request(number), number + 1, number + 100);
        }
        assert_eq!(puts.answered(request(0)), None, "the oldest is forgotten");
        for number in 1..=PUTS_MAX as u64 {
            let known = puts.answered(request(number)).expect("it is remembered").expect("it is the same");
            assert_eq!((known.version, known.said), (number + 1, number + 100));
        }
        let other = Request { body: 0, ..request(1) };
        assert_eq!(puts.answered(other), Some(Err(Refusal::RequestIdReused)));
        assert!(puts.knows(RequestHash(1)) && !puts.knows(RequestHash(0)));
    }

    #[test]
    fn one_put_takes_some_bytes_and_none_takes_two_pointers() {
        assert_eq!(size_of::<Puts<()>>(), 2 * size_of::<usize>());
        let mut puts = Puts::default();
        puts.remember(request(1), 1, ());
        assert_eq!(puts.heap_bytes(), 40);
        let read: Puts<()> = postcard::from_bytes(&postcard::to_allocvec(&puts).expect("written")).expect("read");
        assert_eq!(read, puts);
    }
}
