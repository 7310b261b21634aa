//! Bugs planted on purpose, one at a time, to see that the tests find them, as in `boxoffice_core::planted`, which this
//! crate does not use. Without the feature `planted` none is.

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    std::thread_local! {
        static BUG: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// From now on this bug is in whatever runs on this thread; or none is.
    pub fn plant(bug: Option<&'static str>) {
        BUG.set(bug);
    }

    /// Whether this bug is planted.
    pub(crate) fn is(bug: &str) -> bool {
        BUG.get().is_some_and(|planted| planted == bug)
    }
}

#[cfg(feature = "planted")]
pub(crate) use switch::is;
#[cfg(feature = "planted")]
pub use switch::plant;

/// Whether this bug is planted: none is.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn is(_bug: &str) -> bool {
    false
}
