//! Faults that tests plant to see that other tests find them. Only in debug builds.

use std::sync::atomic::{AtomicBool, Ordering};

static FEEDS_HAVE_NO_ROWS: AtomicBool = AtomicBool::new(false);

/// From now on a feed needs the role of `watch` only, whatever the read of the same data needs.
pub fn drop_the_rows_of_feeds() {
    FEEDS_HAVE_NO_ROWS.store(true, Ordering::Relaxed);
}

pub(crate) fn feeds_have_no_rows() -> bool {
    FEEDS_HAVE_NO_ROWS.load(Ordering::Relaxed)
}
