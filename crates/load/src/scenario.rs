//! Scenarios: what a run does, from TOML. A key that is not known or a value that makes no sense is refused by file, line and key.

mod faults;
mod goods;
mod overload;
mod place;
mod watchers;

use std::{fs, path::Path, time::Duration};

use boxoffice_core::money::{Currency, PRICE_MAX};
use boxoffice_workload::{
    arrival::OpenLoop,
    flow::{Pick, Picker, PickerError},
    house::{House, PREFIX_BYTES_MAX},
};
use serde::{Deserialize, Serialize};

pub use self::faults::{FaultSpec, ReadsSpec};
pub use self::goods::{
    ArenaSpec, CalendarSpec, CartSpec, GatewaySpec, Kind, MixSpec, PlacesSpec, ProductPick, RushSpec, ShopSpec,
    SlotsSpec, StormSpec,
};
pub use self::overload::OverloadSpec;
use self::place::Place;
pub use self::watchers::WatchersSpec;

/// The most flows of one run: each is remembered until the audit.
pub const FLOWS_MAX: u64 = 10_000_000;

/// The most clients of a closed loop.
pub const CLIENTS_MAX: u32 = 100_000;

/// The most connections of one run: a process may have 20 000 files open here.
pub const CONNECTIONS_MAX: u32 = 10_000;

/// The most sessions of one run.
pub const SESSIONS_MAX: u64 = 1_000_000;

/// The scenarios that come with the program.
const BUILT_IN: [(&str, &str); 17] = [
    ("seed-theatre", include_str!("../../../config/scenarios/seed-theatre.toml")),
    ("seed-theatre-contended", include_str!("../../../config/scenarios/seed-theatre-contended.toml")),
    ("closed-theatre", include_str!("../../../config/scenarios/closed-theatre.toml")),
    ("one-seat", include_str!("../../../config/scenarios/one-seat.toml")),
    ("seed-cart", include_str!("../../../config/scenarios/seed-cart.toml")),
    ("seed-cart-hot", include_str!("../../../config/scenarios/seed-cart-hot.toml")),
    ("closed-cart", include_str!("../../../config/scenarios/closed-cart.toml")),
    ("ga-olympics", include_str!("../../../config/scenarios/ga-olympics.toml")),
    ("calendar-rush", include_str!("../../../config/scenarios/calendar-rush.toml")),
    ("expiry-storm", include_str!("../../../config/scenarios/expiry-storm.toml")),
    ("mixed", include_str!("../../../config/scenarios/mixed.toml")),
    ("n0", include_str!("../../../config/scenarios/n0.toml")),
    ("n1", include_str!("../../../config/scenarios/n1.toml")),
    ("n4", include_str!("../../../config/scenarios/n4.toml")),
    ("watchers", include_str!("../../../config/scenarios/watchers.toml")),
    ("resident", include_str!("../../../config/scenarios/resident.toml")),
    ("overload", include_str!("../../../config/scenarios/overload.toml")),
];

/// What a run does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is called: the file's name.
    #[serde(default)]
    pub name: String,
    /// One line for people.
    pub about: String,
    /// The seats that are sold.
    pub house: Option<HouseSpec>,
    /// What a flow does that buys seats.
    pub flow: Option<FlowSpec>,
    /// The products that are sold.
    pub shop: Option<ShopSpec>,
    /// What a flow does that buys units.
    pub cart: Option<CartSpec>,
    /// The sessions with areas and no seats.
    pub arena: Option<ArenaSpec>,
    /// What a flow does that buys places.
    pub places: Option<PlacesSpec>,
    /// The resources that are booked.
    pub calendar: Option<CalendarSpec>,
    /// What a flow does that buys a slot.
    pub slots: Option<SlotsSpec>,
    /// What flows do that reserve, cancel and move bookings without a cart.
    pub rush: Option<RushSpec>,
    /// How often flows buy what, if they buy several kinds of things.
    pub mix: Option<MixSpec>,
    /// How many customers there are; flows are of nobody if absent. Each flow is of one of them.
    pub customers: Option<u32>,
    /// The gateway that is started for the run; payments are only recorded if absent.
    pub gateway: Option<GatewaySpec>,
    /// Carts that are all abandoned at once.
    pub storm: Option<StormSpec>,
    /// Flows start by the clock. Either this or `closed_loop`.
    pub open_loop: Option<OpenLoopSpec>,
    /// Clients start their next flow when the last one ended. Either this or `open_loop`.
    pub closed_loop: Option<ClosedLoopSpec>,
    /// More is offered than the nodes can take. In place of a loop.
    pub overload: Option<OverloadSpec>,
    /// Seat maps that are read meanwhile.
    pub reads: Option<ReadsSpec>,
    /// Who watches seat maps meanwhile.
    pub watchers: Option<WatchersSpec>,
    /// What is done to the nodes meanwhile, which the run must have started itself.
    #[serde(default)]
    pub faults: FaultSpec,
    /// How the run is connected.
    #[serde(default)]
    pub connect: ConnectSpec,
    /// How much is looked at afterwards.
    #[serde(default)]
    pub audit: AuditSpec,
    /// What must come out.
    #[serde(default)]
    pub expect: Expect,
}

/// `[house]`: what is sold. Every session has its own seats; a venue has one hall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HouseSpec {
    /// Groups; each has venues of its own.
    pub groups: u32,
    /// Venues of a group.
    pub venues: u32,
    /// Sessions of a venue.
    pub sessions: u32,
    /// Rows of a hall.
    pub rows: u16,
    /// Seats of a row.
    pub seats: u16,
    /// Price of a seat, in minor units.
    pub price: i64,
    /// Its currency.
    #[serde(default = "euro")]
    pub currency: String,
    /// How long carts with seats of these sessions live untouched, in milliseconds; the server's default if absent.
    pub hold_ttl_ms: Option<u64>,
}

/// `[flow]`: what each flow does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Seats it wants, all or none.
    pub seats: u16,
    /// How it comes to them.
    pub pick: PickSpec,
    /// Whether it opens its cart first, in a round trip of its own; otherwise the hold opens it.
    #[serde(default = "yes")]
    pub open_first: bool,
    /// How often it tries other seats after a refusal.
    #[serde(default)]
    pub retries: u32,
    /// Of 100 flows that hold their seats, how many go away without buying.
    #[serde(default)]
    pub abandon_percent: u8,
    /// Of 100 flows, how many want the seats of somebody who has just got them and keeps them: they are refused.
    #[serde(default)]
    pub contend_percent: u8,
    /// `sell_out`: how long seats that somebody went away with are left alone before they are tried again, in milliseconds.
    #[serde(default = "again")]
    pub again_ms: u64,
}

/// `flow.pick`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PickSpec {
    /// The next seats of the next session: no two flows meet.
    Next,
    /// Neighbouring seats at a random place.
    Random,
    /// The first seats of the first session: all flows meet.
    Same,
    /// Any seats nobody else is trying to get, again and again until all are sold. For a closed loop.
    SellOut,
}

/// `[open_loop]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenLoopSpec {
    /// Groups, where there is no house that says how many.
    pub groups: Option<u32>,
    /// Flows of each group.
    pub flows: u32,
    /// Between the starts of two flows of a group, in microseconds.
    pub gap_us: u64,
}

/// `[closed_loop]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoopSpec {
    /// Clients.
    pub clients: u32,
    /// Flows of all clients together.
    pub flows: u32,
    /// How long a client rests between two flows, in milliseconds.
    #[serde(default)]
    pub think_ms: u64,
}

/// `[connect]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectSpec {
    /// Connections, shared by all flows.
    pub connections: u32,
    /// How long a request may take before its outcome counts as unknown, in milliseconds.
    pub deadline_ms: u64,
    /// Items of one `batch` while the house is set up.
    pub setup_batch: u32,
    /// Carts live beside the first thing that they hold; `false`: in any shard. A run that kills nodes waits for a write in
    /// every shard, so its carts are in any.
    pub beside: bool,
    /// Each connection has others beside it, to the nodes that lead what its requests are about; `false`: its own node sends
    /// them on.
    pub to_leaders: bool,
}

impl Default for ConnectSpec {
    fn default() -> ConnectSpec {
        ConnectSpec { connections: 8, deadline_ms: 10_000, setup_batch: 100, beside: true, to_leaders: true }
    }
}

/// `[audit]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditSpec {
    /// Sessions audited at most; of more, so many spread evenly.
    pub sessions_max: u32,
    /// Carts audited at most beside those whose clients do not know how they ended.
    pub carts_max: u32,
    /// How long sales that are certain may take until their sessions have sold, in milliseconds.
    pub settle_ms: u64,
}

impl Default for AuditSpec {
    fn default() -> AuditSpec {
        AuditSpec { sessions_max: 50_000, carts_max: 2_000, settle_ms: 10_000 }
    }
}

/// `[expect]`: what must come out; absent is anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Flows that bought.
    pub done: Option<u64>,
    /// Flows that were refused in the end.
    pub refused: Option<u64>,
    /// Flows that went away.
    pub abandoned: Option<u64>,
    /// Flows that failed.
    pub failed: Option<u64>,
    /// Seats sold, as the clients were told.
    pub seats_sold: Option<u64>,
    /// Units, places and slots sold, as the clients were told.
    pub units_sold: Option<u64>,
    /// Units and places that are free in the end.
    pub units_left: Option<u64>,
    /// Units, places, slots and seats in carts in the end.
    pub held: Option<u64>,
    /// Sum of the orders' totals, in minor units.
    pub total: Option<i64>,
}

/// Why there is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Neither a file nor one of those that come with the program.
    #[error("there is no scenario {name:?}: neither a file nor one of {}", names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read the scenario {path}: {error}")]
    Unreadable {
        /// Which file.
        path: String,
        /// What the file system says.
        error: std::io::Error,
    },
    /// The text is not TOML, has a key that is not known, lacks one, or a value is of another kind.
    #[error("{place}: {message}")]
    Malformed {
        /// File and line, or the setting.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// A value that makes no sense.
    #[error("{place}: {key} is {value}: {remedy}")]
    BadValue {
        /// File and line, or the setting.
        place: String,
        /// The key, with its table.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        remedy: String,
    },
    /// A setting that is not `key=value`.
    #[error("--set {0:?} is not key=value with a key like closed_loop.clients")]
    BadSetting(String),
}

/// The names of the scenarios that come with the program.
pub fn names() -> [&'static str; BUILT_IN.len()] {
    BUILT_IN.map(|(name, _)| name)
}

impl Scenario {
    /// Whether carts live beside the first thing that they hold.
    pub(crate) fn carts_are_beside(&self) -> bool {
        self.connect.beside && !self.faults.kills_nodes()
    }

    /// The scenario with this name (`N0` is `n0`) or in this file, changed by these settings (`closed_loop.clients=64`).
    ///
    /// # Errors
    /// [`ScenarioError`] if there is none, it says something that is not known or makes no sense, or a setting does.
    pub fn load(name: &str, settings: &[String]) -> Result<Scenario, ScenarioError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(built_in, _)| built_in.eq_ignore_ascii_case(name)) {
            return Scenario::parse(name, &format!("{name}.toml (built in)"), text, settings);
        }
        let path = Path::new(name);
        if !path.is_file() {
            return Err(ScenarioError::Unknown { name: name.to_owned() });
        }
        let text =
            fs::read_to_string(path).map_err(|error| ScenarioError::Unreadable { path: name.to_owned(), error })?;
        let stem = path.file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
        Scenario::parse(&stem, name, &text, settings)
    }

    /// The scenario of this text; `origin` is what errors call it.
    ///
    /// # Errors
    /// See [`Scenario::load`].
    pub fn parse(name: &str, origin: &str, text: &str, settings: &[String]) -> Result<Scenario, ScenarioError> {
        let place = Place::new(origin, text);
        let mut scenario: Scenario = toml::from_str(text).map_err(|error| place.malformed(&error))?;
        if !settings.is_empty() {
            scenario = place.set(text, settings)?;
        }
        if scenario.name.is_empty() {
            scenario.name = name.to_owned();
        }
        scenario.check(&place)?;
        Ok(scenario)
    }

    /// The house that is sold, under a prefix of this run; an empty one if no seats are sold.
    pub fn house(&self, prefix: &str) -> House {
        let prefix = prefix.to_owned();
        match &self.house {
            Some(house) => House {
                prefix,
                groups: house.groups,
                venues: house.venues,
                sessions: house.sessions,
                rows: house.rows,
                seats: house.seats,
            },
            None => House { prefix, groups: 0, venues: 0, sessions: 1, rows: 0, seats: 0 },
        }
    }

    /// What one seat costs, in minor units; 0 if none are sold.
    pub fn seat_price(&self) -> i64 {
        self.house.as_ref().map_or(0, |house| house.price)
    }

    /// Chooses what flows buy that buy seats; `None` if there are none.
    ///
    /// # Errors
    /// [`PickerError`]; not for a scenario that was loaded, which is checked.
    pub fn picker(&self, prefix: &str, seed: u64) -> Result<Option<Picker>, PickerError> {
        let Some(flow) = &self.flow else { return Ok(None) };
        let pick = match flow.pick {
            PickSpec::Next | PickSpec::SellOut => Pick::Next,
            PickSpec::Random => Pick::Random,
            PickSpec::Same => Pick::Same,
        };
        let house = self.house(prefix);
        let flows = match (&self.open_loop, &self.closed_loop) {
            // The pool knows how many blocks there are.
            _ if flow.pick == PickSpec::SellOut => 0,
            (Some(open), _) => u64::from(self.flows_of_group(open)),
            (None, Some(closed)) => u64::from(closed.flows.div_ceil(self.groups())),
            (None, None) => 0,
        };
        Picker::new(house, pick, flow.seats, flows, seed).map(Some)
    }

    /// Groups of flows.
    pub fn groups(&self) -> u32 {
        let of_loop = self.open_loop.as_ref().and_then(|open| open.groups);
        of_loop.or_else(|| self.house.as_ref().map(|house| house.groups)).unwrap_or(1)
    }

    /// How many flows there are in all.
    pub fn offered(&self) -> u64 {
        match (self.open_plan(), &self.closed_loop) {
            (Some(open), _) => open.offered(),
            (None, Some(closed)) => u64::from(closed.flows),
            (None, None) => 0,
        }
    }

    /// The schedule of an open loop.
    pub fn open_plan(&self) -> Option<OpenLoop> {
        let open = self.open_loop.as_ref()?;
        Some(OpenLoop {
            groups: self.groups(),
            flows: self.flows_of_group(open),
            gap: Duration::from_micros(open.gap_us),
        })
    }

    /// Flows of each group: as many as there can be while nodes are killed one after the other, since nobody knows how long
    /// that takes.
    fn flows_of_group(&self, open: &OpenLoopSpec) -> u32 {
        if self.faults.kills == 0 {
            return open.flows;
        }
        let most = FLOWS_MAX as u32 / self.groups();
        match (&self.flow, &self.house) {
            (Some(flow), Some(house)) if flow.pick == PickSpec::Next => {
                let seats = u32::from(house.rows) * u32::from(house.seats);
                most.min((house.venues * house.sessions).saturating_mul(seats / u32::from(flow.seats.max(1))))
            }
            _ => most,
        }
    }

    /// The currency of all prices.
    ///
    /// # Panics
    /// For a scenario that was not loaded and has a bad one.
    pub fn currency(&self) -> Currency {
        Currency::new(self.currency_name()).expect("the scenario's currency was checked")
    }

    /// Its three letters.
    pub fn currency_name(&self) -> &str {
        self.house.as_ref().map_or("EUR", |house| &house.currency)
    }

    fn check(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        if let Some(house) = &self.house {
            house.check(place)?;
        }
        if let Some(flow) = &self.flow {
            self.check_flow(flow, place)?;
        }
        self.check_goods(place)?;
        self.check_faults(place)?;
        self.check_watchers(place)?;
        self.check_overload(place)?;
        match (&self.open_loop, &self.closed_loop) {
            (Some(open), None) => {
                positive(place, "open_loop.flows", open.flows.into(), FLOWS_MAX)?;
                positive(place, "open_loop.gap_us", open.gap_us, 60_000_000)?;
            }
            (None, Some(closed)) => {
                positive(place, "closed_loop.clients", closed.clients.into(), CLIENTS_MAX.into())?;
                positive(place, "closed_loop.flows", closed.flows.into(), FLOWS_MAX)?;
                place.require(
                    closed.think_ms <= 3_600_000,
                    "closed_loop.think_ms",
                    closed.think_ms,
                    "give at most an hour",
                )?;
            }
            (Some(_), Some(_)) => {
                return Err(place.malformed_at("closed_loop", "there is an open loop and a closed one; leave one out"));
            }
            (None, None) if self.overload.is_some() => {}
            (None, None) => {
                return Err(place.malformed_at("", "there is neither [open_loop] nor [closed_loop]; give one of them"));
            }
        }
        let flows = self.offered();
        place.require(flows <= FLOWS_MAX, "open_loop.flows", flows, format!("{FLOWS_MAX} in all groups at most"))?;
        positive(place, "connect.connections", self.connect.connections.into(), CONNECTIONS_MAX.into())?;
        positive(place, "connect.deadline_ms", self.connect.deadline_ms, 60_000)?;
        positive(place, "connect.setup_batch", self.connect.setup_batch.into(), 1_000)?;
        positive(place, "audit.sessions_max", self.audit.sessions_max.into(), SESSIONS_MAX)?;
        let widest = "x".repeat(PREFIX_BYTES_MAX);
        if let Err(error) = self.picker(&widest, 0) {
            let key = match error {
                PickerError::SeatsOfHold(_) | PickerError::RowTooShort { .. } => "flow.seats",
                PickerError::HouseTooSmall { .. } => "house.sessions",
            };
            return Err(place.malformed_at(key, &format!("{key}: {error}")));
        }
        Ok(())
    }
}

fn euro() -> String {
    "EUR".to_owned()
}

fn yes() -> bool {
    true
}

fn again() -> u64 {
    2_500
}

/// A whole number from 1 to `most`.
fn positive(place: &Place<'_>, key: &str, value: u64, most: u64) -> Result<(), ScenarioError> {
    place.require((1..=most).contains(&value), key, value, format!("give 1 to {most}"))
}

fn price_fits(place: &Place<'_>, key: &str, price: i64) -> Result<(), ScenarioError> {
    place.require((0..=PRICE_MAX).contains(&price), key, price, format!("give 0 to {PRICE_MAX} minor units"))
}

impl HouseSpec {
    fn check(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        positive(place, "house.groups", self.groups.into(), 1_000)?;
        positive(place, "house.venues", self.venues.into(), SESSIONS_MAX)?;
        positive(place, "house.sessions", self.sessions.into(), 10_000)?;
        let sessions = u64::from(self.groups) * u64::from(self.venues) * u64::from(self.sessions);
        place.require(
            sessions <= SESSIONS_MAX,
            "house.sessions",
            self.sessions,
            format!("groups × venues × sessions makes {sessions}; {SESSIONS_MAX} at most"),
        )?;
        positive(place, "house.rows", self.rows.into(), 500)?;
        positive(place, "house.seats", self.seats.into(), 400)?;
        price_fits(place, "house.price", self.price)?;
        place.require(
            Currency::new(&self.currency).is_some(),
            "house.currency",
            &self.currency,
            "give three capital letters, as EUR",
        )
    }
}

impl Scenario {
    fn check_flow(&self, flow: &FlowSpec, place: &Place<'_>) -> Result<(), ScenarioError> {
        positive(place, "flow.seats", flow.seats.into(), boxoffice_core::seat::HOLD_SEATS_MAX as u64)?;
        place.require(flow.abandon_percent <= 100, "flow.abandon_percent", flow.abandon_percent, "give 0 to 100")?;
        place.require(flow.contend_percent <= 100, "flow.contend_percent", flow.contend_percent, "give 0 to 100")?;
        place.require(
            flow.contend_percent == 0 || flow.pick == PickSpec::Next,
            "flow.contend_percent",
            flow.contend_percent,
            "it needs flow.pick = \"next\", where nobody else is refused; give 0",
        )?;
        place.require(
            flow.retries == 0 || flow.pick == PickSpec::Random,
            "flow.retries",
            flow.retries,
            "only flows that pick at random have other seats to try; give 0",
        )?;
        let sells_out = flow.pick == PickSpec::SellOut;
        place.require(
            !sells_out || (self.closed_loop.is_some() && self.mix.is_none()),
            "flow.pick",
            "sell_out",
            "it needs a [closed_loop], and no [mix]",
        )
    }
}

#[cfg(test)]
mod tests;
