//! The start times of flows.

use std::time::Duration;

/// Identifies a flow: flow `index` of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowNumber {
    /// The group, from 0.
    pub group: u32,
    /// The index in the group, from 0.
    pub index: u32,
}

/// An open loop: flow `index` of each group starts `index × gap` after the run's start, even if earlier flows have not
/// finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLoop {
    /// The number of groups. All groups start at the same time.
    pub groups: u32,
    /// The number of flows in a group.
    pub flows: u32,
    /// The time between the starts of two flows of a group.
    pub gap: Duration,
}

impl OpenLoop {
    /// The number of flows of all groups.
    pub fn offered(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.flows)
    }

    /// The intended start of this flow, after the run's start.
    pub fn start_of(&self, flow: FlowNumber) -> Duration {
        self.gap * flow.index
    }

    /// All flows in the order of their starts. Flows that start at the same time are ordered by group.
    pub fn arrivals(self) -> impl Iterator<Item = (Duration, FlowNumber)> + Send {
        (0..self.flows).flat_map(move |index| {
            (0..self.groups).map(move |group| {
                let flow = FlowNumber { group, index };
                (self.start_of(flow), flow)
            })
        })
    }

    /// The time until the last flow starts.
    pub fn span(&self) -> Duration {
        self.gap * self.flows.saturating_sub(1)
    }

    /// Flows a second until the last flow starts. Infinite if all start at once.
    pub fn rate(&self) -> f64 {
        f64::from(self.groups) / self.gap.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_theatre_offers_a_thousand_carts_a_second_for_25_seconds() {
        let seed = OpenLoop { groups: 4, flows: 6_250, gap: Duration::from_millis(4) };
        assert_eq!(seed.offered(), 25_000);
        assert_eq!(seed.rate(), 1_000.0);
        assert_eq!(seed.span(), Duration::from_millis(24_996));
        assert_eq!(seed.arrivals().count(), 25_000);
    }

    #[test]
    fn arrivals_are_ordered_by_time_then_group() {
        let plan = OpenLoop { groups: 2, flows: 2, gap: Duration::from_millis(4) };
        let got: Vec<(u128, u32, u32)> =
            plan.arrivals().map(|(at, flow)| (at.as_millis(), flow.group, flow.index)).collect();
        assert_eq!(got, [(0, 0, 0), (0, 1, 0), (4, 0, 1), (4, 1, 1)]);
    }
}
