//! The directory of all venues by city, name and position, and of all titles. It is small, and every node reads it.
//!
//! The state is two maps, from which the indexes follow. Copies share nearly everything, so the cost of a write does not depend
//! on the number of venues.

mod position;

mod keys;
mod listing;
mod places;
mod search;
mod words;

use alloc::{sync::Arc, vec::Vec};
use core::fmt;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{
    access::AccessKey,
    changes::Changes,
    command::Title,
    event::DirectoryEvent,
    id::{Id, Request},
    refusal::Refusal,
    shared_map::{SharedMap, SharedSet},
    stored::{Decode, Encode, Error, Reader, Schema, Shape, Writer},
};

use places::Places;

pub use listing::Listing;
pub use position::check_position;
pub use search::{TitlePage, VenueCursor};

/// The state of the directory, with indexes that follow from its entries. Only the entries are serialized.
#[derive(Clone)]
pub struct Directory {
    entries: Entries,
    /// Venues by each spelling of their city, key of their name, id.
    by_city: SharedSet<(SmolStr, SmolStr, Id)>,
    /// Venues by key of their name, id.
    by_name: SharedSet<(SmolStr, Id)>,
    places: Places,
    /// Titles by key of their name, id.
    titles_by_name: SharedSet<(SmolStr, Id)>,
}

/// The entries of the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
struct Entries {
    #[n(0)]
    version: u64,
    #[n(2)]
    venues: SharedMap<Id, Arc<Listing>>,
    #[n(3)]
    titles: SharedMap<Id, Arc<Named>>,
    /// The version of each venue with its listed details.
    #[n(4)]
    listed: SharedMap<Id, u64>,
    /// The keys of operators, sellers and watchers, by name.
    #[n(5)]
    keys: SharedMap<Id, Arc<AccessKey>>,
    #[n(1)]
    key_changes: Changes<()>,
}

/// A title and its remembered puts.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
struct Named {
    #[n(0)]
    title: Title,
    #[n(1)]
    puts: Changes<()>,
}

impl Directory {
    /// An empty directory.
    pub fn new() -> Directory {
        Directory::from(Entries::default())
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.entries.version
    }

    /// How many venues there are.
    pub fn venues(&self) -> usize {
        self.entries.venues.len()
    }

    /// How many titles there are.
    pub fn titles(&self) -> usize {
        self.entries.titles.len()
    }

    /// The listed details of a venue.
    pub fn venue(&self, id: &Id) -> Option<&Listing> {
        self.entries.venues.get(id).map(|listing| &**listing)
    }

    /// A title.
    pub fn title(&self, id: &Id) -> Option<&Title> {
        self.entries.titles.get(id).map(|named| &named.title)
    }

    /// The version with a put of a title that was granted before, if it is remembered. Refused if its request id was used for
    /// something else.
    pub(crate) fn title_answered(&self, id: &Id, request: Request) -> Option<Result<u64, Refusal>> {
        let known = self.entries.titles.get(id)?.puts.answered(request)?;
        Some(known.map(|known| known.version))
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    pub(crate) fn apply(&mut self, event: &DirectoryEvent) {
        match event {
            DirectoryEvent::TitlePut { id, title, request } => {
                self.put_title(id, title.clone());
                let named = self.entries.titles.get_mut(id).expect("it was just put");
                Arc::make_mut(named).puts.remember(*request, self.entries.version, ());
            }
            DirectoryEvent::VenueListed { venue, details, version } => {
                self.entries.listed.insert(venue.clone(), *version);
                self.put_venue(venue, Listing::of(details));
            }
            DirectoryEvent::KeyCreated { name, key, request } => self.put_key(name, (**key).clone(), *request),
            DirectoryEvent::KeyRevoked { name, request } => self.remove_key(name, *request),
        }
    }

    /// The version of a venue with its listed details.
    pub(crate) fn listed_version(&self, venue: &Id) -> Option<u64> {
        self.entries.listed.get(venue).copied()
    }

    /// Lists a venue or changes its listing. Its position was checked before, so it cannot fail.
    pub fn put_venue(&mut self, id: &Id, listing: Listing) {
        self.entries.version += 1;
        let (city, name, position) = (listing.city.clone(), words::key(&listing.name), listing.position);
        let before = self.entries.venues.insert(id.clone(), Arc::new(listing));
        if let Some(before) = &before {
            let name = words::key(&before.name);
            for city in words::spellings(&before.city) {
                let indexed = self.by_city.remove(&(city, name.clone(), id.clone())).is_some();
                assert!(indexed, "venue {id} was not in the index of cities");
            }
            assert!(self.by_name.remove(&(name, id.clone())).is_some(), "venue {id} was not in the index");
        }
        for city in words::spellings(&city) {
            self.by_city.insert((city, name.clone(), id.clone()), ());
        }
        self.by_name.insert((name, id.clone()), ());
        if before.and_then(|before| before.position) != position {
            self.places.put(id, position);
        }
    }

    /// Adds or changes a title.
    pub fn put_title(&mut self, id: &Id, title: Title) {
        self.entries.version += 1;
        let name = words::key(&title.name);
        let puts = self.entries.titles.get(id).map(|named| named.puts.clone()).unwrap_or_default();
        if let Some(before) = self.entries.titles.insert(id.clone(), Arc::new(Named { title, puts })) {
            let indexed = self.titles_by_name.remove(&(words::key(&before.title.name), id.clone())).is_some();
            assert!(indexed, "title {id} was not in the index");
        }
        self.titles_by_name.insert((name, id.clone()), ());
    }
}

impl Default for Directory {
    fn default() -> Directory {
        Directory::new()
    }
}

impl PartialEq for Directory {
    fn eq(&self, other: &Directory) -> bool {
        self.entries == other.entries
    }
}

impl Eq for Directory {}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.entries, f)
    }
}

impl Encode for Directory {
    fn encode(&self, out: &mut Writer) {
        self.entries.encode(out);
    }
}

impl Decode for Directory {
    fn shape(schema: &mut Schema) -> Shape {
        Entries::shape(schema)
    }

    fn decode(from: &mut Reader<'_>) -> Result<Directory, Error> {
        Entries::decode(from).map(Directory::from)
    }
}

impl From<Entries> for Directory {
    fn from(entries: Entries) -> Directory {
        let Entries { venues, titles, .. } = &entries;
        // Sorted first, because a map is filled fastest in order.
        let mut by_city: Vec<_> = venues
            .iter()
            .flat_map(|(id, listing)| {
                let name = words::key(&listing.name);
                words::spellings(&listing.city).map(move |city| (city, name.clone(), id.clone()))
            })
            .collect();
        by_city.sort_unstable();
        let mut by_name: Vec<_> = venues.iter().map(|(id, listing)| (words::key(&listing.name), id.clone())).collect();
        by_name.sort_unstable();
        let mut titles_by_name: Vec<_> =
            titles.iter().map(|(id, named)| (words::key(&named.title.name), id.clone())).collect();
        titles_by_name.sort_unstable();
        let places = venues.iter().filter_map(|(id, listing)| Some((id.clone(), listing.position?)));
        Directory {
            by_city: by_city.into_iter().map(|key| (key, ())).collect(),
            by_name: by_name.into_iter().map(|key| (key, ())).collect(),
            places: Places::of(places),
            titles_by_name: titles_by_name.into_iter().map(|key| (key, ())).collect(),
            entries,
        }
    }
}
