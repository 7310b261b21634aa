//! Comparison of names that are folded to lower case, word by word.

use alloc::vec::Vec;

use smol_str::{SmolStr, format_smolstr};

use super::NAME_BYTES_MAX;

/// A name without case. Each character is in Unicode lower case, with one sigma for both. Accents count, and composed characters
/// differ from their parts.
pub(super) fn fold(name: &str) -> SmolStr {
    name.chars().flat_map(char::to_lowercase).map(|letter| if letter == 'ς' { 'σ' } else { letter }).collect()
}

/// Words to find in names, in any order.
pub(super) struct Words(Vec<SmolStr>);

impl Words {
    /// The words of a wish.
    pub(super) fn new(wish: &str) -> Result<Words, SmolStr> {
        if wish.len() > NAME_BYTES_MAX {
            return Err(format_smolstr!("the name looked for is longer than {NAME_BYTES_MAX} bytes"));
        }
        let words: Vec<SmolStr> = wish.split_whitespace().map(fold).collect();
        if words.is_empty() { Err("the name looked for is empty".into()) } else { Ok(Words(words)) }
    }

    /// Whether each of them is in this folded name, as a word or a part of one.
    pub(super) fn are_in(&self, folded: &str) -> bool {
        self.0.iter().all(|word| folded.contains(word.as_str()))
    }
}
