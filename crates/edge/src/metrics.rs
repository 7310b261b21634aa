//! The counters of the client port, as Prometheus text.

use std::{
    fmt::Write,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use boxoffice_core::{refusal::Refusal, seat::SeatState};
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

/// The counters.
#[derive(Debug)]
pub struct Metrics {
    requests: [[AtomicU64; 3]; Op::ALL.len()],
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    latency_sum_us: AtomicU64,
    /// Open connections, HTTP and WebSocket.
    pub connections: AtomicI64,
    /// Open WebSocket connections.
    pub sockets: AtomicI64,
    /// Feeds of all connections together.
    pub watchers: AtomicI64,
    /// Requests submitted to the node and not answered by it.
    pub under_way: AtomicI64,
    /// Memory of incomplete WebSocket messages, in bytes.
    pub frame_bytes: AtomicI64,
    /// Connections rejected because there were too many.
    pub turned_away: AtomicU64,
    /// Frames that were not requests.
    pub malformed_frames: AtomicU64,
    /// Requests whose op or body was refused.
    pub rejected_frames: AtomicU64,
    /// Connections closed because they did not read.
    pub slow_readers: AtomicU64,
    /// Bytes read from WebSocket connections.
    pub bytes_in: AtomicU64,
    /// Bytes written to WebSocket connections.
    pub bytes_out: AtomicU64,
    /// Frames of feeds sent.
    pub feed_frames: AtomicU64,
    /// Webhooks of the payment gateway, by outcome ([`Ended`]).
    pub webhooks: [AtomicU64; 3],
    /// Refusals that contradict themselves, because they name nothing that is taken, or something that is free.
    pub refused_although_free: AtomicU64,
    /// Refusals of best seats although enough were free, because they were not adjacent or not accessible.
    pub refused_scattered: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            requests: std::array::from_fn(|_| Default::default()),
            buckets: Default::default(),
            latency_sum_us: AtomicU64::default(),
            connections: AtomicI64::default(),
            sockets: AtomicI64::default(),
            watchers: AtomicI64::default(),
            under_way: AtomicI64::default(),
            frame_bytes: AtomicI64::default(),
            turned_away: AtomicU64::default(),
            malformed_frames: AtomicU64::default(),
            rejected_frames: AtomicU64::default(),
            slow_readers: AtomicU64::default(),
            bytes_in: AtomicU64::default(),
            bytes_out: AtomicU64::default(),
            feed_frames: AtomicU64::default(),
            webhooks: Default::default(),
            refused_although_free: AtomicU64::default(),
            refused_scattered: AtomicU64::default(),
        }
    }
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
        self.requests[op as usize][ended as usize].fetch_add(1, Ordering::Relaxed);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.latency_sum_us.fetch_add(took_us, Ordering::Relaxed);
    }

    /// Counts a refusal if something was free all the same.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        if contradicts_itself(refusal) {
            self.refused_although_free.fetch_add(1, Ordering::Relaxed);
        } else if is_scattered(refusal) {
            self.refused_scattered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests of all ops with this outcome.
    pub fn requests(&self, ended: Ended) -> u64 {
        self.requests.iter().map(|outcomes| outcomes[ended as usize].load(Ordering::Relaxed)).sum()
    }

    /// All counters, for a scrape.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(4_096);
        self.write(&mut text).expect("a string takes what is written");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let gauges = [
            ("connections", "Open connections, HTTP and WebSocket.", &self.connections),
            ("sockets", "Open WebSocket connections.", &self.sockets),
            ("watchers", "Feeds of all connections together.", &self.watchers),
            ("requests_under_way", "Requests submitted and not answered yet.", &self.under_way),
            ("frame_bytes", "Memory of incomplete messages, in bytes.", &self.frame_bytes),
        ];
        for (name, help, gauge) in gauges {
            let value = gauge.load(Ordering::Relaxed);
            writeln!(text, "# HELP boxoffice_edge_{name} {help}\n# TYPE boxoffice_edge_{name} gauge")?;
            writeln!(text, "boxoffice_edge_{name} {value}")?;
        }
        let counters = [
            ("turned_away_total", "Connections rejected because there were too many.", &self.turned_away),
            ("malformed_frames_total", "Frames that were not requests.", &self.malformed_frames),
            ("rejected_frames_total", "Requests whose op or body was refused.", &self.rejected_frames),
            ("slow_readers_total", "Connections closed because they did not read.", &self.slow_readers),
            ("received_bytes_total", "Bytes read from WebSocket connections.", &self.bytes_in),
            ("sent_bytes_total", "Bytes written to WebSocket connections.", &self.bytes_out),
            ("feed_frames_total", "Frames of feeds sent.", &self.feed_frames),
            (
                "refused_although_free_total",
                "Refusals of seats, stock or slots that name nothing that is taken, or something that is free. Always 0.",
                &self.refused_although_free,
            ),
            (
                "refused_scattered_total",
                "Best seats that were refused although enough were free, but not adjacent or not accessible.",
                &self.refused_scattered,
            ),
        ];
        for (name, help, counter) in counters {
            let value = counter.load(Ordering::Relaxed);
            writeln!(text, "# HELP boxoffice_edge_{name} {help}\n# TYPE boxoffice_edge_{name} counter")?;
            writeln!(text, "boxoffice_edge_{name} {value}")?;
        }
        writeln!(text, "# HELP boxoffice_edge_requests_total Requests, by op and outcome.")?;
        writeln!(text, "# TYPE boxoffice_edge_requests_total counter")?;
        for op in Op::ALL {
            for ended in Ended::ALL {
                let count = self.requests[op as usize][ended as usize].load(Ordering::Relaxed);
                if count > 0 {
                    let (op, outcome) = (op.name(), ended.name());
                    writeln!(text, "boxoffice_edge_requests_total{{op=\"{op}\",outcome=\"{outcome}\"}} {count}")?;
                }
            }
        }
        writeln!(text, "# HELP boxoffice_edge_webhooks_total Webhooks of the payment gateway, by outcome.")?;
        writeln!(text, "# TYPE boxoffice_edge_webhooks_total counter")?;
        for ended in Ended::ALL {
            let count = self.webhooks[ended as usize].load(Ordering::Relaxed);
            writeln!(text, "boxoffice_edge_webhooks_total{{outcome=\"{}\"}} {count}", ended.name())?;
        }
        let name = "boxoffice_edge_request_duration_seconds";
        writeln!(
            text,
            "# HELP {name} Time from a request's arrival to its answer, in seconds.\n# TYPE {name} histogram"
        )?;
        let mut count = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            match BUCKETS_US.get(index) {
                Some(bound) => writeln!(text, "{name}_bucket{{le=\"{}\"}} {count}", *bound as f64 / 1e6)?,
                None => writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}")?,
            }
        }
        writeln!(text, "{name}_sum {}", self.latency_sum_us.load(Ordering::Relaxed) as f64 / 1e6)?;
        writeln!(text, "{name}_count {count}")
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
