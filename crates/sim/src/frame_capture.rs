//! Copies the frames between nodes during a run, as real inputs for tests of decoders.

use std::{cell::RefCell, mem::take};

use boxoffice_env::Lane;
use bytes::Bytes;

/// Frames by lane, in the order in which they were sent.
pub(crate) type Frames = Vec<(Lane, Bytes)>;

thread_local! {
    // A run takes place on one thread.
    static FRAMES: RefCell<Option<Frames>> = const { RefCell::new(None) };
}

/// Begins to copy frames.
pub(crate) fn begin() {
    FRAMES.set(Some(Frames::new()));
}

/// Ends the copying and returns the frames since [`begin`].
pub(crate) fn end() -> Frames {
    FRAMES.with_borrow_mut(take).unwrap_or_default()
}

/// Copies a frame, if frames are being copied.
pub(crate) fn frame(lane: Lane, frame: &Bytes) {
    FRAMES.with_borrow_mut(|frames| {
        if let Some(frames) = frames {
            frames.push((lane, frame.clone()));
        }
    });
}
