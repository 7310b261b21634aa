//! `boxoffice import`: venues, halls and sessions, titles, products and resources from a file. A repeat changes nothing.

mod json;
mod make;
mod plan;
mod report;
mod rows;
#[cfg(test)]
mod tests;
mod things;
mod when;

use std::fs;

use boxoffice_core::{
    command::{Limits, VenueDetails},
    id::Id,
    money::{Currency, Money},
};

use crate::{
    args::{Import, NodeArgs},
    failure::{Failure, Outcome},
    import::{
        plan::{HallPlan, ImportPlan, SessionPlan, VenuePlan},
        when::When,
    },
    node_client,
};

/// The default start of a session.
const STARTS_AT: &str = "+1d 19:30";

/// The end of a session from CSV, after its start.
const ENDS_AT: &str = "+3h";

/// Imports a file.
pub fn run(args: &Import) -> Outcome {
    let name = args.file.display().to_string();
    let text =
        fs::read_to_string(&args.file).map_err(|error| Failure::Usage(format!("{name}: cannot be read: {error}")))?;
    // Spreadsheets begin files with a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    let is_csv = args.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    if is_csv {
        import(&name, seats(text, args), &args.node_args)
    } else {
        import(&name, json::read(text), &args.node_args)
    }
}

/// Imports a JSON text. Prints only errors.
pub fn quietly(text: &str, node_args: &NodeArgs) -> Outcome {
    made("the built-in example", json::read(text), node_args, |_| ())
}

fn import(name: &str, plan: Result<ImportPlan, String>, node_args: &NodeArgs) -> Outcome {
    made(name, plan, node_args, report::Report::print)
}

fn made(
    name: &str,
    plan: Result<ImportPlan, String>,
    node_args: &NodeArgs,
    tell: impl FnOnce(&report::Report),
) -> Outcome {
    let checked = plan.and_then(|plan| plan::check(&plan.venues).map(|()| plan));
    let plan = checked.map_err(|what| Failure::Usage(format!("{name}: {what}")))?;
    let report = node_client::block_on(async {
        let client = node_args.connect().await?;
        make::make(&client, &plan, node_client::now()).await.map_err(|error| node_args.failure(error))
    })?;
    tell(&report);
    match report.refused() {
        0 => Ok(()),
        refused => Err(Failure::Refused(format!(
            "{refused} of {} were refused; mend what the lines above say and import again: what is there already stays",
            report.all()
        ))),
    }
}

/// The hall of a CSV file, and its session if one is wanted.
fn seats(text: &str, args: &Import) -> Result<ImportPlan, String> {
    let id = |option: &str, value: &Option<String>| match value {
        Some(text) => Id::new(text).ok_or_else(|| format!("{option} {text}: an id is 1 to 64 of A-Z a-z 0-9 . _ : -")),
        None => Err(format!("CSV rows are the seats of one hall: say which with {option}")),
    };
    let (venue, hall) = (id("--venue", &args.venue)?, id("--hall", &args.hall)?);
    let layout = rows::read(text)?;
    let sessions = match &args.session {
        Some(_) => vec![session(id("--session", &args.session)?, hall.clone(), args)?],
        None if args.starts_at.is_some() || !args.prices.is_empty() => {
            return Err("--starts-at and --price belong to a session: name it with --session".into());
        }
        None => Vec::new(),
    };
    let name = venue.as_str().into();
    let zone = args.zone.as_deref().map(Into::into);
    let (city, comments, address) = ("".into(), "".into(), "".into());
    let details = VenueDetails { name, city, position: None, comments, zone, address };
    let halls = vec![HallPlan { name: hall.to_string(), id: hall, comments: String::new(), layout }];
    let venues = vec![VenuePlan { id: venue, details, only_if_absent: true, halls, sessions }];
    Ok(ImportPlan { venues, ..ImportPlan::default() })
}

fn session(id: Id, hall: Id, args: &Import) -> Result<SessionPlan, String> {
    let read = |text: &str| When::read(text).map_err(|error| format!("--starts-at {error}"));
    let starts_at = read(args.starts_at.as_deref().unwrap_or(STARTS_AT))?;
    let ends_at = When::read(ENDS_AT).expect("the usual length is a time");
    let currency = Currency::new(&args.currency)
        .ok_or_else(|| format!("--currency {}: a currency is three capital letters", args.currency))?;
    let (mut prices, mut other_price) = (Vec::new(), None);
    for text in &args.prices {
        let (category, price) = price(text, currency)?;
        match category {
            Some(category) => prices.push((category, price)),
            None => other_price = Some(price),
        }
    }
    Ok(SessionPlan {
        title: id.clone(),
        id,
        hall,
        starts_at,
        ends_at,
        prices,
        other_price,
        areas: Vec::new(),
        hold_ttl_ms: None,
        limits: Limits::default(),
        comments: String::new(),
        sells_after_begin: false,
    })
}

/// Reads `category=amount`. `*` stands for all other categories.
fn price(text: &str, currency: Currency) -> Result<(Option<Id>, Money), String> {
    let wrong = || format!("--price {text}: write CATEGORY=AMOUNT with the amount in minor units, like standard=1000");
    let (category, amount) = text.split_once('=').ok_or_else(wrong)?;
    let amount = amount.parse::<u32>().map_err(|_| wrong())?;
    let category = match category {
        "*" => None,
        category => Some(Id::new(category).ok_or_else(wrong)?),
    };
    Ok((category, Money { amount: i64::from(amount), currency }))
}
