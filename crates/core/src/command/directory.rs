//! Commands to the directory.

use alloc::{boxed::Box, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{access::NewKey, id::Id};

/// Commands to the directory. Venues send their own details.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum DirectoryCommand {
    /// `title.put` creates or changes a title. The title remembers its last puts.
    #[n(0)]
    PutTitle(#[n(0)] Id, #[n(1)] Title),
    /// `title.get`.
    #[n(1)]
    GetTitle(#[n(0)] Id),
    /// `title.search` by name, then id.
    #[n(2)]
    SearchTitles {
        /// Only titles with this in their name.
        #[n(1)]
        name: Option<SmolStr>,
        /// The most entries, 1 to 1 000.
        #[n(0)]
        limit: u32,
        /// Continue after this name and id, which the last title of the page before has.
        #[n(2)]
        after: Option<(SmolStr, Id)>,
    },
    /// `venue.search` by name, then id, or by distance if near a point.
    #[n(3)]
    SearchVenues {
        /// Only in this city.
        #[n(1)]
        city: Option<SmolStr>,
        /// Only venues with this in their name.
        #[n(2)]
        name: Option<SmolStr>,
        /// Nearest first to this longitude and latitude, in millionths of a degree.
        #[n(3)]
        near: Option<(i32, i32)>,
        /// The most entries, 1 to 1 000.
        #[n(0)]
        limit: u32,
        /// Continue after the page before, with its cursor.
        #[n(4)]
        after: Option<SmolStr>,
    },
    /// Every venue of a city, by id, for a search of sessions in a city.
    #[n(4)]
    VenuesOfCity(#[n(0)] SmolStr),
    /// `admin.key_create`. An operator makes a key.
    #[n(5)]
    CreateKey {
        /// Its name, which histories show.
        #[n(0)]
        name: Id,
        #[n(1)]
        terms: Box<NewKey>,
    },
    /// `admin.key_revoke`. The key is invalid from now on.
    #[n(6)]
    RevokeKey {
        #[n(0)]
        name: Id,
    },
    /// `admin.keys` lists every key.
    #[n(7)]
    Keys,
    /// The key with this name, if there is one. A node asks it about a key that its own copy of the directory does not have. No op
    /// sends it.
    #[n(8)]
    Key {
        #[n(0)]
        name: Id,
    },
}

/// A film, a play or a match.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Title {
    #[n(0)]
    pub name: SmolStr,
    #[n(1)]
    pub director: SmolStr,
    #[n(2)]
    pub cast: Vec<SmolStr>,
    /// Free text.
    #[n(3)]
    pub comments: SmolStr,
    #[n(4)]
    pub duration_ms: Option<u64>,
}
