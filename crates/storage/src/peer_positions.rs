//! The durable log positions that other nodes have announced. They reveal a disk that was restored from an old copy
//! before it votes without its lost entries.
//!
//! Each frame of consensus carries the sender's durable position, and each start of a node writes a record. So a
//! process whose log does not exceed the position that an earlier process of the same data directory announced has an
//! older state of it. The positions are saved to a file now and then, so that a restarted node knows them as well.

use std::collections::BTreeMap;

use boxoffice_core::packing;
use boxoffice_env::{DurablePosition, PeerHello};
use boxoffice_shard::NodeId;
use tracing_mutex::parkinglot::Mutex;

/// The file in the data directory.
pub const FILE: &str = "neighbours";

/// The durable positions of other nodes.
#[derive(Default)]
pub struct PeerPositions(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    nodes: BTreeMap<NodeId, DurablePosition>,
    /// Something was recorded since the last save.
    is_unsaved: bool,
}

impl PeerPositions {
    /// Decodes saved positions.
    pub fn read(bytes: &[u8]) -> Result<PeerPositions, String> {
        let nodes = packing::read(bytes)?;
        Ok(PeerPositions(Mutex::new(Recorded { nodes, is_unsaved: false })))
    }

    /// The positions to be saved, if there is anything new.
    pub fn take_unsaved(&self) -> Option<Vec<u8>> {
        let mut recorded = self.0.lock();
        std::mem::take(&mut recorded.is_unsaved).then(|| packing::append(&recorded.nodes, Vec::new()))
    }

    /// Records a position from a frame of a verified link.
    pub fn record(&self, node: NodeId, durable_position: DurablePosition) {
        let mut recorded = self.0.lock();
        let known = recorded.nodes.entry(node).or_default();
        // A frame of an earlier process may arrive late.
        if known.disk != durable_position.disk || known.durable < durable_position.durable {
            *known = durable_position;
            recorded.is_unsaved = true;
        }
    }

    /// Checks whether the position in a node's hello can follow the recorded one.
    ///
    /// # Errors
    /// It cannot, in words for the node's operator.
    pub fn check(&self, hello: &PeerHello) -> Result<(), String> {
        let recorded = self.0.lock();
        let (node, DurablePosition { disk, run, durable }) = (hello.node, hello.durable_position);
        let Some(known) = recorded.nodes.get(&node).filter(|known| known.disk == disk) else { return Ok(()) };
        // The same process may announce an older position, because frames overtake each other. Another process has
        // written at least the record of its start.
        match known.run == run || durable > known.durable {
            true => Ok(()),
            false => Err(format!(
                "node {node} has come back with an old copy of its disk: its log ends with record {durable}, and it has said \
                 that record {} was durable. It has forgotten what it acknowledged and voted for, so this copy must not be \
                 used. Say so with `boxoffice admin replace {node}`, then start it with an empty data directory",
                known.durable
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn hello(run: u64, durable: u64) -> PeerHello {
        let durable_position = DurablePosition { disk: 1, run, durable };
        PeerHello { cluster: 7, node: 2, disk: 1, version: 3, program: "test".into(), table: 0, durable_position }
    }

    #[test]
    fn only_a_log_that_has_grown_since_follows() {
        let peer_positions = PeerPositions::default();
        assert!(peer_positions.check(&hello(1, 5)).is_ok());
        peer_positions.record(2, DurablePosition { disk: 1, run: 1, durable: 9 });
        peer_positions.record(2, DurablePosition { disk: 1, run: 1, durable: 8 });
        assert!(peer_positions.check(&hello(1, 9)).is_ok(), "the same process");
        assert!(peer_positions.check(&hello(2, 10)).is_ok(), "the next process, with the record of its start");
        assert!(peer_positions.check(&hello(1, 3)).is_ok(), "sent before, received after");
        for (run, durable) in [(2, 9), (2, 8), (2, 3)] {
            let refused = peer_positions.check(&hello(run, durable)).expect_err("an old copy");
            assert!(refused.contains("old copy") && refused.contains("admin replace 2"), "{refused}");
        }
        // Another disk may have any position.
        let mut other = hello(3, 1);
        other.durable_position.disk = 4;
        assert!(peer_positions.check(&other).is_ok());
    }

    #[test]
    fn positions_are_known_after_a_restart() {
        let peer_positions = PeerPositions::default();
        assert_eq!(peer_positions.take_unsaved(), None);
        peer_positions.record(2, DurablePosition { disk: 1, run: 1, durable: 9 });
        let written = peer_positions.take_unsaved().unwrap();
        assert_eq!(peer_positions.take_unsaved(), None);
        let peer_positions = PeerPositions::read(&written).unwrap();
        assert!(peer_positions.check(&hello(2, 9)).is_err() && peer_positions.check(&hello(2, 10)).is_ok());
    }

    #[test]
    fn a_position_precedes_a_frame() {
        let durable_position = DurablePosition { disk: 1, run: 2, durable: 3 };
        let mut bytes = Vec::new();
        durable_position.encode(&mut bytes);
        bytes.push(9);
        let mut frame = Bytes::from(bytes);
        assert_eq!((DurablePosition::decode(&mut frame), &frame[..]), (Some(durable_position), &[9][..]));
        assert_eq!(DurablePosition::decode(&mut frame), None);
    }
}
