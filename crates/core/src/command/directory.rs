//! Commands to the directory.

use alloc::{boxed::Box, vec::Vec};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{access::NewKey, id::Id};

/// Commands to the directory. Venues send their own details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryCommand {
    /// `title.put` creates or changes a title. The title remembers its last puts.
    PutTitle(Id, Title),
    /// `title.get`.
    GetTitle(Id),
    /// `title.search` by name, then id.
    SearchTitles {
        /// Only titles with this in their name.
        name: Option<SmolStr>,
        /// The most entries, 1 to 1 000.
        limit: u32,
        /// Continue after this name and id, which the last title of the page before has.
        after: Option<(SmolStr, Id)>,
    },
    /// `venue.search` by name, then id, or by distance if near a point.
    SearchVenues {
        /// Only in this city.
        city: Option<SmolStr>,
        /// Only venues with this in their name.
        name: Option<SmolStr>,
        /// Nearest first to this longitude and latitude, in millionths of a degree.
        near: Option<(i32, i32)>,
        /// The most entries, 1 to 1 000.
        limit: u32,
        /// Continue after the page before, with its cursor.
        after: Option<SmolStr>,
    },
    /// Every venue of a city, by id, for a search of sessions in a city.
    VenuesOfCity(SmolStr),
    /// `admin.key_create`. An operator makes a key.
    CreateKey {
        /// Its name, which histories show.
        name: Id,
        terms: Box<NewKey>,
    },
    /// `admin.key_revoke`. The key is invalid from now on.
    RevokeKey { name: Id },
    /// `admin.keys` lists every key.
    Keys,
    /// The key with this name, if there is one. A node asks it about a key that its own copy of the directory does not have. No op
    /// sends it.
    Key { name: Id },
}

/// A film, a play or a match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    pub name: SmolStr,
    pub director: SmolStr,
    pub cast: Vec<SmolStr>,
    /// Free text.
    pub comments: SmolStr,
    pub duration_ms: Option<u64>,
}
