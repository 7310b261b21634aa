//! The report as a table for a terminal.

use std::fmt::Write as _;

use super::{
    Latency, Report,
    sections::{Section, change, flow_latencies, origin, outcomes, rates, sections},
};

/// Outcomes that are left out if they are 0.
const RARE: [&str; 2] = ["tried again", "units sold"];

pub(super) fn table(report: &Report, baseline: Option<&Report>) -> String {
    let mut out = String::new();
    write(&mut out, report, baseline).expect("writing to a string cannot fail");
    out
}

fn write(out: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    writeln!(out, "{}: {}", report.scenario.name, report.scenario.about)?;
    for line in origin(report) {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)?;
    for (name, value, note) in outcomes(report) {
        if value != "0" || !RARE.contains(&name) {
            writeln!(out, "{}", format!("  {name:<12}{value:>12} {note}").trim_end())?;
        }
    }
    writeln!(out)?;
    for (name, value, unit) in rates(report) {
        writeln!(out, "  {name:<34}{value:>12} {unit}")?;
    }
    let earlier = baseline.map(flow_latencies).unwrap_or_default();
    for (outcome, start, figures) in flow_latencies(report) {
        let earlier = earlier.iter().find(|earlier| (earlier.0, earlier.1) == (outcome, start));
        let name = format!("{outcome}, from the {start} start");
        latency(out, &name, &figures, earlier.map(|(_, _, earlier)| earlier))?;
    }
    writeln!(out)?;
    for each in sections(report, baseline) {
        section(out, &each)?;
    }
    for reason in &report.verdict.reasons {
        writeln!(out, "  {reason}")?;
    }
    let word = if report.verdict.passed { "PASSED" } else { "FAILED" };
    writeln!(out, "{word}: {}", report.verdict.line)
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
                writeln!(out, "  {earlier:>14.3}{:>10}", change(earlier, figure))?
            }
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn section(out: &mut String, section: &Section) -> std::fmt::Result {
    for line in &section.lines {
        writeln!(out, "  {line}")?;
    }
    for row in &section.table {
        let figures: String = row[1..].iter().map(|figure| format!("{figure:>10}")).collect();
        writeln!(out, "  {:<18}{figures}", row[0])?;
    }
    for note in &section.notes {
        writeln!(out, "    {note}")?;
    }
    writeln!(out)
}
