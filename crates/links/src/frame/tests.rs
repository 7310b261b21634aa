use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;

const BODY_BYTES_MAX: usize = 40_000;

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Heartbeat,
        Kind::Data(Lane::Consensus),
        Kind::Data(Lane::Calls),
        Kind::Data(Lane::Feeds),
        Kind::Data(Lane::Bulk),
        Kind::Hello,
        Kind::Refusal,
    ])
}

type Frames = Vec<(Kind, Vec<u8>)>;

fn frames() -> impl Strategy<Value = Frames> {
    let body = prop_oneof![6 => vec(any::<u8>(), 0..60), 1 => vec(any::<u8>(), 15_000..BODY_BYTES_MAX)];
    vec((kind(), body), 0..12)
}

fn bytes_of(frames: &[(Kind, Vec<u8>)]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    frames.iter().flat_map(|(kind, body)| encoder.frame(*kind, body)).collect()
}

/// Decodes these bytes in pieces that end at `cuts`.
fn decode(bytes: &[u8], cuts: &[Index]) -> (Frames, Result<(), Corrupt>) {
    let mut transport: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    transport.push(bytes.len());
    transport.sort_unstable();
    let mut decoder = Decoder::new(BODY_BYTES_MAX);
    let (mut made, mut from) = (Vec::new(), 0);
    for end in transport {
        decoder.room().extend_from_slice(&bytes[from..end]);
        from = end;
        loop {
            match decoder.next() {
                Ok(Some((kind, body))) => made.push((kind, body.to_vec())),
                Ok(None) => break,
                Err(corrupt) => return (made, Err(corrupt)),
            }
        }
    }
    (made, Ok(()))
}

proptest! {
    #[test]
    fn frames_round_trip_in_any_pieces(frames in frames(), cuts in vec(any::<Index>(), 0..20)) {
        let (made, ended) = decode(&bytes_of(&frames), &cuts);
        prop_assert_eq!(ended, Ok(()));
        prop_assert_eq!(made, frames);
    }

    #[test]
    fn no_changed_frame_is_accepted(
        frames in frames(),
        cuts in vec(any::<Index>(), 0..20),
        at in any::<Index>(),
        change in 1..=255_u8,
    ) {
        prop_assume!(!frames.is_empty());
        let mut bytes = bytes_of(&frames);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        let mut before = 0;
        let whole = frames.iter().take_while(|(_, body)| {
            before += FRAME_OVERHEAD + body.len();
            before <= at
        });
        let whole: Vec<_> = whole.cloned().collect();
        // Frames before the changed byte are valid. Nothing after it is accepted, and the change is detected at once.
        let (made, ended) = decode(&bytes, &cuts);
        prop_assert!(ended.is_err());
        prop_assert_eq!(made, whole);
    }

    #[test]
    fn missing_or_repeated_bytes_are_detected(frames in frames(), first in any::<Index>(), second in any::<Index>()) {
        prop_assume!(!frames.is_empty());
        let bytes = bytes_of(&frames);
        let (a, b) = (first.index(bytes.len() + 1), second.index(bytes.len() + 1));
        let (from, to) = (a.min(b), a.max(b));
        prop_assume!(from < to);
        let left_out = [&bytes[..from], &bytes[to..]].concat();
        let doubled = [&bytes[..to], &bytes[from..]].concat();
        let (made, _) = decode(&left_out, &[]);
        prop_assert!(made.len() <= frames.len() && made == frames[..made.len()]);
        let (made, _) = decode(&doubled, &[]);
        prop_assert!(made.len() <= frames.len() && made == frames[..made.len()]);
    }

    #[test]
    fn any_bytes_are_safe(bytes in vec(any::<u8>(), 0..300), cuts in vec(any::<Index>(), 0..9)) {
        let (made, _) = decode(&bytes, &cuts);
        // A node could have sent each decoded frame.
        prop_assert!(bytes.starts_with(&bytes_of(&made)));
    }
}

#[test]
fn a_claimed_length_allocates_nothing() {
    let mut decoder = Decoder::new(64 << 20);
    let head = Encoder::default().head(Kind::Data(Lane::Bulk), &vec![0; 60 << 20]);
    decoder.room().extend_from_slice(&head);
    assert_eq!(decoder.next(), Ok(None));
    assert!(decoder.room().capacity() < 4 * READ_BYTES);
    let mut too_long = Decoder::new(1_000);
    too_long.room().extend_from_slice(&head);
    assert_eq!(too_long.next(), Err(Corrupt::TooLong { length: 60 << 20, max: 1_000 }));
}

#[test]
fn the_buffer_of_a_long_frame_is_freed() {
    let (mut encoder, mut decoder) = (Encoder::default(), Decoder::new(64 << 20));
    let bytes = encoder.frame(Kind::Data(Lane::Consensus), &vec![7; 8 << 20]);
    for piece in bytes.chunks(READ_BYTES) {
        decoder.room().extend_from_slice(piece);
    }
    decoder.room().extend_from_slice(&encoder.frame(Kind::Heartbeat, b"")[..4]);
    let (_, body) = decoder.next().unwrap().unwrap();
    assert_eq!(body.len(), 8 << 20);
    drop(body);
    assert!(decoder.room().capacity() <= 2 * READ_BYTES, "{}", decoder.room().capacity());
}
