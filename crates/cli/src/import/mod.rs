//! `boxoffice import`: venues, halls and sessions, titles, products, resources, codes and prices from a file. A repeat changes nothing.

mod code_list;
mod files;
mod json;
mod list;
mod make;
mod plan;
mod price_list;
mod reads;
mod removed;
mod report;
#[cfg(test)]
mod tests;
mod things;
mod when;

use std::{collections::BTreeSet, fs, sync::Arc};

use boxoffice_core::{layout::Layout, seat::SeatState};

use crate::{
    args::{Import, NodeArgs},
    draw,
    failure::{Failure, Outcome},
    import::{plan::ImportPlan, report::Report},
    node_client::{self, say},
};

/// A hall with more seats is not drawn.
const DRAWN_SEATS_MAX: u32 = 5_000;

/// Imports a file, or shows what would be done.
pub fn run(args: &Import) -> Outcome {
    let name = args.file.display().to_string();
    let bytes = fs::read(&args.file).map_err(|error| Failure::Usage(format!("{name}: cannot be read: {error}")))?;
    let mut plan = checked(&name, files::read(&bytes, args))?;
    plan.note_pitches();
    for note in &plan.notes {
        say(&format!("read     {note}"));
    }
    // An error is told after what was understood, because that explains it.
    for warning in &plan.warnings {
        say(&format!("warning  {warning}"));
    }
    if args.check {
        plan.venues.iter().flat_map(|venue| &venue.halls).for_each(|hall| show(&hall.id, &hall.layout));
    }
    let report = if args.check { Report::of_check() } else { Report::default() };
    done(&made(&plan, report, &args.node_args)?, Report::print)
}

/// Imports a JSON text. Prints only errors.
pub fn quietly(text: &str, node_args: &NodeArgs) -> Outcome {
    quietly_made(json::read(text), node_args)
}

/// Imports a list of codes. Prints only errors.
pub fn codes_quietly(text: &str, node_args: &NodeArgs) -> Outcome {
    let list = code_list::read(text.as_bytes());
    quietly_made(list.and_then(|list| list.ok_or_else(|| "it is no list of codes".into())), node_args)
}

fn quietly_made(plan: Result<ImportPlan, String>, node_args: &NodeArgs) -> Outcome {
    let plan = checked("the built-in example", plan)?;
    done(&made(&plan, Report::default(), node_args)?, |_| ())
}

fn checked(name: &str, plan: Result<ImportPlan, String>) -> Result<ImportPlan, Failure> {
    let checked = plan.and_then(|plan| plan::check(&plan.venues).map(|()| plan));
    checked.map_err(|what| Failure::Usage(format!("{name}: {what}")))
}

fn made(plan: &ImportPlan, report: Report, node_args: &NodeArgs) -> Result<Report, Failure> {
    node_client::block_on(async {
        let client = node_args.connect().await?;
        make::make(&client, plan, node_client::now(), report).await.map_err(|error| node_args.failure(error))
    })
}

fn done(report: &Report, tell: impl FnOnce(&Report)) -> Outcome {
    tell(report);
    let again = if report.is_check() { "" } else { ": what is there already stays" };
    match report.refused() {
        0 => Ok(()),
        refused => Err(Failure::Refused(format!(
            "{refused} of {} were refused; mend what the lines above say and import again{again}",
            report.all()
        ))),
    }
}

/// Draws a hall with all seats free.
fn show(id: &boxoffice_core::id::Id, layout: &Arc<Layout>) {
    say(&format!("\nhall {id}: {} seats, {} rows", layout.seats(), layout.rows().len()));
    if layout.seats() > DRAWN_SEATS_MAX {
        say(&format!("It is not drawn, because it has more than {DRAWN_SEATS_MAX} seats."));
        return;
    }
    let states = vec![SeatState::Free; layout.seats() as usize];
    let plan = draw::Plan { layout: Arc::clone(layout), prices: Vec::new(), states, own: BTreeSet::new() };
    for line in draw::draw(&plan, &node_client::options()) {
        say(&line);
    }
    say("");
}
