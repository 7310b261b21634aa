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

/// A part of an open loop with a rate of its own, which may change evenly from its begin to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Flows a second of all groups at its begin.
    pub from: u32,
    /// Flows a second of all groups at its end.
    pub to: u32,
    pub length: Duration,
}

/// An open loop: flow `index` of each group starts `index × gap` after the run's start, or when the stages say, even if earlier
/// flows have not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLoop {
    /// The number of groups. All groups start at the same time.
    pub groups: u32,
    /// The number of flows in a group.
    pub flows: u32,
    /// The time between the starts of two flows of a group, if there are no stages.
    pub gap: Duration,
    /// Stages one after the other. The last one goes on if there are more flows.
    pub stages: Vec<Stage>,
}

impl Stage {
    /// Its flows in each of so many groups.
    fn flows(&self, groups: u32) -> f64 {
        f64::from(self.from + self.to) / 2.0 * self.length.as_secs_f64() / f64::from(groups)
    }

    /// When the flow with this index in it starts, in seconds after its begin.
    fn start_of(&self, index: f64, groups: u32) -> f64 {
        let from = f64::from(self.from) / f64::from(groups);
        let change = (f64::from(self.to) - f64::from(self.from)) / f64::from(groups) / self.length.as_secs_f64();
        if change == 0.0 {
            return index / from;
        }
        // Flows until t are from × t + change × t² ÷ 2.
        ((from * from + 2.0 * change * index).max(0.0).sqrt() - from) / change
    }
}

/// The flows of each of so many groups in these stages.
pub fn flows_of(stages: &[Stage], groups: u32) -> u32 {
    let flows: f64 = stages.iter().map(|stage| stage.flows(groups)).sum();
    // What is missing to a whole flow is an error of rounding.
    (flows + 1e-6) as u32
}

impl OpenLoop {
    /// The number of flows of all groups.
    pub fn offered(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.flows)
    }

    /// The intended start of this flow, after the run's start.
    pub fn start_of(&self, flow: FlowNumber) -> Duration {
        self.start(flow.index)
    }

    fn start(&self, index: u32) -> Duration {
        let Some(last) = self.stages.len().checked_sub(1) else { return self.gap * index };
        let (mut left, mut begin) = (f64::from(index), 0.0);
        for (number, stage) in self.stages.iter().enumerate() {
            let flows = stage.flows(self.groups);
            if left < flows || number == last {
                return Duration::from_secs_f64(begin + stage.start_of(left.min(flows), self.groups));
            }
            left -= flows;
            begin += stage.length.as_secs_f64();
        }
        unreachable!("the last stage has every flow that is left")
    }

    /// All flows in the order of their starts. Flows that start at the same time are ordered by group.
    pub fn arrivals(self) -> impl Iterator<Item = (Duration, FlowNumber)> + Send {
        (0..self.flows).flat_map(move |index| {
            let at = self.start(index);
            (0..self.groups).map(move |group| (at, FlowNumber { group, index }))
        })
    }

    /// The time until the last flow starts.
    pub fn span(&self) -> Duration {
        self.start(self.flows.saturating_sub(1))
    }

    /// Flows a second until the last flow starts. Infinite if all start at once.
    pub fn rate(&self) -> f64 {
        match self.stages.is_empty() {
            true => f64::from(self.groups) / self.gap.as_secs_f64(),
            false => self.offered() as f64 / self.stages.iter().map(|stage| stage.length.as_secs_f64()).sum::<f64>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_theatre_offers_a_thousand_carts_a_second_for_25_seconds() {
        let seed = OpenLoop { groups: 4, flows: 6_250, gap: Duration::from_millis(4), stages: Vec::new() };
        assert_eq!(seed.offered(), 25_000);
        assert_eq!(seed.rate(), 1_000.0);
        assert_eq!(seed.span(), Duration::from_millis(24_996));
        assert_eq!(seed.arrivals().count(), 25_000);
    }

    #[test]
    fn stages_hold_ramp_and_pause() {
        let stage = |from, to, seconds| Stage { from, to, length: Duration::from_secs(seconds) };
        let stages = vec![stage(10, 10, 2), stage(10, 110, 2), stage(0, 0, 5), stage(20, 0, 1)];
        for groups in [1, 2, 5] {
            let flows = flows_of(&stages, groups);
            assert_eq!(flows * groups, 20 + 120 + 10);
            let plan = OpenLoop { groups, flows, gap: Duration::ZERO, stages: stages.clone() };
            let starts: Vec<f64> = plan.clone().arrivals().map(|(at, _)| at.as_secs_f64()).collect();
            assert!(starts.is_sorted(), "{starts:?}");
            let within = |from: f64, to: f64| starts.iter().filter(|at| (from..to).contains(*at)).count();
            assert_eq!((within(0.0, 1.0), within(1.0, 2.0)), (10, 10));
            // The first second of the ramp has 10 to 60 flows a second, and the other one 60 to 110.
            let ramp = (within(2.0, 3.0), within(3.0, 4.0));
            assert!(ramp.0.abs_diff(35) <= groups as usize && ramp.1.abs_diff(85) <= groups as usize, "{ramp:?}");
            assert_eq!((within(4.0, 9.0 - 1e-9), within(9.0 - 1e-9, 10.1)), (0, 10));
            assert_eq!(plan.start_of(FlowNumber { group: 0, index: 0 }), Duration::ZERO);
        }
    }

    #[test]
    fn arrivals_are_ordered_by_time_then_group() {
        let plan = OpenLoop { groups: 2, flows: 2, gap: Duration::from_millis(4), stages: Vec::new() };
        let got: Vec<(u128, u32, u32)> =
            plan.arrivals().map(|(at, flow)| (at.as_millis(), flow.group, flow.index)).collect();
        assert_eq!(got, [(0, 0, 0), (0, 1, 0), (4, 0, 1), (4, 1, 1)]);
    }
}
