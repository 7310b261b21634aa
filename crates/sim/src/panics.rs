//! Panics of a run: actors and tasks swallow them, so each thread that simulates notes its own.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    /// What panicked on this thread since [`watch`]; `None` while it is not watched.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// From now on panics on this thread are noted instead of told.
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

/// Whether something was noted.
pub(crate) fn any() -> bool {
    SEEN.with_borrow(|seen| seen.as_ref().is_some_and(|seen| !seen.is_empty()))
}

/// What was noted; from now on panics on this thread are told again.
pub(crate) fn seen() -> Vec<String> {
    SEEN.take().unwrap_or_default()
}
