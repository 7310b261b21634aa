//! Changes to inputs: a random search that needs no instrumentation, for `cargo test`.

use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};

/// Values at which lengths and counts go wrong.
const NUMBERS: [u64; 12] = [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 62, u64::MAX];

/// The longest input that is made.
const BYTES_MAX: usize = 64 * 1024;

/// An input like one of the seeds.
pub fn mutate(rng: &mut SmallRng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let empty = Vec::new();
    let mut bytes = seeds.choose(rng).unwrap_or(&empty).clone();
    for _ in 0..rng.random_range(1..=4) {
        change(rng, &mut bytes, seeds);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(rng: &mut SmallRng, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = rng.random_range(0..=bytes.len());
    let end = rng.random_range(at..=bytes.len().min(at + 16));
    match rng.random_range(0..10) {
        0 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = rng.random(),
        2 if at < bytes.len() => bytes[at] = *b"\0\r\n \",:[]{}0\xff".choose(rng).expect("a byte"),
        // A number of one to eight bytes, in either byte order, over the bytes there.
        3 | 4 => {
            let number = *NUMBERS.choose(rng).expect("a number");
            let width = 1 << rng.random_range(0..4);
            let digits = if rng.random() {
                number.to_le_bytes()[..width].to_vec()
            } else {
                number.to_be_bytes()[8 - width..].to_vec()
            };
            let end = bytes.len().min(at + width);
            bytes.splice(at..end, digits);
        }
        5 => _ = bytes.drain(at..end),
        6 => bytes.truncate(at),
        // A part repeated, perhaps many times.
        7 => {
            let part = bytes[at..end].to_vec();
            let times = if rng.random_ratio(1, 8) { rng.random_range(1..2_000) } else { 1 };
            bytes.splice(at..at, part.repeat(times));
        }
        // A part of another seed.
        8 => {
            let Some(other) = seeds.choose(rng).filter(|other| !other.is_empty()) else { return };
            let from = rng.random_range(0..other.len());
            let to = rng.random_range(from..=other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        _ => bytes
            .splice(at..at, (0..rng.random_range(1..9)).map(|_| rng.random::<u8>()).collect::<Vec<_>>())
            .for_each(drop),
    }
}
