//! Scenarios: what a run does, from TOML. An unknown key or an invalid value is refused with its file, line and key.

mod curve;
mod faults;
mod goods;
mod hoarders;
mod onsale;
mod overload;
mod source;
mod watchers;

use std::{fs, path::Path, time::Duration};

use boxoffice_core::money::{Currency, PRICE_MAX};
use boxoffice_workload::{
    arrival::{OpenLoop, Stage, flows_of},
    flow::{Pick, Picker, PickerError},
    house::{House, PREFIX_BYTES_MAX},
};
use serde::{Deserialize, Serialize};

pub use self::faults::{FaultSpec, ReadsSpec};
pub use self::goods::{
    ArenaSpec, CalendarSpec, CartSpec, ExpiryBurstSpec, FlowKind, GatewaySpec, MixSpec, PlacesSpec, ProductPick,
    RushSpec, ShopSpec, SlotsSpec,
};
pub use self::hoarders::{HoardKind, HoarderRun, HoardersSpec};
pub use self::onsale::{OnsaleSpec, PriceTable, ReleaseBy};
pub use self::overload::OverloadSpec;
use self::source::ScenarioSource;
pub use self::watchers::WatchersSpec;

/// The most flows of one run. The run keeps each of them until the audit.
pub const FLOWS_MAX: u64 = 10_000_000;

/// The most clients of a closed loop.
pub const CLIENTS_MAX: u32 = 100_000;

/// The most connections of one run. A process may have 20 000 open files here.
pub const CONNECTIONS_MAX: u32 = 10_000;

/// The most sessions of one run.
pub const SESSIONS_MAX: u64 = 1_000_000;

/// The built-in scenarios.
const BUILT_IN: [(&str, &str); 20] = [
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
    ("slow-watchers", include_str!("../../../config/scenarios/slow-watchers.toml")),
    ("resident", include_str!("../../../config/scenarios/resident.toml")),
    ("overload", include_str!("../../../config/scenarios/overload.toml")),
    ("hoarders", include_str!("../../../config/scenarios/hoarders.toml")),
    ("onsale", include_str!("../../../config/scenarios/onsale.toml")),
];

/// A scenario, as its TOML file defines it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The scenario's name. The default is the name of its file.
    #[serde(default)]
    pub name: String,
    /// One line that describes the scenario.
    pub about: String,
    /// The seats that are sold.
    pub house: Option<HouseSpec>,
    /// What a flow that buys seats does.
    pub flow: Option<FlowSpec>,
    /// The products that are sold.
    pub shop: Option<ShopSpec>,
    /// What a flow that buys units does.
    pub cart: Option<CartSpec>,
    /// The sessions with areas and without seats.
    pub arena: Option<ArenaSpec>,
    /// What a flow that buys places does.
    pub places: Option<PlacesSpec>,
    /// The resources that are booked.
    pub calendar: Option<CalendarSpec>,
    /// What a flow that buys a slot does.
    pub slots: Option<SlotsSpec>,
    /// What flows that reserve, cancel and move bookings without a cart do.
    pub rush: Option<RushSpec>,
    /// The weights of the kinds of flows, if there are several.
    pub mix: Option<MixSpec>,
    /// The number of customers. Each flow belongs to one of them. If absent, flows have no customer.
    pub customers: Option<u32>,
    /// The pause of a flow before its checkout, in milliseconds, in which a buyer reads and pays. Latencies are without it.
    #[serde(default)]
    pub think_ms: u64,
    /// The payment gateway that the run starts. If absent, payments are only recorded.
    pub gateway: Option<GatewaySpec>,
    /// An expiry burst: carts that are all abandoned at about the same time.
    pub storm: Option<ExpiryBurstSpec>,
    /// Flows start on a schedule. A scenario has either this or `closed_loop`.
    pub open_loop: Option<OpenLoopSpec>,
    /// Each client starts its next flow when its last one has ended. A scenario has either this or `open_loop`.
    pub closed_loop: Option<ClosedLoopSpec>,
    /// Offers more than the nodes can take. It replaces the loop.
    pub overload: Option<OverloadSpec>,
    /// Networks that hoard, and honest buyers beside them. It replaces the loop.
    pub hoarders: Option<HoardersSpec>,
    /// Sells to members with codes, then to everybody, then what an allotment has kept. It replaces the loop.
    pub onsale: Option<OnsaleSpec>,
    /// Seat maps that the run reads while flows buy.
    pub reads: Option<ReadsSpec>,
    /// Watchers of seat maps while flows buy.
    pub watchers: Option<WatchersSpec>,
    /// Faults of the nodes while flows buy. The run must have started the nodes itself.
    #[serde(default)]
    pub faults: FaultSpec,
    /// How the run connects to the nodes.
    #[serde(default)]
    pub connect: ConnectSpec,
    /// How much the audit looks at.
    #[serde(default)]
    pub audit: AuditSpec,
    #[serde(default)]
    pub expect: Expect,
}

/// `[house]`: the seats that are sold. Every session has its own seats, and every venue has one hall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HouseSpec {
    /// Groups of venues.
    pub groups: u32,
    /// Venues per group.
    pub venues: u32,
    /// Sessions per venue.
    pub sessions: u32,
    /// Rows per hall.
    pub rows: u16,
    /// Seats per row.
    pub seats: u16,
    /// Places of an area that each session has besides its seats. 0 means none.
    #[serde(default)]
    pub places: u32,
    /// Price of a seat and of a place, in minor units.
    pub price: i64,
    #[serde(default = "default_currency")]
    pub currency: String,
    /// The time to live of carts with seats of these sessions, in milliseconds. The default is the server's.
    pub hold_ttl_ms: Option<u64>,
}

/// `[flow]`: what each flow does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Seats that the flow wants, all or none.
    pub seats: u16,
    /// How the flow chooses its seats.
    pub pick: PickSpec,
    /// Whether the flow opens its cart first, in a separate round trip. Otherwise the hold opens it.
    #[serde(default = "default_true")]
    pub open_first: bool,
    /// How often the flow tries other seats after a refusal.
    #[serde(default)]
    pub retries: u32,
    /// Percentage of the flows that abandon the seats that they hold.
    #[serde(default)]
    pub abandon_percent: u8,
    /// Percentage of the flows that want seats which another flow just got and keeps. They are refused.
    #[serde(default)]
    pub contend_percent: u8,
    /// `sell_out`: how long abandoned seats are left alone before a flow tries them again, in milliseconds.
    #[serde(default = "default_again_ms")]
    pub again_ms: u64,
}

/// `flow.pick`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PickSpec {
    /// The next seats of the next session. No two flows want the same seats.
    Next,
    /// Adjacent seats at a random position.
    Random,
    /// The first seats of the first session. All flows want the same seats.
    Same,
    /// Any seats that no other flow is trying to get, again and again until all are sold. It needs a closed loop.
    SellOut,
}

/// `[open_loop]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenLoopSpec {
    /// Groups of flows. The default is the number of the house's groups.
    pub groups: Option<u32>,
    /// Flows per group.
    #[serde(default)]
    pub flows: u32,
    /// The time between the starts of two flows of a group, in microseconds.
    #[serde(default)]
    pub gap_us: u64,
    /// Rates that change, instead of `flows` and `gap_us`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageSpec>,
    /// A file with the curve of a sale that was recorded, beside the scenario's file. Its lines are the stages.
    pub curve: Option<String>,
}

/// `[[open_loop.stages]]`: a time with a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Flows a second, in all groups together.
    pub per_second: u32,
    /// Flows a second at the end, if the rate changes evenly.
    pub to_per_second: Option<u32>,
    pub seconds: u32,
}

impl StageSpec {
    fn stage(&self) -> Stage {
        let StageSpec { per_second, to_per_second, seconds } = *self;
        Stage { from: per_second, to: to_per_second.unwrap_or(per_second), length: Duration::from_secs(seconds.into()) }
    }
}

/// `[closed_loop]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoopSpec {
    pub clients: u32,
    /// Flows of all clients together.
    pub flows: u32,
    /// The pause of a client between two flows, in milliseconds.
    #[serde(default)]
    pub think_ms: u64,
}

/// `[connect]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectSpec {
    /// Connections, which all flows share.
    pub connections: u32,
    /// The deadline of a request, in milliseconds. After it, the outcome of the request is unknown.
    pub deadline_ms: u64,
    /// Items per `batch` while the run creates what it sells.
    pub setup_batch: u32,
    /// A cart lives in the shard of the first thing that it holds. With `false` it lives in any shard. A run that kills
    /// nodes waits for a write in every shard, so its carts are in any shard.
    pub beside: bool,
    /// A flow's requests go to the nodes that lead what they are about, over further connections. With `false` the
    /// flow's own node forwards them.
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
    /// The most sessions to audit. If the run used more, the audit takes an evenly spread sample.
    pub sessions_max: u32,
    /// The most carts to audit besides those whose outcome their client does not know.
    pub carts_max: u32,
    /// How long the sessions of a certain sale may take to sell, in milliseconds.
    pub settle_ms: u64,
}

impl Default for AuditSpec {
    fn default() -> AuditSpec {
        AuditSpec { sessions_max: 50_000, carts_max: 2_000, settle_ms: 10_000 }
    }
}

/// `[expect]`: the expected results. An absent key accepts any result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Flows that bought.
    pub done: Option<u64>,
    /// Flows whose last request was refused.
    pub refused: Option<u64>,
    pub abandoned: Option<u64>,
    pub failed: Option<u64>,
    /// Seats sold, according to the clients' answers.
    pub seats_sold: Option<u64>,
    /// Units, places and slots sold, according to the clients' answers.
    pub units_sold: Option<u64>,
    /// Units and places that are free after the run.
    pub units_left: Option<u64>,
    /// Units, places, slots and seats in carts after the run.
    pub held: Option<u64>,
    /// Sum of the orders' totals, in minor units.
    pub total: Option<i64>,
    /// The longest median latency of flows that bought, from their intended start.
    pub p50_ms: Option<Millis>,
    pub p90_ms: Option<Millis>,
    pub p99_ms: Option<Millis>,
    pub p99_9_ms: Option<Millis>,
}

/// A time in milliseconds, like `12.5`. It is kept in whole microseconds, so that scenarios can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Millis {
    us: u64,
}

impl TryFrom<f64> for Millis {
    type Error = &'static str;

    fn try_from(ms: f64) -> Result<Millis, &'static str> {
        // Ten minutes, the longest latency that a report distinguishes.
        if (0.001..=600_000.0).contains(&ms) {
            Ok(Millis { us: (ms * 1_000.0).round() as u64 })
        } else {
            Err("a time is 0.001 to 600000 ms")
        }
    }
}

impl From<Millis> for f64 {
    fn from(millis: Millis) -> f64 {
        millis.us as f64 / 1_000.0
    }
}

/// Checks the stages of an open loop, which has neither a number of flows nor a gap then.
fn check_stages(open: &OpenLoopSpec, faults: &FaultSpec, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
    const KEY: &str = "open_loop.stages";
    if open.flows != 0 || open.gap_us != 0 || faults.kills != 0 {
        let why = "the stages say how many flows there are and when; leave out flows, gap_us and faults.kills";
        return Err(source.malformed_at(KEY, why));
    }
    for stage in &open.stages {
        let fastest = stage.per_second.max(stage.to_per_second.unwrap_or_default());
        source.require(fastest <= 1_000_000, KEY, fastest, "give at most 1000000 flows a second")?;
        source.require((1..=86_400).contains(&stage.seconds), KEY, stage.seconds, "give 1 to 86400 seconds a stage")?;
    }
    let flows: u64 = open
        .stages
        .iter()
        .map(|stage| {
            u64::from(stage.per_second + stage.to_per_second.unwrap_or(stage.per_second)) * u64::from(stage.seconds) / 2
        })
        .sum();
    source.require((1..=FLOWS_MAX).contains(&flows), KEY, flows, format!("give 1 to {FLOWS_MAX} flows in all stages"))
}

/// Why a scenario cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The name is neither a file nor a built-in scenario.
    #[error("there is no scenario {name:?}: it is neither a file nor one of {}", names().join(", "))]
    Unknown { name: String },
    #[error("cannot read the scenario {path}: {error}")]
    Unreadable { path: String, error: std::io::Error },
    /// The text is not TOML, has an unknown key, lacks a key, or has a value of the wrong type.
    #[error("{location}: {message}")]
    Malformed {
        /// File and line, or the setting.
        location: String,
        message: String,
    },
    #[error("{location}: {key} is {value}: {remedy}")]
    BadValue {
        /// File and line, or the setting.
        location: String,
        /// The key, with its table.
        key: String,
        value: String,
        remedy: String,
    },
    /// A setting that is not `key=value`.
    #[error("--set {0:?} is not key=value with a key like closed_loop.clients")]
    BadSetting(String),
}

/// The names of the built-in scenarios.
pub fn names() -> [&'static str; BUILT_IN.len()] {
    BUILT_IN.map(|(name, _)| name)
}

impl Scenario {
    /// Whether carts live in the shard of the first thing that they hold.
    pub(crate) fn carts_are_beside(&self) -> bool {
        self.connect.beside && !self.faults.kills_nodes()
    }

    /// The built-in scenario with this name (in any case), or the scenario in this file, changed by these settings
    /// (`closed_loop.clients=64`).
    ///
    /// # Errors
    /// [`ScenarioError`] if there is no such scenario, or if the scenario or a setting is invalid.
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

    /// The scenario of this text. Errors call it `origin`.
    ///
    /// # Errors
    /// See [`Scenario::load`].
    pub fn parse(name: &str, origin: &str, text: &str, settings: &[String]) -> Result<Scenario, ScenarioError> {
        let source = ScenarioSource::new(origin, text);
        let mut scenario: Scenario = toml::from_str(text).map_err(|error| source.malformed(&error))?;
        if !settings.is_empty() {
            scenario = source.with_settings(scenario, settings)?;
        }
        if scenario.name.is_empty() {
            scenario.name = name.to_owned();
        }
        if let Some(open) = &mut scenario.open_loop {
            curve::follow(open, origin, &source)?;
        }
        scenario.check(&source)?;
        Ok(scenario)
    }

    /// The house that is sold, with the run's prefix in its ids. The house is empty if no seats are sold.
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

    /// The price of a seat, in minor units. 0 if no seats are sold.
    pub fn seat_price(&self) -> i64 {
        self.house.as_ref().map_or(0, |house| house.price)
    }

    /// The picker of seats for flows that buy seats. `None` if there are none.
    ///
    /// # Errors
    /// [`PickerError`] for a scenario that was not loaded, because loading checks this.
    pub fn picker(&self, prefix: &str, seed: u64) -> Result<Option<Picker>, PickerError> {
        let Some(flow) = &self.flow else { return Ok(None) };
        let pick = match flow.pick {
            PickSpec::Next | PickSpec::SellOut => Pick::Next,
            PickSpec::Random => Pick::Random,
            PickSpec::Same => Pick::Same,
        };
        let house = self.house(prefix);
        let flows = match (&self.open_loop, &self.closed_loop) {
            // The pool of seat blocks limits the flows.
            _ if flow.pick == PickSpec::SellOut => 0,
            (Some(open), _) => u64::from(self.flows_of_group(open)),
            (None, Some(closed)) => u64::from(closed.flows.div_ceil(self.groups())),
            (None, None) => 0,
        };
        Picker::new(house, pick, flow.seats, flows, seed).map(Some)
    }

    /// The number of groups of flows.
    pub fn groups(&self) -> u32 {
        let of_loop = self.open_loop.as_ref().and_then(|open| open.groups);
        of_loop.or_else(|| self.house.as_ref().map(|house| house.groups)).unwrap_or(1)
    }

    /// The number of flows of all groups.
    pub fn offered(&self) -> u64 {
        match (self.open_loop_schedule(), &self.closed_loop) {
            (Some(open), _) => open.offered(),
            (None, Some(closed)) => u64::from(closed.flows),
            (None, None) => 0,
        }
    }

    /// The schedule of an open loop.
    pub fn open_loop_schedule(&self) -> Option<OpenLoop> {
        let open = self.open_loop.as_ref()?;
        Some(OpenLoop {
            groups: self.groups(),
            flows: self.flows_of_group(open),
            gap: Duration::from_micros(open.gap_us),
            stages: open.stages.iter().map(StageSpec::stage).collect(),
        })
    }

    /// Flows per group. While nodes are killed repeatedly, the duration is unknown, so there are as many flows as
    /// possible.
    fn flows_of_group(&self, open: &OpenLoopSpec) -> u32 {
        if !open.stages.is_empty() {
            let stages: Vec<Stage> = open.stages.iter().map(StageSpec::stage).collect();
            return flows_of(&stages, self.groups());
        }
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
    /// For a scenario that was not loaded and has an invalid currency.
    pub fn currency(&self) -> Currency {
        Currency::new(self.currency_name()).expect("the scenario's currency was checked")
    }

    /// The three letters of the currency.
    pub fn currency_name(&self) -> &str {
        self.house.as_ref().map_or("EUR", |house| &house.currency)
    }

    fn check(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        if let Some(house) = &self.house {
            house.check(source)?;
        }
        if let Some(flow) = &self.flow {
            self.check_flow(flow, source)?;
        }
        self.check_goods(source)?;
        self.check_faults(source)?;
        self.check_watchers(source)?;
        self.check_overload(source)?;
        self.check_hoarders(source)?;
        self.check_onsale(source)?;
        self.check_loop(source)?;
        source.require(self.think_ms <= 3_600_000, "think_ms", self.think_ms, "give at most an hour")?;
        let flows = self.offered();
        source.require(flows <= FLOWS_MAX, "open_loop.flows", flows, format!("{FLOWS_MAX} in all groups at most"))?;
        positive(source, "connect.connections", self.connect.connections.into(), CONNECTIONS_MAX.into())?;
        positive(source, "connect.deadline_ms", self.connect.deadline_ms, 60_000)?;
        positive(source, "connect.setup_batch", self.connect.setup_batch.into(), 1_000)?;
        positive(source, "audit.sessions_max", self.audit.sessions_max.into(), SESSIONS_MAX)?;
        let widest = "x".repeat(PREFIX_BYTES_MAX);
        if let Err(error) = self.picker(&widest, 0) {
            let key = match error {
                PickerError::SeatsOfHold(_) | PickerError::RowTooShort { .. } => "flow.seats",
                PickerError::HouseTooSmall { .. } => "house.sessions",
            };
            return Err(source.malformed_at(key, &format!("{key}: {error}")));
        }
        Ok(())
    }

    fn check_loop(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        match (&self.open_loop, &self.closed_loop) {
            (Some(open), None) if !open.stages.is_empty() => check_stages(open, &self.faults, source)?,
            (Some(open), None) => {
                positive(source, "open_loop.flows", open.flows.into(), FLOWS_MAX)?;
                positive(source, "open_loop.gap_us", open.gap_us, 60_000_000)?;
            }
            (None, Some(closed)) => {
                positive(source, "closed_loop.clients", closed.clients.into(), CLIENTS_MAX.into())?;
                positive(source, "closed_loop.flows", closed.flows.into(), FLOWS_MAX)?;
                source.require(
                    closed.think_ms <= 3_600_000,
                    "closed_loop.think_ms",
                    closed.think_ms,
                    "give at most an hour",
                )?;
            }
            (Some(_), Some(_)) => {
                return Err(source.malformed_at("closed_loop", "there is an open loop and a closed one; leave one out"));
            }
            (None, None) if self.overload.is_some() || self.hoarders.is_some() || self.onsale.is_some() => {}
            (None, None) => {
                return Err(source.malformed_at("", "there is neither [open_loop] nor [closed_loop]; give one of them"));
            }
        }
        Ok(())
    }
}

fn default_currency() -> String {
    "EUR".to_owned()
}

fn default_true() -> bool {
    true
}

fn default_one() -> u32 {
    1
}

fn default_again_ms() -> u64 {
    2_500
}

/// Requires a whole number from 1 to `most`.
fn positive(source: &ScenarioSource<'_>, key: &str, value: u64, most: u64) -> Result<(), ScenarioError> {
    source.require((1..=most).contains(&value), key, value, format!("give 1 to {most}"))
}

fn price_fits(source: &ScenarioSource<'_>, key: &str, price: i64) -> Result<(), ScenarioError> {
    source.require((0..=PRICE_MAX).contains(&price), key, price, format!("give 0 to {PRICE_MAX} minor units"))
}

impl HouseSpec {
    fn check(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        positive(source, "house.groups", self.groups.into(), 1_000)?;
        positive(source, "house.venues", self.venues.into(), SESSIONS_MAX)?;
        positive(source, "house.sessions", self.sessions.into(), 10_000)?;
        let sessions = u64::from(self.groups) * u64::from(self.venues) * u64::from(self.sessions);
        source.require(
            sessions <= SESSIONS_MAX,
            "house.sessions",
            self.sessions,
            format!("groups × venues × sessions makes {sessions}; {SESSIONS_MAX} at most"),
        )?;
        positive(source, "house.rows", self.rows.into(), 500)?;
        positive(source, "house.seats", self.seats.into(), 400)?;
        price_fits(source, "house.price", self.price)?;
        source.require(
            Currency::new(&self.currency).is_some(),
            "house.currency",
            &self.currency,
            "give three capital letters, as EUR",
        )
    }
}

impl Scenario {
    fn check_flow(&self, flow: &FlowSpec, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        positive(source, "flow.seats", flow.seats.into(), boxoffice_core::seat::HOLD_SEATS_MAX as u64)?;
        source.require(flow.abandon_percent <= 100, "flow.abandon_percent", flow.abandon_percent, "give 0 to 100")?;
        source.require(flow.contend_percent <= 100, "flow.contend_percent", flow.contend_percent, "give 0 to 100")?;
        source.require(
            flow.contend_percent == 0 || flow.pick == PickSpec::Next,
            "flow.contend_percent",
            flow.contend_percent,
            "it needs flow.pick = \"next\", where no other flow is refused; give 0",
        )?;
        source.require(
            flow.retries == 0 || flow.pick == PickSpec::Random,
            "flow.retries",
            flow.retries,
            "only flows that pick at random have other seats to try; give 0",
        )?;
        let sells_out = flow.pick == PickSpec::SellOut;
        source.require(
            !sells_out || (self.closed_loop.is_some() && self.mix.is_none()),
            "flow.pick",
            "sell_out",
            "it needs a [closed_loop], and no [mix]",
        )
    }
}

#[cfg(test)]
mod tests;
