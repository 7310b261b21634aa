//! Damages files.

use std::{fs, path::Path};

use super::Rng;

/// Flips one bit of a byte.
pub(crate) fn flip(file: &Path, at: usize, rng: &mut Rng) {
    let mut bytes = fs::read(file).expect("a file");
    bytes[at] ^= 1 << rng.below(8);
    fs::write(file, bytes).expect("written");
}

/// The end of the written part of a log segment. The rest is zeros. 0 for a segment that is in the archives meanwhile.
pub(crate) fn written_to(segment: &Path) -> usize {
    let Ok(bytes) = fs::read(segment) else { return 0 };
    bytes.iter().rposition(|byte| *byte != 0).expect("a segment has a head") + 1
}
