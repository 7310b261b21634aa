//! Venues, titles, sessions, maps and carts in answers.

use std::sync::Arc;

use boxoffice_core::{
    answer::{
        AreaCounts, At, CartState, CartView, Ended, HallView, Held, LineView, MapView, SeatCounts, SessionEntry,
        SessionView, TakenLine, Taker, TitleView, VenueChange, VenueEntry, VenueView, VenuesPage,
    },
    command::{Area, Limits, NewSession, SessionExtras, Title, VenueDetails},
    id::{CartId, Entity, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    names::Names,
    payment::PaymentFailure,
    time::Timestamp,
};
use smol_str::SmolStr;

use crate::{
    limits::CART_LINES_MAX,
    repr::{Base64, Price, layout_cache, repr_of, same_fields, shape::shapes, words},
};

words! {
    CartState as CartState {
        Active: "active", CheckingOut: "checking_out", Done: "done", Canceled: "canceled", Expired: "expired",
    }
    Taker as Taker { Operator: "operator", Session: "session" }
}

shapes! {
    /// A version that the answer rests on, and its position in the log (0 if not known).
    remote At {
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
    remote VenueChange {
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

    remote HallView as Hall {
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
    }

    remote SessionEntry {
        id: Id,
        hall: Id,
        title: Id,
        starts_at: Timestamp,
        ends_at: Timestamp,
        open: bool,
        /// The IANA name of the venue's time zone.
        zone?: Option<SmolStr>,
    }

    remote MapView as Map {
        session: Id,
        epoch!: u64,
        version: u64,
        counts: SeatCounts,
        areas?: Vec<AreaCounts>,
        /// Two bits a seat in layout order: 0 free, 1 held, 2 sold, 3 blocked.
        seats: Vec<u8> as "crate::repr::bytes" = Base64(None),
    }

    remote CartView as Cart {
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
    remote TakenLine {
        line: LineView,
        by: Taker,
        reason??: SmolStr,
    }

    /// Why a cart ended without an order, and who decided it.
    #[derive(Default)]
    struct EndedFields as CartEnd {
        why: SmolStr = [
            "expired", "too_old", "canceled", "declined", "amount_mismatch", "withdrawn", "checkout_canceled",
        ],
        by?: Option<SmolStr> = ["buyer", "gateway", "operator"],
        /// The reason of the gateway, if it declined.
        reason?: Option<SmolStr>,
        /// The requested amount, if the gateway authorized another one.
        asked?: Option<i64>,
        asked_currency?: Option<Currency>,
        /// The authorized amount, if it was another one.
        got?: Option<i64>,
        got_currency?: Option<Currency>,
    }

    remote Held {
        cart: CartId,
        lines: Vec<LineView> = 0..=CART_LINES_MAX,
        currency: Currency,
        deadline: Timestamp,
        lines_version!: u64,
    }
}

repr_of! {
    VenueView: VenueFields,
    VenueEntry: VenueEntryFields,
    SessionView: SessionFields,
    Ended: EndedFields,
}

same_fields! {
    (Id, SmolStr, u32): [(id, name, seats)] = HallEntry { id, name, seats },
    VenuesPage: [VenuesPage { venues, next: cursor }] = VenuesFields { venues, cursor },
    TitleView: [TitleView { id, title: Title { name, director, cast, comments, duration_ms } }]
        = TitleFields { id, name, director, cast, comments, duration_ms },
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
        let SessionView { venue, session, canceled, counts, area_counts, layout, zone } = view;
        let NewSession { id, hall, title, starts_at, ends_at, prices, extras } = session;
        let SessionExtras { areas, hold_ttl_ms, limits, comments, sells_after_begin } = extras;
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
        let extras = SessionExtras {
            areas: fields.areas.into_iter().map(area).collect(),
            hold_ttl_ms: fields.hold_ttl_ms,
            limits: fields.limits,
            comments: fields.comments,
            sells_after_begin: fields.sells_after_begin,
        };
        let SessionFields {
            id, venue, hall, title, starts_at, ends_at, prices, canceled, counts, layout, zone, ..
        } = fields;
        let session = NewSession { id, hall, title, starts_at, ends_at, prices, extras };
        SessionView { venue, session, canceled, counts, area_counts, layout, zone }
    }
}

impl From<Ended> for EndedFields {
    fn from(ended: Ended) -> EndedFields {
        let fields = |why: &'static str, by: Option<&'static str>| EndedFields {
            why: SmolStr::new_static(why),
            by: by.map(SmolStr::new_static),
            ..EndedFields::default()
        };
        match ended {
            Ended::Expired => fields("expired", None),
            Ended::TooOld => fields("too_old", None),
            Ended::Canceled => fields("canceled", Some("buyer")),
            Ended::Unpaid(PaymentFailure::Declined { by_operator, reason }) => {
                let by = if by_operator { "operator" } else { "gateway" };
                EndedFields { reason: Some(reason), ..fields("declined", Some(by)) }
            }
            Ended::Unpaid(PaymentFailure::AmountMismatch { asked, got }) => EndedFields {
                asked: Some(asked.amount),
                asked_currency: Some(asked.currency),
                got: Some(got.amount),
                got_currency: Some(got.currency),
                ..fields("amount_mismatch", Some("gateway"))
            },
            Ended::Unpaid(PaymentFailure::Withdrawn { reason }) => {
                EndedFields { reason: Some(reason), ..fields("withdrawn", Some("operator")) }
            }
            Ended::Unpaid(PaymentFailure::Canceled { by_operator }) => {
                fields("checkout_canceled", Some(if by_operator { "operator" } else { "buyer" }))
            }
        }
    }
}

impl TryFrom<EndedFields> for Ended {
    type Error = &'static str;

    fn try_from(fields: EndedFields) -> Result<Ended, &'static str> {
        let EndedFields { why, by, reason, asked, asked_currency, got, got_currency } = fields;
        let money = |amount: Option<i64>, currency: Option<Currency>| {
            amount.zip(currency).map(|(amount, currency)| Money { amount, currency })
        };
        let by_operator = by.as_deref() == Some("operator");
        match (why.as_str(), money(asked, asked_currency), money(got, got_currency)) {
            ("expired", ..) => Ok(Ended::Expired),
            ("too_old", ..) => Ok(Ended::TooOld),
            ("canceled", ..) => Ok(Ended::Canceled),
            ("declined", ..) => {
                let reason = reason.unwrap_or_default();
                Ok(Ended::Unpaid(PaymentFailure::Declined { by_operator, reason }))
            }
            ("amount_mismatch", Some(asked), Some(got)) => {
                Ok(Ended::Unpaid(PaymentFailure::AmountMismatch { asked, got }))
            }
            ("withdrawn", ..) => Ok(Ended::Unpaid(PaymentFailure::Withdrawn { reason: reason.unwrap_or_default() })),
            ("checkout_canceled", ..) => Ok(Ended::Unpaid(PaymentFailure::Canceled { by_operator })),
            _ => {
                Err("a cart ends expired, too_old, canceled, declined, amount_mismatch, withdrawn or checkout_canceled")
            }
        }
    }
}
