//! The bounds of a title.

use smol_str::{SmolStr, format_smolstr};

use crate::{command::Title, names::NAME_BYTES_MAX};

/// The most names in a cast.
pub const CAST_MAX: usize = 100;

/// The longest comments, in bytes.
pub const COMMENTS_BYTES_MAX: usize = 4_096;

/// The longest title, in milliseconds. It is 31 days, like the longest session.
pub const DURATION_MS_MAX: u64 = 31 * 24 * 60 * 60 * 1000;

impl Title {
    /// Checks its bounds.
    ///
    /// # Errors
    /// The reason if something is empty that must not be, too long or too much.
    pub fn check(&self) -> Result<(), SmolStr> {
        let Title { name, director, cast, comments, duration_ms } = self;
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err(format_smolstr!("the name is not 1 to {NAME_BYTES_MAX} bytes"));
        }
        if director.len() > NAME_BYTES_MAX {
            return Err(format_smolstr!("the director is longer than {NAME_BYTES_MAX} bytes"));
        }
        if cast.len() > CAST_MAX {
            return Err(format_smolstr!("the cast has more than {CAST_MAX} names"));
        }
        if let Some(number) = cast.iter().position(|name| !(1..=NAME_BYTES_MAX).contains(&name.len())) {
            return Err(format_smolstr!("name {number} of the cast is not 1 to {NAME_BYTES_MAX} bytes"));
        }
        if comments.len() > COMMENTS_BYTES_MAX {
            return Err(format_smolstr!("the comments are longer than {COMMENTS_BYTES_MAX} bytes"));
        }
        if duration_ms.is_some_and(|duration| !(1..=DURATION_MS_MAX).contains(&duration)) {
            return Err(format_smolstr!("duration_ms is not 1 to {DURATION_MS_MAX}"));
        }
        Ok(())
    }
}
