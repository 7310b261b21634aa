//! Requests and frames a second, over the last seconds. The counters are read once a second.

use std::{collections::VecDeque, sync::atomic::Ordering};

use boxoffice_wire::status::Rates;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;

use crate::metrics::{Ended, Metrics};

/// The rates are of this many seconds.
const READINGS: usize = 5;

/// A reading of the counters.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    ended: [u64; 3],
    feed_frames: u64,
}

/// The readings of the last seconds.
#[derive(Default)]
pub(crate) struct Readings(Mutex<VecDeque<Reading>>);

impl Readings {
    /// Takes a reading. Called once a second.
    pub(crate) fn take(&self, metrics: &Metrics) {
        let mut readings = self.0.lock();
        if readings.len() == READINGS {
            readings.pop_front();
        }
        readings.push_back(Reading::of(metrics));
    }

    /// Completes a node's rates.
    pub(crate) fn show_in(&self, metrics: &Metrics, rates: &mut Rates) {
        let Some(first) = self.0.lock().front().copied() else { return };
        let last = Reading::of(metrics);
        // Right after the first reading, a burst would look like thousands a second.
        let seconds = (last.at - first.at).as_secs_f64().max(1.0);
        let rate = |from: u64, to: u64| (to - from) as f64 / seconds;
        let ended = |ended: Ended| rate(first.ended[ended as usize], last.ended[ended as usize]);
        rates.ok = ended(Ended::Ok);
        rates.no = ended(Ended::No);
        rates.fail = ended(Ended::Fail);
        rates.feed_frames = rate(first.feed_frames, last.feed_frames);
    }
}

impl Reading {
    fn of(metrics: &Metrics) -> Reading {
        Reading {
            at: Instant::now(),
            ended: [Ended::Ok, Ended::No, Ended::Fail].map(|ended| metrics.requests(ended)),
            feed_frames: metrics.feed_frames.load(Ordering::Relaxed),
        }
    }
}
