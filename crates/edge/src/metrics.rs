//! The counters of the client port, as Prometheus text.

use std::{
    array,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use boxoffice_core::{refusal::Refusal, seat::SeatState};
use boxoffice_node::metrics_text::MetricsText;
use boxoffice_wire::{Op, status::NodeStatus};

/// Upper bounds of the latency buckets, in microseconds.
const BUCKETS_US: [u64; 12] =
    [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 50_000, 100_000, 500_000, 2_000_000, 10_000_000];

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Granted.
    Ok,
    /// Refused.
    No,
    Fail,
}

impl Ended {
    const ALL: [Ended; 3] = [Ended::Ok, Ended::No, Ended::Fail];

    fn name(self) -> &'static str {
        match self {
            Ended::Ok => "ok",
            Ended::No => "no",
            Ended::Fail => "fail",
        }
    }
}

/// Requests of each op, by outcome ([`Ended`]).
#[derive(Debug)]
struct RequestCounts([[AtomicU64; 3]; Op::ALL.len()]);

impl Default for RequestCounts {
    fn default() -> RequestCounts {
        RequestCounts(array::from_fn(|_| Default::default()))
    }
}

/// The counters. [`Metrics::write`] says what each of them counts.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: RequestCounts,
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    latency_sum_us: AtomicU64,
    pub connections: AtomicI64,
    pub sockets: AtomicI64,
    pub watchers: AtomicI64,
    pub under_way: AtomicI64,
    pub frame_bytes: AtomicI64,
    pub turned_away: AtomicU64,
    pub malformed_frames: AtomicU64,
    pub rejected_frames: AtomicU64,
    pub slow_readers: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    pub feed_frames: AtomicU64,
    /// By outcome ([`Ended`]).
    pub webhooks: [AtomicU64; 3],
    pub refused_although_free: AtomicU64,
    pub refused_scattered: AtomicU64,
    pub share_refused: AtomicU64,
}

impl Metrics {
    /// Completes a node's status.
    pub(crate) fn show_in(&self, status: &mut NodeStatus) {
        let count = |gauge: &AtomicI64| u64::try_from(gauge.load(Ordering::Relaxed)).unwrap_or(0);
        status.connections = count(&self.connections);
        status.watchers = count(&self.watchers);
    }

    /// Counts a request of this op that ended after `took`.
    pub fn ended(&self, op: Op, ended: Ended, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.partition_point(|bound| *bound < took_us);
        self.requests.0[op as usize][ended as usize].fetch_add(1, Ordering::Relaxed);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.latency_sum_us.fetch_add(took_us, Ordering::Relaxed);
    }

    /// Counts a refusal of a share, and one although something was free.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        if is_of_share(refusal) {
            self.share_refused.fetch_add(1, Ordering::Relaxed);
        }
        if contradicts_itself(refusal) {
            self.refused_although_free.fetch_add(1, Ordering::Relaxed);
        } else if is_scattered(refusal) {
            self.refused_scattered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests of all ops with this outcome.
    pub fn requests(&self, ended: Ended) -> u64 {
        self.requests.0.iter().map(|outcomes| outcomes[ended as usize].load(Ordering::Relaxed)).sum()
    }

    /// Writes all counters, for a scrape.
    pub fn write(&self, text: &mut MetricsText) {
        let gauges = [
            ("boxoffice_edge_connections", "Open connections, HTTP and WebSocket.", &self.connections),
            ("boxoffice_edge_sockets", "Open WebSocket connections.", &self.sockets),
            ("boxoffice_edge_watchers", "Feeds of all connections together.", &self.watchers),
            ("boxoffice_edge_requests_under_way", "Requests submitted and not answered yet.", &self.under_way),
            ("boxoffice_edge_frame_bytes", "Memory of incomplete messages, in bytes.", &self.frame_bytes),
        ];
        for (name, help, gauge) in gauges {
            text.gauge(name, help, gauge.load(Ordering::Relaxed));
        }
        let counters = [
            (
                "boxoffice_edge_turned_away_total",
                "Connections rejected because there were too many.",
                &self.turned_away,
            ),
            ("boxoffice_edge_malformed_frames_total", "Frames that were not requests.", &self.malformed_frames),
            ("boxoffice_edge_rejected_frames_total", "Requests whose op or body was refused.", &self.rejected_frames),
            ("boxoffice_edge_slow_readers_total", "Connections closed because they did not read.", &self.slow_readers),
            ("boxoffice_edge_received_bytes_total", "Bytes read from WebSocket connections.", &self.bytes_in),
            ("boxoffice_edge_sent_bytes_total", "Bytes written to WebSocket connections.", &self.bytes_out),
            ("boxoffice_edge_feed_frames_total", "Frames of feeds sent.", &self.feed_frames),
            (
                "boxoffice_edge_refused_although_free_total",
                "Refusals of seats, stock or slots that name nothing that is taken, or something that is free. Always 0.",
                &self.refused_although_free,
            ),
            (
                "boxoffice_edge_refused_scattered_total",
                "Best seats that were refused although enough were free, but not adjacent or not accessible.",
                &self.refused_scattered,
            ),
            (
                "boxoffice_share_refused_total",
                "Holds refused because those behind the connection hold their share already.",
                &self.share_refused,
            ),
        ];
        for (name, help, counter) in counters {
            text.counter(name, help, counter);
        }
        let requests = "boxoffice_edge_requests_total";
        text.describe(requests, "counter", "Requests, by op and outcome.");
        for op in Op::ALL {
            for ended in Ended::ALL {
                let count = self.requests.0[op as usize][ended as usize].load(Ordering::Relaxed);
                if count > 0 {
                    let (op, outcome) = (op.name(), ended.name());
                    text.sample(requests, format_args!("{{op=\"{op}\",outcome=\"{outcome}\"}}"), count);
                }
            }
        }
        let webhooks = "boxoffice_edge_webhooks_total";
        text.describe(webhooks, "counter", "Webhooks of the payment gateway, by outcome.");
        let count = |ended: Ended| self.webhooks[ended as usize].load(Ordering::Relaxed);
        text.samples(webhooks, "outcome", Ended::ALL.map(|ended| (ended.name(), count(ended))));
        self.write_durations(text);
    }

    fn write_durations(&self, text: &mut MetricsText) {
        let name = "boxoffice_edge_request_duration_seconds";
        text.describe(name, "histogram", "Time from a request's arrival to its answer, in seconds.");
        let bounds = BUCKETS_US.iter().map(|bound| (*bound as f64 / 1e6).to_string()).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, bucket) in bounds.zip(&self.buckets) {
            count += bucket.load(Ordering::Relaxed);
            text.sample(name, format_args!("_bucket{{le=\"{bound}\"}}"), count);
        }
        text.sample(name, "_sum", self.latency_sum_us.load(Ordering::Relaxed) as f64 / 1e6);
        text.sample(name, "_count", count);
    }
}

/// Whether a refusal names nothing that is taken, or something that is free.
fn contradicts_itself(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Lines(lines) => lines.iter().any(|line| contradicts_itself(&line.refusal)),
        Refusal::SeatsTaken(taken) | Refusal::SeatBlocked(taken) => {
            taken.is_empty() || taken.iter().any(|taken| taken.state == SeatState::Free)
        }
        Refusal::OutOfStock(shortages) => {
            shortages.is_empty() || shortages.iter().any(|shortage| u64::from(shortage.wanted) <= shortage.free)
        }
        Refusal::SlotTaken(conflicts) => conflicts.is_empty(),
        _ => false,
    }
}

/// Whether best seats are refused although enough seats are free.
fn is_scattered(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Lines(lines) => lines.iter().any(|line| is_scattered(&line.refusal)),
        Refusal::NoAdjacentSeats { count, free } => *free >= u32::from(*count),
        _ => false,
    }
}

/// Whether those behind the connection hold their share.
fn is_of_share(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Lines(lines) => lines.iter().any(|line| is_of_share(&line.refusal)),
        Refusal::ShareReached { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::{
        id::Id,
        refusal::{LineRefusal, Shortage, TakenSeat},
        seat::Seat,
    };

    use super::*;

    fn taken(state: SeatState) -> Refusal {
        Refusal::SeatsTaken(vec![TakenSeat { seat: Seat { row: 0, seat: 1 }, state }])
    }

    fn short(wanted: u32, free: u64) -> Refusal {
        let product = Id::new("p").expect("a valid id");
        Refusal::OutOfStock(vec![Shortage { product, wanted, free, held: 0 }])
    }

    #[test]
    fn refusals_that_contradict_themselves_are_counted() {
        let metrics = Metrics::default();
        for refusal in [taken(SeatState::Held), short(5, 4), Refusal::CartExpired] {
            metrics.refused(&refusal);
        }
        assert_eq!(metrics.refused_although_free.load(Ordering::Relaxed), 0);
        let lines = |refusal| Refusal::Lines(vec![LineRefusal { line: 0, refusal }]);
        let wrong = [
            taken(SeatState::Free),
            Refusal::SeatsTaken(vec![]),
            Refusal::SeatBlocked(vec![]),
            short(5, 5),
            Refusal::OutOfStock(vec![]),
            Refusal::SlotTaken(vec![]),
            lines(short(1, 1)),
        ];
        wrong.iter().for_each(|refusal| metrics.refused(refusal));
        assert_eq!(metrics.refused_although_free.load(Ordering::Relaxed), 7);
    }
}
