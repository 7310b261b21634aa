//! A scenario in which networks hoard a session.

use serde::{Deserialize, Serialize};

use super::{Scenario, ScenarioError, positive, source::ScenarioSource};

/// The most networks. Each needs a range of addresses of its own.
const NETWORKS_MAX: u64 = 250;

/// The most times that an evening is faster than in real time. Lives of holds are whole seconds.
const SPEED_MAX: u64 = 60;

/// The shares and lives of the shipped configuration, which a faster evening divides.
const WHOLE_SECONDS: u64 = 18;
const SEAT_SECONDS: u64 = 3_600;
const BONUS_SECONDS: u64 = 240;
const LIFE_MIN_MS: u64 = 180_000;
const GUEST_TTL_MS: u64 = 900_000;
const CONFIRM_MS: u64 = 10_000;
const GRACE_MS: u64 = 2_000;
const AGAIN_MS: u64 = 2_000;

/// A node behind a proxy wants one, so that customers can be known. The run names no customer.
const CUSTOMER_SECRET: &str = "no customer of a load run has a token";

/// What happens besides honest buyers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoarderRun {
    /// Networks hoard.
    Attack,
    /// A hundred networks hoard. What they hold is told and not judged.
    Hundred,
    /// 200 buyers behind one address, of which 40 come each minute. Nobody hoards.
    Office,
    /// The same while networks hoard. It is told and not judged.
    OfficeAttacked,
    /// Four carts of one address with ten seats, which are paid at the end of their life.
    Family,
    /// A key with `held_max = 500` holds that many seats, and pays for them.
    School,
    /// 200 buyers behind one address within one minute. It is told and not judged.
    Burst,
}

/// What each network does. All of them also give back, hold again and begin payments that they never confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoardKind {
    /// Each of the other kinds in turn.
    Mixed,
    /// As much as it may.
    Greedy,
    /// As much as it may, every second seat, so that no pair is left.
    Scattered,
    /// `level` seats all the time.
    Level,
    /// As much as it may, and each minute all is given back and held again.
    Again,
    /// As many places of the area as it may, by lines that grow.
    Growth,
}

/// `[hoarders]`: networks that take what they may of one session and buy nothing, and honest buyers beside them. This
/// replaces the loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoardersSpec {
    pub run: HoarderRun,
    /// Networks that hoard, of which no two are in one wider network.
    pub networks: u32,
    pub kind: HoardKind,
    /// The seats that each network of [`HoardKind::Level`] holds.
    pub level: u32,
    /// The length of the evening.
    pub minutes: u32,
    /// All times are divided by this, also those of nodes that the run starts.
    #[serde(default = "super::default_one")]
    pub speed: u32,
    /// The pause of a hoarder after a refusal, in milliseconds.
    pub pause_ms: u64,
    /// The session's leader is killed at minute 7, and all nodes at minute 10.
    #[serde(default)]
    pub kills: bool,
}

impl HoardersSpec {
    /// A time of the evening in real milliseconds.
    pub(crate) fn ms(&self, ms: u64) -> u64 {
        ms / u64::from(self.speed)
    }

    /// The number of networks that hoard.
    pub(crate) fn hoarding(&self) -> u32 {
        match self.run {
            HoarderRun::Attack | HoarderRun::OfficeAttacked => self.networks,
            HoarderRun::Hundred => 100,
            HoarderRun::Office | HoarderRun::Family | HoarderRun::School | HoarderRun::Burst => 0,
        }
    }

    /// The life of an untouched cart of a guest, in real milliseconds.
    pub(crate) fn life_ms(&self) -> u64 {
        self.ms(GUEST_TTL_MS)
    }

    /// The configuration of nodes that the run starts, besides the shipped one: guests may buy, the load generator is
    /// a proxy, and a faster evening has shorter times.
    pub fn node_config(&self, gateway: &str) -> String {
        let mut text = format!(
            "[listen]\nanonymous = \"sell\"\nproxies = [\"127.0.0.1\", \"::1\"]\ncustomer_secret = \"{CUSTOMER_SECRET}\"\n\n\
             [payments]\nurl = \"http://{gateway}\"\n"
        );
        if self.speed > 1 {
            let seconds = |seconds: u64| (seconds / u64::from(self.speed)).max(1);
            let (seat_seconds, bonus_seconds) = (seconds(SEAT_SECONDS), seconds(BONUS_SECONDS));
            let whole_seconds = seconds(WHOLE_SECONDS);
            let (life_min_ms, ttl_ms) = (self.ms(LIFE_MIN_MS), self.life_ms());
            // A node takes no less than a second.
            let confirm_ms = self.ms(CONFIRM_MS).max(1_000);
            let (grace_ms, again_ms) = (self.ms(GRACE_MS), self.ms(AGAIN_MS));
            text += &format!(
                "again_ms = {again_ms}\n\n[fairness]\nwhole_seconds = {whole_seconds}\nseat_seconds = {seat_seconds}\n\
                 bonus_seconds = {bonus_seconds}\nlife_min_ms = {life_min_ms}\n\n[carts]\nguest_ttl_max_ms = {ttl_ms}\nconfirm_ms = {confirm_ms}\n\
                 grace_ms = {grace_ms}\n"
            );
        }
        text
    }
}

impl Scenario {
    /// Whether the run kills or adds nodes.
    pub fn harms_nodes(&self) -> bool {
        self.faults.any() || self.hoarders.as_ref().is_some_and(|hoarders| hoarders.kills)
    }

    pub(super) fn check_hoarders(&self, source: &ScenarioSource<'_>) -> Result<(), ScenarioError> {
        let Some(hoarders) = &self.hoarders else { return Ok(()) };
        positive(source, "hoarders.networks", hoarders.networks.into(), NETWORKS_MAX)?;
        positive(source, "hoarders.level", hoarders.level.into(), 1_000)?;
        positive(source, "hoarders.minutes", hoarders.minutes.into(), 120)?;
        positive(source, "hoarders.speed", hoarders.speed.into(), SPEED_MAX)?;
        positive(source, "hoarders.pause_ms", hoarders.pause_ms, 60_000)?;
        let one_session = self
            .house
            .as_ref()
            .is_some_and(|house| house.groups * house.venues * house.sessions == 1 && house.places > 0);
        source.require(
            one_session && self.flow.is_none() && self.gateway.is_some(),
            "hoarders.run",
            "given",
            "it needs a [house] of one session with house.places, a [gateway], and no [flow]",
        )
    }
}
