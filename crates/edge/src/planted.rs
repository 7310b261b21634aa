//! Faults that `BOXOFFICE_PLANTED_EDGE` plants in a debug build by name, to show that the tests find them.

#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// Whether the fault with this name is planted. Never in a release build.
#[cfg(debug_assertions)]
pub(crate) fn is(name: &str) -> bool {
    static PLANTED: OnceLock<Option<String>> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("BOXOFFICE_PLANTED_EDGE").ok()).as_deref() == Some(name)
}

/// Whether the fault with this name is planted. Never in a release build.
#[cfg(not(debug_assertions))]
pub(crate) const fn is(_name: &str) -> bool {
    false
}
