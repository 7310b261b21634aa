//! Bodies of the catalogue's ops: venues, halls, titles.

use std::sync::Arc;

use boxoffice_core::{
    command::{Title, VenueDetails},
    id::Id,
    layout::Layout,
};
use smol_str::SmolStr;

pub use crate::repr::answer::Position;
use crate::{
    layout::Written,
    limits::{CAST_MAX, COMMENTS_BYTES_MAX, DURATION_MS_MAX, NAME_BYTES_MAX, PAGE_ENTRIES_MAX},
    repr::{
        Bounded,
        shape::{Each, shapes},
    },
};

shapes! {
    pub struct VenuePut {
        pub id: Id,
        pub name: SmolStr = 1..=NAME_BYTES_MAX,
        pub city??: SmolStr = 0..=NAME_BYTES_MAX,
        pub position?: Option<Position>,
        pub comments??: SmolStr = 0..=COMMENTS_BYTES_MAX,
    }

    #[derive(Default)]
    pub struct VenueSearch {
        pub city?: Option<SmolStr> = 1..=NAME_BYTES_MAX,
        /// A part of the name.
        pub name?: Option<SmolStr> = 1..=NAME_BYTES_MAX,
        /// Search the nearest venues first.
        pub near?: Option<Position>,
        /// The maximum number of entries, 100 if absent.
        pub limit?: Option<u32> = 1..=PAGE_ENTRIES_MAX,
        /// The cursor of the page before.
        pub cursor?: Option<SmolStr>,
    }

    pub struct HallPut {
        pub venue: Id,
        pub id: Id,
        pub name: SmolStr = 1..=NAME_BYTES_MAX,
        pub comments?: SmolStr = 0..=COMMENTS_BYTES_MAX,
        pub layout: Arc<Layout> = Written,
    }

    #[derive(Eq)]
    pub struct HallGet {
        pub venue: Id,
        pub id: Id,
    }

    #[derive(Eq)]
    pub struct TitlePut {
        pub id: Id,
        pub name: SmolStr = 1..=NAME_BYTES_MAX,
        pub director?: SmolStr = 0..=NAME_BYTES_MAX,
        pub cast?: Vec<SmolStr> as "Bounded::<CAST_MAX>" = (0..=CAST_MAX, Each(1..=NAME_BYTES_MAX)),
        pub comments?: SmolStr = 0..=COMMENTS_BYTES_MAX,
        pub duration_ms?: Option<u64> = 1..=DURATION_MS_MAX,
    }

    #[derive(Default, Eq)]
    pub struct TitleSearch {
        /// A part of the name.
        pub name?: Option<SmolStr> = 1..=NAME_BYTES_MAX,
        /// The maximum number of entries, 100 if absent.
        pub limit?: Option<u32> = 1..=PAGE_ENTRIES_MAX,
        /// The cursor of the page before.
        pub cursor?: Option<SmolStr>,
    }
}

impl VenuePut {
    /// The body with these details.
    pub fn new(id: Id, details: VenueDetails) -> VenuePut {
        let VenueDetails { name, city, position, comments } = details;
        VenuePut { id, name, city, position: position.map(Position::from_millionths), comments }
    }
}

impl TitlePut {
    /// The body with these details.
    pub fn new(id: Id, title: Title) -> TitlePut {
        let Title { name, director, cast, comments, duration_ms } = title;
        TitlePut { id, name, director, cast, comments, duration_ms }
    }
}
