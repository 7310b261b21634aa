//! Bytes that nodes send each other: the frames of a link, its handshake, and the messages of each lane.

use boxoffice_core::version;
use boxoffice_links::decoders as links;
use boxoffice_node::decoders;
use boxoffice_shard::decoders as shard;
use bytes::Bytes;

use crate::property::{Bound, bounded, same_again, strict, whole};

/// Memory for a message. serde takes up to 1 MiB for a list before its first element, and a one-byte value up to 300 bytes.
const MESSAGE: Bound = Bound { base: 4 << 20, per_byte: 512 };

/// Memory that a link takes before it reads.
const LINK: Bound = Bound { base: 256 * 1024, per_byte: 16 };

/// What a hello begins with. The newest version of its sender follows.
const MAGIC_BYTES: usize = 8;

/// The longest body of a link's frames here.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The frames of a link: as bytes, and as frames that are changed on their way. The first byte says how they arrive.
pub(crate) fn link_frames(input: &[u8]) {
    let Some((how, bytes)) = input.split_first() else { return };
    let step = usize::from(*how) + 1;
    let (frames, _) = arrive(bytes, step);
    let sent = links::stream(&frames).expect("kinds are known");
    assert!(bytes.starts_with(&sent), "what is taken is what was sent");

    // Kind, length and body of each frame, then the place and kind of the change.
    let mut rest = bytes;
    let mut frames = Vec::new();
    while let [kind, length, after @ ..] = rest
        && let Some((body, after)) = after.split_at_checked(usize::from(*length))
    {
        frames.push((*kind, Bytes::copy_from_slice(body)));
        rest = after;
    }
    let Some(stream) = links::stream(&frames) else { return };
    assert_eq!(arrive(&stream, step), (frames.clone(), false));
    if let [a, b, change @ 1..=255] = *rest
        && !stream.is_empty()
    {
        let mut changed = stream;
        let at = usize::from(u16::from_le_bytes([a, b])) % changed.len();
        changed[at] ^= change;
        let (taken, is_refused) = arrive(&changed, step);
        assert!(is_refused && frames.starts_with(&taken), "a changed frame is taken");
    }
}

/// The frames that a link reads from these bytes, which do not depend on how they arrive.
fn arrive(bytes: &[u8], step: usize) -> (Vec<(u8, Bytes)>, bool) {
    let frames = bounded(bytes, LINK, || links::frames(bytes, step, BODY_BYTES_MAX));
    assert_eq!(frames, links::frames(bytes, usize::MAX, BODY_BYTES_MAX), "it depends on the pieces");
    frames
}

pub(crate) fn link_hello(input: &[u8]) {
    let bound = Bound { base: 1024, per_byte: 4 };
    // That of a later program may say more.
    match input.get(MAGIC_BYTES..MAGIC_BYTES + 2) == Some(&version::LINK.to_le_bytes()) {
        true => strict(input, bound, links::hello),
        false => _ = same_again(input, bound, links::hello),
    }
}

pub(crate) fn link_claims(input: &[u8]) {
    strict(input, Bound { base: 1024, per_byte: 4 }, links::claims);
}

/// Bytes of a side that does not know the secret, as a proof, a welcome and a removal.
pub(crate) fn link_proof(input: &[u8]) {
    assert!(!bounded(input, Bound { base: 4096, per_byte: 8 }, || links::is_proof(input)), "a guess is a proof");
}

pub(crate) fn lane_consensus(input: &[u8]) {
    let Some((mut again, messages)) = bounded(input, MESSAGE, || decoders::consensus(input)) else { return };
    for (shard, message) in &messages {
        again.extend_from_slice(&shard.to_le_bytes());
        again.extend_from_slice(&u32::try_from(message.len()).expect("it was in a frame").to_le_bytes());
        again.extend_from_slice(message);
    }
    assert!(again == input, "it is encoded otherwise: {again:02x?}");
    if !messages.is_empty() {
        whole(input, &[0], |bytes| decoders::consensus(bytes).is_some());
    }
    messages.iter().for_each(|(_, message)| raft_message(message));
}

/// Messages between engines, and the changes of members in their entries.
pub(crate) fn raft_message(input: &[u8]) {
    same_again(input, MESSAGE, shard::message);
    same_again(input, MESSAGE, shard::members);
    bounded(input, MESSAGE, || boxoffice_shard::grows_log(input));
}

pub(crate) fn lane_calls(input: &[u8]) {
    strict(input, MESSAGE, decoders::call);
}

pub(crate) fn lane_feeds(input: &[u8]) {
    strict(input, MESSAGE, decoders::feed);
}

pub(crate) fn lane_bulk(input: &[u8]) {
    strict(input, MESSAGE, decoders::bulk);
    let packed = bounded(input, MESSAGE, || shard::packed_snapshot(input));
    assert!(packed.is_none_or(|packed| packed == input), "a packed snapshot is encoded otherwise");
}
