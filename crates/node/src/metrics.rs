//! Counters of a node, read by `/metrics` and `admin.status`.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
};

use boxoffice_core::payment::{GatewayOutcome, PaymentCounts};
use boxoffice_storage::history::LookupCounts;

/// What a node counts since it was started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Commands that came to the door.
    pub commands: AtomicU64,
    /// Commands turned away because too much was under way.
    pub busy: AtomicU64,
    /// Passes of the replication loop that wrote something.
    pub passes: AtomicU64,
    /// Bytes written to the log.
    pub log_bytes: AtomicU64,
    /// Syncs of the log.
    pub syncs: AtomicU64,
    /// Time spent in them, in microseconds.
    pub sync_us: AtomicU64,
    /// Entries applied.
    pub entries: AtomicU64,
    /// Turns (of one entity each) in them.
    pub turns: AtomicU64,
    /// Reads and refusals that waited for a safe read.
    pub reads: AtomicU64,
    /// Snapshots written.
    pub snapshots: AtomicU64,
    /// Entities written to the store of what has left memory.
    pub left: AtomicU64,
    /// Entities taken back from it because something happened to them.
    pub put_back: AtomicU64,
    /// Syncs of it.
    pub history_syncs: AtomicU64,
    /// Segments of the log that were archived.
    pub archived: AtomicU64,
    /// Calls of clients that were sent on to another node, or repeated.
    pub calls_forwarded: AtomicU64,
    /// Frames of other nodes that were dropped: too many waited, or they could not be understood.
    pub peer_frames_dropped: AtomicU64,
    /// Pieces of snapshots sent to other nodes.
    pub stream_pieces: AtomicU64,
    /// Calls to the payment gateway.
    pub gateway_calls: AtomicU64,
    /// Calls to it that were answered in so many words.
    pub gateway_answers: AtomicU64,
    /// Calls to it whose outcome stayed unknown: they are asked again.
    pub gateway_unknown: AtomicU64,
    /// Authorizations it declined.
    pub gateway_declined: AtomicU64,
    /// Decisions that panicked and were contained.
    pub panics_contained: AtomicU64,
    /// Turns of a cart and an inventory together.
    pub joint_turns: AtomicU64,
    /// Checksums of this node's replicas compared with another replica's.
    pub checksums_compared: AtomicU64,
    /// Those of them that were different.
    pub checksums_different: AtomicU64,
}

/// What there is on the node at one moment.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) payments: PaymentCounts,
    pub(crate) tombstones: u64,
    pub(crate) in_memory: u64,
    pub(crate) leaving: u64,
}

impl Metrics {
    /// Counts what came of a call to the gateway.
    pub(crate) fn paid(&self, outcome: &GatewayOutcome) {
        let count = match outcome {
            GatewayOutcome::Unknown { .. } => &self.gateway_unknown,
            _ => &self.gateway_answers,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if let GatewayOutcome::Declined { .. } = outcome {
            self.gateway_declined.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counters in Prometheus' text format, what there is now, lookups that found nothing, and how many frames came damaged.
    pub(crate) fn text(&self, now: &Gauges, lookups: &LookupCounts, damaged: u64) -> String {
        let damaged = AtomicU64::new(damaged);
        let rows: [(&str, &str, &AtomicU64); 28] = [
            ("boxoffice_commands_total", "Commands received.", &self.commands),
            ("boxoffice_busy_total", "Commands refused because too much was under way.", &self.busy),
            ("boxoffice_log_passes_total", "Passes of the replication loop that wrote something.", &self.passes),
            ("boxoffice_log_bytes_total", "Bytes written to the log.", &self.log_bytes),
            ("boxoffice_log_syncs_total", "Syncs of the log.", &self.syncs),
            (
                "boxoffice_log_sync_microseconds_total",
                "Time spent in syncs of the log, in microseconds.",
                &self.sync_us,
            ),
            ("boxoffice_entries_total", "Log entries applied.", &self.entries),
            ("boxoffice_turns_total", "Turns in the log entries applied.", &self.turns),
            ("boxoffice_joint_turns_total", "Turns of a cart and an inventory together.", &self.joint_turns),
            ("boxoffice_safe_reads_total", "Reads and refusals that waited for a safe read.", &self.reads),
            ("boxoffice_snapshots_total", "Snapshots written.", &self.snapshots),
            ("boxoffice_left_total", "Ended entities written to the store.", &self.left),
            ("boxoffice_put_back_total", "Entities taken back from the store.", &self.put_back),
            (
                "boxoffice_history_lookups_filtered_total",
                "Lookups of entities that never left memory, answered without the store.",
                &lookups.filtered,
            ),
            ("boxoffice_history_lookups_missed_total", "Lookups for which the store had nothing.", &lookups.missed),
            ("boxoffice_history_syncs_total", "Syncs of the store.", &self.history_syncs),
            ("boxoffice_archived_segments_total", "Log segments archived.", &self.archived),
            ("boxoffice_calls_forwarded_total", "Calls sent to other nodes.", &self.calls_forwarded),
            ("boxoffice_peer_frames_dropped_total", "Frames of other nodes dropped.", &self.peer_frames_dropped),
            ("boxoffice_peer_frames_damaged_total", "Frames of other nodes that came damaged.", &damaged),
            ("boxoffice_stream_pieces_total", "Pieces of snapshots sent to other nodes.", &self.stream_pieces),
            ("boxoffice_gateway_calls_total", "Calls to the payment gateway.", &self.gateway_calls),
            ("boxoffice_gateway_answers_total", "Calls that were answered for certain.", &self.gateway_answers),
            ("boxoffice_gateway_unknown_total", "Calls whose outcome stayed unknown.", &self.gateway_unknown),
            ("boxoffice_gateway_declined_total", "Authorizations that were declined.", &self.gateway_declined),
            ("boxoffice_panics_contained_total", "Decisions that panicked. Please report.", &self.panics_contained),
            (
                "boxoffice_replica_checksums_compared_total",
                "Checksums of replicas compared with another node's.",
                &self.checksums_compared,
            ),
            (
                "boxoffice_replica_checksums_different_total",
                "Checksums of replicas that differed from another node's. Please report.",
                &self.checksums_different,
            ),
        ];
        let mut text = String::new();
        for (name, help, value) in rows {
            let value = value.load(Ordering::Relaxed);
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        }
        let gauges = [
            ("boxoffice_payments_pending", "Steps of payments whose outcome is not known yet.", now.payments.pending),
            (
                "boxoffice_payments_failed",
                "Steps of payments that failed and that no operator has seen to.",
                now.payments.failed,
            ),
            ("boxoffice_cart_tombstones", "Unopened carts that give back holds of refused guests.", now.tombstones),
            ("boxoffice_entities_in_memory", "Entities in memory, of all shards with a replica here.", now.in_memory),
            (
                "boxoffice_entities_leaving",
                "Ended entities in memory that wait to be written to the store.",
                now.leaving,
            ),
        ];
        for (name, help, value) in gauges {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        text
    }
}
