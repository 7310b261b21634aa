//! The details of a venue in the directory.

use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use super::{NAME_BYTES_MAX, check_position};

/// A listed venue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub name: SmolStr,
    /// May be empty.
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
}

impl Listing {
    /// Checks that it may be listed.
    ///
    /// # Errors
    /// The reason if the name is empty, something is too long, or the position is not on the earth.
    pub fn check(&self) -> Result<(), SmolStr> {
        if !(1..=NAME_BYTES_MAX).contains(&self.name.len()) {
            return Err(format_smolstr!("the name is not 1 to {NAME_BYTES_MAX} bytes"));
        }
        if self.city.len() > NAME_BYTES_MAX {
            return Err(format_smolstr!("the city is longer than {NAME_BYTES_MAX} bytes"));
        }
        self.position.map_or(Ok(()), check_position)
    }
}
