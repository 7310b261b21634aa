//! The forms of resources, their hours, bookings and what stands in the way of one.

use std::fmt;

use boxoffice_core::{
    answer::{BookingState, BookingView, ResourceView},
    command::{Limits, OpeningHours, Rate, ResourceDetails},
    id::{Id, OrderId},
    money::Currency,
    refusal::{Conflict, Shortage},
    time::Timestamp,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};
use smol_str::SmolStr;

use crate::{
    form::{self, Form, remote_form},
    form_answer::is_unlimited,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Rate")]
struct RateForm {
    amount: i64,
    #[serde(with = "form")]
    currency: Currency,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    per_ms: Option<u64>,
}

/// Spans of a day, as `[open, close]` in minutes.
type Spans = Vec<(u16, u16)>;

#[derive(Serialize, Deserialize)]
#[serde(remote = "OpeningHours")]
struct OpeningHoursForm {
    week: [Spans; 7],
    #[serde(with = "exceptions", default, skip_serializing_if = "Vec::is_empty")]
    exceptions: Vec<(SmolStr, Spans)>,
}

/// Days that differ: a map from the day to its spans.
mod exceptions {
    use super::{Deserializer, MapAccess, SerializeMap, Serializer, SmolStr, Spans, Visitor, fmt};

    pub(super) fn serialize<S: Serializer>(days: &[(SmolStr, Spans)], serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(days.len()))?;
        for (day, spans) in days {
            map.serialize_entry(day, spans)?;
        }
        map.end()
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(SmolStr, Spans)>, D::Error> {
        deserializer.deserialize_map(Days)
    }

    struct Days;

    impl<'de> Visitor<'de> for Days {
        type Value = Vec<(SmolStr, Spans)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from day to spans")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut days = Vec::new();
            while let Some(day) = map.next_entry()? {
                days.push(day);
            }
            Ok(days)
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "BookingState", rename_all = "snake_case")]
enum BookingStateForm {
    Reserved,
    Held,
    Sold,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "BookingView")]
struct BookingForm {
    booking: SmolStr,
    #[serde(with = "form")]
    begin: Timestamp,
    #[serde(with = "form")]
    end: Timestamp,
    #[serde(with = "form")]
    state: BookingState,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    details: SmolStr,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    order: Option<OrderId>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Conflict")]
struct ConflictForm {
    #[serde(with = "form")]
    begin: Timestamp,
    #[serde(with = "form")]
    end: Timestamp,
    why: SmolStr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    booking: Option<SmolStr>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Shortage")]
struct ShortageForm {
    #[serde(with = "form")]
    product: Id,
    wanted: u32,
    free: u64,
    #[serde(default)]
    held: u64,
}

remote_form! {
    Rate => RateForm,
    OpeningHours => OpeningHoursForm,
    BookingState => BookingStateForm,
    BookingView => BookingForm,
    Conflict => ConflictForm,
    Shortage => ShortageForm,
}

/// What `resource.put` says, and how many bookings there are.
#[derive(Serialize, Deserialize)]
struct ResourceFields {
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    #[serde(with = "form::properties", default, skip_serializing_if = "Vec::is_empty")]
    properties: Vec<(SmolStr, SmolStr)>,
    capacity: u32,
    zone: SmolStr,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    hours: Option<OpeningHours>,
    #[serde(default)]
    before_ms: u64,
    #[serde(default)]
    after_ms: u64,
    #[serde(default)]
    notice_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    horizon_ms: Option<u64>,
    #[serde(with = "form")]
    rate: Rate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold_ttl_ms: Option<u64>,
    #[serde(with = "form", default, skip_serializing_if = "is_unlimited")]
    limits: Limits,
    bookings: u64,
}

impl Form for ResourceView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let details = self.details.clone();
        let fields = ResourceFields {
            id: self.id.clone(),
            name: details.name,
            properties: details.properties,
            capacity: details.capacity,
            zone: details.zone,
            hours: details.hours,
            before_ms: details.before_ms,
            after_ms: details.after_ms,
            notice_ms: details.notice_ms,
            horizon_ms: details.horizon_ms,
            rate: details.rate,
            hold_ttl_ms: details.hold_ttl_ms,
            limits: details.limits,
            bookings: self.bookings,
        };
        fields.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ResourceView, D::Error> {
        let fields = ResourceFields::deserialize(deserializer)?;
        let details = ResourceDetails {
            name: fields.name,
            properties: fields.properties,
            capacity: fields.capacity,
            zone: fields.zone,
            hours: fields.hours,
            before_ms: fields.before_ms,
            after_ms: fields.after_ms,
            notice_ms: fields.notice_ms,
            horizon_ms: fields.horizon_ms,
            rate: fields.rate,
            hold_ttl_ms: fields.hold_ttl_ms,
            limits: fields.limits,
        };
        Ok(ResourceView { id: fields.id, details, bookings: fields.bookings })
    }
}
