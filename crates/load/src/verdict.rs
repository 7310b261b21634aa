//! The verdict of a run in one line, and the reasons if it failed.

use boxoffice_workload::check::Breach;

use crate::{
    report::{Audit, Flows, Latencies, Percentiles, Report, Verdict, Watchers, grouped, money},
    scenario::Expect,
};

/// Adds the problems of what a run did besides its flows.
pub(crate) fn add_other_problems(report: &mut Report) {
    let reasons = &mut report.verdict.reasons;
    if let Some(reads) = report.reads.as_ref().filter(|reads| !reads.adds_up()) {
        reasons.push(format!("{} reads were offered; some were dropped", grouped(reads.offered)));
    }
    reasons.extend(slow(&report.scenario.expect, report.done.as_ref()));
    reasons.extend(report.watchers.iter().flat_map(Watchers::problems));
    reasons.extend(report.outages.iter().flat_map(|outages| outages.problems.clone()));
    reasons.extend(report.hoarders.iter().flat_map(|hoarders| hoarders.problems.clone()));
    reasons.extend(report.onsale.iter().flat_map(|onsale| onsale.problems.clone()));
    reasons.extend(report.overload.iter().flat_map(|overload| overload.problems.clone()));
    report.verdict.passed = reasons.is_empty();
    if let Some(hoarders) = &report.hoarders {
        report.verdict.line = hoarders.verdict();
    }
    if let Some(onsale) = &report.onsale {
        report.verdict.line = onsale.verdict();
    }
}

/// What is wrong with the latencies of a run, which are those of flows that bought, from their intended start.
pub(crate) fn slow(expect: &Expect, done: Option<&Latencies>) -> Vec<String> {
    let Expect { p50_ms, p90_ms, p99_ms, p99_9_ms, .. } = expect;
    let percentiles = done.map(|done| done.intended.percentiles);
    let got = |figure: fn(&Percentiles) -> f64| percentiles.as_ref().map(figure);
    let figures = [
        ("p50", p50_ms, got(|percentiles| percentiles.p50)),
        ("p90", p90_ms, got(|percentiles| percentiles.p90)),
        ("p99", p99_ms, got(|percentiles| percentiles.p99)),
        ("p99.9", p99_9_ms, got(|percentiles| percentiles.p99_9)),
    ];
    let slow = figures.into_iter().filter_map(|(name, most, got)| {
        let most = f64::from((*most)?);
        match got {
            None => Some(format!("{name}: no flow bought, expected at most {most:.3} ms")),
            Some(got) => (got > most).then(|| format!("{name}: {got:.3} ms, expected at most {most:.3} ms")),
        }
    });
    slow.collect()
}

/// How much worse a run is than an earlier one of the same scenario, by more than `percent_max`: the latencies of
/// flows that bought, from their intended start, and how many bought in a second.
pub(crate) fn worse(report: &Report, baseline: &Report, percent_max: f64) -> Vec<String> {
    let rate = |report: &Report| report.flows.done as f64 / report.times.run_s.max(0.001);
    let latency = |report: &Report| report.done.map(|done| done.intended.percentiles);
    let mut figures = vec![("done a second", rate(baseline), rate(report), false)];
    // Without a flow that bought the rate says it.
    if let (Some(before), Some(now)) = (latency(baseline), latency(report)) {
        figures.extend([("p50 ms", before.p50, now.p50, true), ("p99 ms", before.p99, now.p99, true)]);
    }
    let worse = figures.into_iter().filter_map(|(name, before, now, is_latency)| {
        let change = if is_latency { now / before.max(0.001) } else { before / now.max(0.001) };
        let percent = (change - 1.0) * 100.0;
        (percent > percent_max).then(|| {
            format!("{name}: {now:.3}, and {before:.3} in the baseline, which is {percent:.0} % worse; {percent_max} % are allowed")
        })
    });
    worse.collect()
}

/// Judges a run. A flow that a kill left in doubt does not count as failed: its first attempt may still be granted, so
/// no answer proves a refusal. The audit finds out what became of it.
pub(crate) fn judge(expect: &Expect, flows: &Flows, in_doubt: u64, audit: &Audit) -> Verdict {
    let mut reasons = Vec::new();
    let failed = flows.failed_all().saturating_sub(in_doubt);
    if !flows.adds_up() {
        reasons.push(format!(
            "{} flows were offered, but {} bought, {} were refused, {} were abandoned and {} failed: some were dropped",
            grouped(flows.offered),
            grouped(flows.done),
            grouped(flows.refused_all()),
            grouped(flows.abandoned),
            grouped(flows.failed_all())
        ));
    }
    let mut compare = |what: &str, expected: Option<String>, got: String| {
        if let Some(expected) = expected.filter(|expected| *expected != got) {
            reasons.push(format!("{what}: {got}, expected {expected}"));
        }
    };
    compare("done", expect.done.map(grouped), grouped(flows.done));
    compare("refused", expect.refused.map(grouped), grouped(flows.refused_all()));
    compare("abandoned", expect.abandoned.map(grouped), grouped(flows.abandoned));
    compare("failed", expect.failed.map(grouped), grouped(failed));
    compare("seats sold", expect.seats_sold.map(grouped), grouped(flows.seats_sold));
    compare("units sold", expect.units_sold.map(grouped), grouped(flows.units_sold));
    compare("units left", expect.units_left.map(grouped), grouped(audit.findings.units_free));
    let held = audit.findings.seats_held + audit.findings.units_held;
    compare("held", expect.held.map(grouped), grouped(held));
    compare("total", expect.total.map(money), money(flows.total));
    let findings = &audit.findings;
    for (breach, count) in &findings.breaches {
        reasons.push(format!("{breach}: {} times", grouped(*count)));
    }

    let others: u64 = findings.count_all()
        - findings.count(Breach::Twice)
        - findings.count(Breach::RefusedWhileFree)
        - findings.count(Breach::Lost);
    let mut parts = vec![format!("{} sold", grouped(flows.done))];
    let mut add = |count: u64, word: &str| {
        if count > 0 {
            parts.push(format!("{} {word}", grouped(count)));
        }
    };
    add(flows.refused_all(), "refused");
    add(flows.abandoned, "abandoned");
    add(failed, "failed");
    add(in_doubt, "in doubt after a kill");
    parts.push(format!("{} twice", grouped(findings.count(Breach::Twice))));
    parts.push(format!("{} refused while free", grouped(findings.count(Breach::RefusedWhileFree))));
    parts.push(format!("{} lost", grouped(findings.count(Breach::Lost))));
    if others > 0 {
        parts.push(format!("{} other breaches", grouped(others)));
    }
    Verdict { passed: reasons.is_empty(), line: parts.join(", "), reasons }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    fn flows() -> Flows {
        Flows { offered: 25_000, done: 25_000, seats_sold: 125_000, total: 125_000_000, ..Flows::default() }
    }

    #[test]
    fn a_good_run_has_a_verdict_of_one_line() {
        let expect = Expect { done: Some(25_000), refused: Some(0), total: Some(125_000_000), ..Expect::default() };
        let verdict = judge(&expect, &flows(), 0, &Audit::default());
        assert!(verdict.passed, "{:?}", verdict.reasons);
        assert_eq!(verdict.line, "25 000 sold, 0 twice, 0 refused while free, 0 lost");
    }

    #[test]
    fn an_unexpected_figure_fails_the_run() {
        let expect = Expect { done: Some(1), total: Some(1_000), ..Expect::default() };
        let verdict = judge(&expect, &flows(), 0, &Audit::default());
        assert!(!verdict.passed);
        assert_eq!(verdict.reasons, ["done: 25 000, expected 1", "total: 1 250 000.00, expected 10.00"]);
    }

    #[test]
    fn a_latency_above_the_expected_one_fails_the_run() {
        let done = sample().done;
        let expect = |text: &str| toml::from_str::<Expect>(text).expect("expectations");
        assert_eq!(slow(&expect("p50_ms = 6\np99_ms = 10.5\n"), done.as_ref()), [""; 0]);
        let reasons = slow(&expect("p50_ms = 4.5\np99_ms = 9.5\np99_9_ms = 60000\n"), done.as_ref());
        assert!(
            reasons.len() == 2 && reasons[0].starts_with("p50: 5.0") && reasons[1].starts_with("p99: 9.9"),
            "{reasons:?}"
        );
        assert!(reasons[1].ends_with("expected at most 9.500 ms"), "{reasons:?}");
        assert_eq!(slow(&expect("p90_ms = 1\n"), None), ["p90: no flow bought, expected at most 1.000 ms"]);
        toml::from_str::<Expect>("p99_ms = 0\n").expect_err("nothing is that fast");
    }

    #[test]
    fn a_run_that_is_worse_than_its_baseline_by_more_than_allowed_fails() {
        let baseline = sample();
        let mut now = sample();
        assert_eq!(worse(&now, &baseline, 0.0), [""; 0]);
        let done = now.done.as_mut().expect("flows bought");
        done.intended.percentiles.p99 *= 1.5;
        now.times.run_s *= 1.25;
        assert_eq!(worse(&now, &baseline, 60.0), [""; 0]);
        let reasons = worse(&now, &baseline, 20.0);
        assert!(
            reasons.len() == 2 && reasons[0].contains("25 % worse") && reasons[1].contains("50 % worse"),
            "{reasons:?}"
        );
        // Better is not worse.
        assert_eq!(worse(&baseline, &now, 0.0), [""; 0]);
    }

    #[test]
    fn a_dropped_flow_fails_the_run() {
        let verdict = judge(&Expect::default(), &Flows { done: 24_999, ..flows() }, 0, &Audit::default());
        assert!(!verdict.passed && verdict.reasons[0].contains("some were dropped"), "{:?}", verdict.reasons);
    }

    #[test]
    fn a_flow_in_doubt_after_a_kill_has_not_failed() {
        let expect = Expect { failed: Some(0), ..Expect::default() };
        let failed = [("unknown".to_owned(), 2)].into();
        let flows = Flows { offered: 25_002, failed, ..flows() };
        let verdict = judge(&expect, &flows, 2, &Audit::default());
        assert!(verdict.passed, "{:?}", verdict.reasons);
        assert_eq!(verdict.line, "25 000 sold, 2 in doubt after a kill, 0 twice, 0 refused while free, 0 lost");
        let verdict = judge(&expect, &flows, 1, &Audit::default());
        assert_eq!(verdict.reasons, ["failed: 1, expected 0"]);
    }

    #[test]
    fn a_breach_fails_the_run() {
        let mut audit = Audit::default();
        audit.findings.add(Breach::Twice, || "seat".into());
        audit.findings.add(Breach::Miscounted, || "counts".into());
        let verdict = judge(&Expect::default(), &flows(), 0, &audit);
        assert!(!verdict.passed);
        assert_eq!(verdict.line, "25 000 sold, 1 twice, 0 refused while free, 0 lost, 1 other breaches");
        assert_eq!(verdict.reasons, ["twice: 1 times", "miscounted: 1 times"]);
    }
}
