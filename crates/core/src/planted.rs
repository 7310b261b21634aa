//! Bugs planted on purpose, one at a time, to see that the tests find them. With the feature `planted` a test plants one on its
//! thread. In other debug builds one can be planted in the whole process, for tests against a real node. A release build has none
//! of them, because there [`is`] is `false` at compile time.

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
        #[cfg(debug_assertions)]
        if super::process::is(bug) {
            return true;
        }
        BUG.get().is_some_and(|planted| planted == bug)
    }
}

#[cfg(debug_assertions)]
mod process {
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// The hash of the bug's name. 0 is none.
    static BUG: AtomicUsize = AtomicUsize::new(0);

    /// Plants this bug in the whole process.
    pub fn plant_everywhere(bug: &str) {
        BUG.store(hash(bug), Ordering::Relaxed);
    }

    /// Whether this bug is planted in the whole process.
    #[cfg_attr(
        feature = "planted",
        expect(unreachable_pub, reason = "then the switch of each thread is public instead")
    )]
    pub fn is(bug: &str) -> bool {
        let planted = BUG.load(Ordering::Relaxed);
        planted != 0 && planted == hash(bug)
    }

    /// FNV-1a, because there are few names and they have no enemies.
    fn hash(bug: &str) -> usize {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        bug.bytes().fold(0xcbf2_9ce4_8422_2325, hash) as usize
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, plant};

#[cfg(debug_assertions)]
pub use process::plant_everywhere;

#[cfg(all(debug_assertions, not(feature = "planted")))]
pub use process::is;

/// Whether this bug is planted. Never in a release build without the feature.
#[cfg(not(any(debug_assertions, feature = "planted")))]
#[inline(always)]
pub const fn is(_bug: &str) -> bool {
    false
}
