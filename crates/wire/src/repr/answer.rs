//! Venues, titles, sessions, maps and carts in answers.

use std::{ops::Deref, sync::Arc};

use boxoffice_core::{
    answer::{AreaCounts, SaleMark, SeatCounts, SessionChanged, SessionSale, TermsChange},
    command::{
        Allotment, Area, Counter, Limits, NewSession, Offer, Offering, PriceType, SessionExtras, Title, VenueDetails,
    },
    id::{CartId, Entity, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    names::Names,
    time::Timestamp,
};
use smol_str::SmolStr;

use crate::{
    limits::CART_LINES_MAX,
    repr::{
        Base64, Price, decided, layout_cache, line::LineView, repr_of, same_fields, shape::shapes, view_words, views,
        written_as,
    },
};

view_words! {
    /// The state of a cart.
    CartState {
        Active: "active", CheckingOut: "checking_out", Done: "done", Canceled: "canceled", Expired: "expired",
    }
    /// Who took a line away from a cart.
    Taker { Operator: "operator", Session: "session" }
}

shapes! {
    /// A version that the answer rests on, and its position in the log (0 if not known).
    view At {
        entity: Entity,
        version: u64,
        position: u64,
    }

    /// Degrees. The core keeps whole millionths, so that both encodings mean the same.
    #[derive(Copy)]
    pub struct Position {
        /// Longitude.
        pub lon: f64 = -180..=180,
        /// Latitude.
        pub lat: f64 = -90..=90,
    }

    struct VenueFields as Venue {
        id: Id,
        name: SmolStr,
        city: SmolStr,
        position?: Option<Position>,
        comments!: SmolStr,
        halls: Vec<(Id, SmolStr, u32)>,
        /// The IANA name of its time zone. Without one, times are told in UTC.
        zone?: Option<SmolStr>,
        address?: SmolStr,
    }

    /// What a put of a venue changed besides its details.
    view VenueChange {
        /// How many coming sessions show another hour, because the zone is another one.
        shifted?: u32,
    }

    struct HallEntry {
        id: Id,
        name: SmolStr,
        seats: u32,
    }

    struct VenueEntryFields as VenueEntry {
        id: Id,
        name: SmolStr,
        city!: SmolStr,
        position?: Option<Position>,
        /// The distance from `near`, in metres.
        distance_m?: Option<u64>,
        /// The IANA name of its time zone.
        zone?: Option<SmolStr>,
    }

    struct VenuesFields as VenuePage {
        venues: Vec<VenueEntry>,
        cursor?: Option<SmolStr>,
    }

    /// A hall with its layout.
    view HallView as Hall {
        venue: Id,
        id: Id,
        name: SmolStr,
        comments!: SmolStr,
        layout: Arc<Layout> as "layout_cache",
    }

    struct TitleFields as Title {
        id: Id,
        name: SmolStr,
        director!: SmolStr,
        cast!: Vec<SmolStr>,
        comments!: SmolStr,
        duration_ms?: Option<u64>,
    }

    /// Seats by state.
    remote SeatCounts as Counts {
        free: u32,
        held: u32,
        sold: u32,
        blocked: u32,
    }

    /// An area of places without seats, with its places by state.
    struct AreaFields as Area {
        id: Id,
        name!: SmolStr,
        capacity: u32,
        price: Money = Price,
        free?: Option<u32>,
        held?: Option<u32>,
        sold?: Option<u32>,
        /// Its names for people.
        names?: Names,
    }

    /// Places of an area by state.
    remote AreaCounts {
        area: Id,
        free: u32,
        held: u32,
        sold: u32,
    }

    struct SessionFields as Session {
        id: Id,
        venue: Id,
        hall: Id,
        title: Id,
        starts_at: Timestamp,
        ends_at: Timestamp,
        prices!: Vec<(Id, Money)>,
        areas?: Vec<AreaFields>,
        hold_ttl_ms?: Option<u64>,
        limits?: Limits,
        comments!: SmolStr,
        /// The reason, if it was canceled.
        canceled?: Option<SmolStr>,
        counts: SeatCounts,
        layout: Arc<Layout> as "layout_cache",
        /// The IANA name of the venue's time zone.
        zone?: Option<SmolStr>,
        /// Whether all may still hold after it has begun. Otherwise only the desk may.
        sells_after_begin?: bool,
        /// The price types. The first is that of a buyer who names none, and its prices are `prices` and those of the areas.
        price_types?: Vec<PriceType>,
        /// The offers. Without any, everything is on sale for everybody. Those of the desk are told to the desk.
        offers?: Vec<Offer>,
        counters?: Vec<Counter>,
        /// Seats that are kept for somebody. Only the desk is told of them.
        allotments?: Vec<Allotment>,
        /// Whether a hold of named seats may not leave a single free seat. The desk may.
        no_single_seats?: bool,
        /// The fewest seats of one hold where so many are free side by side. The desk may hold fewer.
        min_party?: Option<u16>,
        /// How its offers stand and how its terms have changed. Absent without offers and changes.
        sale?: Option<SessionSale>,
    }

    /// How the offers of a session stand, and how its terms have changed.
    struct SaleFields as SessionSale {
        /// The version of the terms, which is how often they have changed.
        terms: u32,
        /// When the next offer for everybody opens, whatever is open now.
        opens_at?: Option<Timestamp>,
        /// Offers whose begin has come. An offer without a begin is not among them.
        opened?: Vec<Id>,
        /// How many are held and sold, by counter in their order.
        counted?: Vec<u64>,
        /// The newest changes, oldest first, at most 32.
        changes?: Vec<TermsChange>,
        /// Whether only the desk sells it, whose offers nobody else is told.
        desk_only?: bool,
        /// Allotments whose seats are on sale like all others.
        released?: Vec<Id>,
        /// How many seats are free and kept, by allotment in their order.
        kept?: Vec<u32>,
    }

    /// What those who watch a session are told of its offers and terms.
    struct MarkFields as SaleMark {
        /// The version of the session with which an offer opened last, or the terms changed.
        version: u64,
        /// When the next offer for everybody opens, whatever is open now.
        opens_at?: Option<Timestamp>,
    }

    /// A change of a session's terms.
    struct ChangeFields as TermsChange {
        /// The version of the terms with it.
        terms: u32,
        at: Timestamp,
        /// What is different since, in words.
        what!: Vec<SmolStr>,
        /// The version of the session with it.
        version: u64,
    }

    /// What a change of a session's terms has changed, or would change.
    struct ChangedFields as SessionChanged {
        /// The version of the terms with it.
        terms: u32,
        /// What is different, in words.
        what!: Vec<SmolStr>,
    }

    /// A session in a list.
    view SessionEntry {
        id: Id,
        hall: Id,
        title: Id,
        starts_at: Timestamp,
        ends_at: Timestamp,
        open: bool,
        /// The IANA name of the venue's time zone.
        zone?: Option<SmolStr>,
        /// When the next offer for everybody opens, whatever is open now.
        opens_at?: Option<Timestamp>,
    }

    /// The states of all seats of a session.
    view MapView as Map {
        session: Id,
        epoch!: u64,
        version: u64,
        counts: SeatCounts,
        areas?: Vec<AreaCounts>,
        /// Two bits a seat in layout order: 0 free, 1 held, 2 sold, 3 blocked.
        seats: Vec<u8> as "crate::repr::bytes" = Base64(None),
        /// The mark of its offers and terms. Absent without offers if the terms have never changed.
        sale?: Option<SaleMark>,
    }

    /// A cart as its owner sees it.
    view CartView as Cart {
        id: CartId,
        state: CartState,
        customer?: Option<Id>,
        opened_at: Timestamp,
        /// When its lines, customer, deadline or state changed last.
        modified_at: Timestamp,
        deadline: Timestamp,
        lines: Vec<LineView> = 0..=CART_LINES_MAX,
        /// Changes with lines, quantities and prices.
        lines_version!: u64,
        /// Lines that an operator or the node took away.
        taken?: Vec<TakenLine> = 0..=CART_LINES_MAX,
        total?: Option<Money>,
        order?: Option<OrderId>,
        ended?: Option<Ended>,
    }

    /// A line that was taken away from the cart's owner.
    view TakenLine {
        line: LineView,
        by: Taker,
        reason??: SmolStr,
    }

    /// Why a cart ended without an order, and who decided it.
    #[derive(Default, Eq)]
    pub struct Ended as CartEnd {
        pub why: SmolStr = [
            "expired", "too_old", "canceled", "declined", "amount_mismatch", "withdrawn", "checkout_canceled",
        ],
        pub by?: Option<SmolStr> = ["buyer", "gateway", "operator"],
        /// The reason of the gateway, if it declined.
        pub reason?: Option<SmolStr>,
        /// The requested amount, if the gateway authorized another one.
        pub asked?: Option<i64>,
        pub asked_currency?: Option<Currency>,
        /// The authorized amount, if it was another one.
        pub got?: Option<i64>,
        pub got_currency?: Option<Currency>,
    }

    /// The lines that a hold was granted, and until when.
    view Held {
        cart: CartId,
        lines: Vec<LineView> = 0..=CART_LINES_MAX,
        currency: Currency,
        deadline: Timestamp,
        lines_version!: u64,
    }
}

views! {
    /// A venue.
    VenueView by VenueFields {
        id: Id,
        details: VenueDetails,
        /// Each with id, name and number of seats.
        halls: Vec<(Id, SmolStr, u32)>,
    }
    /// A venue in a list.
    VenueEntry by VenueEntryFields {
        id: Id,
        name: SmolStr,
        city: SmolStr,
        /// Longitude and latitude in millionths of a degree.
        position: Option<(i32, i32)>,
        /// The distance from the point of the search, in metres.
        distance_m: Option<u64>,
        /// The IANA name of its time zone.
        zone: Option<SmolStr>,
    }
    /// A title.
    TitleView by TitleFields {
        id: Id,
        title: Title,
    }
    /// A session.
    SessionView by SessionFields {
        venue: Id,
        /// The session with its terms of now.
        session: NewSession,
        /// The reason of the cancellation, if it is canceled.
        canceled: Option<SmolStr>,
        counts: SeatCounts,
        area_counts: Vec<AreaCounts>,
        /// The hall's layout when the session was created.
        layout: Arc<Layout>,
        /// The IANA name of the venue's time zone.
        zone: Option<SmolStr>,
        /// How its offers stand and how its terms have changed.
        sale: Option<Box<SessionSale>>,
    }
}

/// A session is read with its terms of now.
impl Deref for SessionView {
    type Target = NewSession;

    fn deref(&self) -> &NewSession {
        &self.session
    }
}

/// A page of venues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VenuesPage {
    pub venues: Vec<VenueEntry>,
    /// The cursor of the next page, absent on the last page.
    pub next: Option<SmolStr>,
}

written_as! {
    decided::VenuesPage: VenuesFields = VenuesPage,
    decided::Ended: Ended,
}

repr_of! {
    VenueView: VenueFields,
    VenueEntry: VenueEntryFields,
    SessionView: SessionFields,
}

same_fields! {
    (Id, SmolStr, u32): [(id, name, seats)] = HallEntry { id, name, seats },
    SessionSale: [SessionSale { terms, opens_at, opened, counted, changes, desk_only, released, kept }]
        = SaleFields { terms, opens_at, opened, counted, changes, desk_only, released, kept },
    SaleMark: [SaleMark { version, opens_at }] = MarkFields { version, opens_at },
    TermsChange: [TermsChange { terms, at, what, version }] = ChangeFields { terms, at, what, version },
    SessionChanged: [SessionChanged { terms, what }] = ChangedFields { terms, what },
    VenuesPage: [VenuesPage { venues, next: cursor }] = VenuesFields { venues, cursor },
    TitleView: [TitleView { id, title: Title { name, director, cast, comments, duration_ms } }]
        = TitleFields { id, name, director, cast, comments, duration_ms },
}

impl From<decided::VenuesPage> for VenuesPage {
    fn from(decided::VenuesPage { venues, next }: decided::VenuesPage) -> VenuesPage {
        VenuesPage { venues: venues.into_iter().map(VenueEntry::from).collect(), next }
    }
}

impl Position {
    /// The position with these millionths of a degree.
    pub fn from_millionths((lon, lat): (i32, i32)) -> Position {
        Position { lon: f64::from(lon) / 1e6, lat: f64::from(lat) / 1e6 }
    }

    /// Millionths of a degree, or `None` if it is not on the globe.
    pub fn millionths(self) -> Option<(i32, i32)> {
        let on_globe = (-180.0..=180.0).contains(&self.lon) && (-90.0..=90.0).contains(&self.lat);
        // The rounded value of such a position fits.
        on_globe.then(|| ((self.lon * 1e6).round() as i32, (self.lat * 1e6).round() as i32))
    }
}

/// Millionths of a degree of a position that was read.
fn millionths(position: Option<Position>) -> Result<Option<(i32, i32)>, &'static str> {
    position.map(|position| position.millionths().ok_or("a position is not on the globe")).transpose()
}

impl From<VenueView> for VenueFields {
    fn from(VenueView { id, details, halls }: VenueView) -> VenueFields {
        let VenueDetails { name, city, position, comments, zone, address } = details;
        let position = position.map(Position::from_millionths);
        VenueFields { id, name, city, position, comments, halls, zone, address }
    }
}

impl TryFrom<VenueFields> for VenueView {
    type Error = &'static str;

    fn try_from(fields: VenueFields) -> Result<VenueView, &'static str> {
        let VenueFields { id, name, city, position, comments, halls, zone, address } = fields;
        let details = VenueDetails { name, city, position: millionths(position)?, comments, zone, address };
        Ok(VenueView { id, details, halls })
    }
}

impl From<VenueEntry> for VenueEntryFields {
    fn from(VenueEntry { id, name, city, position, distance_m, zone }: VenueEntry) -> VenueEntryFields {
        VenueEntryFields { id, name, city, position: position.map(Position::from_millionths), distance_m, zone }
    }
}

impl TryFrom<VenueEntryFields> for VenueEntry {
    type Error = &'static str;

    fn try_from(fields: VenueEntryFields) -> Result<VenueEntry, &'static str> {
        let VenueEntryFields { id, name, city, position, distance_m, zone } = fields;
        Ok(VenueEntry { id, name, city, position: millionths(position)?, distance_m, zone })
    }
}

/// Areas and their counts are one list on the wire.
impl From<SessionView> for SessionFields {
    fn from(view: SessionView) -> SessionFields {
        let SessionView { venue, session, canceled, counts, area_counts, layout, zone, sale } = view;
        let NewSession { id, hall, title, starts_at, ends_at, prices, extras } = session;
        let SessionExtras { areas, hold_ttl_ms, limits, comments, .. } = extras;
        let SessionExtras { sells_after_begin, offering, no_single_seats, min_party, .. } = extras;
        let Offering { price_types, offers, counters, allotments } =
            offering.map(Arc::unwrap_or_clone).unwrap_or_default();
        let area = |Area { id, name, capacity, price, names }: Area| {
            let counts = area_counts.iter().find(|counts| counts.area == id);
            AreaFields {
                free: counts.map(|counts| counts.free),
                held: counts.map(|counts| counts.held),
                sold: counts.map(|counts| counts.sold),
                id,
                name,
                capacity,
                price,
                names,
            }
        };
        let areas = areas.into_iter().map(area).collect();
        SessionFields {
            id,
            venue,
            hall,
            title,
            starts_at,
            ends_at,
            prices,
            areas,
            hold_ttl_ms,
            limits,
            comments,
            canceled,
            counts,
            layout,
            zone,
            sells_after_begin,
            price_types,
            offers,
            counters,
            allotments,
            no_single_seats,
            min_party,
            sale: sale.map(|sale| *sale),
        }
    }
}

impl From<SessionFields> for SessionView {
    fn from(fields: SessionFields) -> SessionView {
        let counts = |area: &AreaFields| {
            let (free, held, sold) = (area.free?, area.held?, area.sold?);
            Some(AreaCounts { area: area.id.clone(), free, held, sold })
        };
        let area_counts = fields.areas.iter().filter_map(counts).collect();
        let area =
            |AreaFields { id, name, capacity, price, names, .. }: AreaFields| Area { id, name, capacity, price, names };
        let (price_types, offers) = (fields.price_types, fields.offers);
        let offering = Offering { price_types, offers, counters: fields.counters, allotments: fields.allotments };
        let extras = SessionExtras {
            areas: fields.areas.into_iter().map(area).collect(),
            hold_ttl_ms: fields.hold_ttl_ms,
            limits: fields.limits,
            comments: fields.comments,
            sells_after_begin: fields.sells_after_begin,
            offering: Some(offering).filter(|offering| !offering.is_empty()).map(Arc::new),
            no_single_seats: fields.no_single_seats,
            min_party: fields.min_party,
        };
        let SessionFields {
            id,
            venue,
            hall,
            title,
            starts_at,
            ends_at,
            prices,
            canceled,
            counts,
            layout,
            zone,
            sale,
            ..
        } = fields;
        let session = NewSession { id, hall, title, starts_at, ends_at, prices, extras };
        SessionView { venue, session, canceled, counts, area_counts, layout, zone, sale: sale.map(Box::new) }
    }
}

/// For feeds, which send one cart to all that watch it.
impl From<&decided::CartView> for CartView {
    fn from(view: &decided::CartView) -> CartView {
        let taken = |taken: &decided::TakenLine| TakenLine {
            line: LineView::from(&taken.line),
            by: taken.by.into(),
            reason: taken.reason.clone(),
        };
        CartView {
            id: view.id,
            state: view.state.into(),
            customer: view.customer.clone(),
            opened_at: view.opened_at,
            modified_at: view.modified_at,
            deadline: view.deadline,
            lines: view.lines.iter().map(LineView::from).collect(),
            lines_version: view.lines_version,
            taken: view.taken.iter().map(taken).collect(),
            total: view.total,
            order: view.order,
            ended: view.ended.clone().map(Ended::from),
        }
    }
}

impl From<decided::Ended> for Ended {
    fn from(ended: decided::Ended) -> Ended {
        let fields = |why: &'static str, by: Option<&'static str>| Ended {
            why: SmolStr::new_static(why),
            by: by.map(SmolStr::new_static),
            ..Ended::default()
        };
        match ended {
            decided::Ended::Expired => fields("expired", None),
            decided::Ended::TooOld => fields("too_old", None),
            decided::Ended::Canceled => fields("canceled", Some("buyer")),
            decided::Ended::Unpaid(decided::PaymentFailure::Declined { by_operator, reason }) => {
                let by = if by_operator { "operator" } else { "gateway" };
                Ended { reason: Some(reason), ..fields("declined", Some(by)) }
            }
            decided::Ended::Unpaid(decided::PaymentFailure::AmountMismatch { asked, got }) => Ended {
                asked: Some(asked.amount),
                asked_currency: Some(asked.currency),
                got: Some(got.amount),
                got_currency: Some(got.currency),
                ..fields("amount_mismatch", Some("gateway"))
            },
            decided::Ended::Unpaid(decided::PaymentFailure::Withdrawn { reason }) => {
                Ended { reason: Some(reason), ..fields("withdrawn", Some("operator")) }
            }
            decided::Ended::Unpaid(decided::PaymentFailure::Canceled { by_operator }) => {
                fields("checkout_canceled", Some(if by_operator { "operator" } else { "buyer" }))
            }
        }
    }
}
