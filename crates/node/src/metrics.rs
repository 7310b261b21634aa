//! Counters of a node, read by `/metrics` and `admin.status`.

use std::sync::atomic::{AtomicU64, Ordering};

use boxoffice_core::payment::{GatewayOutcome, PaymentCounts};
use boxoffice_replication::metrics as replication;
use boxoffice_storage::history::LookupCounts;

use crate::metrics_text::MetricsText;

/// The counters of a node since its start. `Metrics::text` says what each of them counts.
#[derive(Debug, Default)]
pub struct Metrics {
    pub commands: AtomicU64,
    pub busy: AtomicU64,
    pub reads: AtomicU64,
    pub calls_forwarded: AtomicU64,
    pub gateway_calls: AtomicU64,
    pub gateway_answers: AtomicU64,
    pub gateway_unknown: AtomicU64,
    pub gateway_declined: AtomicU64,
    pub panics_contained: AtomicU64,
    pub joint_turns: AtomicU64,
}

/// The gauges of a node at one moment.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) payments: PaymentCounts,
    pub(crate) tombstones: u64,
    pub(crate) in_memory: u64,
    pub(crate) leaving: u64,
}

impl Metrics {
    /// Counts the outcome of a call to the gateway.
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

    /// The counters and gauges in Prometheus' text format, with the lookups that found nothing and the damaged frames.
    pub(crate) fn text(
        &self,
        replication: &replication::Metrics,
        now: &Gauges,
        lookups: &LookupCounts,
        damaged: u64,
    ) -> MetricsText {
        let damaged = AtomicU64::new(damaged);
        let rows: [(&str, &str, &AtomicU64); 28] = [
            ("boxoffice_commands_total", "Commands received.", &self.commands),
            ("boxoffice_busy_total", "Commands refused because too much was under way.", &self.busy),
            ("boxoffice_log_passes_total", "Passes of the replication loop that wrote something.", &replication.passes),
            ("boxoffice_log_bytes_total", "Bytes written to the log.", &replication.log_bytes),
            ("boxoffice_log_syncs_total", "Syncs of the log.", &replication.syncs),
            (
                "boxoffice_log_sync_microseconds_total",
                "Time spent in syncs of the log, in microseconds.",
                &replication.sync_us,
            ),
            ("boxoffice_entries_total", "Log entries applied.", &replication.entries),
            ("boxoffice_turns_total", "Turns in the log entries applied.", &replication.turns),
            ("boxoffice_joint_turns_total", "Turns of a cart and an inventory together.", &self.joint_turns),
            ("boxoffice_safe_reads_total", "Reads and refusals that waited for a safe read.", &self.reads),
            ("boxoffice_snapshots_total", "Snapshots written.", &replication.snapshots),
            ("boxoffice_left_total", "Ended entities written to the store.", &replication.left),
            ("boxoffice_put_back_total", "Entities taken back from the store.", &replication.put_back),
            (
                "boxoffice_history_lookups_filtered_total",
                "Lookups of entities that never left memory, answered without the store.",
                &lookups.filtered,
            ),
            ("boxoffice_history_lookups_missed_total", "Lookups for which the store had nothing.", &lookups.missed),
            ("boxoffice_history_syncs_total", "Syncs of the store.", &replication.history_syncs),
            ("boxoffice_archived_segments_total", "Log segments archived.", &replication.archived),
            ("boxoffice_calls_forwarded_total", "Calls sent to other nodes.", &self.calls_forwarded),
            ("boxoffice_peer_frames_dropped_total", "Frames of other nodes dropped.", &replication.peer_frames_dropped),
            ("boxoffice_peer_frames_damaged_total", "Frames of other nodes that came damaged.", &damaged),
            ("boxoffice_stream_pieces_total", "Pieces of snapshots sent to other nodes.", &replication.stream_pieces),
            ("boxoffice_gateway_calls_total", "Calls to the payment gateway.", &self.gateway_calls),
            ("boxoffice_gateway_answers_total", "Calls that were answered for certain.", &self.gateway_answers),
            ("boxoffice_gateway_unknown_total", "Calls whose outcome stayed unknown.", &self.gateway_unknown),
            ("boxoffice_gateway_declined_total", "Authorizations that were declined.", &self.gateway_declined),
            ("boxoffice_panics_contained_total", "Decisions that panicked. Please report.", &self.panics_contained),
            (
                "boxoffice_replica_checksums_compared_total",
                "Checksums of replicas compared with another node's.",
                &replication.checksums_compared,
            ),
            (
                "boxoffice_replica_checksums_different_total",
                "Checksums of replicas that differed from another node's. Please report.",
                &replication.checksums_different,
            ),
        ];
        let mut text = MetricsText::default();
        for (name, help, value) in rows {
            text.counter(name, help, value);
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
            text.gauge(name, help, value);
        }
        text
    }
}
