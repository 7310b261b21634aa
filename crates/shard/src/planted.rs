//! Bugs planted on purpose, one at a time, to check that the tests find them. This is `boxoffice_core::planted` for a
//! crate that does not use the core. Without the feature `planted` there are none.

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    std::thread_local! {
        static BUG: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Plants this bug in everything that runs on this thread, or removes it.
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

/// Whether this bug is planted. Without the feature it never is.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn is(_bug: &str) -> bool {
    false
}
