//! Threads that give way to those that sell.

use std::{io, thread};

/// How far they give way. One that competes with a usual thread for a processor gets about a tenth of it (`sched(7)`).
const NICE: i32 = 10;

/// Starts a thread of this name that gives way.
///
/// # Errors
/// The system has no room for a thread.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into());
    thread.spawn(move || {
        give_way();
        work();
    })?;
    Ok(())
}

/// From now on the calling thread gives way, and so do threads that it starts.
pub fn give_way() {
    // Without it, it only competes with what sells.
    let _ = rustix::process::setpriority_process(None, NICE);
}
