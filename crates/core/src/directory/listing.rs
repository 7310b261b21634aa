//! The details of a venue in the directory.

use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use super::{ADDRESS_BYTES_MAX, check_position};
use crate::{calendar::Zone, command::VenueDetails, names::NAME_BYTES_MAX};

/// A listed venue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub name: SmolStr,
    /// May be empty.
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    pub position: Option<(i32, i32)>,
    /// The IANA name of its zone.
    pub zone: Option<SmolStr>,
}

impl VenueDetails {
    /// The details with the zone's name as the IANA database writes it.
    ///
    /// # Errors
    /// The reason if they may not be listed, the address is too long, or there is no such zone.
    pub fn checked(self) -> Result<VenueDetails, SmolStr> {
        let zone = self.zone.as_deref().map(|name| {
            Zone::new(name)
                .ok_or_else(|| format_smolstr!("{name} is no zone of the IANA database, as Europe/Berlin is"))
        });
        let zone = zone.transpose()?.map(|zone| SmolStr::new(zone.name()));
        if self.address.len() > ADDRESS_BYTES_MAX {
            return Err(format_smolstr!("the address is longer than {ADDRESS_BYTES_MAX} bytes"));
        }
        let details = VenueDetails { zone, ..self };
        Listing::of(&details).check()?;
        Ok(details)
    }
}

impl Listing {
    /// The listed part of these details.
    pub fn of(details: &VenueDetails) -> Listing {
        let VenueDetails { name, city, position, zone, comments: _, address: _ } = details;
        Listing { name: name.clone(), city: city.clone(), position: *position, zone: zone.clone() }
    }

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
