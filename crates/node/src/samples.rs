//! Readings of the counters, for rates.

use std::{collections::VecDeque, sync::atomic::Ordering};

use boxoffice_replication::metrics as replication;
use boxoffice_wire::status::Rates;
use tracing_mutex::parkinglot::Mutex;

use crate::metrics::Metrics;

/// Seconds that rates are taken over.
const RATE_SAMPLES: usize = 5;

/// A reading of the counters.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    at_ms: u64,
    commands: u64,
    turns: u64,
    syncs: u64,
}

/// Readings of the counters, one a second.
#[derive(Default)]
pub(crate) struct Samples(Mutex<VecDeque<Sample>>);

impl Samples {
    /// Takes a reading; called once a second.
    pub(crate) fn take(&self, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() == RATE_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// The rates per second, up to `last`.
    pub(crate) fn rates(&self, last: Sample) -> Rates {
        let Some(first) = self.0.lock().front().copied() else { return Rates::default() };
        let seconds = last.at_ms.saturating_sub(first.at_ms).max(1) as f64 / 1_000.0;
        let rate = |from: u64, to: u64| (to - from) as f64 / seconds;
        Rates {
            requests: rate(first.commands, last.commands),
            events: rate(first.turns, last.turns),
            fsyncs: rate(first.syncs, last.syncs),
            ..Rates::default()
        }
    }
}

impl Sample {
    /// Reads them at this monotonic millisecond.
    pub(crate) fn of(metrics: &Metrics, replication: &replication::Metrics, at_ms: u64) -> Sample {
        Sample {
            at_ms,
            commands: metrics.commands.load(Ordering::Relaxed),
            turns: replication.turns.load(Ordering::Relaxed),
            syncs: replication.syncs.load(Ordering::Relaxed),
        }
    }
}
