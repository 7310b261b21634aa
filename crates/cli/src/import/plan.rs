//! The plan of an import: the entries of its file.

use std::{collections::BTreeSet, sync::Arc};

use boxoffice_core::{
    calendar::Zone,
    command::{Area, CodeDetails, Limits, Offering, ProductDetails, ResourceDetails, Title, VenueDetails},
    id::Id,
    layout::{Layout, PITCH_USUAL},
    money::Money,
    names::Names,
    time::Timestamp,
};
use boxoffice_wire::labels;
use smol_str::SmolStr;

use super::{
    price_list::PriceList,
    things::Thing,
    when::{SaleTime, When},
};

/// The entries of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportPlan {
    pub titles: Vec<Thing<Title>>,
    pub products: Vec<Thing<ProductDetails>>,
    pub resources: Vec<Thing<ResourceDetails>>,
    pub codes: Vec<CodePlan>,
    /// Prices of sessions that are there.
    pub prices: Vec<PriceList>,
    pub venues: Vec<VenuePlan>,
    /// Whether products have a name, a price and a stock only, so that an existing one keeps the rest.
    pub products_are_lines: bool,
    /// What was understood of the file, and what was left out.
    pub notes: Vec<String>,
    /// What is done and may not be meant.
    pub warnings: Vec<String>,
}

impl ImportPlan {
    /// Notes how far consecutive seats of each hall are from each other, and warns where that is no usual distance.
    pub fn note_pitches(&mut self) {
        for hall in self.venues.iter().flat_map(|venue| &venue.halls) {
            let Some(pitch) = hall.layout.pitch() else { continue };
            let told = format!("hall {}: seats are {}.{:02} seat widths apart", hall.id, pitch / 100, pitch % 100);
            if PITCH_USUAL.contains(&pitch) {
                let parted = hall.layout.parted_by_points();
                self.notes.push(format!("{told} (median); points part rows {parted} times"));
            } else {
                self.warnings.push(format!("{told} (median). Points are hundredths of a seat's width"));
            }
        }
    }
}

/// A code.
#[derive(Clone, Debug, PartialEq)]
pub struct CodePlan {
    /// The code itself, which is never printed.
    pub code: Id,
    pub details: CodeDetails,
    /// Whether the file does not say if it is ended, so that an existing one stays as it is.
    pub keeps_ended: bool,
    /// The same of whether its uses count orders.
    pub keeps_by_order: bool,
    /// The line of a list, which tells refused ones apart.
    pub line: Option<u64>,
}

/// A venue with its halls and sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct VenuePlan {
    pub id: Id,
    pub details: VenueDetails,
    /// Whether an existing venue stays as it is.
    pub only_if_absent: bool,
    pub halls: Vec<HallPlan>,
    pub sessions: Vec<SessionPlan>,
}

/// A hall.
#[derive(Clone, Debug, PartialEq)]
pub struct HallPlan {
    pub id: Id,
    pub name: String,
    pub comments: String,
    pub layout: Arc<Layout>,
}

/// A session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPlan {
    pub id: Id,
    pub hall: Id,
    pub title: Id,
    /// The start, absolute or after the import.
    pub starts_at: When,
    /// The end, absolute or after the start.
    pub ends_at: When,
    /// Prices of categories.
    pub prices: Vec<(Id, Money)>,
    /// The price of every other category.
    pub other_price: Option<Money>,
    /// Places without seats.
    pub areas: Vec<Area>,
    /// How long carts with its seats live untouched, if not the node's default.
    pub hold_ttl_ms: Option<u64>,
    /// Limits of one order and one customer.
    pub limits: Limits,
    pub comments: String,
    /// Whether everybody may still hold after it has begun.
    pub sells_after_begin: bool,
    /// Whether a hold of named seats may not leave a single free seat.
    pub no_single_seats: bool,
    /// The fewest seats of one hold, if there is a least number.
    pub min_party: Option<u16>,
    /// Price types, offers, counters and allotments, without their times.
    pub offering: Offering,
    pub times: SaleTimes,
}

/// The times of a session's terms, in the order of its offers and allotments. They may depend on its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SaleTimes {
    /// When each offer opens, and when it ends.
    pub offers: Vec<(Option<SaleTime>, Option<SaleTime>)>,
    /// When each allotment is released.
    pub releases: Vec<Option<SaleTime>>,
}

impl ImportPlan {
    /// The titles that sessions name and the import does not describe, each once.
    pub fn titles_of_sessions_only(&self) -> Vec<Id> {
        let sessions = self.venues.iter().flat_map(|venue| &venue.sessions);
        let named: BTreeSet<&Id> = sessions.map(|session| &session.title).collect();
        let described: BTreeSet<&Id> = self.titles.iter().map(|(id, _)| id).collect();
        named.difference(&described).map(|id| (*id).clone()).collect()
    }
}

impl SessionPlan {
    /// Its terms, if it starts at this time in this zone.
    ///
    /// # Errors
    /// A time does not exist, exists twice or is too far, and of which offer or allotment it is.
    pub fn offering_at(&self, starts_at: Timestamp, zone: &Zone) -> Result<Offering, String> {
        let at = |time: Option<SaleTime>, of: &dyn Fn() -> String| {
            time.map(|time| time.of(starts_at, zone)).transpose().map_err(|why| format!("{}: {why}", of()))
        };
        let mut offering = self.offering.clone();
        for (offer, (from, until)) in offering.offers.iter_mut().zip(&self.times.offers) {
            let id = offer.id.clone();
            offer.from = at(*from, &|| format!("`from` of offer {id}"))?;
            offer.until = at(*until, &|| format!("`until` of offer {id}"))?;
        }
        for (allotment, release) in offering.allotments.iter_mut().zip(&self.times.releases) {
            let id = allotment.id.clone();
            allotment.release_at = at(*release, &|| format!("`release_at` of allotment {id}"))?;
        }
        Ok(offering)
    }

    /// A price for every category of its hall, sorted.
    ///
    /// # Errors
    /// A category has no price, or does not exist.
    pub fn prices_in(&self, layout: &Layout) -> Result<Vec<(Id, Money)>, String> {
        let mut prices = Vec::new();
        let mut categories = layout.categories().to_vec();
        categories.sort();
        for (category, _) in &self.prices {
            if !categories.contains(category) {
                let known: Vec<&str> = categories.iter().map(Id::as_str).collect();
                let hall = &self.hall;
                return Err(format!("hall {hall} has no category {category}; it has {}", known.join(", ")));
            }
        }
        for category in categories {
            let own = self.prices.iter().find(|(of, _)| *of == category).map(|(_, price)| *price);
            match own.or(self.other_price) {
                Some(price) => prices.push((category, price)),
                None => return Err(format!("category {category} has no price; give it one, or one to \"*\"")),
            }
        }
        Ok(prices)
    }
}

/// Finds errors before any node is asked.
///
/// # Errors
/// The first error, in words.
pub fn check(venues: &[VenuePlan]) -> Result<(), String> {
    let (mut venue_ids, mut session_ids) = (BTreeSet::new(), BTreeSet::new());
    for venue in venues {
        let id = &venue.id;
        if let Some(zone) = venue.details.zone.as_deref().filter(|zone| Zone::new(zone).is_none()) {
            return Err(format!("venue {id}: {zone} is no zone of the IANA database, as Europe/Berlin is"));
        }
        if !venue_ids.insert(id) {
            return Err(format!("venue {id} is there twice; give it one entry with all its halls and sessions"));
        }
        let mut hall_ids = BTreeSet::new();
        for hall in &venue.halls {
            if !hall_ids.insert(&hall.id) {
                return Err(format!("venue {id}: hall {} is there twice; leave one out", hall.id));
            }
            labels::check(&hall.layout).map_err(|why| format!("venue {id}, hall {}: {why}", hall.id))?;
        }
        for session in &venue.sessions {
            if !session_ids.insert(&session.id) {
                return Err(format!("session {} is there twice; call one of them something else", session.id));
            }
            let areas: Vec<(SmolStr, Names)> =
                session.areas.iter().map(|area| (area.name.clone(), area.names.clone())).collect();
            labels::check_names("areas", &areas).map_err(|why| format!("session {}: {why}", session.id))?;
        }
    }
    Ok(())
}
