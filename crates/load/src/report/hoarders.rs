//! What hoarders held, and who bought beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{by_reason_in_parentheses, grouped};

/// What hoarders held, and who bought beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hoarders {
    /// What happened besides honest buyers, as the scenario calls it.
    pub run: String,
    /// Networks that hoarded.
    pub networks: u32,
    /// Seats and places of the house.
    pub house: (u32, u32),
    pub minutes: Vec<HoardMinute>,
    /// Honest buyers, by window of five minutes.
    pub windows: Vec<Came>,
    /// The buyers of the office, the family, the school or the burst.
    pub others: Option<Came>,
    /// Requests of hoarders that were granted.
    pub granted: u64,
    /// Their requests that were not, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Why honest buyers did not buy, and the others.
    pub not_bought: BTreeMap<String, u64>,
    /// What is told and not judged.
    pub told: Vec<String>,
    /// The problems. They fail the run.
    pub problems: Vec<String>,
}

/// What hoarders hold at the end of a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoardMinute {
    pub minute: u32,
    /// Seats, by the session's audit and the networks of its carts.
    pub seats: u32,
    /// Places, by the same.
    pub places: u32,
    /// Seats and places that hoarders were granted and believe to have.
    pub believed: u32,
    /// The most that one network has of seats.
    pub most: u32,
}

/// Buyers that came, and those that bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Came {
    pub came: u32,
    pub bought: u32,
}

impl Came {
    /// Whether at least this percentage has bought.
    pub(crate) fn has(self, percent: u32) -> bool {
        u64::from(self.bought) * 100 >= u64::from(self.came) * u64::from(percent)
    }
}

impl Hoarders {
    /// The seats at the end of a minute.
    pub(crate) fn at(&self, minute: u32) -> Option<&HoardMinute> {
        self.minutes.iter().find(|it| it.minute == minute)
    }

    /// Who bought, in one line.
    pub(crate) fn verdict(&self) -> String {
        let honest = self
            .windows
            .iter()
            .fold(Came::default(), |all, it| Came { came: all.came + it.came, bought: all.bought + it.bought });
        let others =
            self.others.map_or(String::new(), |it| format!(", {} of {} of the {}", it.bought, it.came, self.run));
        format!(
            "{} of {} honest buyers bought{others}",
            grouped(u64::from(honest.bought)),
            grouped(u64::from(honest.came))
        )
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.networks > 0 {
            lines.push(format!(
                "{} networks hoard {} seats and {} places; {} asks were granted, others not{}",
                self.networks,
                grouped(u64::from(self.house.0)),
                grouped(u64::from(self.house.1)),
                grouped(self.granted),
                by_reason_in_parentheses(&self.refused)
            ));
        }
        let windows: Vec<String> =
            self.windows.iter().map(|window| format!("{} of {}", window.bought, window.came)).collect();
        lines.push(format!("honest buyers that bought, in windows of five minutes: {}", windows.join(", ")));
        if let Some(Came { came, bought }) = self.others {
            lines.push(format!("{}: {bought} of {came} bought", self.run));
        }
        if !self.not_bought.is_empty() {
            lines.push(format!("why others did not{}", by_reason_in_parentheses(&self.not_bought)));
        }
        lines.extend(self.told.iter().cloned());
        lines
    }

    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let head = ["minute", "seats", "places", "believed", "by one"].map(str::to_owned).to_vec();
        let row = |it: &HoardMinute| {
            [it.minute, it.seats, it.places, it.believed, it.most].map(|count| grouped(u64::from(count))).to_vec()
        };
        if self.networks == 0 {
            return Vec::new();
        }
        [head].into_iter().chain(self.minutes.iter().map(row)).collect()
    }
}
