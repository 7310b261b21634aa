//! The durable log positions that other nodes have announced. They reveal a disk that was restored from an old copy
//! before it votes without its lost entries.
//!
//! Each frame of consensus carries the sender's durable position, and each start of a node writes a record. So a
//! process whose log does not exceed the position that an earlier process of the same data directory announced has an
//! older state of it. The positions are saved to a file now and then, so that a restarted node knows them as well.

use std::collections::BTreeMap;

use boxoffice_core::version::ClusterVersion;
use boxoffice_env::{DurablePosition, PeerHello};
use boxoffice_shard::NodeId;
use serde::{Deserialize, Serialize};
use tracing_mutex::parkinglot::Mutex;

/// The file in the data directory.
pub const FILE: &str = "neighbours";

/// What every refusal of an old copy says, by which its node recognizes it.
const OLD_COPY: &str = "has come back with an old copy of its disk";

/// Whether another node refuses this one because its disk has forgotten what it promised.
pub fn is_of_old_copy(refusal: &str) -> bool {
    refusal.contains(OLD_COPY)
}

/// The fields of the file. Others are passed over, since a later program of the same version may have added them.
#[derive(Serialize, Deserialize)]
struct Saved {
    nodes: BTreeMap<String, SavedPosition>,
}

#[derive(Serialize, Deserialize)]
struct SavedPosition {
    /// Hexadecimal, because TOML has no number so high.
    disk: String,
    /// Hexadecimal.
    run: String,
    durable: u64,
}

/// The field that is read before anything else.
#[derive(Serialize, Deserialize)]
struct SavedVersion {
    version: u32,
}

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
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let SavedVersion { version } = toml::from_str(text).map_err(|error| error.to_string())?;
        ClusterVersion::read(version).map_err(|other| format!("it was {other}"))?;
        let Saved { nodes } = toml::from_str(text).map_err(|error| error.to_string())?;
        let position = |(node, saved): (&String, &SavedPosition)| {
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            let (disk, run) = (number(&saved.disk)?, number(&saved.run)?);
            Some((node.parse().ok()?, DurablePosition { disk, run, durable: saved.durable }))
        };
        let nodes = nodes.iter().map(position).collect::<Option<_>>().ok_or("a node or number is none")?;
        Ok(PeerPositions(Mutex::new(Recorded { nodes, is_unsaved: false })))
    }

    /// The positions to be saved under this version of the cluster, if there is anything new.
    pub fn take_unsaved(&self, version: ClusterVersion) -> Option<Vec<u8>> {
        let mut recorded = self.0.lock();
        if !std::mem::take(&mut recorded.is_unsaved) {
            return None;
        }
        let saved = |(node, position): (&NodeId, &DurablePosition)| {
            let DurablePosition { disk, run, durable } = *position;
            (node.to_string(), SavedPosition { disk: format!("{disk:x}"), run: format!("{run:x}"), durable })
        };
        let saved = Saved { nodes: recorded.nodes.iter().map(saved).collect() };
        let text = |fields: Result<String, toml::ser::Error>| fields.expect("plain fields have a text");
        let version = SavedVersion { version: version.number().into() };
        Some([text(toml::to_string(&version)), text(toml::to_string(&saved))].concat().into_bytes())
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
                "node {node} {OLD_COPY}: its log ends with record {durable}, and it has said \
                 that record {} was durable. It has forgotten what it acknowledged and voted for, so this copy must not be \
                 used. Say so with `boxoffice admin replace {node}`, then start it with an empty data directory",
                known.durable
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::version::{NEWEST, NodeVersions};
    use bytes::Bytes;

    use super::*;

    fn hello(run: u64, durable: u64) -> PeerHello {
        let durable_position = DurablePosition { disk: 1, run, durable };
        let (program, versions) = ("test".into(), NodeVersions::newest());
        PeerHello { cluster: 7, node: 2, disk: 1, version: 3, program, table: 0, durable_position, versions }
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
        assert_eq!(peer_positions.take_unsaved(NEWEST), None);
        peer_positions.record(2, DurablePosition { disk: 1, run: 1, durable: 9 });
        peer_positions.record(3, DurablePosition { disk: u64::MAX, run: u64::MAX, durable: i64::MAX as u64 });
        let written = peer_positions.take_unsaved(NEWEST).unwrap();
        assert_eq!(peer_positions.take_unsaved(NEWEST), None);
        let read = PeerPositions::read(&written).unwrap();
        assert!(read.check(&hello(2, 9)).is_err() && read.check(&hello(2, 10)).is_ok());
        assert_eq!(read.0.lock().nodes, peer_positions.0.lock().nodes);

        let text = String::from_utf8(written).unwrap();
        let more = text.replace("run = ", "later = [1, 2]\nrun = ").replace("version = ", "later = true\nversion = ");
        let read = PeerPositions::read(more.as_bytes()).expect("keys that another release has added are passed over");
        assert_eq!(read.0.lock().nodes, peer_positions.0.lock().nodes);
    }

    #[test]
    fn positions_of_a_later_version_are_not_decoded() {
        let newer = NEWEST.number() + 1;
        let refused =
            PeerPositions::read(format!("version = {newer}\nnodes = 7\n").as_bytes()).map(|_| ()).unwrap_err();
        assert_eq!(refused, format!("it was written under version {newer}, this program reads up to {NEWEST}"));
        // Those of the program before the first common version are packed numbers.
        assert!(PeerPositions::read(&[1, 2, 1, 1, 9]).is_err());
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
