//! Compares this node's replicas with those of other nodes after the same entry, and sends them this node's checksums.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use boxoffice_core::state_map::Cut;
use boxoffice_shard::{NodeId, ShardId};

use super::Replicator;
use crate::{
    checksums::{self, Checksum, Compared},
    error::ReplicationError,
    owner::{Event, Owner},
};

impl<O: Owner> Replicator<O> {
    /// Whether the entry at `index` is one of those that replicas compare. A node that is alone compares none.
    pub(super) fn compares(&self, index: u64) -> bool {
        let every = self.replication.config.checksum_entries;
        !self.replication.config.is_alone && every != 0 && index.is_multiple_of(every)
    }

    /// Compares this replica's checksum after an entry with those that other nodes have sent. The checksum has the chain of the
    /// entries in it.
    ///
    /// # Errors
    /// [`ReplicationError::Outvoted`].
    pub(super) fn compare(
        &mut self,
        shard: ShardId,
        changed: &Cut,
        chain: Option<u128>,
    ) -> Result<(), ReplicationError> {
        let Some(meta) = self.engine.snapshot_meta(shard) else { return Ok(()) };
        if changed.is_empty() || checksums::nodes(&meta.members).all(|node| node == self.replication.config.node_id) {
            return Ok(());
        }
        let (index, sum) = (changed.index(), checksums::sum(changed, chain, &mut self.scratch));
        self.own_checksums.push(Checksum { shard, index, sum });
        let compared = self.checksums[usize::from(shard)].applied(index, sum, &meta.members);
        self.judge(shard, index, compared)
    }

    /// Takes checksums of another node's replicas.
    ///
    /// # Errors
    /// [`ReplicationError::Outvoted`].
    pub(super) fn hear_checksums(&mut self, from: NodeId, checksums: &[Checksum]) -> Result<(), ReplicationError> {
        for &Checksum { shard, index, sum } in checksums {
            // The replica may just have been removed.
            let Some(meta) = self.engine.snapshot_meta(shard) else { continue };
            let compared = self.checksums[usize::from(shard)].heard(from, index, sum, &meta.members);
            self.judge(shard, index, compared)?;
        }
        Ok(())
    }

    fn judge(&mut self, shard: ShardId, index: u64, compared: Compared) -> Result<(), ReplicationError> {
        let Compared { pairs, different, outvoted } = compared;
        self.replication.metrics.checksums_compared.fetch_add(pairs, Ordering::Relaxed);
        self.replication.metrics.checksums_different.fetch_add(different.len() as u64, Ordering::Relaxed);
        if let Some((own, voted)) = outvoted {
            // The others' logs and metrics should show it as well.
            self.tell_checksums();
            return Err(ReplicationError::Outvoted { shard, index, own, voted });
        }
        let of_shard = &mut self.checksums[usize::from(shard)];
        if let Some((node, theirs)) = different.first()
            && !std::mem::replace(&mut of_shard.is_told, true)
        {
            let [own, theirs] = [of_shard.own(index).unwrap_or_default(), *theirs].map(|sum| format!("{sum:016x}"));
            tracing::error!(
                shard,
                index,
                node,
                own,
                theirs,
                "the replica here and that of another node have different states after the same entry; one of them is wrong: please report"
            );
        }
        Ok(())
    }

    /// Sends the nodes of the other replicas this node's checksums of this half of a pass. Checksums that are lost on the way are
    /// not compared.
    pub(super) fn tell_checksums(&mut self) {
        if self.own_checksums.is_empty() {
            return;
        }
        let mut by_node: BTreeMap<NodeId, Vec<Checksum>> = BTreeMap::new();
        for checksum in self.own_checksums.drain(..) {
            let Some(meta) = self.engine.snapshot_meta(checksum.shard) else { continue };
            for node in checksums::nodes(&meta.members).filter(|node| *node != self.replication.config.node_id) {
                by_node.entry(node).or_default().push(checksum);
            }
        }
        by_node.into_iter().for_each(|(to, checksums)| self.owner.on(Event::Checksums { to, checksums }));
    }
}
