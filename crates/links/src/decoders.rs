//! The decoders of a link, for the fuzz tests in `crates/fuzz`.

use boxoffice_core::stored::{Decode, Schema};
use bytes::Bytes;

use super::{
    frame::{Corrupt, Decoder, Encoder, Kind},
    hello, proof,
};

/// Decodes and encodes the claims of a node.
pub fn claims(bytes: &[u8]) -> Option<Vec<u8>> {
    hello::Claims::read(bytes).ok().map(|claims| claims.bytes())
}

/// Adds what a node claims when a link is made.
pub fn schema(schema: &mut Schema) {
    hello::Claims::shape(schema);
}

/// Whether any side takes these bytes as a proof, which it must not.
pub fn is_proof(bytes: &[u8]) -> bool {
    proof::is_taken(bytes)
}

/// Decodes and encodes a hello.
pub fn hello(bytes: &[u8]) -> Option<Vec<u8>> {
    hello::Hello::read(bytes).ok().map(|hello| hello.bytes())
}

/// The kinds and bodies of the frames in a byte stream that arrives `step` bytes at a time, and whether the stream was
/// refused after them.
pub fn frames(bytes: &[u8], step: usize, body_bytes_max: usize) -> (Vec<(u8, Bytes)>, bool) {
    let mut decoder = Decoder::new(body_bytes_max);
    let mut frames = Vec::new();
    for piece in bytes.chunks(step) {
        decoder.room().extend_from_slice(piece);
        loop {
            match decoder.next() {
                Ok(Some((kind, body))) => frames.push((kind.byte(), body)),
                Ok(None) => break,
                Err(Corrupt::TooLong { .. } | Corrupt::Kind(_) | Corrupt::Checksum) => return (frames, true),
            }
        }
    }
    (frames, false)
}

/// The byte stream of these frames, `None` if a kind is unknown.
pub fn stream(frames: &[(u8, Bytes)]) -> Option<Vec<u8>> {
    let mut encoder = Encoder::default();
    let mut stream = Vec::new();
    for (kind, body) in frames {
        stream.extend_from_slice(&encoder.frame(Kind::read(*kind)?, body));
    }
    Some(stream)
}
