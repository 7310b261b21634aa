//! The report as a self-contained HTML page.
//!
//! The program contains this page, so it is written without a template engine or a chart library, which would lengthen
//! every build by more than the code here.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    Latency, Report, grouped, money,
    plot::{self, Line},
    table::{change_percent, mebibytes},
};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2430; --soft: #667085; --rule: #e2e6ec; --paper: #fff; --one: #2563a8;
  --two: #c2571a; --three: #8a94a3; --four: #2e7d4f; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #98a2b3; --rule: #2b323d; --paper: #14181f;
  --one: #6aa9e9; --two: #ea9a62; --three: #7d8797; --four: #6fbf8d; --bad: #f2857d; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 860px;
  margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
p.about, .soft { color: var(--soft); margin: .2rem 0; }
.verdict { border-left: 5px solid var(--four); padding: .6rem 1rem; margin: 1.4rem 0; font-size: 1.15rem; }
.verdict.failed { border-color: var(--bad); } .verdict ul { font-size: .95rem; margin: .4rem 0 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; color: var(--soft); }
svg { width: 100%; height: auto; } .grid { stroke: var(--rule); }
.axis { fill: var(--soft); font-size: 11px; }
.line { fill: none; stroke-width: 1.6; } .bar { fill: var(--one); }
.one { stroke: var(--one); color: var(--one); } .two { stroke: var(--two); color: var(--two); }
.three { stroke: var(--three); color: var(--three); } .four { stroke: var(--four); color: var(--four); }
.bad { stroke: var(--bad); color: var(--bad); } .legend { margin: .1rem 0 0; text-align: center; font-size: .85rem; }
.key { margin: 0 .8rem; } .key::before { content: \"\"; display: inline-block; width: 1.3em; height: 3px;
  background: currentColor; margin-right: .45em; vertical-align: middle; }
";

pub(super) fn page(report: &Report, baseline: Option<&Report>) -> String {
    let mut out = String::new();
    write(&mut out, report, baseline).expect("writing to a string cannot fail");
    out
}

fn write(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    let name = escaped(&report.scenario.name);
    writeln!(out, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(out, "<title>{name}: a load run of Boxoffice</title><style>{STYLE}</style></head><body>")?;
    writeln!(out, "<h1>{name}</h1><p class=\"about\">{}</p>", escaped(&report.scenario.about))?;

    let verdict = &report.verdict;
    let (class, word) = if verdict.passed { ("verdict", "Passed") } else { ("verdict failed", "Failed") };
    write!(out, "<div class=\"{class}\"><strong>{word}.</strong> {}", escaped(&verdict.line))?;
    if !verdict.reasons.is_empty() {
        list(out, &verdict.reasons)?;
    }
    writeln!(out, "</div>")?;

    let server = &report.server;
    writeln!(
        out,
        "<p class=\"soft\">Served by boxoffice {} at {}: {} node(s), {} replica(s), fsync {}. Prefix {}, seed {}.</p>",
        escaped(&server.version),
        escaped(&server.addresses.join(", ")),
        server.nodes.len(),
        server.replicas,
        escaped(&server.fsync),
        escaped(&report.prefix),
        report.seed
    )?;

    flows(out, report, baseline)?;
    plots(out, report, baseline)?;
    latencies(out, report, baseline)?;
    steps(out, report, baseline)?;
    expiry_burst(out, report)?;
    overload(out, report)?;
    background_work(out, report)?;
    machine(out, report)?;
    audit(out, report)?;
    writeln!(out, "</body></html>")
}

/// The sections about background work: reads, watchers, shards and nodes.
fn background_work(out: &mut String, report: &Report) -> std::fmt::Result {
    if let Some(reads) = &report.reads {
        writeln!(out, "<h2>Reading seat maps</h2><p>{}</p>", escaped(&reads.summary()))?;
    }
    if let Some(watchers) = &report.watchers {
        writeln!(out, "<h2>Watchers</h2>")?;
        list(out, &watchers.lines())?;
    }
    let Some(outages) = &report.outages else { return Ok(()) };
    writeln!(out, "<h2>Shards and nodes</h2>")?;
    list(out, &outages.lines())
}

fn flows(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    let by_reason = |reasons: &BTreeMap<String, u64>| {
        let each: Vec<String> = reasons.iter().map(|(reason, count)| format!("{reason} {}", grouped(*count))).collect();
        each.join(", ")
    };
    writeln!(out, "<h2>What became of the flows</h2><table>")?;
    writeln!(out, "<tr><th></th><th>this run</th>{}<th></th></tr>", baseline.map_or("", |_| "<th>earlier</th>"))?;
    let mut row = |name: &str, figure: &dyn Fn(&Report) -> String, more: String| {
        let earlier = baseline.map(|baseline| format!("<td>{}</td>", figure(baseline))).unwrap_or_default();
        writeln!(out, "<tr><td>{name}</td><td>{}</td>{earlier}<td>{}</td></tr>", figure(report), escaped(&more))
    };
    row("offered", &|report| grouped(report.flows.offered), String::new())?;
    row("done", &|report| grouped(report.flows.done), String::new())?;
    row("refused", &|report| grouped(report.flows.refused_all()), by_reason(&report.flows.refused))?;
    row("abandoned", &|report| grouped(report.flows.abandoned), String::new())?;
    row("failed", &|report| grouped(report.flows.failed_all()), by_reason(&report.flows.failed))?;
    row("tried again with other seats", &|report| grouped(report.flows.retried), String::new())?;
    row("seats sold", &|report| grouped(report.flows.seats_sold), String::new())?;
    row("units, places and slots sold", &|report| grouped(report.flows.units_sold), String::new())?;
    row("total", &|report| money(report.flows.total), report.scenario.currency_name().to_owned())?;
    let rate = |report: &Report| format!("{:.1}", report.flows.done as f64 / report.times.run_s.max(1e-9));
    row("done a second", &rate, String::new())?;
    row("runtime, s", &|report| format!("{:.3}", report.times.run_s), String::new())?;
    row(
        "runtime with set-up, s",
        &|report| format!("{:.3}", report.times.run_s + report.times.setup_s),
        String::new(),
    )?;
    writeln!(out, "</table>")
}

fn plots(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    let over = |report: &Report, figure: &dyn Fn(&super::Slice) -> f64| -> Vec<(f64, f64)> {
        report.timeline.iter().map(|slice| (slice.at_s + slice.length_s, figure(slice))).collect()
    };
    let latency = |report: &Report, figure: &dyn Fn(&super::Slice) -> f64| {
        over(report, figure).into_iter().filter(|point| point.1 > 0.0).collect()
    };
    let mut over_time = vec![
        // The lines are drawn in this order, so the most important one comes last.
        Line { name: "slowest", class: "three", points: latency(report, &|slice| slice.max_ms) },
        Line { name: "99th percentile", class: "two", points: latency(report, &|slice| slice.p99_ms) },
        Line { name: "median", class: "one", points: latency(report, &|slice| slice.p50_ms) },
    ];
    let rate = |count: u64, slice: &super::Slice| count as f64 / slice.length_s.max(1e-9);
    let mut throughput =
        vec![Line { name: "done", class: "one", points: over(report, &|slice| rate(slice.done, slice)) }];
    if let Some(baseline) = baseline {
        let points = latency(baseline, &|slice| slice.p99_ms);
        over_time.push(Line { name: "99th percentile, earlier", class: "four", points });
        let points = over(baseline, &|slice| rate(slice.done, slice));
        throughput.push(Line { name: "done, earlier", class: "four", points });
    }
    writeln!(out, "<h2>Latency over time, from the intended start</h2>")?;
    writeln!(out, "{}", plot::lines("seconds since the start", "ms", true, &over_time))?;
    writeln!(out, "<h2>How long purchases took</h2>")?;
    let bars: Vec<(String, f64)> = report.histogram.iter().map(|bar| (short(bar.to_ms), bar.count as f64)).collect();
    writeln!(out, "{}", plot::bars("up to ms", "purchases", &bars))?;
    writeln!(out, "<h2>Throughput</h2>")?;
    writeln!(out, "{}", plot::lines("seconds since the start", "flows/s", false, &throughput))?;
    writeln!(out, "<h2>Refusals and failures</h2>")?;
    if report.flows.done == report.flows.offered {
        return writeln!(out, "<p class=\"soft\">None: every flow bought what it wanted.</p>");
    }
    let lines = [
        Line { name: "refused", class: "two", points: over(report, &|slice| rate(slice.refused, slice)) },
        Line { name: "abandoned", class: "three", points: over(report, &|slice| rate(slice.abandoned, slice)) },
        Line { name: "failed", class: "bad", points: over(report, &|slice| rate(slice.failed, slice)) },
    ];
    writeln!(out, "{}", plot::lines("seconds since the start", "flows/s", false, &lines))
}

fn latencies(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    let mut columns: Vec<(String, Latency)> = Vec::new();
    let mut add = |word: &str, report: &Report| {
        if let Some(done) = report.done {
            columns.push((format!("bought, intended start{word}"), done.intended));
            columns.push((format!("bought, actual start{word}"), done.actual));
        }
        if let Some(refused) = report.refused {
            columns.push((format!("refused, intended start{word}"), refused.intended));
        }
    };
    add("", report);
    if let Some(baseline) = baseline {
        add(", earlier", baseline);
    }
    writeln!(out, "<h2>Latency of flows, ms</h2><table><tr><th></th>")?;
    for (name, _) in &columns {
        write!(out, "<th>{name}</th>")?;
    }
    writeln!(out, "</tr>")?;
    let columns: Vec<_> = columns.iter().map(|(_, latency)| latency.rows()).collect();
    let names = columns.first().into_iter().flatten().map(|(name, _)| name);
    for (place, name) in names.enumerate() {
        write!(out, "<tr><td>{name}</td>")?;
        for column in &columns {
            write!(out, "<td>{:.3}</td>", column[place].1)?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</table>")
}

fn steps(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    if report.steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>Latency of requests, ms</h2><table>")?;
    writeln!(out, "<tr><th></th><th>count</th><th>mean</th><th>p50</th><th>p99</th><th>max</th><th></th></tr>")?;
    for (name, step) in &report.steps {
        let earlier = baseline.and_then(|baseline| baseline.steps.get(name));
        let change = earlier.map(|earlier| format!("mean {:+.1} %", change_percent(earlier.seed.mean, step.seed.mean)));
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{:.3}</td><td>{:.3}</td><td>{:.3}</td><td>{:.3}</td><td>{}</td></tr>",
            escaped(name),
            grouped(step.seed.count),
            step.seed.mean,
            step.percentiles.p50,
            step.percentiles.p99,
            step.seed.max,
            change.unwrap_or_default()
        )?;
    }
    writeln!(out, "</table>")
}

fn overload(out: &mut String, report: &Report) -> std::fmt::Result {
    let Some(overload) = &report.overload else { return Ok(()) };
    writeln!(out, "<h2>Overload</h2><p>Capacity: {:.0} purchases a second.</p><table>", overload.capacity)?;
    for (number, row) in overload.rows().into_iter().enumerate() {
        let cell = if number == 0 { "th" } else { "td" };
        let cells: String = row.iter().map(|figure| format!("<{cell}>{figure}</{cell}>")).collect();
        writeln!(out, "<tr>{cells}</tr>")?;
    }
    writeln!(out, "</table>")?;
    overload.extra_lines().iter().try_for_each(|line| writeln!(out, "<p>{line}</p>"))
}

fn expiry_burst(out: &mut String, report: &Report) -> std::fmt::Result {
    let Some(storm) = &report.storm else { return Ok(()) };
    writeln!(
        out,
        "<h2>The expiry burst</h2><p>{} carts were abandoned at once, opened in {:.1} s; {} holds are still there.</p>",
        grouped(storm.carts),
        storm.opened_s,
        grouped(storm.left)
    )?;
    writeln!(out, "<table><tr><th>ms</th><th>count</th><th>p50</th><th>p99</th><th>max</th></tr>")?;
    for (name, latency) in [("free after its deadline", storm.late), ("purchases meanwhile", storm.buying_meanwhile)] {
        if let Some(latency) = latency {
            writeln!(
                out,
                "<tr><td>{name}</td><td>{}</td><td>{:.3}</td><td>{:.3}</td><td>{:.3}</td></tr>",
                grouped(latency.seed.count),
                latency.percentiles.p50,
                latency.percentiles.p99,
                latency.seed.max
            )?;
        }
    }
    writeln!(out, "</table>")
}

fn machine(out: &mut String, report: &Report) -> std::fmt::Result {
    let machine = &report.machine;
    writeln!(out, "<h2>The machine beside it</h2><table>")?;
    for (when, floor) in [("before", machine.floor_before), ("after", machine.floor_after)] {
        if let Some(floor) = floor {
            writeln!(
                out,
                "<tr><td>raw fdatasync {when}, p50 / p99</td><td>{:.0} / {:.0} µs</td></tr>",
                floor.p50_us, floor.p99_us
            )?;
        }
    }
    if let Some(cpu) = machine.cpu {
        writeln!(out, "<tr><td>{} processors, busy</td><td>{:.0} %</td></tr>", machine.processors, cpu.busy_percent)?;
        writeln!(out, "<tr><td>stolen by other guests</td><td>{:.1} %</td></tr>", cpu.steal_percent)?;
    }
    if let Some(memory) = &report.memory {
        let at =
            |name: &str, bytes: u64| format!("<tr><td>server's memory {name}</td><td>{}</td></tr>", mebibytes(bytes));
        let rows = [("before", memory.before), ("set up", memory.set_up), ("in the end", memory.after)];
        writeln!(out, "{}", rows.map(|(name, bytes)| at(name, bytes)).join("\n"))?;
    }
    let client = machine.client_processors;
    writeln!(out, "<tr><td>used by the load generator</td><td>{client:.2} processors</td></tr></table>")
}

fn audit(out: &mut String, report: &Report) -> std::fmt::Result {
    let audit = &report.audit;
    let findings = &audit.findings;
    writeln!(
        out,
        "<h2>Audit</h2><p>{} of {} used sessions and {} carts were audited in {:.1} s: \
         {} seats sold in {} sales, {} held.",
        grouped(findings.sessions),
        grouped(audit.sessions_used),
        grouped(findings.carts),
        report.times.audit_s,
        grouped(findings.seats_sold),
        grouped(findings.sales),
        grouped(findings.seats_held)
    )?;
    if let Some(others) = audit.other_entities_text() {
        write!(out, " And {others}.")?;
    }
    if let Some(counted) = audit.node_counts_text() {
        write!(out, " The nodes count {counted}.")?;
    }
    if findings.is_clean() {
        return writeln!(out, " Every promise holds.</p>");
    }
    writeln!(out, "</p><table><tr><th>broken</th><th>times</th></tr>")?;
    for (breach, count) in &findings.breaches {
        writeln!(out, "<tr><td>{breach}</td><td>{}</td></tr>", grouped(*count))?;
    }
    writeln!(out, "</table>")?;
    list(out, &findings.examples)
}

fn list(out: &mut String, lines: &[String]) -> std::fmt::Result {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line.trim_start()))).collect();
    writeln!(out, "<ul>{items}</ul>")
}

/// A latency with few digits.
fn short(ms: f64) -> String {
    if ms >= 100.0 {
        format!("{ms:.0}")
    } else if ms >= 1.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.2}")
    }
}

/// Text with escaped markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
