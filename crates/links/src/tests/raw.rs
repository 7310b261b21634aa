//! Frames of strangers, encoded independently as documented.

/// The version of the link protocol.
pub(crate) const VERSION: u16 = boxoffice_core::version::LINK;

pub(crate) const HELLO: u8 = 16;
pub(crate) const PROOF: u8 = 17;
pub(crate) const WELCOME: u8 = 18;
pub(crate) const REFUSAL: u8 = 19;
pub(crate) const DISMISSAL: u8 = 20;

const HEAD_BYTES: usize = 13;

/// Frame `number` of a connection.
pub(crate) fn raw(number: u64, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    frame.push(kind);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), &frame);
    frame.extend_from_slice(&sum.to_le_bytes());
    frame.extend_from_slice(&crc32c::crc32c_append(sum, body).to_le_bytes());
    [&frame, body].concat()
}

/// The kinds and bodies of the frames in these bytes.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES)
        && let Some((body, rest)) = rest.split_at_checked(u32::from_le_bytes(head[..4].try_into().unwrap()) as usize)
    {
        frames.push((head[4], body.to_vec()));
        bytes = rest;
    }
    frames
}
