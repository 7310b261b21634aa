//! The parts of a scenario that sell something else than seats.

use std::net::SocketAddr;

use boxoffice_core::portion::LINE_QUANTITY_MAX;
use boxoffice_wire::limits::{AREA_CAPACITY_MAX, AREAS_MAX, BLOB_BYTES_MAX, CART_LINES_MAX, STOCK_MAX};
use boxoffice_workload::goods::Goods;
use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, place::Place, positive, price_fits};

/// The most products, arenas, resources or customers of one run.
const GOODS_MAX: u64 = 1_000_000;

/// A year.
const CALENDAR_MINUTES_MAX: u64 = 365 * 24 * 60;

/// The most carts of a storm.
const STORM_CARTS_MAX: u64 = 5_000_000;

/// The longest span of a storm, in milliseconds: an hour.
const STORM_MS_MAX: u64 = 3_600_000;

/// `[shop]`: products that are sold by quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopSpec {
    /// Products.
    pub products: u32,
    /// Units of each.
    pub stock: u64,
    /// For one unit, in minor units.
    pub price: i64,
    /// Bytes of opaque content that each product has.
    #[serde(default)]
    pub blob_bytes: usize,
    /// How long carts with units live untouched, in milliseconds; the server's default if absent.
    pub hold_ttl_ms: Option<u64>,
}

/// `[cart]`: what a flow does that buys units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CartSpec {
    /// How often it puts something into its cart; the same product twice is one line.
    pub adds: u32,
    /// Units each time.
    #[serde(default = "one")]
    pub quantity: u32,
    /// Which products.
    #[serde(default)]
    pub pick: ProductPick,
    /// Whether all of that is sent at once; otherwise one after the other is answered.
    #[serde(default)]
    pub concurrent: bool,
    /// Of 100 flows that hold everything, how many go away without buying.
    #[serde(default)]
    pub abandon_percent: u8,
}

/// `cart.pick`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProductPick {
    /// Any one, all with the same chance, each time.
    #[default]
    Uniform,
    /// Different ones.
    Distinct,
}

/// `[arena]`: sessions with areas and no seats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArenaSpec {
    /// Sessions.
    pub sessions: u32,
    /// Areas of each.
    pub areas: u32,
    /// Places of each area.
    pub capacity: u32,
    /// For one place, in minor units.
    pub price: i64,
    /// How long carts with places live untouched, in milliseconds; the server's default if absent.
    pub hold_ttl_ms: Option<u64>,
}

/// `[places]`: what a flow does that buys places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacesSpec {
    /// It wants 1 to so many, all with the same chance.
    pub quantity_max: u32,
    /// How often it tries another area after a refusal.
    #[serde(default)]
    pub retries: u32,
    /// Of 100 flows that hold their places, how many go away without buying.
    #[serde(default)]
    pub abandon_percent: u8,
}

/// `[calendar]`: resources that are booked by time, each with a capacity of 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// Resources.
    pub resources: u32,
    /// Times begin and end at multiples of so many minutes.
    pub step_minutes: u32,
    /// So many steps of each resource are booked, beginning with the day after the run.
    pub steps: u32,
    /// A time is 1 to so many steps long.
    pub steps_max: u32,
    /// For a slot in a cart, however long, in minor units.
    #[serde(default)]
    pub price: i64,
}

/// `[slots]`: what a flow does that buys a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotsSpec {
    /// How often it tries another time after a refusal.
    #[serde(default)]
    pub retries: u32,
    /// Of 100 flows that hold their slot, how many go away without buying.
    #[serde(default)]
    pub abandon_percent: u8,
}

/// `[rush]`: what flows do with bookings that need no cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RushSpec {
    /// The first flows want the same times: so many of them each.
    pub wanters: u32,
    /// So many times are wanted that way; the flows after that do something at random.
    pub wanted: u32,
    /// Of 100 random flows, how many cancel a booking …
    pub cancel_percent: u8,
    /// … and how many put one to another time; the others reserve.
    pub move_percent: u8,
}

/// `[mix]`: how often flows buy what, relative to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MixSpec {
    /// Seats, as `[flow]` says.
    pub seats: u32,
    /// Units, as `[cart]` says.
    pub units: u32,
    /// Places, as `[places]` says.
    pub places: u32,
    /// Slots in carts, as `[slots]` says.
    pub slots: u32,
    /// Bookings without carts, as `[rush]` says.
    pub bookings: u32,
}

/// `[gateway]`: the payment gateway that is started for the run and asked afterwards. Nodes that run already must have
/// `payments.url` point to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySpec {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Every answer waits so long, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// This share of 100 authorizations is declined.
    #[serde(default)]
    pub decline_percent: u8,
    /// Of 100 steps, so many are done and not answered the first time.
    #[serde(default)]
    pub timeout_percent: u8,
    /// How long a flow asks again how its payment ended, in milliseconds.
    #[serde(default = "patience")]
    pub patience_ms: u64,
}

impl Eq for GatewaySpec {}

/// `[storm]`: carts with a unit each that nobody comes back to, all with deadlines within one window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StormSpec {
    /// Carts.
    pub carts: u32,
    /// Products they are spread over; these are not what other flows buy.
    pub products: u32,
    /// From the beginning of the opening to the first deadline, in milliseconds: all must be open by then.
    pub lead_ms: u64,
    /// From the first deadline to the last, in milliseconds.
    pub window_ms: u64,
    /// Other flows start so long before the first deadline, in milliseconds.
    pub before_ms: u64,
    /// Between two looks at the counts, in milliseconds.
    pub poll_ms: u64,
    /// How long after the last deadline everything must be free again, in milliseconds.
    pub patience_ms: u64,
}

/// What a flow buys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Seats.
    Seats,
    /// Units of products.
    Units,
    /// Places in areas.
    Places,
    /// A time of a resource, in a cart.
    Slots,
    /// A booking without a cart.
    Bookings,
}

impl Kind {
    /// All of them, in the order of their weights.
    pub const ALL: [Kind; 5] = [Kind::Seats, Kind::Units, Kind::Places, Kind::Slots, Kind::Bookings];
}

fn one() -> u32 {
    1
}

fn patience() -> u64 {
    60_000
}

impl Scenario {
    /// What is sold besides seats, under a prefix of this run.
    pub fn goods(&self, prefix: &str) -> Goods {
        let mut goods = Goods { prefix: prefix.to_owned(), customers: self.customers.unwrap_or(0), ..Goods::default() };
        if let Some(shop) = &self.shop {
            // Products of a storm come after those of the others.
            let storm = self.storm.as_ref().map_or(0, |storm| storm.products);
            (goods.products, goods.stock, goods.unit_price) = (shop.products + storm, shop.stock, shop.price);
        }
        if let Some(arena) = &self.arena {
            (goods.arenas, goods.areas) = (arena.sessions, arena.areas);
            (goods.capacity, goods.place_price) = (arena.capacity, arena.price);
        }
        if let Some(calendar) = &self.calendar {
            (goods.resources, goods.slot_price) = (calendar.resources, calendar.price);
        }
        goods
    }

    /// How often flows buy each of [`Kind::ALL`], relative to each other.
    pub fn weights(&self) -> [u32; 5] {
        match &self.mix {
            Some(mix) => [mix.seats, mix.units, mix.places, mix.slots, mix.bookings],
            None => self.described().map(u32::from),
        }
    }

    /// Which of [`Kind::ALL`] the scenario describes.
    fn described(&self) -> [bool; 5] {
        [
            self.flow.is_some() && self.house.is_some(),
            self.cart.is_some() && self.shop.is_some(),
            self.places.is_some() && self.arena.is_some(),
            self.slots.is_some() && self.calendar.is_some(),
            self.rush.is_some() && self.calendar.is_some(),
        ]
    }

    pub(super) fn check_goods(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        let percent = |key: &str, value: u8| place.require(value <= 100, key, value, "give 0 to 100");
        if let Some(shop) = &self.shop {
            positive(place, "shop.products", shop.products.into(), GOODS_MAX)?;
            positive(place, "shop.stock", shop.stock, STOCK_MAX)?;
            price_fits(place, "shop.price", shop.price)?;
            let bytes = shop.blob_bytes;
            place.require(bytes <= BLOB_BYTES_MAX, "shop.blob_bytes", bytes, format!("give 0 to {BLOB_BYTES_MAX}"))?;
        }
        if let Some(cart) = &self.cart {
            positive(place, "cart.adds", cart.adds.into(), CART_LINES_MAX as u64)?;
            positive(place, "cart.quantity", cart.quantity.into(), LINE_QUANTITY_MAX.into())?;
            percent("cart.abandon_percent", cart.abandon_percent)?;
            let enough = self.shop.as_ref().is_none_or(|shop| cart.adds <= shop.products);
            place.require(
                enough || cart.pick == ProductPick::Uniform,
                "cart.adds",
                cart.adds,
                "there are not so many different products",
            )?;
        }
        if let Some(arena) = &self.arena {
            positive(place, "arena.sessions", arena.sessions.into(), GOODS_MAX)?;
            positive(place, "arena.areas", arena.areas.into(), AREAS_MAX as u64)?;
            positive(place, "arena.capacity", arena.capacity.into(), AREA_CAPACITY_MAX.into())?;
            price_fits(place, "arena.price", arena.price)?;
        }
        if let Some(places) = &self.places {
            positive(place, "places.quantity_max", places.quantity_max.into(), LINE_QUANTITY_MAX.into())?;
            percent("places.abandon_percent", places.abandon_percent)?;
        }
        if let Some(calendar) = &self.calendar {
            positive(place, "calendar.resources", calendar.resources.into(), GOODS_MAX)?;
            positive(place, "calendar.step_minutes", calendar.step_minutes.into(), 24 * 60)?;
            positive(place, "calendar.steps", calendar.steps.into(), 500_000)?;
            positive(place, "calendar.steps_max", calendar.steps_max.into(), calendar.steps.into())?;
            let minutes = u64::from(calendar.steps) * u64::from(calendar.step_minutes);
            place.require(
                minutes <= CALENDAR_MINUTES_MAX,
                "calendar.steps",
                calendar.steps,
                "all steps of a resource are a year at most, so that its bookings can be asked for at once",
            )?;
            price_fits(place, "calendar.price", calendar.price)?;
        }
        if let Some(slots) = &self.slots {
            percent("slots.abandon_percent", slots.abandon_percent)?;
        }
        if let Some(rush) = &self.rush {
            let both = u32::from(rush.cancel_percent) + u32::from(rush.move_percent);
            place.require(both <= 100, "rush.move_percent", both, "cancels and moves are at most 100 together")?;
            positive(place, "rush.wanters", rush.wanters.into(), GOODS_MAX)?;
        }
        if let Some(customers) = self.customers {
            positive(place, "customers", customers.into(), GOODS_MAX)?;
        }
        if let Some(gateway) = &self.gateway {
            percent("gateway.decline_percent", gateway.decline_percent)?;
            percent("gateway.timeout_percent", gateway.timeout_percent)?;
        }
        if let Some(storm) = &self.storm {
            positive(place, "storm.carts", storm.carts.into(), STORM_CARTS_MAX)?;
            positive(place, "storm.products", storm.products.into(), 10_000)?;
            positive(place, "storm.lead_ms", storm.lead_ms, STORM_MS_MAX)?;
            positive(place, "storm.window_ms", storm.window_ms, STORM_MS_MAX)?;
            positive(place, "storm.poll_ms", storm.poll_ms, 60_000)?;
            place.require(
                storm.before_ms <= storm.lead_ms,
                "storm.before_ms",
                storm.before_ms,
                "others cannot start before the carts are opened; give at most lead_ms",
            )?;
            if self.shop.is_none() {
                return Err(place.malformed_at("storm", "a storm needs a [shop]"));
            }
        }
        self.check_kinds(place)
    }

    /// Flows must know what to buy.
    fn check_kinds(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        let described = self.described();
        let missing = self.weights().iter().zip(described).any(|(&weight, described)| weight > 0 && !described);
        if missing || self.weights().iter().all(|&weight| weight == 0) {
            let why = "flows have nothing to do: there is a [house] with a [flow], a [shop] with a [cart], an [arena] with \
                       [places], and a [calendar] with [slots] or a [rush]; [mix] weighs what is there";
            return Err(place.malformed_at("mix", why));
        }
        if self.mix.is_none() && described.iter().filter(|described| **described).count() > 1 {
            return Err(place.malformed_at("mix", "there are several things to buy; say in [mix] how often which"));
        }
        Ok(())
    }
}
