//! The directory, with stories, and random searches against a linear search.

pub(crate) mod keys;
mod reference;
mod stories;

use boxoffice_core::{
    directory::{Directory, Listing},
    id::Id,
};

fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

fn put(directory: &mut Directory, venue: &str, name: &str, city: &str, position: Option<(i32, i32)>) {
    let listing = Listing { name: name.into(), city: city.into(), position, zone: None };
    directory.put_venue(&id(venue), listing);
}
