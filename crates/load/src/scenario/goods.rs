//! The parts of a scenario that sell other things than seats.

use std::net::SocketAddr;

use boxoffice_core::portion::LINE_QUANTITY_MAX;
use boxoffice_wire::limits::{AREA_CAPACITY_MAX, AREAS_MAX, BLOB_BYTES_MAX, CART_LINES_MAX, STOCK_MAX};
use boxoffice_workload::goods::Goods;
use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, positive, price_fits, source::ScenarioSource};

/// The most products, arenas, resources or customers of one run.
const GOODS_MAX: u64 = 1_000_000;

/// A year, in minutes.
const CALENDAR_MINUTES_MAX: u64 = 365 * 24 * 60;

/// The most carts of an expiry burst.
const BURST_CARTS_MAX: u64 = 5_000_000;

/// The longest time span in an expiry burst, in milliseconds: an hour.
const BURST_MS_MAX: u64 = 3_600_000;

/// `[shop]`: products that are sold by quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopSpec {
    pub products: u32,
    /// The stock of each product, in units.
    pub stock: u64,
    /// The price of a unit, in minor units.
    pub price: i64,
    /// Bytes of opaque content of each product.
    #[serde(default)]
    pub blob_bytes: usize,
    /// The time to live of carts with units, in milliseconds. The default is the server's.
    pub hold_ttl_ms: Option<u64>,
}

/// `[cart]`: what a flow that buys units does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CartSpec {
    /// How often the flow puts something into its cart. The same product twice is one line.
    pub adds: u32,
    /// Units each time.
    #[serde(default = "super::default_one")]
    pub quantity: u32,
    /// How the flow chooses products.
    #[serde(default)]
    pub pick: ProductPick,
    /// Whether the flow sends all requests at once. Otherwise it waits for each answer.
    #[serde(default)]
    pub concurrent: bool,
    /// Percentage of the flows that abandon what they hold.
    #[serde(default)]
    pub abandon_percent: u8,
}

/// `cart.pick`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProductPick {
    /// Any product with the same probability, each time.
    #[default]
    Uniform,
    /// Different products.
    Distinct,
}

/// `[arena]`: sessions with areas and without seats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArenaSpec {
    pub sessions: u32,
    /// Areas per session.
    pub areas: u32,
    /// Places per area.
    pub capacity: u32,
    /// The price of a place, in minor units.
    pub price: i64,
    /// The time to live of carts with places, in milliseconds. The default is the server's.
    pub hold_ttl_ms: Option<u64>,
}

/// `[places]`: what a flow that buys places does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacesSpec {
    /// The flow wants 1 to this many places, with the same probability.
    pub quantity_max: u32,
    /// How often the flow tries another area after a refusal.
    #[serde(default)]
    pub retries: u32,
    /// Percentage of the flows that abandon the places that they hold.
    #[serde(default)]
    pub abandon_percent: u8,
}

/// `[calendar]`: resources that are booked by time, each with a capacity of 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    pub resources: u32,
    /// Slots begin and end at multiples of this many minutes.
    pub step_minutes: u32,
    /// The bookable steps of each resource. They begin with the day after the run.
    pub steps: u32,
    /// A slot is 1 to this many steps long.
    pub steps_max: u32,
    /// The price of a slot in a cart, whatever its length, in minor units.
    #[serde(default)]
    pub price: i64,
}

/// `[slots]`: what a flow that buys a slot does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotsSpec {
    /// How often the flow tries another slot after a refusal.
    #[serde(default)]
    pub retries: u32,
    /// Percentage of the flows that abandon the slot that they hold.
    #[serde(default)]
    pub abandon_percent: u8,
}

/// `[rush]`: what flows do with bookings that need no cart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RushSpec {
    /// The first flows compete for slots. This many of them want each slot.
    pub wanters: u32,
    /// The number of slots that the first flows compete for. Each flow after them makes a random change.
    pub wanted: u32,
    /// Percentage of the random flows that cancel a booking.
    pub cancel_percent: u8,
    /// Percentage of the random flows that move a booking. The other random flows reserve.
    pub move_percent: u8,
}

/// `[mix]`: the weights of the kinds of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MixSpec {
    /// The weight of flows that buy seats, as `[flow]` says.
    pub seats: u32,
    /// The weight of flows that buy units, as `[cart]` says.
    pub units: u32,
    /// The weight of flows that buy places, as `[places]` says.
    pub places: u32,
    /// The weight of flows that buy slots in carts, as `[slots]` says.
    pub slots: u32,
    /// The weight of flows that change bookings without carts, as `[rush]` says.
    pub bookings: u32,
}

/// `[gateway]`: the payment gateway that the run starts, and asks for its charges in the audit. Nodes that already run
/// must have its address in `payments.url`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySpec {
    /// The address on which the gateway listens.
    pub listen: SocketAddr,
    /// The delay of every answer, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Percentage of the authorizations that are declined.
    #[serde(default)]
    pub decline_percent: u8,
    /// Percentage of the steps that the gateway carries out but does not answer the first time.
    #[serde(default)]
    pub timeout_percent: u8,
    /// How long a flow polls the outcome of its payment, in milliseconds.
    #[serde(default = "default_patience_ms")]
    pub patience_ms: u64,
}

impl Eq for GatewaySpec {}

/// `[storm]`: an expiry burst. Clients abandon carts with one unit each, and all deadlines are within one window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpiryBurstSpec {
    pub carts: u32,
    /// The products of these carts. Other flows do not buy them.
    pub products: u32,
    /// The time from the first opened cart to the first deadline, in milliseconds. All carts must be open by then.
    pub lead_ms: u64,
    /// The time from the first deadline to the last, in milliseconds.
    pub window_ms: u64,
    /// How long before the first deadline the other flows start, in milliseconds.
    pub before_ms: u64,
    /// The time between two polls of the counts, in milliseconds.
    pub poll_ms: u64,
    /// How long after the last deadline all holds must have expired, in milliseconds.
    pub patience_ms: u64,
}

/// What a flow buys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    Seats,
    /// Units of products.
    Units,
    /// Places in areas.
    Places,
    /// A slot of a resource, in a cart.
    Slots,
    /// A booking without a cart.
    Bookings,
}

impl FlowKind {
    /// All kinds, in the order of their weights.
    pub const ALL: [FlowKind; 5] =
        [FlowKind::Seats, FlowKind::Units, FlowKind::Places, FlowKind::Slots, FlowKind::Bookings];
}

fn default_patience_ms() -> u64 {
    60_000
}

impl Scenario {
    /// The goods besides seats, with the run's prefix in their ids.
    pub fn goods(&self, prefix: &str) -> Goods {
        let mut goods = Goods { prefix: prefix.to_owned(), customers: self.customers.unwrap_or(0), ..Goods::default() };
        if let Some(shop) = &self.shop {
            // The products of an expiry burst come after those of the other flows.
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

    /// The weight of each kind in [`FlowKind::ALL`].
    pub fn weights(&self) -> [u32; 5] {
        match &self.mix {
            Some(mix) => [mix.seats, mix.units, mix.places, mix.slots, mix.bookings],
            None => self.configured().map(u32::from),
        }
    }

    /// Which kinds of [`FlowKind::ALL`] the scenario configures.
    fn configured(&self) -> [bool; 5] {
        [
            self.flow.is_some() && self.house.is_some(),
            self.cart.is_some() && self.shop.is_some(),
            self.places.is_some() && self.arena.is_some(),
            self.slots.is_some() && self.calendar.is_some(),
            self.rush.is_some() && self.calendar.is_some(),
        ]
    }

    pub(super) fn check_goods(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        self.check_units(source)?;
        self.check_places(source)?;
        self.check_slots(source)?;
        if let Some(customers) = self.customers {
            positive(source, "customers", customers.into(), GOODS_MAX)?;
        }
        if let Some(gateway) = &self.gateway {
            percent(source, "gateway.decline_percent", gateway.decline_percent)?;
            percent(source, "gateway.timeout_percent", gateway.timeout_percent)?;
        }
        self.check_expiry_burst(source)?;
        self.check_kinds(source)
    }

    fn check_units(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        if let Some(shop) = &self.shop {
            positive(source, "shop.products", shop.products.into(), GOODS_MAX)?;
            positive(source, "shop.stock", shop.stock, STOCK_MAX)?;
            price_fits(source, "shop.price", shop.price)?;
            let bytes = shop.blob_bytes;
            source.require(bytes <= BLOB_BYTES_MAX, "shop.blob_bytes", bytes, format!("give 0 to {BLOB_BYTES_MAX}"))?;
        }
        if let Some(cart) = &self.cart {
            positive(source, "cart.adds", cart.adds.into(), CART_LINES_MAX as u64)?;
            positive(source, "cart.quantity", cart.quantity.into(), LINE_QUANTITY_MAX.into())?;
            percent(source, "cart.abandon_percent", cart.abandon_percent)?;
            let enough = self.shop.as_ref().is_none_or(|shop| cart.adds <= shop.products);
            source.require(
                enough || cart.pick == ProductPick::Uniform,
                "cart.adds",
                cart.adds,
                "there are fewer products; give at most shop.products or pick = \"uniform\"",
            )?;
        }
        Ok(())
    }

    fn check_places(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        if let Some(arena) = &self.arena {
            positive(source, "arena.sessions", arena.sessions.into(), GOODS_MAX)?;
            positive(source, "arena.areas", arena.areas.into(), AREAS_MAX as u64)?;
            positive(source, "arena.capacity", arena.capacity.into(), AREA_CAPACITY_MAX.into())?;
            price_fits(source, "arena.price", arena.price)?;
        }
        if let Some(places) = &self.places {
            positive(source, "places.quantity_max", places.quantity_max.into(), LINE_QUANTITY_MAX.into())?;
            percent(source, "places.abandon_percent", places.abandon_percent)?;
        }
        Ok(())
    }

    fn check_slots(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        if let Some(calendar) = &self.calendar {
            positive(source, "calendar.resources", calendar.resources.into(), GOODS_MAX)?;
            positive(source, "calendar.step_minutes", calendar.step_minutes.into(), 24 * 60)?;
            positive(source, "calendar.steps", calendar.steps.into(), 500_000)?;
            positive(source, "calendar.steps_max", calendar.steps_max.into(), calendar.steps.into())?;
            let minutes = u64::from(calendar.steps) * u64::from(calendar.step_minutes);
            source.require(
                minutes <= CALENDAR_MINUTES_MAX,
                "calendar.steps",
                calendar.steps,
                "the steps of a resource may cover at most a year, so that one request can list its bookings",
            )?;
            price_fits(source, "calendar.price", calendar.price)?;
        }
        if let Some(slots) = &self.slots {
            percent(source, "slots.abandon_percent", slots.abandon_percent)?;
        }
        if let Some(rush) = &self.rush {
            let both = u32::from(rush.cancel_percent) + u32::from(rush.move_percent);
            source.require(both <= 100, "rush.move_percent", both, "cancels and moves must be at most 100 together")?;
            positive(source, "rush.wanters", rush.wanters.into(), GOODS_MAX)?;
        }
        Ok(())
    }

    fn check_expiry_burst(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        if let Some(storm) = &self.storm {
            positive(source, "storm.carts", storm.carts.into(), BURST_CARTS_MAX)?;
            positive(source, "storm.products", storm.products.into(), 10_000)?;
            positive(source, "storm.lead_ms", storm.lead_ms, BURST_MS_MAX)?;
            positive(source, "storm.window_ms", storm.window_ms, BURST_MS_MAX)?;
            positive(source, "storm.poll_ms", storm.poll_ms, 60_000)?;
            source.require(
                storm.before_ms <= storm.lead_ms,
                "storm.before_ms",
                storm.before_ms,
                "other flows cannot start before the carts are opened; give at most lead_ms",
            )?;
            if self.shop.is_none() {
                return Err(source.malformed_at("storm", "an expiry burst needs a [shop]"));
            }
        }
        Ok(())
    }

    /// Each weighted kind must be configured, and [mix] must weigh them if there are several.
    fn check_kinds(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        if self.hoarders.is_some() || self.onsale.is_some() {
            // They replace the flows.
            return Ok(());
        }
        let configured = self.configured();
        let missing = self.weights().iter().zip(configured).any(|(&weight, configured)| weight > 0 && !configured);
        if missing || self.weights().iter().all(|&weight| weight == 0) {
            let why = "flows have nothing to do; give a [house] with a [flow], a [shop] with a [cart], an [arena] with \
                       [places], and a [calendar] with [slots] or a [rush], and weigh only these in [mix]";
            return Err(source.malformed_at("mix", why));
        }
        if self.mix.is_none() && configured.iter().filter(|configured| **configured).count() > 1 {
            return Err(source.malformed_at("mix", "there are several things to buy; weigh them in [mix]"));
        }
        Ok(())
    }
}

pub(super) fn percent(source: &ScenarioSource<'_>, key: &str, value: u8) -> Result<(), ScenarioError> {
    source.require(value <= 100, key, value, "give 0 to 100")
}
