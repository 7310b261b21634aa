//! Bugs planted on purpose, one at a time, to see that the tests find them. They exist only with the feature `planted`. Without
//! it [`is`] is `false` at compile time, and the program has none of them.

#[cfg(feature = "planted")]
mod switch {
    extern crate std;

    use core::cell::Cell;

    std::thread_local! {
        static BUG: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Plants this bug, or none, in everything that runs on this thread from now on.
    pub fn plant(bug: Option<&'static str>) {
        BUG.set(bug);
    }

    /// Whether this bug is planted.
    pub fn is(bug: &str) -> bool {
        BUG.get().is_some_and(|planted| planted == bug)
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, plant};

/// Whether this bug is planted. Without the feature none is.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: &str) -> bool {
    false
}
