//! The report as a table for a terminal.

use std::fmt::Write as _;

use super::{Latency, Report, grouped, money};

pub(super) fn table(report: &Report, baseline: Option<&Report>) -> String {
    let mut out = String::new();
    write(&mut out, report, baseline).expect("writing to a string cannot fail");
    out
}

fn write(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    header(out, report)?;
    flows(out, report)?;
    rates(out, report)?;
    latencies(out, report, baseline)?;
    steps(out, report)?;
    expiry_burst(out, report)?;
    overload(out, report)?;
    background_work(out, report)?;
    machine(out, report)?;
    audit(out, report)?;
    verdict(out, report)
}

fn header(out: &mut String, report: &Report) -> std::fmt::Result {
    let server = &report.server;
    writeln!(out, "{}: {}", report.scenario.name, report.scenario.about)?;
    writeln!(
        out,
        "  at {} (boxoffice {}; {} node{}, {} replica{}, fsync {})",
        server.addresses.join(", "),
        server.version,
        server.nodes.len(),
        plural(server.nodes.len() as u64),
        server.replicas,
        plural(server.replicas.into()),
        server.fsync
    )?;
    writeln!(out, "  prefix {}, seed {}", report.prefix, report.seed)?;
    writeln!(out)
}

fn flows(out: &mut String, report: &Report) -> std::fmt::Result {
    let flows = &report.flows;
    writeln!(out, "  offered     {:>12}", grouped(flows.offered))?;
    writeln!(out, "  done        {:>12}", grouped(flows.done))?;
    reasons(out, "refused", &flows.refused)?;
    writeln!(out, "  abandoned   {:>12}", grouped(flows.abandoned))?;
    reasons(out, "failed", &flows.failed)?;
    if flows.retried > 0 {
        writeln!(out, "  tried again {:>12}", grouped(flows.retried))?;
    }
    writeln!(out, "  seats sold  {:>12}", grouped(flows.seats_sold))?;
    if flows.units_sold > 0 {
        writeln!(out, "  units sold  {:>12}", grouped(flows.units_sold))?;
    }
    writeln!(out, "  total       {:>12} {}", money(flows.total), report.scenario.currency_name())?;
    writeln!(out)
}

fn rates(out: &mut String, report: &Report) -> std::fmt::Result {
    let times = report.times;
    writeln!(out, "  {:<34}{:>12.3} s", "runtime", times.run_s)?;
    writeln!(out, "  {:<34}{:>12.3} s", "runtime with set-up", times.setup_s + times.run_s)?;
    writeln!(out, "  {:<34}{:>12.1} /s", "flows done", report.flows.done as f64 / times.run_s.max(1e-9))
}

fn latencies(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    let earlier = baseline.and_then(|baseline| baseline.done);
    if let Some(done) = &report.done {
        latency(
            out,
            "bought, from the intended start",
            &done.intended,
            earlier.as_ref().map(|latencies| &latencies.intended),
        )?;
        latency(
            out,
            "bought, from the actual start",
            &done.actual,
            earlier.as_ref().map(|latencies| &latencies.actual),
        )?;
    }
    if let Some(refused) = &report.refused {
        let earlier = baseline.and_then(|baseline| baseline.refused);
        let earlier = earlier.as_ref().map(|latencies| &latencies.intended);
        latency(out, "refused, from the intended start", &refused.intended, earlier)?;
    }
    Ok(())
}

fn steps(out: &mut String, report: &Report) -> std::fmt::Result {
    if !report.steps.is_empty() {
        writeln!(out)?;
        writeln!(out, "  {:<18}{:>10}{:>10}{:>10}{:>10}{:>10}", "request, ms", "count", "mean", "p50", "p99", "max")?;
        for (name, step) in &report.steps {
            writeln!(
                out,
                "  {name:<18}{:>10}{:>10.3}{:>10.3}{:>10.3}{:>10.3}",
                grouped(step.seed.count),
                step.seed.mean,
                step.percentiles.p50,
                step.percentiles.p99,
                step.seed.max
            )?;
        }
    }
    writeln!(out)
}

/// The phases of a run under overload.
fn overload(out: &mut String, report: &Report) -> std::fmt::Result {
    let Some(overload) = &report.overload else { return Ok(()) };
    writeln!(out, "  overload: capacity {:.0} purchases/s; latencies in ms, of admitted requests", overload.capacity)?;
    for [name, figures @ ..] in overload.rows() {
        write!(out, "  {name:<17}")?;
        figures.iter().try_for_each(|figure| write!(out, "{figure:>10}"))?;
        writeln!(out)?;
    }
    overload.extra_lines().iter().try_for_each(|line| writeln!(out, "    {line}"))?;
    writeln!(out)
}

fn reasons(out: &mut String, name: &str, reasons: &std::collections::BTreeMap<String, u64>) -> std::fmt::Result {
    let all: u64 = reasons.values().sum();
    let each: Vec<String> = reasons.iter().map(|(reason, count)| format!("{reason} {}", grouped(*count))).collect();
    let each = if each.is_empty() { String::new() } else { format!("  ({})", each.join(", ")) };
    writeln!(out, "  {name:<12}{:>12}{each}", grouped(all))
}

/// The seeds' statistics and the percentiles, with those of an earlier run if there is one.
fn latency(out: &mut String, name: &str, latency: &Latency, earlier: Option<&Latency>) -> std::fmt::Result {
    writeln!(out)?;
    write!(out, "  {name:<34}")?;
    match earlier {
        Some(_) => writeln!(out, "{:>12}  {:>14}{:>10}", "ms", "earlier, ms", "change")?,
        None => writeln!(out, "{:>12}", "ms")?,
    }
    let earlier = earlier.map(Latency::rows);
    for (place, (name, figure)) in latency.rows().into_iter().enumerate() {
        write!(out, "    {name:<32}{figure:>12.3}")?;
        match &earlier {
            Some(earlier) => {
                let (_, earlier) = earlier[place];
                writeln!(out, "  {earlier:>14.3}{:>9.1}%", change_percent(earlier, figure))?
            }
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn expiry_burst(out: &mut String, report: &Report) -> std::fmt::Result {
    let Some(storm) = &report.storm else { return Ok(()) };
    writeln!(
        out,
        "  {} carts abandoned at once, opened in {:.1} s; {} holds still there in the end",
        grouped(storm.carts),
        storm.opened_s,
        grouped(storm.left)
    )?;
    if let Some(late) = &storm.late {
        let [p50, p99, max] = [late.percentiles.p50, late.percentiles.p99, late.seed.max];
        writeln!(out, "  seen free after their deadlines by p50 {p50:.0} ms, p99 {p99:.0} ms, at most {max:.0} ms")?;
    }
    if let Some(buying) = &storm.buying_meanwhile {
        writeln!(
            out,
            "  {} purchases meanwhile took p50 {:.3} ms, p99 {:.3} ms",
            grouped(buying.seed.count),
            buying.percentiles.p50,
            buying.percentiles.p99
        )?;
    }
    writeln!(out)
}

/// The lines about background work: reads, watchers, shards and nodes.
fn background_work(out: &mut String, report: &Report) -> std::fmt::Result {
    if let Some(reads) = &report.reads {
        writeln!(out, "  {}", reads.summary())?;
        writeln!(out)?;
    }
    if let Some(watchers) = &report.watchers {
        for line in watchers.lines() {
            writeln!(out, "  {line}")?;
        }
        writeln!(out)?;
    }
    let Some(outages) = &report.outages else { return Ok(()) };
    for line in outages.lines() {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)
}

/// Bytes in mebibytes.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", grouped(bytes >> 20))
}

fn machine(out: &mut String, report: &Report) -> std::fmt::Result {
    let machine = &report.machine;
    if let Some(memory) = &report.memory {
        writeln!(
            out,
            "  memory of the server (process {}): {} before, {} set up, {} in the end",
            memory.pid,
            mebibytes(memory.before),
            mebibytes(memory.set_up),
            mebibytes(memory.after)
        )?;
    }
    if let (Some(before), Some(after)) = (machine.floor_before, machine.floor_after) {
        writeln!(
            out,
            "  raw fdatasync p50/p99 {:.0}/{:.0} µs before, {:.0}/{:.0} µs after",
            before.p50_us, before.p99_us, after.p50_us, after.p99_us
        )?;
    }
    if let Some(cpu) = machine.cpu {
        writeln!(
            out,
            "  {} processors {:.0} % busy, {:.1} % stolen; the load generator took {:.2} of one",
            machine.processors, cpu.busy_percent, cpu.steal_percent, machine.client_processors
        )?;
    }
    Ok(())
}

fn audit(out: &mut String, report: &Report) -> std::fmt::Result {
    let audit = &report.audit;
    let findings = &audit.findings;
    writeln!(
        out,
        "  audited {} of {} used sessions and {} carts in {:.1} s: {} seats sold, {} held",
        grouped(findings.sessions),
        grouped(audit.sessions_used),
        grouped(findings.carts),
        report.times.audit_s,
        grouped(findings.seats_sold),
        grouped(findings.seats_held)
    )?;
    if audit.nodes.len() > 1 {
        writeln!(out, "  at each of nodes {}, which agree unless listed below", audit.nodes.join(", "))?;
    }
    if let Some(counted) = audit.node_counts_text() {
        writeln!(out, "  the nodes count {counted}")?;
    }
    if let Some(others) = audit.other_entities_text() {
        writeln!(out, "  and {others}")?;
    }
    for (state, count) in &audit.unknown {
        writeln!(out, "  {} carts with unknown outcomes are {state}", grouped(*count))?;
    }
    for example in &findings.examples {
        writeln!(out, "    {example}")?;
    }
    Ok(())
}

fn verdict(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out)?;
    for reason in &report.verdict.reasons {
        writeln!(out, "  {reason}")?;
    }
    let word = if report.verdict.passed { "PASSED" } else { "FAILED" };
    writeln!(out, "{word}: {}", report.verdict.line)
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The growth of a figure, in percent.
pub(super) fn change_percent(earlier: f64, now: f64) -> f64 {
    if earlier == 0.0 { 0.0 } else { (now - earlier) * 100.0 / earlier }
}
