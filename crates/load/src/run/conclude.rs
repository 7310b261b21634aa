//! From the traffic of a run to its report, its audit and its verdict.

use boxoffice_workload::{check::Breach, history::History};

use super::{prepare::Prepared, traffic::Traffic};
use crate::{
    LoadError, audit,
    expiry_burst::OpenedCarts,
    faults,
    flow::FlowOutcome,
    measure,
    progress::Progress,
    report::{FORMAT, Machine, Outages, Report, Times},
    run_context::RunContext,
    verdict,
};

/// The report without watchers, audit and verdict. `start_ms` is the run's start by this machine's wall clock.
pub(super) fn report(
    prepared: &Prepared,
    context: &RunContext,
    traffic: &mut Traffic,
    opened: Option<&OpenedCarts>,
    start_ms: u64,
    machine: Machine,
) -> Report {
    let flows = &traffic.flows;
    let storm = match (&mut traffic.expiries, opened) {
        (Some(expiries), Some(opened)) => Some(expiries.report(opened, flows, start_ms)),
        (None, _) | (_, None) => None,
    };
    let fault_log = std::mem::take(&mut traffic.faults);
    // Buyers of an on-sale do not note which shard has answered them.
    let has_shards = prepared.shards > 0 && prepared.scenario.onsale.is_none();
    let outages = has_shards.then(|| faults::report(fault_log, &prepared.connections, context, flows));
    let done = |outcome: &FlowOutcome| *outcome == FlowOutcome::Done;
    let refused = |outcome: &FlowOutcome| matches!(outcome, FlowOutcome::Refused(_));
    let mut flows_report = measure::flows(context.offered(), flows);
    if let Some(onsale) = &traffic.onsale {
        // Its ledger has the tickets of its flows.
        (flows_report.seats_sold, flows_report.total) = (onsale.tickets, onsale.total);
    }
    Report {
        format: FORMAT,
        scenario: prepared.scenario.clone(),
        started_at_ms: prepared.started_at_ms,
        prefix: prepared.prefix.clone(),
        seed: prepared.seed,
        server: prepared.server.clone(),
        times: Times { setup_s: prepared.setup_s, run_s: measure::run_s(flows), audit_s: 0.0 },
        flows: flows_report,
        done: measure::latencies(flows, done),
        refused: measure::latencies(flows, refused),
        steps: measure::steps(flows),
        timeline: measure::timeline(flows),
        histogram: measure::histogram(flows),
        machine,
        memory: prepared.memory(),
        storm,
        overload: traffic.overload.take(),
        hoarders: traffic.hoarders.take(),
        onsale: traffic.onsale.take(),
        reads: traffic.reads.take(),
        watchers: None,
        outages,
        audit: Default::default(),
        verdict: Default::default(),
    }
}

/// Audits the nodes against the clients' records and adds the findings to the report.
pub(super) async fn audit(
    prepared: &Prepared,
    context: &RunContext,
    traffic: Traffic,
    opened: Option<OpenedCarts>,
    report: &mut Report,
    progress: &Progress,
) -> Result<(), LoadError> {
    let Traffic { flows, expiries, .. } = traffic;
    let mut history = History::default();
    // The carts of an on-sale are in its ledger, which it has compared with the nodes by itself.
    let is_compared = report.onsale.is_some();
    for flow in flows.into_iter().filter(|_| !is_compared) {
        history.changes.extend(flow.changes);
        history.carts.push(flow.record);
    }
    history.carts.extend(opened.into_iter().flat_map(|opened| opened.carts));
    // A client changes a booking only after the answer to its previous change, so the request times order the changes.
    history.changes.sort_by_key(|change| change.span.called_us);
    let input = audit::AuditInput {
        house: &prepared.house,
        goods: &prepared.goods,
        history: &history,
        test_gateway: prepared.test_gateway.as_ref(),
        calendar: context.calendar(),
    };
    report.audit =
        audit::run(&prepared.connections, &prepared.scenario, input, &prepared.totals_before, progress).await?;
    let findings = &mut report.audit.findings;
    if let Some(onsale) = &report.onsale {
        (findings.sessions, report.audit.sessions_used) = (onsale.sessions.into(), onsale.sessions.into());
        (findings.carts, findings.sales) = (onsale.orders, onsale.orders);
        (findings.seats_sold, findings.seats_held) = (onsale.tickets, onsale.held);
    }
    if let Some(storm) = &report.storm
        && storm.left > 0
    {
        findings.add(Breach::WrongTime, || format!("{} abandoned holds are still there", storm.left));
    }
    for early in expiries.into_iter().flat_map(|expiries| expiries.early) {
        findings.add(Breach::WrongTime, || early);
    }
    Ok(())
}

pub(super) fn judge(report: &mut Report) {
    let in_doubt = report.outages.as_ref().map_or(0, Outages::in_doubt);
    report.verdict = verdict::judge(&report.scenario.expect, &report.flows, in_doubt, &report.audit);
    verdict::add_other_problems(report);
}
