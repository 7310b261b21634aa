//! Computes the figures of the report from ended flows.

use std::collections::BTreeMap;

use boxoffice_workload::{goods::Good, history::BookingChange};

use crate::{
    flow::{Flow, FlowOutcome},
    report::{Bar, Flows, Latencies, Latency, Slice},
};

/// About how many slices a timeline has. Their length is a round number.
const SLICES: u64 = 100;

/// Bars of a latency histogram.
const BARS: usize = 40;

/// The outcomes of the flows.
pub(crate) fn flows<'a>(offered: u64, ended: impl IntoIterator<Item = &'a Flow>) -> Flows {
    let mut flows = Flows { offered, ..Flows::default() };
    for flow in ended {
        flows.retried += u64::from(flow.retried);
        match &flow.outcome {
            FlowOutcome::Done => flows.done += 1,
            FlowOutcome::Refused(why) => *flows.refused.entry(why.to_string()).or_default() += 1,
            FlowOutcome::Abandoned => flows.abandoned += 1,
            FlowOutcome::Failed(why) => *flows.failed.entry(why.to_string()).or_default() += 1,
        }
        if let Some(bought) = flow.record.bought() {
            flows.total += bought.total;
            let held = flow.record.holds.iter().filter(|hold| hold.outcome.granted().is_some());
            flows.seats_sold += held.map(|hold| hold.seats.len() as u64).sum::<u64>();
            let taken = flow.record.goods_holds.iter().filter(|take| take.outcome.granted().is_some());
            flows.units_sold += taken.map(|take| u64::from(take.quantity)).sum::<u64>();
        }
    }
    flows
}

/// The time from the first start to the last end, in seconds.
pub(crate) fn run_s(ended: &[Flow]) -> f64 {
    let first = ended.iter().map(|flow| flow.started_us.min(flow.intended_us)).min().unwrap_or(0);
    let last = ended.iter().map(|flow| flow.ended_us).max().unwrap_or(0);
    last.saturating_sub(first) as f64 / 1e6
}

/// Latencies of the flows with a chosen outcome. `None` if there are none.
pub(crate) fn latencies(ended: &[Flow], which: impl Fn(&FlowOutcome) -> bool) -> Option<Latencies> {
    let chosen: Vec<&Flow> = ended.iter().filter(|flow| which(&flow.outcome)).collect();
    let of = |start: fn(&Flow) -> u64| {
        let mut us: Vec<u64> = chosen.iter().map(|flow| flow.latency_from_us(start(flow))).collect();
        Latency::of(&mut us)
    };
    Some(Latencies { intended: of(|flow| flow.intended_us)?, actual: of(|flow| flow.started_us)? })
}

/// Latencies of requests, by op.
pub(crate) fn steps(ended: &[Flow]) -> BTreeMap<String, Latency> {
    let mut durations_us: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for flow in ended {
        let opened = flow.opened.iter().map(|span| ("cart.open", span));
        let held = flow.record.holds.iter().map(|hold| ("cart.hold_seats", &hold.span));
        let taken = flow.record.goods_holds.iter().map(|take| (op_of_take(take.good), &take.span));
        let changed = flow.changes.iter().map(|change| (op_of_change(change.change), &change.span));
        let bought = flow.record.checkout.iter().map(|checkout| ("cart.checkout", &checkout.span));
        for (name, span) in opened.chain(held).chain(taken).chain(changed).chain(bought) {
            durations_us.entry(name).or_default().push(span.returned_us - span.called_us);
        }
    }
    let latency = |(name, mut us): (&str, Vec<u64>)| Some((name.to_owned(), Latency::of(&mut us)?));
    durations_us.into_iter().filter_map(latency).collect()
}

fn op_of_take(good: Good) -> &'static str {
    match good {
        Good::Product(_) => "cart.hold_stock",
        Good::Area { .. } => "cart.hold_places",
        Good::Slot { .. } => "cart.hold_slot",
    }
}

fn op_of_change(change: BookingChange) -> &'static str {
    match change {
        BookingChange::Reserve(_) => "resource.reserve",
        BookingChange::Move(_) => "resource.move",
        BookingChange::Cancel => "resource.cancel",
    }
}

/// The run in slices of time. A flow belongs to the slice in which it ended.
pub(crate) fn timeline(ended: &[Flow]) -> Vec<Slice> {
    let last_us = ended.iter().map(|flow| flow.ended_us).max().unwrap_or(0);
    let length_us = slice_us(last_us);
    let mut slices: Vec<(Slice, Vec<u64>)> = (0..=last_us / length_us)
        .map(|number| {
            let at_s = (number * length_us) as f64 / 1e6;
            (Slice { at_s, length_s: length_us as f64 / 1e6, ..Slice::default() }, Vec::new())
        })
        .collect();
    for flow in ended {
        let (slice, latencies_us) = &mut slices[(flow.ended_us / length_us) as usize];
        match flow.outcome {
            FlowOutcome::Done => slice.done += 1,
            FlowOutcome::Refused(_) => slice.refused += 1,
            FlowOutcome::Abandoned => slice.abandoned += 1,
            FlowOutcome::Failed(_) => slice.failed += 1,
        }
        latencies_us.push(flow.latency_us());
    }
    // The last slice ends with the last flow, so that the rates at the end are true.
    if let Some((slice, _)) = slices.last_mut() {
        slice.length_s = (last_us % length_us).max(1) as f64 / 1e6;
    }
    let finish = |(mut slice, mut us): (Slice, Vec<u64>)| {
        us.sort_unstable();
        let ms = |place: usize| us.get(place).map_or(0.0, |&us| us as f64 / 1_000.0);
        slice.p50_ms = ms(us.len() / 2);
        slice.p99_ms = ms(us.len() * 99 / 100);
        slice.max_ms = us.last().map_or(0.0, |&us| us as f64 / 1_000.0);
        slice
    };
    slices.into_iter().map(finish).collect()
}

/// The length of a slice: 1, 2 or 5 times a power of ten, for about [`SLICES`] of them.
fn slice_us(last_us: u64) -> u64 {
    let rough = (last_us / SLICES).max(10_000);
    let power = 10u64.pow(rough.ilog10());
    [1, 2, 5, 10].iter().map(|step| step * power).find(|&step| step >= rough).unwrap_or(rough)
}

/// The latencies of the flows that bought, in bars whose edges grow by a constant factor.
pub(crate) fn histogram(ended: &[Flow]) -> Vec<Bar> {
    let bought = ended.iter().filter(|flow| flow.outcome == FlowOutcome::Done);
    let us: Vec<u64> = bought.map(|flow| flow.latency_us().max(1)).collect();
    let (Some(&min), Some(&max)) = (us.iter().min(), us.iter().max()) else { return Vec::new() };
    let factor = (max as f64 / min as f64).powf(1.0 / BARS as f64).max(1.0001);
    let mut bars: Vec<Bar> = (0..BARS)
        .map(|number| {
            let edge = |number: usize| min as f64 * factor.powi(number as i32) / 1_000.0;
            Bar { from_ms: edge(number), to_ms: edge(number + 1), count: 0 }
        })
        .collect();
    for us in us {
        let place = ((us as f64 / min as f64).ln() / factor.ln()) as usize;
        bars[place.min(BARS - 1)].count += 1;
    }
    bars
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::CartId;
    use boxoffice_workload::history::CartRecord;

    use super::*;

    fn flow(intended_us: u64, started_us: u64, ended_us: u64, outcome: FlowOutcome) -> Flow {
        let record = CartRecord::new(CartId(1));
        Flow { ended_us, outcome, ..Flow::new(intended_us, started_us, record) }
    }

    fn ended() -> Vec<Flow> {
        vec![
            flow(0, 1_000, 3_000, FlowOutcome::Done),
            flow(4_000, 4_000, 9_000, FlowOutcome::Done),
            flow(8_000, 9_000, 12_000, FlowOutcome::Refused("seats_taken".into())),
            flow(12_000, 12_000, 25_000, FlowOutcome::Failed("unknown".into())),
            flow(16_000, 16_000, 26_000, FlowOutcome::Abandoned),
        ]
    }

    #[test]
    fn every_flow_counts_once() {
        let flows = flows(5, &ended());
        assert_eq!((flows.done, flows.refused_all(), flows.abandoned, flows.failed_all()), (2, 1, 1, 1));
        assert!(flows.adds_up());
        assert_eq!(flows.failed["unknown"], 1);
        assert_eq!(run_s(&ended()), 0.026);
    }

    #[test]
    fn latency_is_measured_from_both_starts() {
        let latencies = latencies(&ended(), |end| *end == FlowOutcome::Done).expect("two bought");
        assert_eq!((latencies.intended.seed.mean, latencies.actual.seed.mean), (4.0, 3.5));
        assert!(super::latencies(&[], |_| true).is_none());
    }

    #[test]
    fn a_slice_has_the_flows_that_ended_in_it() {
        let timeline = timeline(&ended());
        let counts: Vec<[u64; 4]> =
            timeline.iter().map(|slice| [slice.done, slice.refused, slice.abandoned, slice.failed]).collect();
        assert_eq!(counts, [[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]]);
        assert_eq!((timeline[0].length_s, timeline[2].length_s, timeline[2].max_ms), (0.01, 0.006, 13.0));
    }

    #[test]
    fn slices_have_round_lengths() {
        assert_eq!([slice_us(0), slice_us(25_000_000), slice_us(60_000_000)], [10_000, 500_000, 1_000_000]);
    }

    #[test]
    fn bars_count_every_purchase() {
        let bought: Vec<Flow> = (1..=1_000).map(|us| flow(0, 0, us * us, FlowOutcome::Done)).collect();
        let bars = histogram(&bought);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 1_000);
        assert!(bars.windows(2).all(|pair| (pair[0].to_ms - pair[1].from_ms).abs() < 1e-9));
        assert_eq!(histogram(&[flow(0, 0, 5, FlowOutcome::Done)]).iter().map(|bar| bar.count).sum::<u64>(), 1);
    }
}
