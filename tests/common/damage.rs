//! Files that are damaged on purpose.

use std::{fs, path::Path};

use super::Dice;

/// Flips one bit of a byte.
pub(crate) fn flip(file: &Path, at: usize, dice: &mut Dice) {
    let mut bytes = fs::read(file).expect("a file");
    bytes[at] ^= 1 << dice.below(8);
    fs::write(file, bytes).expect("written");
}

/// Where what was written of a segment of the log ends: the rest is zeros.
pub(crate) fn written_to(segment: &Path) -> usize {
    let bytes = fs::read(segment).expect("a segment");
    bytes.iter().rposition(|byte| *byte != 0).expect("a segment has a head") + 1
}
