//! A scenario in which members buy with codes, then everybody, and then what an allotment has kept.

use boxoffice_core::command::CODE_USES_MAX;
use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, goods::percent, positive, price_fits, source::ScenarioSource};

/// The most codes of a run. The run keeps what was bought with each.
const CODES_MAX: u64 = 1_000_000;

/// The most categories. Each is a group of rows.
const CATEGORIES_MAX: u64 = 50;

/// The most seats that a member buys at once.
const SEATS_MAX: u64 = boxoffice_core::seat::HOLD_SEATS_MAX as u64;

/// The longest time between the moment an opening is set and the opening, in milliseconds.
const LEAD_MAX_MS: u64 = 600_000;

/// The secrets of nodes that the run starts. Their codes and customers end with them.
const CODE_SECRET: &str = "codes of a load run are no secret";
const CUSTOMER_SECRET: &str = "no customer of a load run has a token";

/// How the seats of the allotments come to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseBy {
    /// At a time that the allotment names.
    Time,
    /// The desk releases them.
    Desk,
    /// One session by its time, the next one by the desk.
    Both,
}

/// `[onsale.prices]`: the list prices of each price type in minor units, by category from the stage to the back. A category beyond the
/// end of a list is not sold to that type. Adults buy everywhere, so their list says how many categories there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    pub adult: Vec<i64>,
    pub under26: Vec<i64>,
    pub carer: Vec<i64>,
}

/// `[onsale]`: a presale to members with codes, the public opening, and the release of an allotment. This replaces the loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnsaleSpec {
    /// Codes that members have. Each is put before the sale, and used.
    pub codes: u32,
    /// Uses of each code, all of which its member buys with.
    pub uses: u16,
    /// By how much members buy cheaper, in hundredths of a percent.
    pub member_rate_off: u32,
    /// Percentage of the codes that are shown once more when they are used up.
    pub again_percent: u8,
    /// Percentage of the codes whose last use two carts want at once.
    pub race_percent: u8,
    /// Percentage of the codes with one use left at the opening, which the member then shows for two seats.
    pub late_percent: u8,
    /// Percentage of the buyers that cancel their first cart and begin again.
    pub cancel_percent: u8,
    /// Buyers that come before the opening and wait for it.
    pub early: u32,
    /// Buyers that come when it is open.
    pub public: u32,
    /// Percentage of those buyers that are under 26, and of those that come with a carer.
    pub under26_percent: u8,
    pub carer_percent: u8,
    /// Tickets for people under 26 in each session.
    pub under26_max: u32,
    /// The last rows of each hall are an allotment.
    pub allotment_rows: u16,
    pub release: ReleaseBy,
    /// How long ahead an opening and a release are set, in milliseconds. Buyers come meanwhile.
    pub lead_ms: u64,
    /// Buyers at the same time, besides those that wait for the opening.
    pub clients: u32,
    pub prices: PriceTable,
}

impl OnsaleSpec {
    /// The configuration of nodes that the run starts, besides `config/open.toml`: they take codes, and the load generator is a proxy
    /// in front of many networks.
    pub fn node_config(&self) -> String {
        format!(
            "[listen]\nproxies = [\"127.0.0.1\", \"::1\"]\ncustomer_secret = \"{CUSTOMER_SECRET}\"\ncode_secret = \"{CODE_SECRET}\"\n"
        )
    }

    /// The list prices, by price type as they are numbered.
    pub(crate) fn list_prices(&self) -> [&[i64]; 3] {
        let PriceTable { adult, under26, carer } = &self.prices;
        [adult, under26, carer]
    }
}

impl Scenario {
    pub(super) fn check_onsale(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        let Some(onsale) = &self.onsale else { return Ok(()) };
        positive(source, "onsale.codes", onsale.codes.into(), CODES_MAX)?;
        positive(source, "onsale.uses", onsale.uses.into(), SEATS_MAX.min(CODE_USES_MAX.into()))?;
        positive(source, "onsale.member_rate_off", onsale.member_rate_off.into(), 10_000)?;
        for (key, value) in [
            ("onsale.again_percent", onsale.again_percent),
            ("onsale.race_percent", onsale.race_percent),
            ("onsale.late_percent", onsale.late_percent),
            ("onsale.cancel_percent", onsale.cancel_percent),
            ("onsale.under26_percent", onsale.under26_percent),
            ("onsale.carer_percent", onsale.carer_percent),
        ] {
            percent(source, key, value)?;
        }
        let special: u32 =
            [onsale.again_percent, onsale.race_percent, onsale.late_percent].into_iter().map(u32::from).sum();
        source.require(
            special <= 100,
            "onsale.again_percent",
            special,
            "again, race and late are 100 at most together",
        )?;
        positive(source, "onsale.early", onsale.early.into(), super::CLIENTS_MAX.into())?;
        positive(source, "onsale.public", onsale.public.into(), super::FLOWS_MAX)?;
        positive(source, "onsale.under26_max", onsale.under26_max.into(), 1_000_000)?;
        positive(source, "onsale.lead_ms", onsale.lead_ms, LEAD_MAX_MS)?;
        positive(source, "onsale.clients", onsale.clients.into(), 10_000)?;
        let categories = onsale.prices.adult.len();
        positive(source, "onsale.prices.adult", categories as u64, CATEGORIES_MAX)?;
        for (key, list) in ["onsale.prices.adult", "onsale.prices.under26", "onsale.prices.carer"]
            .into_iter()
            .zip(onsale.list_prices())
        {
            let why = "give a price for each category that is sold to it, and adults one for all";
            source.require((1..=categories).contains(&list.len()), key, list.len(), why)?;
            list.iter().try_for_each(|price| price_fits(source, key, *price))?;
        }
        let rows = self.house.as_ref().map_or(0, |house| house.rows);
        source.require(
            onsale.allotment_rows >= 1 && usize::from(rows) >= categories + usize::from(onsale.allotment_rows),
            "onsale.allotment_rows",
            onsale.allotment_rows,
            "give at least one row, and leave a row to each category",
        )?;
        let fits = self.house.as_ref().is_some_and(|house| house.seats >= 2 && house.places == 0);
        source.require(
            fits && self.flow.is_none() && self.gateway.is_none() && self.overload.is_none() && self.hoarders.is_none(),
            "onsale.codes",
            onsale.codes,
            "it needs a [house] with two seats a row and without places, and no [flow], [gateway], [overload] or [hoarders]",
        )?;
        source.require(
            !self.faults.any() && self.open_loop.is_none() && self.closed_loop.is_none(),
            "onsale.clients",
            onsale.clients,
            "it has its own buyers and harms no node; leave out [open_loop], [closed_loop] and [faults]",
        )
    }
}
