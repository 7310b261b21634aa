//! The trace: the hash of everything that happens in a run, in order. On demand it is printed.

use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

/// The trace of a run.
pub(crate) struct Trace {
    begun: Instant,
    prints: bool,
    hash: Mutex<u64>,
}

impl Trace {
    /// The trace of a run that begins now.
    pub(crate) fn new(prints: bool) -> Trace {
        Trace { begun: Instant::now(), prints, hash: Mutex::new(0xcbf2_9ce4_8422_2325) }
    }

    /// The beginning of the run.
    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// Milliseconds of the run.
    pub(crate) fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Adds an event.
    pub(crate) fn note(&self, what: &str) {
        let at = self.begun.elapsed().as_nanos() as u64;
        let mut hash = self.hash.lock();
        for byte in at.to_be_bytes().iter().chain(what.as_bytes()) {
            *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.prints {
            eprintln!("{:>12.6} {what}", at as f64 / 1e9);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        *self.hash.lock()
    }
}
