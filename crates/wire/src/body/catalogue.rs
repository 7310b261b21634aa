//! Bodies of the catalogue's ops: venues, halls, titles.

use std::sync::Arc;

use boxoffice_core::{
    command::{Title, VenueDetails},
    id::Id,
    layout::Layout,
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

pub use crate::form_answer::Position;
use crate::{
    form::{self, AtMost},
    limits::CAST_MAX,
};

/// Of `venue.put`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VenuePut {
    /// Which venue.
    #[serde(with = "form")]
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// Where it is.
    #[serde(default)]
    pub city: SmolStr,
    /// Where exactly, in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Anything worth saying.
    #[serde(default)]
    pub comments: SmolStr,
}

impl VenuePut {
    /// The body that says this.
    pub fn new(id: Id, details: VenueDetails) -> VenuePut {
        let VenueDetails { name, city, position, comments } = details;
        VenuePut { id, name, city, position: position.map(Position::from_millionths), comments }
    }
}

/// Of `venue.search`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VenueSearch {
    /// Only in this city.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub city: Option<SmolStr>,
    /// Only venues with this in their name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SmolStr>,
    /// Nearest first to this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<Position>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where the page before ended, as its answer said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<SmolStr>,
}

/// Of `hall.put`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HallPut {
    /// In which venue.
    #[serde(with = "form")]
    pub venue: Id,
    /// Which hall.
    #[serde(with = "form")]
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// Anything worth saying.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub comments: SmolStr,
    /// Its seats.
    #[serde(with = "form")]
    pub layout: Arc<Layout>,
}

/// Of `hall.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HallGet {
    /// In which venue.
    #[serde(with = "form")]
    pub venue: Id,
    /// Which hall.
    #[serde(with = "form")]
    pub id: Id,
}

/// Of `title.put`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitlePut {
    /// Which title.
    #[serde(with = "form")]
    pub id: Id,
    /// What it is called.
    pub name: SmolStr,
    /// Who directed it.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub director: SmolStr,
    /// Who is in it.
    #[serde(with = "AtMost::<CAST_MAX>", default, skip_serializing_if = "Vec::is_empty")]
    pub cast: Vec<SmolStr>,
    /// Anything worth saying.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub comments: SmolStr,
    /// How long it takes, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

impl TitlePut {
    /// The body that says this.
    pub fn new(id: Id, title: Title) -> TitlePut {
        let Title { name, director, cast, comments, duration_ms } = title;
        TitlePut { id, name, director, cast, comments, duration_ms }
    }
}

/// Of `title.search`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleSearch {
    /// Only titles with this in their name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SmolStr>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where the page before ended, as its answer said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<SmolStr>,
}
