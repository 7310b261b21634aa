//! The messages of one pass for one node, as one frame of the lane of consensus.
//!
//! Layout: the sender's [`DurablePosition`], then for each message the shard (2 bytes), its length (4 bytes, both little-endian),
//! and its bytes.

use std::collections::BTreeMap;

use boxoffice_env::{DURABLE_POSITION_BYTES, DurablePosition};
use boxoffice_shard::{NodeId, Outgoing, ShardId};
use bytes::{Buf, BufMut, Bytes};

const HEADER_BYTES: usize = 6;
/// A frame is not made longer than this by more messages.
const FRAME_BYTES: usize = 4 << 20;

/// Frames being filled.
#[derive(Default)]
pub(crate) struct Outbox {
    frames: BTreeMap<NodeId, Vec<Vec<u8>>>,
}

impl Outbox {
    /// Adds a message.
    pub(crate) fn add(&mut self, message: Outgoing) {
        let Outgoing { to, shard, bytes, .. } = message;
        let frames = self.frames.entry(to).or_default();
        if frames.last().is_none_or(|last| last.len() + bytes.len() > FRAME_BYTES) {
            frames.push(Vec::with_capacity(HEADER_BYTES + bytes.len()));
        }
        let frame = frames.last_mut().expect("one was just added");
        frame.put_u16_le(shard);
        frame.put_u32_le(u32::try_from(bytes.len()).expect("a message is far below 4 GiB"));
        frame.put_slice(&bytes);
    }

    /// All frames, by node and in order, with the sender's durable position when they are sent.
    pub(crate) fn take(&mut self, durable_position: DurablePosition) -> impl Iterator<Item = (NodeId, Bytes)> + use<> {
        let frames = std::mem::take(&mut self.frames).into_iter();
        frames.flat_map(move |(to, frames)| {
            frames.into_iter().map(move |messages| {
                let mut frame = Vec::with_capacity(DURABLE_POSITION_BYTES + messages.len());
                durable_position.encode(&mut frame);
                frame.extend_from_slice(&messages);
                (to, frame.into())
            })
        })
    }
}

/// Passes each message of a frame to `see`.
///
/// # Errors
/// The frame is cut off inside a message.
pub fn each(mut frame: Bytes, mut see: impl FnMut(ShardId, Bytes)) -> Result<(), &'static str> {
    while !frame.is_empty() {
        if frame.len() < HEADER_BYTES {
            return Err("a frame of consensus ends within a header");
        }
        let shard = frame.get_u16_le();
        let length = frame.get_u32_le() as usize;
        if frame.len() < length {
            return Err("a frame of consensus ends within a message");
        }
        see(shard, frame.split_to(length));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(to: NodeId, shard: ShardId, bytes: usize) -> Outgoing {
        Outgoing { to, shard, snapshot: None, bytes: vec![shard as u8; bytes].into() }
    }

    const POSITION: DurablePosition = DurablePosition { disk: 1, run: 2, durable: 3 };

    fn read(mut frame: Bytes) -> Vec<(ShardId, usize)> {
        assert_eq!(DurablePosition::decode(&mut frame), Some(POSITION));
        let mut found = Vec::new();
        each(frame, |shard, bytes| found.push((shard, bytes.len()))).unwrap();
        found
    }

    #[test]
    fn messages_of_a_pass_are_one_frame_a_node() {
        let mut outbox = Outbox::default();
        [message(2, 1, 5), message(3, 1, 7), message(2, 9, 0)].into_iter().for_each(|message| outbox.add(message));
        let frames: Vec<_> = outbox.take(POSITION).map(|(to, frame)| (to, read(frame))).collect();
        assert_eq!(frames, [(2, vec![(1, 5), (9, 0)]), (3, vec![(1, 7)])]);
        assert_eq!(outbox.take(POSITION).count(), 0);
    }

    #[test]
    fn a_long_message_gets_a_frame_of_its_own() {
        let mut outbox = Outbox::default();
        [message(2, 1, FRAME_BYTES), message(2, 2, 1), message(2, 3, 1)]
            .into_iter()
            .for_each(|message| outbox.add(message));
        let frames: Vec<_> = outbox.take(POSITION).map(|(_, frame)| read(frame)).collect();
        assert_eq!(frames, [vec![(1, FRAME_BYTES)], vec![(2, 1), (3, 1)]]);
    }

    #[test]
    fn a_frame_cut_anywhere_is_refused() {
        let mut outbox = Outbox::default();
        outbox.add(message(2, 1, 5));
        let (_, mut whole) = outbox.take(POSITION).next().unwrap();
        DurablePosition::decode(&mut whole);
        for length in 1..whole.len() {
            assert!(each(whole.slice(..length), |_, _| ()).is_err(), "{length}");
        }
    }
}
