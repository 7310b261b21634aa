//! Searches of the directory, page by page. A page begins after the last entry of the page before, not after a number of
//! entries. So no entry comes twice or is left out when others are added meanwhile.

use alloc::{boxed::Box, vec::Vec};
use core::{
    fmt,
    ops::Bound::{Excluded, Included, Unbounded},
};

use boxoffice_declare::Stored;
use smol_str::{SmolStr, ToSmolStr};

use super::{
    Directory, check_position,
    places::Nearest,
    words::{Words, fold, key},
};
use crate::{
    answer::{TitleView, VenueEntry, VenuesPage},
    cursor::number,
    id::Id,
};

/// The last venue of a page, by its place in the order. As text it is `name <id> <name>` or `near <millimetres> <id>`.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub enum VenueCursor {
    /// In the order of names.
    #[n(0)]
    Name {
        /// Its name.
        #[n(1)]
        name: SmolStr,
        #[n(0)]
        id: Id,
    },
    /// In the order of distances.
    #[n(1)]
    Near {
        #[n(0)]
        distance_mm: u64,
        #[n(1)]
        id: Id,
    },
}

/// A page of titles.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct TitlePage {
    /// The entries, in order.
    #[n(0)]
    pub titles: Vec<TitleView>,
    /// The name and id of the last title, as the cursor of the next page. Absent on the last page.
    #[n(1)]
    pub next: Option<(SmolStr, Id)>,
}

impl Directory {
    /// Venues by name, then id. Near a point, those that have a position, by distance, then id.
    ///
    /// A city matches as a whole. A name matches if each word of `name` is somewhere in the venue's name. Both are compared
    /// without case and accents. Both narrow a search near a point. A page near a point costs as much as all
    /// pages before it, and with a city or name as much as all venues that fit.
    ///
    /// # Errors
    /// The reason if the point is out of bounds, the name has no word in it, or the cursor is of the other order.
    pub fn search_venues(
        &self,
        city: Option<&str>,
        name: Option<&str>,
        near: Option<(i32, i32)>,
        limit: u32,
        after: Option<&VenueCursor>,
    ) -> Result<VenuesPage, SmolStr> {
        let city = city.map(fold);
        let words = name.map(Words::new).transpose()?;
        match (near, after) {
            (None, None) => Ok(self.venues_by_name(city, words, limit, None)),
            (None, Some(VenueCursor::Name { name, id })) => {
                Ok(self.venues_by_name(city, words, limit, Some((key(name), id.clone()))))
            }
            (Some(near), None) => {
                check_position(near)?;
                Ok(self.venues_by_distance(city, words, near, limit, None))
            }
            (Some(near), Some(VenueCursor::Near { distance_mm, id })) => {
                check_position(near)?;
                Ok(self.venues_by_distance(city, words, near, limit, Some((*distance_mm, id))))
            }
            (None, Some(VenueCursor::Near { .. })) | (Some(_), Some(VenueCursor::Name { .. })) => {
                Err("the cursor is of another search".into())
            }
        }
    }

    /// The venues of a city, by id. The city is compared as in [`Directory::search_venues`].
    pub fn venues_of_city(&self, city: &str) -> Vec<Id> {
        let mut venues: Vec<Id> = self.fitting(Some(fold(city)), None, None).map(|(_, id)| id.clone()).collect();
        venues.sort_unstable();
        venues
    }

    /// Titles by name, then id. Each word of `name` is somewhere in the title's name, compared as a venue's. `after` is the name
    /// and the id of the last title of the page before.
    ///
    /// # Errors
    /// The reason if the name has no word in it.
    pub fn search_titles(
        &self,
        name: Option<&str>,
        limit: u32,
        after: Option<&(SmolStr, Id)>,
    ) -> Result<TitlePage, SmolStr> {
        let words = name.map(Words::new).transpose()?;
        let after = after.map_or(Unbounded, |(name, id)| Excluded((key(name), id.clone())));
        let keys = self.titles_by_name.range((after, Unbounded)).map(|(key, ())| key);
        let fitting = keys.filter(|(key, _)| words.as_ref().is_none_or(|words| words.are_in(key)));
        let (titles, more) = page(limit, fitting, |(_, id)| {
            let title = self.title(id).expect("indexed titles are kept").clone();
            TitleView { id: id.clone(), title }
        });
        let last = titles.last().filter(|_| more);
        let next = last.map(|last: &TitleView| (last.title.name.clone(), last.id.clone()));
        Ok(TitlePage { titles, next })
    }

    fn venues_by_name(
        &self,
        city: Option<SmolStr>,
        words: Option<Words>,
        limit: u32,
        after: Option<(SmolStr, Id)>,
    ) -> VenuesPage {
        let fitting = self.fitting(city, words, after);
        let (venues, more) = page(limit, fitting, |(_, id)| self.entry(id, None));
        let last = venues.last().filter(|_| more);
        let cursor = |last: &VenueEntry| VenueCursor::Name { name: last.name.clone(), id: last.id.clone() };
        let next = last.map(|last| cursor(last).to_smolstr());
        VenuesPage { venues, next }
    }

    fn venues_by_distance(
        &self,
        city: Option<SmolStr>,
        words: Option<Words>,
        near: (i32, i32),
        limit: u32,
        after: Option<(u64, &Id)>,
    ) -> VenuesPage {
        // Venues of one city or name are few and may be far, so they are checked one by one.
        let nearest = if city.is_some() || words.is_some() {
            let fitting = self.fitting(city, words, None);
            Nearest::among(fitting.filter_map(|(_, id)| Some((id, self.venue(id)?.position?))), near)
        } else {
            self.places.nearest(near)
        };
        let mut last = None;
        let further = nearest.skip_while(|venue| after.is_some_and(|after| *venue <= after));
        let (venues, more) = page(limit, further, |(distance_mm, id)| {
            last = Some(VenueCursor::Near { distance_mm, id: id.clone() });
            self.entry(id, Some(distance_mm))
        });
        VenuesPage { venues, next: last.filter(|_| more).map(|cursor| cursor.to_smolstr()) }
    }

    /// Key of the name and id of the venues of a city, or of all, that have these words in their name. They are by name, then
    /// id.
    fn fitting<'a>(
        &'a self,
        city: Option<SmolStr>,
        words: Option<Words>,
        after: Option<(SmolStr, Id)>,
    ) -> Box<dyn Iterator<Item = (&'a SmolStr, &'a Id)> + 'a> {
        let fits = move |name: &SmolStr| words.as_ref().is_none_or(|words| words.are_in(name));
        match city {
            Some(city) => {
                let from = match after {
                    Some((name, id)) => Excluded((city.clone(), name, id)),
                    // No name and no id are smaller than these.
                    None => Id::new("-").map_or(Unbounded, |id| Included((city.clone(), SmolStr::default(), id))),
                };
                let keys = self.by_city.range((from, Unbounded)).map(|(key, ())| key);
                let keys = keys.take_while(move |(other, _, _)| *other == city).map(|(_, name, id)| (name, id));
                Box::new(keys.filter(move |(name, _)| fits(name)))
            }
            None => {
                let keys = self.by_name.range((after.map_or(Unbounded, Excluded), Unbounded)).map(|(key, ())| key);
                Box::new(keys.map(|(name, id)| (name, id)).filter(move |(name, _)| fits(name)))
            }
        }
    }

    fn entry(&self, id: &Id, distance_mm: Option<u64>) -> VenueEntry {
        let listing = self.venue(id).expect("indexed venues are listed").clone();
        VenueEntry {
            id: id.clone(),
            name: listing.name,
            city: listing.city,
            position: listing.position,
            distance_m: distance_mm.map(|distance| (distance + 500) / 1_000),
            zone: listing.zone,
        }
    }
}

/// The first entries, and whether there are more.
fn page<K, T>(limit: u32, mut keys: impl Iterator<Item = K>, entry: impl FnMut(K) -> T) -> (Vec<T>, bool) {
    let entries = keys.by_ref().take(limit as usize).map(entry).collect();
    (entries, keys.next().is_some())
}

impl VenueCursor {
    /// The cursor with this text.
    ///
    /// # Errors
    /// The reason if it is not one.
    pub fn parse(text: &str) -> Result<VenueCursor, SmolStr> {
        let cursor = || {
            let (order, rest) = text.split_once(' ')?;
            let (first, second) = rest.split_once(' ')?;
            match order {
                "name" if !second.is_empty() => {
                    Some(VenueCursor::Name { id: Id::new(first)?, name: second.to_smolstr() })
                }
                "near" => Some(VenueCursor::Near { distance_mm: number(first)?, id: Id::new(second)? }),
                _ => None,
            }
        };
        cursor().ok_or_else(|| "the cursor is not that of a search".into())
    }
}

impl fmt::Display for VenueCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VenueCursor::Name { name, id } => write!(f, "name {id} {name}"),
            VenueCursor::Near { distance_mm, id } => write!(f, "near {distance_mm} {id}"),
        }
    }
}
