//! A venue with its details, its halls with their bookings, and the index of its sessions.
//!
//! The venue books a hall in its own turn, so two sessions never overlap in it (P13). It owes a booked session its opening until
//! the session acknowledges that.

mod decide;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::ops::Bound;

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    answer::{AreaCounts, HallView, SaleMark, SeatCounts, SessionEntry, SessionView, VenueView},
    ask::{Opening, VenueZone},
    calendar::Zone,
    changes::Changes,
    command::{Area, NewSession, VenueDetails},
    event::VenueEvent,
    id::{Id, Request},
    layout::Layout,
    refusal::Refusal,
    session::opened_view,
    time::Timestamp,
};

pub(crate) use decide::{Creation, Search};

/// The state of a venue. It is serialized without its layouts, because [`crate::state_map::Cut`] writes each layout once and
/// sets it again.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Venue {
    #[n(0)]
    version: u64,
    #[n(1)]
    id: Id,
    #[n(2)]
    details: VenueDetails,
    #[n(7)]
    halls: BTreeMap<Id, Hall>,
    #[n(8)]
    sessions: BTreeMap<Id, Booked>,
    /// Sessions by start, then id.
    #[n(9)]
    by_start: BTreeSet<(Timestamp, Id)>,
    /// Sessions that are owed their opening.
    #[n(10)]
    opening: BTreeSet<Id>,
    /// The version with the current details.
    #[n(3)]
    put: u64,
    /// The version with the details that the directory knows.
    #[n(4)]
    listed: u64,
    /// The version with the current zone.
    #[n(5)]
    zoned: u64,
    /// Sessions that are owed the current zone. Those of them that are owed their opening are sent it afterwards.
    #[n(11)]
    zoning: BTreeSet<Id>,
    /// Puts of the details, with the number of coming sessions that show another hour. Halls remember their own.
    #[n(6)]
    puts: Changes<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Stored)]
struct Hall {
    #[n(1)]
    name: SmolStr,
    #[n(2)]
    comments: SmolStr,
    #[stored(skip = Layout::unset)]
    layout: Arc<Layout>,
    /// The end and the session, by start. They never overlap.
    #[n(3)]
    bookings: BTreeMap<Timestamp, (Timestamp, Id)>,
    #[n(0)]
    puts: Changes<()>,
}

#[derive(Clone, Debug, PartialEq, Eq, Stored)]
struct Booked {
    /// Its prices are in the order of the layout's categories.
    #[n(0)]
    session: NewSession,
    #[stored(skip = Layout::unset)]
    layout: Arc<Layout>,
    /// The venue's version when the session acknowledged its opening, or `None` before.
    #[n(1)]
    opened: Option<u64>,
    /// Whether it is canceled and has no part of its hall.
    #[n(2)]
    canceled: bool,
    /// What it told of its sale last. `None` while that is as at its creation.
    #[n(3)]
    sale: Option<SaleMark>,
}

impl Booked {
    fn opens_at(&self) -> Option<Timestamp> {
        match &self.sale {
            Some(mark) => mark.opens_at,
            None => self.session.offering.as_deref()?.opens_at(|_| false),
        }
    }
}

impl Venue {
    /// A venue that has just been created.
    pub(crate) fn created(id: Id, details: VenueDetails, request: Request) -> Venue {
        let mut puts = Changes::default();
        puts.remember(request, 1, 0);
        Venue {
            version: 1,
            id,
            details,
            halls: BTreeMap::new(),
            sessions: BTreeMap::new(),
            by_start: BTreeSet::new(),
            opening: BTreeSet::new(),
            put: 1,
            listed: 0,
            zoned: 1,
            zoning: BTreeSet::new(),
            puts,
        }
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether a session is owed its opening or the zone, or the directory the details.
    pub fn unfinished(&self) -> bool {
        !self.opening.is_empty() || !self.zoning.is_empty() || self.unlisted().is_some()
    }

    /// The details that the directory is owed, with their version.
    pub(crate) fn unlisted(&self) -> Option<(&VenueDetails, u64)> {
        (self.listed < self.put).then_some((&self.details, self.put))
    }

    /// The version with a put of the details that was granted before, and how many coming sessions it shifted, if it is
    /// remembered. Refused if its request id was used for something else.
    pub(crate) fn answered(&self, request: Request) -> Option<Result<(u64, u32), Refusal>> {
        self.puts.answered(request).map(|known| known.map(|known| (known.version, known.detail)))
    }

    /// As [`Venue::answered`], for a put of a hall.
    pub(crate) fn hall_answered(&self, hall: &Id, request: Request) -> Option<Result<u64, Refusal>> {
        let known = self.halls.get(hall)?.puts.answered(request)?;
        Some(known.map(|known| known.version))
    }

    /// Whether the directory knows the details of this version, or newer ones.
    pub(crate) fn is_listed(&self, version: u64) -> bool {
        // Details without a change are not sent again.
        self.listed >= version.min(self.put)
    }

    /// The sessions that are owed their opening.
    pub(crate) fn opening(&self) -> impl Iterator<Item = &Id> {
        self.opening.iter()
    }

    /// Whether a session is owed its opening.
    pub(crate) fn is_opening(&self, session: &Id) -> bool {
        self.opening.contains(session)
    }

    /// Whether a session has its hall and is not known to be canceled.
    pub(crate) fn has_hall(&self, session: &Id) -> bool {
        self.sessions.get(session).is_some_and(|booked| !booked.canceled)
    }

    /// The version of the sale of a session that the venue knows. 0 if the session has told nothing.
    pub(crate) fn knows_sale(&self, session: &Id) -> u64 {
        self.sessions.get(session).and_then(|booked| booked.sale).map_or(0, |mark| mark.version)
    }

    /// When the next offer of a session for everybody opens, as far as the session has told.
    pub fn opens_at(&self, session: &Id) -> Option<Timestamp> {
        self.sessions.get(session)?.opens_at()
    }

    /// The version at which a session acknowledged its opening.
    pub(crate) fn opened_at(&self, session: &Id) -> Option<u64> {
        self.sessions.get(session)?.opened
    }

    /// The content of a session that is to be opened.
    pub(crate) fn opening_of(&self, session: &Id) -> Option<Opening> {
        let booked = self.sessions.get(session)?;
        let layout = Arc::clone(&booked.layout);
        Some(Opening { venue: self.id.clone(), session: booked.session.clone(), layout, zone: self.zone() })
    }

    /// Its zone, for its sessions.
    pub(crate) fn zone(&self) -> VenueZone {
        VenueZone { name: self.details.zone.clone(), version: self.zoned }
    }

    /// Up to `max` open sessions after `after` that are owed the zone.
    pub(crate) fn zoning(&self, after: Option<&Id>, max: usize) -> Vec<Id> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let owed = self.zoning.range::<Id, _>((from, Bound::Unbounded)).filter(|session| !self.is_opening(session));
        owed.take(max).cloned().collect()
    }

    /// Whether a session is open and owed the zone.
    pub(crate) fn owes_zone(&self, session: &Id) -> bool {
        self.zoning.contains(session) && !self.is_opening(session)
    }

    /// How many coming sessions would show another hour in this zone.
    pub(crate) fn shifted_by(&self, zone: Option<&str>, now: Timestamp) -> u32 {
        if self.details.zone.as_deref() == zone {
            return 0;
        }
        let of = |name: Option<&str>| name.and_then(Zone::new).unwrap_or_else(Zone::utc);
        let (before, after) = (of(self.details.zone.as_deref()), of(zone));
        let smallest = Id::new("-").map_or(Bound::Unbounded, |id| Bound::Included((now, id)));
        let coming = self.by_start.range((smallest, Bound::Unbounded));
        let coming = coming.filter(|(_, session)| self.has_hall(session));
        coming.filter(|(at, _)| before.offset_ms(*at) != after.offset_ms(*at)).count() as u32
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    pub(crate) fn apply(&mut self, event: &VenueEvent) {
        self.version += 1;
        match event {
            VenueEvent::Put { details, request, at, shifted } => {
                if self.details.zone != details.zone {
                    self.zoned = self.version;
                    let coming = self.sessions.iter().filter(|(_, booked)| booked.session.ends_at > *at);
                    self.zoning = coming.map(|(session, _)| session.clone()).collect();
                }
                if self.details != *details {
                    self.details.clone_from(details);
                    self.put = self.version;
                }
                self.puts.remember(*request, self.version, *shifted);
            }
            VenueEvent::Listed { version } => self.listed = self.listed.max(*version),
            VenueEvent::HallPut { hall, name, comments, layout, request } => {
                let fresh = || {
                    let layout = layout.clone().unwrap_or_else(|| panic!("hall {hall} begins without seats"));
                    let (name, comments) = (name.clone(), comments.clone());
                    Hall { name, comments, layout, bookings: BTreeMap::new(), puts: Changes::default() }
                };
                let kept = self.halls.entry(hall.clone()).or_insert_with(fresh);
                kept.name.clone_from(name);
                kept.comments.clone_from(comments);
                if let Some(layout) = layout {
                    kept.layout = Arc::clone(layout);
                }
                kept.puts.remember(*request, self.version, ());
            }
            VenueEvent::SessionBooked { session, layout } => self.book(session, layout),
            VenueEvent::SessionOpened(session) => {
                assert!(self.opening.remove(session), "session {session} was not being opened");
                let booked = self.sessions.get_mut(session).expect("a session being opened is booked");
                booked.opened = Some(self.version);
            }
            VenueEvent::SessionRefused(session) => {
                assert!(self.opening.remove(session), "session {session} was not being opened");
                self.zoning.remove(session);
                let booked = self.sessions.remove(session).expect("a session being opened is booked").session;
                self.by_start.remove(&(booked.starts_at, booked.id));
                let hall = self.halls.get_mut(&booked.hall).expect("halls are never removed");
                hall.bookings.remove(&booked.starts_at);
            }
            VenueEvent::SaleTold { session, mark } => {
                let booked = self.sessions.get_mut(session).expect("a session with a sale is booked");
                booked.sale = Some(*mark);
            }
            VenueEvent::SessionZoned(session) => {
                assert!(self.zoning.remove(session), "session {session} was not owed the zone");
            }
            VenueEvent::SessionCanceled(session) => {
                let booked = self.sessions.get_mut(session).expect("a session that is canceled is booked");
                assert!(!booked.canceled, "session {session} is canceled twice");
                booked.canceled = true;
                let hall = self.halls.get_mut(&booked.session.hall).expect("halls are never removed");
                let vacated = hall.bookings.remove(&booked.session.starts_at);
                let own = vacated.as_ref().is_some_and(|(_, own)| own == session);
                assert!(own, "session {session} leaves a hall that it does not have");
            }
        }
    }

    fn book(&mut self, session: &NewSession, layout: &Arc<Layout>) {
        let hall = self.halls.get_mut(&session.hall).expect("a session is booked in a hall of its venue");
        assert_eq!(hall.conflict(session.starts_at, session.ends_at), None, "hall {} is booked twice", session.hall);
        hall.bookings.insert(session.starts_at, (session.ends_at, session.id.clone()));
        self.by_start.insert((session.starts_at, session.id.clone()));
        self.opening.insert(session.id.clone());
        let booked =
            Booked { session: session.clone(), layout: Arc::clone(layout), opened: None, canceled: false, sale: None };
        let before = self.sessions.insert(session.id.clone(), booked);
        assert!(before.is_none(), "session {} is booked twice", session.id);
    }

    /// Details, and halls by name and size.
    pub fn view(&self) -> VenueView {
        let hall = |(id, hall): (&Id, &Hall)| (id.clone(), hall.name.clone(), hall.layout.seats());
        VenueView { id: self.id.clone(), details: self.details.clone(), halls: self.halls.iter().map(hall).collect() }
    }

    /// A hall's name and layout.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if the venue has no such hall.
    pub fn hall(&self, hall: &Id) -> Result<HallView, Refusal> {
        let kept = self.halls.get(hall).ok_or_else(|| Refusal::NotFound(format_smolstr!("hall {hall}")))?;
        let layout = Arc::clone(&kept.layout);
        let (name, comments) = (kept.name.clone(), kept.comments.clone());
        Ok(HallView { venue: self.id.clone(), id: hall.clone(), name, comments, layout })
    }

    /// The view of a session that was just opened.
    pub(crate) fn fresh_session(&self, session: &Id) -> Option<Arc<SessionView>> {
        let opening = self.opening_of(session)?;
        let counts = SeatCounts { free: opening.layout.seats(), ..SeatCounts::default() };
        let area_counts = opening.session.areas.iter().map(free_places).collect();
        Some(opened_view(opening, None, None, counts, area_counts))
    }

    fn entry(&self, session: &Id) -> SessionEntry {
        let known = self.sessions.get(session).expect("indexed sessions are booked");
        let Booked { session: booked, canceled, .. } = known;
        SessionEntry {
            id: booked.id.clone(),
            hall: booked.hall.clone(),
            title: booked.title.clone(),
            starts_at: booked.starts_at,
            ends_at: booked.ends_at,
            open: !self.opening.contains(session) && !canceled,
            zone: self.details.zone.clone(),
            opens_at: known.opens_at().filter(|_| !canceled),
        }
    }

    /// Its layouts, in a fixed order.
    pub(crate) fn layouts(&self) -> impl Iterator<Item = &Arc<Layout>> {
        self.halls.values().map(|hall| &hall.layout).chain(self.sessions.values().map(|booked| &booked.layout))
    }

    /// Sets the layouts, in the order of [`Venue::layouts`].
    pub(crate) fn set_layouts(&mut self, mut next: impl FnMut() -> Arc<Layout>) {
        self.halls.values_mut().for_each(|hall| hall.layout = next());
        self.sessions.values_mut().for_each(|booked| booked.layout = next());
    }

    /// Violations in words. Empty when every promise holds.
    pub(crate) fn violations(&self) -> Vec<SmolStr> {
        let mut wrong = Vec::new();
        for (id, hall) in &self.halls {
            let bookings: Vec<_> = hall.bookings.iter().collect();
            for pair in bookings.windows(2) {
                if pair[0].1.0 > *pair[1].0 {
                    wrong.push(format_smolstr!("hall {id} is booked twice: {} and {}", pair[0].1.1, pair[1].1.1));
                }
            }
        }
        let booked: usize = self.halls.values().map(|hall| hall.bookings.len()).sum();
        let canceled = self.sessions.values().filter(|booked| booked.canceled).count();
        if booked + canceled != self.sessions.len() || self.by_start.len() != self.sessions.len() {
            wrong.push(format_smolstr!(
                "{} sessions, {canceled} of them canceled, {booked} bookings, {} indexed",
                self.sessions.len(),
                self.by_start.len()
            ));
        }
        wrong
    }
}

/// The counts of an area without holds.
fn free_places(area: &Area) -> AreaCounts {
    AreaCounts { area: area.id.clone(), free: area.capacity, held: 0, sold: 0 }
}

impl Hall {
    /// The session that has the hall at some time in `[starts_at, ends_at)`.
    fn conflict(&self, starts_at: Timestamp, ends_at: Timestamp) -> Option<&Id> {
        // Bookings do not overlap, so the last one to start before `ends_at` is also the last one to end.
        let (_, (end, session)) = self.bookings.range(..ends_at).next_back()?;
        (*end > starts_at).then_some(session)
    }
}
