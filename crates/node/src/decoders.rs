//! The decoders of messages from other nodes and of data from a disk, for the fuzz tests in `crates/fuzz`. Each decodes some
//! bytes and encodes the value again. It returns `None` if the bytes are refused.

use std::{fmt::Debug, path::Path, sync::Arc};

use boxoffice_core::{
    state_map::Cut,
    stored::{self, Decode, Encode, Schema},
    version::{ClusterVersion, NEWEST, WriteVersion},
};
use boxoffice_env::{Disk, DurablePosition};
use boxoffice_replication::{peer_frame, transfer::message};
use boxoffice_shard::{Record, ShardId};
use boxoffice_storage::{archive_files::ArchiveFiles, codec, history, snapshot};
use bytes::Bytes;

use crate::{message as calls, remote_feeds};

/// The content of some bytes, for people. `None` if they are refused.
pub fn described(target: &str, bytes: &[u8]) -> Option<String> {
    fn text<T: Debug + Decode>(bytes: &[u8]) -> Option<String> {
        stored::read::<T>(bytes).ok().map(|value| format!("{value:?}"))
    }
    match target {
        "lane_calls" => text::<calls::Message<'_>>(bytes),
        "lane_feeds" => text::<remote_feeds::Message>(bytes),
        "lane_bulk" => text::<message::Message>(bytes),
        "log_entry" => codec::decode(bytes).ok().map(|turn| format!("{turn:?}")),
        "snapshot_state" => text::<Cut>(bytes),
        "stored" => history::record::decode(bytes).ok().map(|stored| format!("{stored:?}")),
        _ => None,
    }
}

/// All types that are stored or travel between nodes, but those of `boxoffice_links::decoders::schema`.
pub fn schema() -> Schema {
    let mut schema = Schema::default();
    codec::schema(&mut schema);
    Cut::shape(&mut schema);
    history::schema(&mut schema);
    calls::Message::shape(&mut schema);
    remote_feeds::Message::shape(&mut schema);
    message::Message::shape(&mut schema);
    schema
}

fn again<T: Encode + Decode>(bytes: &[u8]) -> Option<Vec<u8>> {
    stored::read::<T>(bytes).ok().map(|value| stored::append(&value, Vec::new()))
}

/// Messages, and the shard that each is for.
pub type Messages = Vec<(ShardId, Bytes)>;

/// A frame of the consensus lane: the sender's durable position, and the messages.
pub fn consensus(bytes: &[u8]) -> Option<(Vec<u8>, Messages)> {
    let mut frame = Bytes::copy_from_slice(bytes);
    let durable_position = DurablePosition::decode(&mut frame)?;
    let mut messages = Vec::new();
    peer_frame::each(frame, |shard, message| messages.push((shard, message))).ok()?;
    let mut head = Vec::new();
    durable_position.encode(&mut head);
    Some((head, messages))
}

/// A message of the lane of calls.
pub fn call(bytes: &[u8]) -> Option<Vec<u8>> {
    calls::Message::decode(bytes).ok().map(|message| message.encode().to_vec())
}

/// A message of the lane of feeds.
pub fn feed(bytes: &[u8]) -> Option<Vec<u8>> {
    again::<remote_feeds::Message>(bytes)
}

/// A message of the bulk lane.
pub fn bulk(bytes: &[u8]) -> Option<Vec<u8>> {
    message::Message::decode(bytes).ok().map(|message| message.encode().to_vec())
}

/// The bytes in a message of the bulk lane that have a decoder of their own: raft's message, a part of a state, or records of
/// the store.
pub fn bulk_parts(bytes: &[u8]) -> Vec<Bytes> {
    use message::{Body, Message};
    match Message::decode(bytes) {
        Ok(Message::Offer { raft, .. }) => vec![raft],
        Ok(Message::Piece { body: Body::Memory(bytes), .. }) => vec![bytes],
        Ok(Message::Piece { body: Body::Records(records), .. }) => records,
        Ok(Message::Piece { body: Body::End | Body::Gone, .. } | Message::Pull { .. }) | Err(_) => Vec::new(),
    }
}

/// A turn: what one input changed in one entity.
pub fn turn(bytes: &[u8]) -> Option<Vec<u8>> {
    let (entity, by, events) = codec::decode(bytes).ok()?;
    Some(codec::encode(&entity, by.as_ref(), &events))
}

/// The state of a shard.
pub fn state(bytes: &[u8]) -> Option<Vec<u8>> {
    snapshot::decode_state(bytes).ok().map(|cut| snapshot::encode_state(&cut))
}

/// A snapshot of a shard, as it is in its file.
pub fn snapshot(bytes: &[u8]) -> Option<Vec<u8>> {
    let snapshot = snapshot::decode(bytes).ok()?;
    Some(snapshot::encode(&snapshot.meta, snapshot.store_batches, &snapshot::encode_state(&snapshot.cut)))
}

/// An entity in the store.
pub fn stored(bytes: &[u8]) -> Option<Vec<u8>> {
    let stored = history::record::decode(bytes).ok()?;
    Some(
        history::record::encode_checked(
            ClusterVersion::read(bytes[0]).ok()?,
            &Cut::one(stored.entity, stored.state, stored.index),
        )
        .to_vec(),
    )
}

/// The records in the archive of segment `number`.
///
/// # Errors
/// What is wrong with the archive.
pub fn archive(disk: Arc<dyn Disk>, dir: &Path, number: u64) -> Result<Vec<Record>, String> {
    let table = ArchiveFiles::open(disk, dir, &WriteVersion::new(NEWEST))
        .and_then(|files| files.table(number))
        .map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    let table = table.ok_or("there is no such archive")?;
    table.records(|record| records.push(record)).map_err(|error| error.to_string())?;
    Ok(records)
}
