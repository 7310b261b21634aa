//! The forms of answers: venues, titles, sessions, maps, carts.

use std::sync::Arc;

use boxoffice_core::{
    answer::{
        AreaCounts, At, CartState, CartView, Ended, HallView, Held, LineView, MapView, SeatCounts, SessionEntry,
        SessionView, TakenLine, Taker, TitleView, VenueEntry, VenueView, VenuesPage,
    },
    command::{Area, CustomerLimit, Limits, Title, VenueDetails},
    id::{CartId, Entity, Id, OrderId},
    layout::Layout,
    money::{Currency, Money},
    payment::PaymentFailure,
    time::Timestamp,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    ser::{SerializeSeq, SerializeStruct},
};
use smol_str::SmolStr;

use crate::{
    form::{self, Form, On, remote_form},
    kept,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "At")]
struct AtForm {
    #[serde(with = "form")]
    entity: Entity,
    version: u64,
    position: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SeatCounts")]
struct SeatCountsForm {
    free: u32,
    held: u32,
    sold: u32,
    blocked: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HallView")]
struct HallForm {
    #[serde(with = "form")]
    venue: Id,
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    #[serde(default)]
    comments: SmolStr,
    #[serde(serialize_with = "kept::serialize", deserialize_with = "form::deserialize")]
    layout: Arc<Layout>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits")]
struct LimitsForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_order: Option<u32>,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    per_customer: Option<CustomerLimit>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CustomerLimit")]
struct CustomerLimitForm {
    #[serde(with = "form")]
    quota: Id,
    max: u32,
}

/// Whether nothing is limited: then nothing is written.
pub(crate) fn is_unlimited(limits: &Limits) -> bool {
    limits.per_order.is_none() && limits.per_customer.is_none()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AreaCounts")]
struct AreaCountsForm {
    #[serde(with = "form")]
    area: Id,
    free: u32,
    held: u32,
    sold: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SessionEntry")]
struct SessionEntryForm {
    #[serde(with = "form")]
    id: Id,
    #[serde(with = "form")]
    hall: Id,
    #[serde(with = "form")]
    title: Id,
    #[serde(with = "form")]
    starts_at: Timestamp,
    #[serde(with = "form")]
    ends_at: Timestamp,
    open: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MapView")]
struct MapForm {
    #[serde(with = "form")]
    session: Id,
    #[serde(default)]
    epoch: u64,
    version: u64,
    #[serde(with = "form")]
    counts: SeatCounts,
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    areas: Vec<AreaCounts>,
    #[serde(with = "form::bytes")]
    seats: Vec<u8>,
}

/// A title as it is answered: what `title.put` says.
#[derive(Deserialize)]
struct TitleFields {
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    #[serde(default)]
    director: SmolStr,
    #[serde(default)]
    cast: Vec<SmolStr>,
    #[serde(default)]
    comments: SmolStr,
    #[serde(default)]
    duration_ms: Option<u64>,
}

impl Form for TitleView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Title { name, director, cast, comments, duration_ms } = &self.title;
        let mut map = serializer.serialize_struct("Title", 5 + usize::from(duration_ms.is_some()))?;
        map.serialize_field("id", &On(&self.id))?;
        map.serialize_field("name", name)?;
        map.serialize_field("director", director)?;
        map.serialize_field("cast", cast)?;
        map.serialize_field("comments", comments)?;
        if let Some(duration_ms) = duration_ms {
            map.serialize_field("duration_ms", duration_ms)?;
        }
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TitleView, D::Error> {
        let TitleFields { id, name, director, cast, comments, duration_ms } = TitleFields::deserialize(deserializer)?;
        Ok(TitleView { id, title: Title { name, director, cast, comments, duration_ms } })
    }
}

/// An area as it is answered: what it is, and its places by state.
#[derive(Serialize, Deserialize)]
pub(crate) struct AreaFields {
    #[serde(with = "form")]
    id: Id,
    #[serde(default)]
    name: SmolStr,
    capacity: u32,
    #[serde(with = "form")]
    price: Money,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    free: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sold: Option<u32>,
}

#[derive(Deserialize)]
struct SessionFields {
    #[serde(with = "form")]
    id: Id,
    #[serde(with = "form")]
    venue: Id,
    #[serde(with = "form")]
    hall: Id,
    #[serde(with = "form")]
    title: Id,
    #[serde(with = "form")]
    starts_at: Timestamp,
    #[serde(with = "form")]
    ends_at: Timestamp,
    #[serde(with = "form::prices", default)]
    prices: Vec<(Id, Money)>,
    #[serde(default)]
    areas: Vec<AreaFields>,
    #[serde(default)]
    hold_ttl_ms: Option<u64>,
    #[serde(with = "form", default)]
    limits: Limits,
    #[serde(default)]
    comments: SmolStr,
    #[serde(default)]
    canceled: Option<SmolStr>,
    #[serde(with = "form")]
    counts: SeatCounts,
    #[serde(with = "form")]
    layout: Arc<Layout>,
}

struct Prices<'a>(&'a [(Id, Money)]);

impl Serialize for Prices<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        form::prices::serialize(self.0, serializer)
    }
}

struct Kept<'a>(&'a Arc<Layout>);

impl Serialize for Kept<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        kept::serialize(self.0, serializer)
    }
}

/// Areas and their counts are one list on the wire.
impl Form for SessionView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let area = |area: &Area| {
            let counts = self.area_counts.iter().find(|counts| counts.area == area.id);
            AreaFields {
                id: area.id.clone(),
                name: area.name.clone(),
                capacity: area.capacity,
                price: area.price,
                free: counts.map(|counts| counts.free),
                held: counts.map(|counts| counts.held),
                sold: counts.map(|counts| counts.sold),
            }
        };
        let limited = !is_unlimited(&self.limits);
        let optional =
            [!self.areas.is_empty(), self.hold_ttl_ms.is_some(), limited, self.canceled.is_some()].map(usize::from);
        let mut map = serializer.serialize_struct("Session", 10 + optional.iter().sum::<usize>())?;
        map.serialize_field("id", &On(&self.id))?;
        map.serialize_field("venue", &On(&self.venue))?;
        map.serialize_field("hall", &On(&self.hall))?;
        map.serialize_field("title", &On(&self.title))?;
        map.serialize_field("starts_at", &On(&self.starts_at))?;
        map.serialize_field("ends_at", &On(&self.ends_at))?;
        map.serialize_field("prices", &Prices(&self.prices))?;
        if !self.areas.is_empty() {
            map.serialize_field("areas", &Each(|| self.areas.iter().map(area)))?;
        }
        if let Some(hold_ttl_ms) = self.hold_ttl_ms {
            map.serialize_field("hold_ttl_ms", &hold_ttl_ms)?;
        }
        if limited {
            map.serialize_field("limits", &On(&self.limits))?;
        }
        map.serialize_field("comments", &self.comments)?;
        if let Some(reason) = &self.canceled {
            map.serialize_field("canceled", reason)?;
        }
        map.serialize_field("counts", &On(&self.counts))?;
        map.serialize_field("layout", &Kept(&self.layout))?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SessionView, D::Error> {
        let fields = SessionFields::deserialize(deserializer)?;
        let counts = |area: &AreaFields| {
            let (free, held, sold) = (area.free?, area.held?, area.sold?);
            Some(AreaCounts { area: area.id.clone(), free, held, sold })
        };
        let area_counts = fields.areas.iter().filter_map(counts).collect();
        let area = |AreaFields { id, name, capacity, price, .. }: AreaFields| Area { id, name, capacity, price };
        Ok(SessionView {
            id: fields.id,
            venue: fields.venue,
            hall: fields.hall,
            title: fields.title,
            starts_at: fields.starts_at,
            ends_at: fields.ends_at,
            prices: fields.prices,
            areas: fields.areas.into_iter().map(area).collect(),
            hold_ttl_ms: fields.hold_ttl_ms,
            limits: fields.limits,
            comments: fields.comments,
            canceled: fields.canceled,
            counts: fields.counts,
            area_counts,
            layout: fields.layout,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CartState", rename_all = "snake_case")]
enum CartStateForm {
    Active,
    CheckingOut,
    Done,
    Canceled,
    Expired,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CartView")]
struct CartForm {
    #[serde(with = "form")]
    id: CartId,
    #[serde(with = "form")]
    state: CartState,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    customer: Option<Id>,
    #[serde(with = "form")]
    opened_at: Timestamp,
    #[serde(with = "form")]
    deadline: Timestamp,
    #[serde(with = "form")]
    lines: Vec<LineView>,
    #[serde(default)]
    lines_version: u64,
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    taken: Vec<TakenLine>,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    total: Option<Money>,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    order: Option<OrderId>,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    ended: Option<Ended>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Taker", rename_all = "snake_case")]
enum TakerForm {
    Operator,
    Session,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TakenLine")]
struct TakenLineForm {
    #[serde(with = "form")]
    line: LineView,
    #[serde(with = "form")]
    by: Taker,
    #[serde(default)]
    reason: SmolStr,
}

/// Why a cart ended: a word, who decided it, and what belongs to the word.
#[derive(Default, Serialize, Deserialize)]
struct EndedFields {
    why: SmolStr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<SmolStr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<SmolStr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    got: Option<i64>,
}

impl Form for Ended {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = |why: &'static str, by: Option<&'static str>| EndedFields {
            why: SmolStr::new_static(why),
            by: by.map(SmolStr::new_static),
            ..EndedFields::default()
        };
        let fields = match self {
            Ended::Expired => fields("expired", None),
            Ended::TooOld => fields("too_old", None),
            Ended::Canceled => fields("canceled", Some("buyer")),
            Ended::Unpaid(PaymentFailure::Declined { by_operator, reason }) => {
                let by = if *by_operator { "operator" } else { "gateway" };
                EndedFields { reason: Some(reason.clone()), ..fields("declined", Some(by)) }
            }
            Ended::Unpaid(PaymentFailure::AmountMismatch { asked, got }) => {
                EndedFields { asked: Some(*asked), got: Some(*got), ..fields("amount_mismatch", Some("gateway")) }
            }
        };
        fields.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ended, D::Error> {
        let EndedFields { why, by, reason, asked, got } = EndedFields::deserialize(deserializer)?;
        match (why.as_str(), asked, got) {
            ("expired", ..) => Ok(Ended::Expired),
            ("too_old", ..) => Ok(Ended::TooOld),
            ("canceled", ..) => Ok(Ended::Canceled),
            ("declined", ..) => {
                let (by_operator, reason) = (by.as_deref() == Some("operator"), reason.unwrap_or_default());
                Ok(Ended::Unpaid(PaymentFailure::Declined { by_operator, reason }))
            }
            ("amount_mismatch", Some(asked), Some(got)) => {
                Ok(Ended::Unpaid(PaymentFailure::AmountMismatch { asked, got }))
            }
            _ => Err(serde::de::Error::custom("a cart ends expired, too_old, canceled, declined or amount_mismatch")),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Held")]
struct HeldForm {
    #[serde(with = "form")]
    cart: CartId,
    #[serde(with = "form")]
    lines: Vec<LineView>,
    #[serde(with = "form")]
    currency: Currency,
    #[serde(with = "form")]
    deadline: Timestamp,
    #[serde(default)]
    lines_version: u64,
}

remote_form! {
    Taker => TakerForm,
    TakenLine => TakenLineForm,
    At => AtForm,
    SeatCounts => SeatCountsForm,
    HallView => HallForm,
    SessionEntry => SessionEntryForm,
    MapView => MapForm,
    CartState => CartStateForm,
    CartView => CartForm,
    Held => HeldForm,
    AreaCounts => AreaCountsForm,
    Limits => LimitsForm,
    CustomerLimit => CustomerLimitForm,
}

/// Longitude and latitude on the wire: degrees; the core keeps whole millionths, so that both encodings mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Longitude in degrees, −180 to 180.
    pub lon: f64,
    /// Latitude in degrees, −90 to 90.
    pub lat: f64,
}

impl Position {
    /// The position with these millionths of a degree.
    pub fn from_millionths((lon, lat): (i32, i32)) -> Position {
        Position { lon: f64::from(lon) / 1e6, lat: f64::from(lat) / 1e6 }
    }

    /// Millionths of a degree, or `None` if it is not on the globe.
    pub fn millionths(self) -> Option<(i32, i32)> {
        let on_globe = (-180.0..=180.0).contains(&self.lon) && (-90.0..=90.0).contains(&self.lat);
        // Inside the globe's bounds the rounded value fits.
        on_globe.then(|| ((self.lon * 1e6).round() as i32, (self.lat * 1e6).round() as i32))
    }
}

/// Millionths of a degree of a position that was read.
fn millionths<E: serde::de::Error>(position: Option<Position>) -> Result<Option<(i32, i32)>, E> {
    let globe = || E::custom("a position is not on the globe");
    position.map(|position| position.millionths().ok_or_else(globe)).transpose()
}

/// A hall in its venue.
#[derive(Serialize, Deserialize)]
pub(crate) struct HallEntryForm {
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    seats: u32,
}

#[derive(Deserialize)]
struct VenueFields {
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    city: SmolStr,
    #[serde(default)]
    position: Option<Position>,
    #[serde(default)]
    comments: SmolStr,
    halls: Vec<HallEntryForm>,
}

impl Form for VenueView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let halls = Each(|| {
            self.halls.iter().map(|(id, name, seats)| HallEntryForm {
                id: id.clone(),
                name: name.clone(),
                seats: *seats,
            })
        });
        let fields = 5 + usize::from(self.details.position.is_some());
        let mut map = serializer.serialize_struct("Venue", fields)?;
        map.serialize_field("id", &On(&self.id))?;
        map.serialize_field("name", &self.details.name)?;
        map.serialize_field("city", &self.details.city)?;
        if let Some(position) = self.details.position {
            map.serialize_field("position", &Position::from_millionths(position))?;
        }
        map.serialize_field("comments", &self.details.comments)?;
        map.serialize_field("halls", &halls)?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VenueView, D::Error> {
        let fields = VenueFields::deserialize(deserializer)?;
        let position = millionths(fields.position)?;
        Ok(VenueView {
            id: fields.id,
            details: VenueDetails { name: fields.name, city: fields.city, position, comments: fields.comments },
            halls: fields.halls.into_iter().map(|hall| (hall.id, hall.name, hall.seats)).collect(),
        })
    }
}

/// A list written from an iterator that knows its length, without a list in between.
pub(crate) struct Each<F>(pub(crate) F);

impl<F, I> Serialize for Each<F>
where
    F: Fn() -> I,
    I: ExactSizeIterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = (self.0)();
        let mut list = serializer.serialize_seq(Some(values.len()))?;
        for value in values {
            list.serialize_element(&value)?;
        }
        list.end()
    }
}

/// A venue in the directory.
#[derive(Serialize, Deserialize)]
struct VenueEntryFields {
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    #[serde(default)]
    city: SmolStr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    position: Option<Position>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    distance_m: Option<u64>,
}

impl Form for VenueEntry {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = VenueEntryFields {
            id: self.id.clone(),
            name: self.name.clone(),
            city: self.city.clone(),
            position: self.position.map(Position::from_millionths),
            distance_m: self.distance_m,
        };
        fields.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VenueEntry, D::Error> {
        let VenueEntryFields { id, name, city, position, distance_m } = VenueEntryFields::deserialize(deserializer)?;
        Ok(VenueEntry { id, name, city, position: millionths(position)?, distance_m })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "VenuesPage")]
struct VenuesPageForm {
    #[serde(with = "form")]
    venues: Vec<VenueEntry>,
    #[serde(rename = "cursor", default, skip_serializing_if = "Option::is_none")]
    next: Option<SmolStr>,
}

remote_form!(VenuesPage => VenuesPageForm);
