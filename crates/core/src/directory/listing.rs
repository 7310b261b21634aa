//! The details of a venue in the directory.

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

use super::check_position;
use crate::{calendar::Zone, command::VenueDetails};

/// A listed venue.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Listing {
    #[n(0)]
    pub name: SmolStr,
    /// May be empty.
    #[n(1)]
    pub city: SmolStr,
    /// Longitude and latitude in millionths of a degree.
    #[n(2)]
    pub position: Option<(i32, i32)>,
    /// The IANA name of its zone.
    #[n(3)]
    pub zone: Option<SmolStr>,
}

impl VenueDetails {
    /// The details with the zone's name as the IANA database writes it.
    ///
    /// # Errors
    /// The reason if there is no such zone, or the position is not on the earth.
    pub fn checked(self) -> Result<VenueDetails, SmolStr> {
        let zone = self.zone.as_deref().map(|name| {
            Zone::new(name)
                .ok_or_else(|| format_smolstr!("{name} is no zone of the IANA database, as Europe/Berlin is"))
        });
        let zone = zone.transpose()?.map(|zone| SmolStr::new(zone.name()));
        self.position.map_or(Ok(()), check_position)?;
        Ok(VenueDetails { zone, ..self })
    }
}

impl Listing {
    /// The listed part of these details.
    pub fn of(details: &VenueDetails) -> Listing {
        let VenueDetails { name, city, position, zone, comments: _, address: _ } = details;
        Listing { name: name.clone(), city: city.clone(), position: *position, zone: zone.clone() }
    }
}
