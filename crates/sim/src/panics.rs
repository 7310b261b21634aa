//! Collects the panics of a run on each simulating thread, because actors and tasks swallow them.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    /// The panics on this thread since [`watch`], `None` before.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// From now on panics on this thread are collected instead of printed.
pub(crate) fn watch() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let noted = SEEN.with_borrow_mut(|seen| seen.as_mut().map(|seen| seen.push(panic.to_string())));
            if noted.is_none() {
                before(panic);
            }
        }));
    });
    SEEN.set(Some(Vec::new()));
}

/// Whether a panic was collected.
pub(crate) fn any() -> bool {
    SEEN.with_borrow(|seen| seen.as_ref().is_some_and(|seen| !seen.is_empty()))
}

/// Returns the collected panics. From now on panics on this thread are printed again.
pub(crate) fn seen() -> Vec<String> {
    SEEN.take().unwrap_or_default()
}
