//! The status of a node, for `admin.status`.

use std::sync::atomic::Ordering;

use boxoffice_core::{id::Entity, time::Timestamp, version::ClusterVersion};
use boxoffice_replication::error::ReplicationError;
use boxoffice_shard::NodeId;
use boxoffice_storage::chain_file::ChainPlace;
use boxoffice_wire::{
    hello::Durability,
    status::{ChainEnd, FollowerStatus, NodeStatus, ShardStatus},
};
use smol_str::{SmolStr, format_smolstr};

use crate::{
    cluster_copy, metrics::Gauges, metrics_text::MetricsText, node::NodeHandle, placement, shard_lead::ShardLead,
};

/// How many entities are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residents {
    /// In memory.
    pub in_memory: u64,
    /// Of these, on their way to the store.
    pub leaving: u64,
    /// In the store. Those that came back are counted in memory as well.
    pub left: u64,
    /// Approximate bytes of the store on disk.
    pub store_bytes: u64,
    /// Bytes of the archives of old log segments on disk.
    pub archive_bytes: u64,
}

/// The progress of every other replica, where this node leads.
fn followers(lead: &ShardLead) -> Vec<FollowerStatus> {
    if !lead.leads() {
        return Vec::new();
    }
    let committed = lead.state.committed.load(Ordering::Relaxed);
    let others = lead.state.followers.lock();
    let told = others.iter().map(|other| FollowerStatus {
        replica: format_smolstr!("{}", other.replica),
        lag: committed.saturating_sub(other.matched),
        heard: other.active,
    });
    told.collect()
}

impl NodeHandle {
    /// How many entities are where.
    ///
    /// # Errors
    /// The store or the archives cannot be read.
    pub fn residents(&self) -> Result<Residents, ReplicationError> {
        let shared = &self.shared;
        let store_bytes = shared.replication.history.disk_bytes();
        let mut residents =
            Residents { store_bytes, archive_bytes: shared.replication.archives.bytes()?, ..Residents::default() };
        for lead in shared.shards.iter() {
            {
                let kept = &lead.state.replica.lock().kept;
                residents.in_memory += kept.len() as u64;
                residents.leaving += kept.evictable() as u64;
            }
            residents.left += shared.replication.history.summary(lead.id).totals.entities;
        }
        Ok(residents)
    }

    /// The members of the cluster that are not gone, by id, with the host and port where clients reach each. The address is empty
    /// if none was asked for, as on a node that is alone. No member before the node knows its cluster.
    pub fn client_addresses(&self) -> Vec<(u64, SmolStr)> {
        placement::client_addresses(&self.shared)
    }

    /// The version of the cluster under which this node writes.
    pub fn cluster_version(&self) -> ClusterVersion {
        self.shared.replication.version.get()
    }

    /// The known leader of each shard by number. 0 is the directory.
    pub fn leaders(&self) -> Vec<Option<NodeId>> {
        self.shared.shards.iter().map(|lead| self.shared.leader_of(lead)).collect()
    }

    /// The leader of an entity's shard, if it is known and another node.
    pub fn leader_elsewhere(&self, entity: &Entity) -> Option<NodeId> {
        if self.shared.is_alone() {
            return None;
        }
        self.shared
            .leader_of(self.shared.lead_of(entity))
            .filter(|leader| *leader != self.shared.config.replication.node_id)
    }

    /// The durability of an `ok` of this node.
    pub fn durability(&self) -> Durability {
        // The number of the shard that has the fewest, because the promise is for every shard.
        let here = self.shared.shards.iter().filter(|lead| lead.replica_here().is_some());
        let replicas = here.map(|lead| lead.state.voters.load(Ordering::Relaxed)).min().unwrap_or(1);
        Durability { replicas: replicas as u32, fsync: SmolStr::new(self.shared.config.replication.fsync.as_str()) }
    }

    /// The node's counters for a scrape, in Prometheus' text format.
    pub fn metrics_text(&self) -> String {
        let mut now = Gauges::default();
        for lead in self.shared.shards.iter() {
            let kept = &lead.state.replica.lock().kept;
            now.payments.add(kept.payments());
            now.tombstones += kept.tombstones();
            now.in_memory += kept.len() as u64;
            now.leaving += kept.evictable() as u64;
        }
        let shared = &self.shared;
        let replication = &shared.replication;
        let damaged = shared.world.net.damaged();
        let mut text = shared.metrics.text(&replication.metrics, &now, replication.history.lookups(), damaged);
        self.write_store(&mut text);
        shared.admission.write(&mut text);
        self.write_disk(&mut text);
        self.write_times(&mut text);
        let help = "The version of the cluster under which the node writes.";
        text.gauge("boxoffice_cluster_version", help, shared.replication.version.get().number());
        text.finish()
    }

    /// Writes the pace of the disk.
    fn write_disk(&self, text: &mut MetricsText) {
        let shared = &self.shared;
        let sync_us = shared.replication.sync_times.median_us(shared.world.clock.monotonic_ms());
        let help = "Median time of a sync of the log in the last second, in microseconds. 0 without one.";
        text.gauge("boxoffice_log_sync_median_microseconds", help, sync_us.unwrap_or(0));
        let help = "1 while the node leads nothing because its disk is clearly slower than those of the others.";
        text.gauge("boxoffice_disk_is_slow", help, u8::from(shared.disk_pace.is_slow()));
        let help = "1 while the node takes no changes because its disk is full.";
        text.gauge("boxoffice_read_only", help, u8::from(shared.replication.is_read_only()));
        let help = "1 while something on the disk is known to be damaged.";
        text.gauge("boxoffice_disk_damaged", help, u8::from(shared.replication.damage().is_some()));
        let help = "When the node last replaced its damaged disk, in seconds since 1970. 0: never.";
        text.gauge("boxoffice_disk_replaced_seconds", help, placement::renewed_ms(shared).unwrap_or(0) / 1_000);
        let metrics = &shared.replication.metrics;
        text.counter("boxoffice_scrubs_total", "How often everything on the disk was read.", &metrics.scrubs);
        let help = "Damaged files that were found then.";
        text.counter("boxoffice_scrub_findings_total", help, &metrics.scrub_findings);
    }

    /// Writes the reads of the store, and what cannot be read.
    fn write_store(&self, text: &mut MetricsText) {
        let history = &self.shared.replication.history;
        let reads = history.reads();
        text.counter("boxoffice_history_reads_total", "Reads of the store.", &reads.reads);
        let help = "Time spent in reads of the store, in microseconds.";
        text.counter("boxoffice_history_read_microseconds_total", help, &reads.us);
        let failed = "Reads of the store that failed because a part of it is damaged.";
        text.counter("boxoffice_history_reads_failed_total", failed, &reads.failed);
        let longest = reads.us_max.load(Ordering::Relaxed);
        let help = "The longest read of the store since the start, in microseconds.";
        text.gauge("boxoffice_history_read_microseconds_max", help, longest);
        let (_, damaged) = history.damages();
        let help = "Records or blocks of the store that are known to be damaged.";
        text.gauge("boxoffice_history_damaged", help, damaged);
        let waiting = self.shared.shards.iter().filter(|lead| lead.state.waits.load(Ordering::Relaxed)).count();
        let help = "Shards that wait here for a record of the store.";
        text.gauge("boxoffice_shards_waiting", help, waiting as u64);
        let bytes = self.shared.shards.iter().map(|lead| lead.state.waiting_bytes.load(Ordering::Relaxed)).sum::<u64>();
        let help = "Bytes of entries that wait in memory behind those that need a record of the store.";
        text.gauge("boxoffice_shards_waiting_bytes", help, bytes);
    }

    /// Writes the time of each shard that has a replica here.
    fn write_times(&self, text: &mut MetricsText) {
        let here = || self.shared.shards.iter().filter(|lead| lead.replica_here().is_some());
        let distance = "boxoffice_shard_distance_ms";
        text.describe(distance, "gauge", "True time less a shard's running time, in milliseconds.");
        text.samples(distance, "shard", here().map(|lead| (lead.id, lead.state.distance_ms.load(Ordering::Relaxed))));
        let unconfirmed = "boxoffice_shard_time_unconfirmed";
        let help = "1 where no majority of the voters of a shard led here agrees what time it is.";
        text.describe(unconfirmed, "gauge", help);
        let is_unconfirmed = |lead: &ShardLead| u8::from(lead.state.unconfirmed.load(Ordering::Relaxed));
        let led = here().filter(|lead| lead.leads());
        text.samples(unconfirmed, "shard", led.map(|lead| (lead.id, is_unconfirmed(lead))));
    }

    /// The node's status. Fields that only the edge knows (connections, answers) are 0.
    pub fn status(&self) -> NodeStatus {
        let shared = &self.shared;
        let mut status = NodeStatus {
            node: format_smolstr!("{}", self.identity.node),
            cluster: format_smolstr!("{}", self.identity.cluster),
            version: SmolStr::new(env!("CARGO_PKG_VERSION")),
            uptime_ms: shared.world.clock.monotonic_ms() - shared.started_ms,
            durability: self.durability(),
            state: self.ready().map_or_else(SmolStr::from, |()| SmolStr::new("ready")),
            disk_is_slow: shared.disk_pace.is_slow(),
            damage: shared.replication.damage().map_or_else(SmolStr::default, SmolStr::from),
            cluster_version: shared.replication.version.get().number().into(),
            upgrade: cluster_copy::upgrade(shared).map(|upgrade| upgrade.to_string().into()).unwrap_or_default(),
            linked: shared.world.net.links().iter().filter(|link| link.up).map(|link| link.node).collect(),
            shards: Vec::with_capacity(shared.shards.len()),
            connections: 0,
            watchers: 0,
            under_way: 0,
            actors: 0,
            carts_archived: 0,
            tombstones: 0,
            payments_pending: 0,
            payments_failed: 0,
            rates: shared.samples.rates(shared.sample()),
        };
        for lead in shared.shards.iter() {
            let actors = lead.leader_state.lock().actors.len() as u64;
            status.under_way += lead.under_way() as u64;
            let left: u64 = shared.replication.history.summary(lead.id).totals.all_carts();
            let (entities, payments, tombstones) = {
                let kept = &lead.state.replica.lock().kept;
                (kept.len() as u64, kept.payments(), kept.tombstones())
            };
            status.tombstones += tombstones;
            status.carts_archived += left;
            status.actors += actors;
            status.payments_pending += payments.pending;
            status.payments_failed += payments.failed;
            status.shards.push(ShardStatus {
                shard: u32::from(lead.id),
                role: SmolStr::new(lead.role()),
                term: lead.state.term.load(Ordering::Relaxed),
                applied: lead.state.applied.load(Ordering::Relaxed),
                entities,
                leader: if lead.leads() { Some(self.identity.node) } else { lead.known_leader() },
                committed: lead.state.committed.load(Ordering::Relaxed),
                distance_ms: lead.state.distance_ms.load(Ordering::Relaxed),
                unconfirmed: lead.leads() && lead.state.unconfirmed.load(Ordering::Relaxed),
                followers: followers(lead),
                chain: lead.state.chain.lock().map(chain_end),
            });
        }
        status
    }
}

fn chain_end(place: ChainPlace) -> ChainEnd {
    let ChainPlace { index, term, chain, at_ms, .. } = place;
    let hash = format_smolstr!("{chain:032x}");
    ChainEnd { index, term, hash, at: Timestamp(at_ms) }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::{CartId, Entity, Id};
    use boxoffice_shard::ring;
    use boxoffice_wire::cluster::ShardMap;

    #[test]
    fn clients_find_an_entity_in_the_shard_where_nodes_keep_it() {
        for data_shards in [1, 3, 32, 33, 256, 4_095] {
            let map = ShardMap { leaders: vec![0; usize::from(data_shards) + 1], nodes: Vec::new() };
            assert_eq!(map.shard_of(&Entity::Directory), Some(0));
            for number in 0..500_u128 {
                let id = Id::new(&format!("e-{number}")).expect("an id");
                let cart = CartId(number << 110 | number);
                let entities = [Entity::Session(id.clone()), Entity::Product(id.clone()), Entity::Venue(id.clone())];
                for entity in entities.into_iter().chain([Entity::Resource(id), Entity::Cart(cart)]) {
                    let shard = ring::shard_of(entity.hash_prefix(), data_shards);
                    assert_eq!(map.shard_of(&entity), Some(usize::from(shard)), "{entity} of {data_shards}");
                }
            }
        }
        assert_eq!(ShardMap::default().shard_of(&Entity::Directory), None);
    }
}
