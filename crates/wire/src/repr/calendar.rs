//! Resources, their hours, bookings and conflicts.

use boxoffice_core::{
    command::{Limits, OpeningHours, Rate, ResourceDetails},
    id::{Id, OrderId},
    money::{Currency, PRICE_MAX},
    refusal::{Conflict, Shortage},
    time::Timestamp,
};
use serde_json::json;
use smol_str::SmolStr;

use crate::{
    limits::{EXCEPTIONS_MAX, INTERVAL_MS_MAX, SPANS_MAX},
    repr::{
        Day, map_repr, plain_repr, same_fields,
        shape::{Each, Narrow, Shapes, named, shapes},
        view_words, views,
    },
};

/// Spans of a day, as `[open, close]` in minutes.
type Spans = Vec<(u16, u16)>;

named! {
    /// `[open, close]` in minutes of the day, ascending and apart.
    struct OpenTimes as OpenTimes = (0..=SPANS_MAX, Each(Each(0..=24 * 60)));
}

// Days with opening hours of their own.
map_repr!(SmolStr, Spans: |shapes: &mut Shapes| {
    let (day, spans) = (SmolStr::schema(shapes), Spans::schema(shapes));
    let (day, spans) = (Day.narrow(day, shapes), OpenTimes.narrow(spans, shapes));
    json!({"type": "object", "propertyNames": day, "additionalProperties": spans, "maxProperties": EXCEPTIONS_MAX})
});

plain_repr! {
    [Spans; 7] => json!({"type": "array", "items": Spans::schema(&mut Shapes::default()), "minItems": 7, "maxItems": 7});
}

view_words! {
    /// How a slot is booked: by the desk, in a cart, or sold with an order.
    BookingState { Reserved: "reserved", Held: "held", Sold: "sold" }
}

shapes! {
    /// The price of a slot in a cart, in minor units.
    remote Rate {
        amount: i64 = 0..=PRICE_MAX,
        currency: Currency,
        /// The unit of time that costs `amount`, once begun. The whole slot if absent.
        per_ms?: Option<u64> = 1..=INTERVAL_MS_MAX,
    }

    /// The opening hours of a resource.
    remote OpeningHours as Hours {
        /// Monday first.
        week: [Spans; 7] = Each(OpenTimes),
        /// The hours of single days.
        exceptions?: Vec<(SmolStr, Spans)>,
    }

    /// A booking of a resource.
    view BookingView as Booking {
        /// The id. A booking through a cart has a text that names the hold.
        booking: SmolStr,
        begin: Timestamp,
        end: Timestamp,
        state: BookingState,
        details?: SmolStr,
        order?: Option<OrderId>,
    }

    remote Conflict {
        begin: Timestamp,
        end: Timestamp,
        /// The conflicting booking, or the reason why the time is not possible.
        why: SmolStr,
        /// The conflicting booking, as `resource.bookings` names it.
        booking?: Option<SmolStr>,
    }

    /// A product with fewer free units than were asked for.
    remote Shortage {
        product: Id,
        /// The requested number of units, beyond those that the line has.
        wanted: u32,
        free: u64,
        /// Units that other carts hold. They may come back.
        held!: u64,
    }

    struct ResourceFields as Resource {
        id: Id,
        name: SmolStr,
        properties?: Vec<(SmolStr, SmolStr)>,
        /// The maximum of bookings at an instant.
        capacity: u32,
        /// The IANA name of its time zone.
        zone: SmolStr,
        hours?: Option<OpeningHours>,
        before_ms!: u64,
        after_ms!: u64,
        notice_ms!: u64,
        horizon_ms?: Option<u64>,
        rate: Rate,
        hold_ttl_ms?: Option<u64>,
        limits?: Limits,
        /// The number of bookings, including held ones.
        bookings: u64,
    }
}

views! {
    /// A resource.
    ResourceView by ResourceFields {
        id: Id,
        details: ResourceDetails,
        /// The number of bookings, including held ones.
        bookings: u64,
    }
}

same_fields! {
    ResourceView: [ResourceView {
        id, bookings, details: ResourceDetails {
            name, properties, capacity, zone, hours, before_ms, after_ms, notice_ms, horizon_ms, rate, hold_ttl_ms, limits
        }
    }] = ResourceFields {
        id, name, properties, capacity, zone, hours, before_ms, after_ms, notice_ms, horizon_ms, rate, hold_ttl_ms, limits,
        bookings
    },
}
