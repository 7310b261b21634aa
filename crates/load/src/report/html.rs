//! The report as a self-contained HTML page.
//!
//! The program contains this page, so it is written without a template engine or a chart library, which would lengthen
//! every build by more than the code here.

use std::fmt::Write as _;

use super::{
    Report, Slice,
    plot::{self, PlotLine},
    sections::{Figure, flow_latencies, origin, outcomes, rates, sections},
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
    list(out, &verdict.reasons)?;
    writeln!(out, "</div>")?;
    for line in origin(report) {
        writeln!(out, "<p class=\"soft\">{}</p>", escaped(&line))?;
    }

    writeln!(out, "<h2>What became of the flows</h2>")?;
    table(out, &flows(report, baseline))?;
    plots(out, report, baseline)?;
    writeln!(out, "<h2>Latency of flows</h2>")?;
    table(out, &latencies(report, baseline))?;
    for section in sections(report, baseline) {
        writeln!(out, "<h2>{}</h2>", section.title)?;
        list(out, &section.lines)?;
        table(out, &section.table)?;
        list(out, &section.notes)?;
    }
    if report.audit.findings.is_clean() && report.onsale.as_ref().is_none_or(|onsale| onsale.problems.is_empty()) {
        writeln!(out, "<p>Every promise holds.</p>")?;
    }
    writeln!(out, "</body></html>")
}

/// The outcomes and the runtime, with those of an earlier run if there is one.
fn flows(report: &Report, baseline: Option<&Report>) -> Vec<Vec<String>> {
    let figures = |report: &Report| -> Vec<Figure> { [outcomes(report), rates(report)].concat() };
    let mut rows = vec![vec![String::new(), "this run".to_owned(), String::new()]];
    rows.extend(figures(report).into_iter().map(|(name, value, note)| vec![name.to_owned(), value, note]));
    if let Some(baseline) = baseline {
        let earlier = figures(baseline).into_iter().map(|(_, value, _)| value);
        for (row, earlier) in rows.iter_mut().zip(["earlier".to_owned()].into_iter().chain(earlier)) {
            row.insert(2, earlier);
        }
    }
    rows
}

fn plots(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    let over = |report: &Report, figure: &dyn Fn(&Slice) -> f64| -> Vec<(f64, f64)> {
        report.timeline.iter().map(|slice| (slice.at_s + slice.length_s, figure(slice))).collect()
    };
    let latency = |report: &Report, figure: &dyn Fn(&Slice) -> f64| {
        over(report, figure).into_iter().filter(|point| point.1 > 0.0).collect()
    };
    let mut over_time = vec![
        // The lines are drawn in this order, so the most important one comes last.
        PlotLine { name: "slowest", class: "three", points: latency(report, &|slice| slice.max_ms) },
        PlotLine { name: "99th percentile", class: "two", points: latency(report, &|slice| slice.p99_ms) },
        PlotLine { name: "median", class: "one", points: latency(report, &|slice| slice.p50_ms) },
    ];
    let rate = |count: u64, slice: &Slice| count as f64 / slice.length_s.max(1e-9);
    let mut throughput =
        vec![PlotLine { name: "done", class: "one", points: over(report, &|slice| rate(slice.done, slice)) }];
    if let Some(baseline) = baseline {
        let points = latency(baseline, &|slice| slice.p99_ms);
        over_time.push(PlotLine { name: "99th percentile, earlier", class: "four", points });
        let points = over(baseline, &|slice| rate(slice.done, slice));
        throughput.push(PlotLine { name: "done, earlier", class: "four", points });
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
        PlotLine { name: "refused", class: "two", points: over(report, &|slice| rate(slice.refused, slice)) },
        PlotLine { name: "abandoned", class: "three", points: over(report, &|slice| rate(slice.abandoned, slice)) },
        PlotLine { name: "failed", class: "bad", points: over(report, &|slice| rate(slice.failed, slice)) },
    ];
    writeln!(out, "{}", plot::lines("seconds since the start", "flows/s", false, &lines))
}

/// The latencies of flows in columns, and then those of an earlier run.
fn latencies(report: &Report, baseline: Option<&Report>) -> Vec<Vec<String>> {
    let mut rows = vec![vec!["ms".to_owned()]];
    for (report, when) in [(Some(report), ""), (baseline, ", earlier")] {
        for (outcome, start, latency) in report.map(flow_latencies).unwrap_or_default() {
            rows[0].push(format!("{outcome}, {start} start{when}"));
            for (place, (name, figure)) in latency.rows().into_iter().enumerate() {
                if rows.len() == place + 1 {
                    rows.push(vec![name.to_owned()]);
                }
                rows[place + 1].push(format!("{figure:.3}"));
            }
        }
    }
    rows
}

/// A table whose first row is the head.
fn table(out: &mut String, rows: &[Vec<String>]) -> std::fmt::Result {
    let Some((head, rows)) = rows.split_first() else { return Ok(()) };
    let row = |cell: &str, figures: &[String]| -> String {
        let cells: String = figures.iter().map(|figure| format!("<{cell}>{}</{cell}>", escaped(figure))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(|figures| row("td", figures)).collect();
    writeln!(out, "<table>{}{body}</table>", row("th", head))
}

fn list(out: &mut String, lines: &[String]) -> std::fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
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
