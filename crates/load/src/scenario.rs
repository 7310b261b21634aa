//! Scenarios: what a run does, from TOML. A key that is not known or a value that makes no sense is refused by file, line and key.

mod place;

use std::{fs, path::Path, time::Duration};

use boxoffice_core::money::{Currency, PRICE_MAX};
use boxoffice_workload::{
    arrival::OpenLoop,
    flow::{Pick, Picker, PickerError},
    house::{House, PREFIX_BYTES_MAX},
};
use serde::{Deserialize, Serialize};

use self::place::Place;

/// The most flows of one run: each is remembered until the audit.
pub const FLOWS_MAX: u64 = 10_000_000;

/// The most clients of a closed loop.
pub const CLIENTS_MAX: u32 = 100_000;

/// The most connections of one run: a process may have 20 000 files open here.
pub const CONNECTIONS_MAX: u32 = 10_000;

/// The most sessions of one run.
pub const SESSIONS_MAX: u64 = 1_000_000;

/// The scenarios that come with the program.
const BUILT_IN: [(&str, &str); 4] = [
    ("seed-theatre", include_str!("../../../config/scenarios/seed-theatre.toml")),
    ("seed-theatre-contended", include_str!("../../../config/scenarios/seed-theatre-contended.toml")),
    ("closed-theatre", include_str!("../../../config/scenarios/closed-theatre.toml")),
    ("one-seat", include_str!("../../../config/scenarios/one-seat.toml")),
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
    /// What is sold.
    pub house: HouseSpec,
    /// What each flow does.
    pub flow: FlowSpec,
    /// Flows start by the clock. Either this or `closed_loop`.
    pub open_loop: Option<OpenLoopSpec>,
    /// Clients start their next flow when the last one ended. Either this or `open_loop`.
    pub closed_loop: Option<ClosedLoopSpec>,
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
}

/// `[open_loop]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenLoopSpec {
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
}

impl Default for ConnectSpec {
    fn default() -> ConnectSpec {
        ConnectSpec { connections: 8, deadline_ms: 10_000, setup_batch: 100 }
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
    /// The scenario with this name or in this file, changed by these settings (`closed_loop.clients=64`).
    ///
    /// # Errors
    /// [`ScenarioError`] if there is none, it says something that is not known or makes no sense, or a setting does.
    pub fn load(name: &str, settings: &[String]) -> Result<Scenario, ScenarioError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
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

    /// The house that is sold, under a prefix of this run.
    pub fn house(&self, prefix: &str) -> House {
        House {
            prefix: prefix.to_owned(),
            groups: self.house.groups,
            venues: self.house.venues,
            sessions: self.house.sessions,
            rows: self.house.rows,
            seats: self.house.seats,
        }
    }

    /// Chooses what flows buy.
    ///
    /// # Errors
    /// [`PickerError`]; not for a scenario that was loaded, which is checked.
    pub fn picker(&self, prefix: &str, seed: u64) -> Result<Picker, PickerError> {
        let pick = match self.flow.pick {
            PickSpec::Next => Pick::Next,
            PickSpec::Random => Pick::Random,
            PickSpec::Same => Pick::Same,
        };
        let flows = match (&self.open_loop, &self.closed_loop) {
            (Some(open), _) => u64::from(open.flows),
            (None, Some(closed)) => u64::from(closed.flows.div_ceil(self.house.groups)),
            (None, None) => 0,
        };
        Picker::new(self.house(prefix), pick, self.flow.seats, flows, seed)
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
        Some(OpenLoop { groups: self.house.groups, flows: open.flows, gap: Duration::from_micros(open.gap_us) })
    }

    /// The currency of all prices.
    ///
    /// # Panics
    /// For a scenario that was not loaded and has a bad one.
    pub fn currency(&self) -> Currency {
        Currency::new(&self.house.currency).expect("the scenario's currency was checked")
    }

    fn check(&self, place: &Place<'_>) -> Result<(), ScenarioError> {
        let positive = |key: &str, value: u64, most: u64| {
            place.require((1..=most).contains(&value), key, value, format!("give 1 to {most}"))
        };
        let house = &self.house;
        positive("house.groups", house.groups.into(), 1_000)?;
        positive("house.venues", house.venues.into(), SESSIONS_MAX)?;
        positive("house.sessions", house.sessions.into(), 10_000)?;
        let sessions = u64::from(house.groups) * u64::from(house.venues) * u64::from(house.sessions);
        place.require(
            sessions <= SESSIONS_MAX,
            "house.sessions",
            house.sessions,
            format!("groups × venues × sessions makes {sessions}; {SESSIONS_MAX} at most"),
        )?;
        positive("house.rows", house.rows.into(), 500)?;
        positive("house.seats", house.seats.into(), 400)?;
        place.require(
            (0..=PRICE_MAX).contains(&house.price),
            "house.price",
            house.price,
            format!("give 0 to {PRICE_MAX} minor units"),
        )?;
        place.require(
            Currency::new(&house.currency).is_some(),
            "house.currency",
            &house.currency,
            "give three capital letters, as EUR",
        )?;
        positive("flow.seats", self.flow.seats.into(), boxoffice_core::seat::HOLD_SEATS_MAX as u64)?;
        place.require(
            self.flow.abandon_percent <= 100,
            "flow.abandon_percent",
            self.flow.abandon_percent,
            "give 0 to 100",
        )?;
        place.require(
            self.flow.retries == 0 || self.flow.pick == PickSpec::Random,
            "flow.retries",
            self.flow.retries,
            "only flows that pick at random have other seats to try; give 0",
        )?;
        match (&self.open_loop, &self.closed_loop) {
            (Some(open), None) => {
                positive("open_loop.flows", open.flows.into(), FLOWS_MAX)?;
                positive("open_loop.gap_us", open.gap_us, 60_000_000)?;
            }
            (None, Some(closed)) => {
                positive("closed_loop.clients", closed.clients.into(), CLIENTS_MAX.into())?;
                positive("closed_loop.flows", closed.flows.into(), FLOWS_MAX)?;
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
            (None, None) => {
                return Err(place.malformed_at("", "there is neither [open_loop] nor [closed_loop]; give one of them"));
            }
        }
        let flows = self.offered();
        place.require(flows <= FLOWS_MAX, "open_loop.flows", flows, format!("{FLOWS_MAX} in all groups at most"))?;
        positive("connect.connections", self.connect.connections.into(), CONNECTIONS_MAX.into())?;
        positive("connect.deadline_ms", self.connect.deadline_ms, 60_000)?;
        positive("connect.setup_batch", self.connect.setup_batch.into(), 1_000)?;
        positive("audit.sessions_max", self.audit.sessions_max.into(), SESSIONS_MAX)?;
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

#[cfg(test)]
mod tests;
