//! Copies the frames that nodes send each other during a run: real inputs for tests of what decodes them.

use std::{cell::RefCell, mem::take};

use boxoffice_env::Lane;
use bytes::Bytes;

use crate::{Report, Settings, run};

/// Frames by lane, in the order in which they were sent.
type Frames = Vec<(Lane, Bytes)>;

thread_local! {
    // A run takes place on one thread.
    static FRAMES: RefCell<Option<Frames>> = const { RefCell::new(None) };
}

/// A run, and all frames that were sent in it.
///
/// # Errors
/// As [`run`].
pub fn tapped(settings: Settings) -> Result<(Report, Frames), String> {
    FRAMES.set(Some(Frames::new()));
    let report = run(settings);
    let frames = FRAMES.with_borrow_mut(take).unwrap_or_default();
    Ok((report?, frames))
}

pub(crate) fn frame(lane: Lane, frame: &Bytes) {
    FRAMES.with_borrow_mut(|frames| {
        if let Some(frames) = frames {
            frames.push((lane, frame.clone()));
        }
    });
}
