//! Marks code that must not wait for a store: the loops that carry consensus, the actors that sell, and whatever holds the lock of
//! a replica. A store that is read there panics in debug builds.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// How many marks there are, and the reason of the last one.
    static MARKS: Cell<(usize, &'static str)> = const { Cell::new((0, "")) };
}

/// While it lives, this thread must not wait for a store.
#[must_use]
pub struct NoWait(PhantomData<*const ()>);

/// From now on this thread must not wait for a store, for this reason. Marks may end in any order.
pub fn begin(why: &'static str) -> NoWait {
    let (marks, _) = MARKS.get();
    MARKS.set((marks + 1, why));
    NoWait(PhantomData)
}

/// Why this thread must not wait now. `None` if it may.
pub fn why() -> Option<&'static str> {
    let (marks, why) = MARKS.get();
    (marks > 0).then_some(why)
}

impl Drop for NoWait {
    fn drop(&mut self) {
        let (marks, why) = MARKS.get();
        MARKS.set((marks - 1, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_end_in_any_order() {
        let (first, second) = (begin("first"), begin("second"));
        assert_eq!(why(), Some("second"));
        drop(first);
        assert_eq!(why(), Some("second"));
        drop(second);
        assert_eq!(why(), None);
    }
}
