//! Bodies of the ops on sessions.

use boxoffice_core::{
    command::NewSession, id::Id, layout::LAYOUT_SEATS_MAX, money::Money, seat::Seat, time::Timestamp,
};
use smol_str::SmolStr;

use super::LimitsBody;
use crate::{
    limits::{AREA_CAPACITY_MAX, AREAS_MAX, COMMENTS_BYTES_MAX, NAME_BYTES_MAX, PAGE_ENTRIES_MAX, REASON_BYTES_MAX},
    quantity::Quantity,
    repr::{
        Bounded, Price,
        shape::{WHOLE_MAX, shapes},
    },
};

shapes! {
    #[derive(Eq)]
    pub struct SessionCreate {
        pub id: Id,
        pub venue: Id,
        pub hall: Id,
        pub title: Id,
        pub starts_at: Timestamp,
        pub ends_at: Timestamp,
        pub prices?: Vec<(Id, Money)>,
        /// Areas with places without seats.
        pub areas?: Vec<AreaBody> as "Bounded::<AREAS_MAX>" = 0..=AREAS_MAX,
        /// The time to live of carts with seats of it, instead of the default.
        pub hold_ttl_ms?: Option<u64> = 1..=WHOLE_MAX,
        pub limits?: LimitsBody,
        pub comments?: SmolStr = 0..=COMMENTS_BYTES_MAX,
    }

    /// An area with places without seats.
    #[derive(Eq)]
    pub struct AreaBody as NewArea {
        pub id: Id,
        pub name?: SmolStr = 0..=NAME_BYTES_MAX,
        pub capacity: Quantity = 1..=AREA_CAPACITY_MAX,
        pub price: Money = Price,
    }

    #[derive(Default, Eq)]
    #[one_of([venue] [city])]
    pub struct SessionSearch {
        pub venue?: Option<Id>,
        pub city?: Option<SmolStr> = 1..=NAME_BYTES_MAX,
        pub title?: Option<Id>,
        /// With `venue` only.
        pub hall?: Option<Id>,
        /// Only sessions that start at this time or later.
        pub from?: Option<Timestamp>,
        /// Only sessions that start before this time.
        pub to?: Option<Timestamp>,
        /// The maximum number of entries, 100 if absent.
        pub limit?: Option<u32> = 1..=PAGE_ENTRIES_MAX,
        /// The cursor of the page before.
        pub cursor?: Option<SmolStr>,
    }

    #[derive(Eq)]
    pub struct SessionMap {
        pub id: Id,
        /// Whether to answer with the three numbers of cinemas.
        pub view?: Option<SmolStr> = ["2,1,0"],
    }

    #[derive(Eq)]
    pub struct SessionSeats {
        pub id: Id,
        pub seats: Vec<Seat> as "Bounded::<LAYOUT_SEATS_MAX>" = 1..=LAYOUT_SEATS_MAX,
    }

    #[derive(Eq)]
    pub struct SessionCancel {
        pub id: Id,
        /// The reason, public.
        pub reason: SmolStr = 1..=REASON_BYTES_MAX,
    }
}

impl SessionCreate {
    /// The body with these details.
    pub fn new(venue: Id, session: NewSession) -> SessionCreate {
        let NewSession { id, hall, title, starts_at, ends_at, prices, areas, hold_ttl_ms, limits, comments } = session;
        let areas = areas
            .into_iter()
            .map(|area| AreaBody { id: area.id, name: area.name, capacity: area.capacity.into(), price: area.price })
            .collect();
        let limits = LimitsBody::from(limits);
        SessionCreate { id, venue, hall, title, starts_at, ends_at, prices, areas, hold_ttl_ms, limits, comments }
    }
}
