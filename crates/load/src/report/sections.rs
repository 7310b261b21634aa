//! What a report says, for the text and the page alike.

use super::{Latency, Report, by_reason_in_parentheses, grouped, money};

/// A figure's name, its value, and its unit or its parts.
pub(super) type Figure = (&'static str, String, String);

/// A part of a report.
#[derive(Default)]
pub(super) struct Section {
    /// The heading on the page.
    pub(super) title: &'static str,
    pub(super) lines: Vec<String>,
    /// Rows of cells. The first row is the head.
    pub(super) table: Vec<Vec<String>>,
    /// Lines below the table.
    pub(super) notes: Vec<String>,
}

/// The servers, and the choices of the run.
pub(super) fn origin(report: &Report) -> [String; 2] {
    let server = &report.server;
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    [
        format!(
            "at {} (boxoffice {}; {} node{}, {} replica{}, fsync {})",
            server.addresses.join(", "),
            server.version,
            server.nodes.len(),
            plural(server.nodes.len()),
            server.replicas,
            plural(server.replicas as usize),
            server.fsync
        ),
        format!("prefix {}, seed {}", report.prefix, report.seed),
    ]
}

/// What became of the flows.
pub(super) fn outcomes(report: &Report) -> Vec<Figure> {
    let flows = &report.flows;
    let count = |name, count: u64| (name, grouped(count), String::new());
    vec![
        count("offered", flows.offered),
        count("done", flows.done),
        ("refused", grouped(flows.refused_all()), by_reason_in_parentheses(&flows.refused)),
        count("abandoned", flows.abandoned),
        ("failed", grouped(flows.failed_all()), by_reason_in_parentheses(&flows.failed)),
        count("tried again", flows.retried),
        count("seats sold", flows.seats_sold),
        count("units sold", flows.units_sold),
        ("total", money(flows.total), report.scenario.currency_name().to_owned()),
    ]
}

/// How long the run took.
pub(super) fn rates(report: &Report) -> Vec<Figure> {
    let times = report.times;
    vec![
        ("runtime", format!("{:.3}", times.run_s), "s".to_owned()),
        ("runtime with set-up", format!("{:.3}", times.setup_s + times.run_s), "s".to_owned()),
        ("flows done", format!("{:.1}", report.flows.done as f64 / times.run_s.max(1e-9)), "/s".to_owned()),
    ]
}

/// The latencies of flows: how they ended, from which start they are measured, and the latency.
pub(super) fn flow_latencies(report: &Report) -> Vec<(&'static str, &'static str, Latency)> {
    let bought = report.done.map(|done| [("bought", "intended", done.intended), ("bought", "actual", done.actual)]);
    let refused = report.refused.map(|refused| ("refused", "intended", refused.intended));
    bought.into_iter().flatten().chain(refused).collect()
}

/// All other sections that the report has, in order.
pub(super) fn sections(report: &Report, baseline: Option<&Report>) -> Vec<Section> {
    let lines = |title, lines| Section { title, lines, ..Section::default() };
    let mut sections = Vec::new();
    if !report.steps.is_empty() {
        sections.push(steps(report, baseline));
    }
    sections.extend(expiry_burst(report).map(|text| lines("The expiry burst", text)));
    sections.extend(report.overload.as_ref().map(|overload| Section {
        title: "Overload",
        lines: vec![format!(
            "overload: capacity {:.0} purchases/s; latencies in ms, of admitted requests",
            overload.capacity
        )],
        table: overload.rows(),
        notes: overload.extra_lines(),
    }));
    sections.extend(report.hoarders.as_ref().map(|hoarders| Section {
        title: "Hoarders",
        lines: hoarders.lines(),
        table: hoarders.rows(),
        ..Section::default()
    }));
    sections.extend(report.onsale.as_ref().map(|onsale| Section {
        title: "The on-sale",
        lines: onsale.lines(),
        table: onsale.rows(),
        ..Section::default()
    }));
    sections.extend(report.reads.as_ref().map(|reads| lines("Reading seat maps", vec![reads.summary()])));
    sections.extend(report.watchers.as_ref().map(|watchers| lines("Watchers", watchers.lines())));
    sections.extend(report.outages.as_ref().map(|outages| lines("Shards and nodes", outages.lines())));
    sections.push(lines("The machine beside it", machine(report)));
    let notes = report.audit.findings.examples.clone();
    sections.push(Section { title: "Audit", lines: audit(report), notes, ..Section::default() });
    sections
}

/// The latencies of requests. With an earlier run, the mean is compared with that run's.
fn steps(report: &Report, baseline: Option<&Report>) -> Section {
    let mut table = vec![["request, ms", "count", "mean", "p50", "p99", "max"].map(str::to_owned).to_vec()];
    for (name, step) in &report.steps {
        let ms = [step.seed.mean, step.percentiles.p50, step.percentiles.p99, step.seed.max];
        let ms = ms.map(|ms| format!("{ms:.3}"));
        table.push([name.clone(), grouped(step.seed.count)].into_iter().chain(ms).collect());
    }
    if let Some(baseline) = baseline {
        let changes = report.steps.iter().map(|(name, step)| match baseline.steps.get(name) {
            Some(earlier) => change(earlier.seed.mean, step.seed.mean),
            None => String::new(),
        });
        for (row, change) in table.iter_mut().zip(["change".to_owned()].into_iter().chain(changes)) {
            row.insert(3, change);
        }
    }
    Section { title: "Latency of requests", table, ..Section::default() }
}

fn expiry_burst(report: &Report) -> Option<Vec<String>> {
    let storm = report.storm?;
    let mut lines = vec![format!(
        "{} carts abandoned at once, opened in {:.1} s; {} holds still there in the end",
        grouped(storm.carts),
        storm.opened_s,
        grouped(storm.left)
    )];
    if let Some(Latency { seed, percentiles }) = storm.late {
        lines.push(format!(
            "{} seen free after their deadlines by p50 {:.0} ms, p99 {:.0} ms, at most {:.0} ms",
            grouped(seed.count),
            percentiles.p50,
            percentiles.p99,
            seed.max
        ));
    }
    if let Some(Latency { seed, percentiles }) = storm.buying_meanwhile {
        lines.push(format!(
            "{} purchases meanwhile took p50 {:.3} ms, p99 {:.3} ms, at most {:.3} ms",
            grouped(seed.count),
            percentiles.p50,
            percentiles.p99,
            seed.max
        ));
    }
    Some(lines)
}

fn machine(report: &Report) -> Vec<String> {
    let mebibytes = |bytes: u64| format!("{} MiB", grouped(bytes >> 20));
    let machine = &report.machine;
    let mut lines = Vec::new();
    if let Some(memory) = &report.memory {
        lines.push(format!(
            "memory of the server (process {}): {} before, {} set up, {} in the end",
            memory.pid,
            mebibytes(memory.before),
            mebibytes(memory.set_up),
            mebibytes(memory.after)
        ));
    }
    let floors = [("before", machine.floor_before), ("after", machine.floor_after)].into_iter();
    let floors = floors
        .filter_map(|(when, floor)| floor.map(|floor| format!("{:.0}/{:.0} µs {when}", floor.p50_us, floor.p99_us)));
    let floors: Vec<String> = floors.collect();
    if !floors.is_empty() {
        lines.push(format!("raw fdatasync p50/p99 {}", floors.join(", ")));
    }
    let shares = machine
        .cpu
        .map_or(String::new(), |cpu| format!(" {:.0} % busy, {:.1} % stolen", cpu.busy_percent, cpu.steal_percent));
    lines.push(format!(
        "{} processors{shares}; the load generator took {:.2} of one",
        machine.processors, machine.client_processors
    ));
    lines
}

fn audit(report: &Report) -> Vec<String> {
    let audit = &report.audit;
    let findings = &audit.findings;
    let mut lines = vec![format!(
        "audited {} of {} used sessions and {} carts in {:.1} s: {} seats sold in {} sales, {} held",
        grouped(findings.sessions),
        grouped(audit.sessions_used),
        grouped(findings.carts),
        report.times.audit_s,
        grouped(findings.seats_sold),
        grouped(findings.sales),
        grouped(findings.seats_held)
    )];
    if audit.nodes.len() > 1 {
        lines.push(format!("at each of nodes {}, which agree unless listed below", audit.nodes.join(", ")));
    }
    lines.extend(audit.node_counts_text().map(|counted| format!("the nodes count {counted}")));
    lines.extend(audit.other_entities_text().map(|others| format!("and {others}")));
    for (state, count) in &audit.unknown {
        lines.push(format!("{} carts with unknown outcomes are {state}", grouped(*count)));
    }
    lines
}

/// The growth of a figure.
pub(super) fn change(earlier: f64, now: f64) -> String {
    let percent = if earlier == 0.0 { 0.0 } else { (now - earlier) * 100.0 / earlier };
    format!("{percent:.1}%")
}
