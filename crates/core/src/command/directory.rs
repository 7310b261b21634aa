//! What the directory is told or asked.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{access::NewKey, id::Id};

/// What the directory is told or asked. Venues tell it themselves where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryCommand {
    /// Create or change a title: `title.put`. The title remembers its last puts.
    PutTitle(Id, Title),
    /// `title.get`.
    GetTitle(Id),
    /// `title.search`: by name, then id.
    SearchTitles {
        /// Only titles with this in their name.
        name: Option<SmolStr>,
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on after this title: name and id of the last one of the page before.
        after: Option<(SmolStr, Id)>,
    },
    /// `venue.search`: by name, then id; by distance if near a point.
    SearchVenues {
        /// Only in this city.
        city: Option<SmolStr>,
        /// Only venues with this in their name.
        name: Option<SmolStr>,
        /// Nearest first to this longitude and latitude, in millionths of a degree.
        near: Option<(i32, i32)>,
        /// At most so many; 1 to 1 000.
        limit: u32,
        /// Go on where the page before ended, as its answer said.
        after: Option<SmolStr>,
    },
    /// Every venue of a city, by id: what a search for sessions over a city asks.
    VenuesOfCity(SmolStr),
    /// `admin.key_create`: an operator makes a key.
    CreateKey {
        /// Its name, which stands in the record of what is done with it.
        name: Id,
        /// What it may do.
        terms: Box<NewKey>,
    },
    /// `admin.key_revoke`: the key is worth nothing from now on.
    RevokeKey {
        /// Its name.
        name: Id,
    },
    /// `admin.keys`: every key.
    Keys,
}

/// What is shown: a film, a play, a match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// What it is called.
    pub name: SmolStr,
    /// Who directed it.
    pub director: SmolStr,
    /// Who is in it.
    pub cast: Vec<SmolStr>,
    /// Anything worth saying.
    pub comments: SmolStr,
    /// How long it takes, in milliseconds.
    pub duration_ms: Option<u64>,
}
