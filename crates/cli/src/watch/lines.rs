//! Watches without a map: a line for every change of a product, a resource, a customer's purchases or the counts of sessions.

use std::pin::pin;

use boxoffice_client::{
    AreaCounts, Client, Entity, Error, Id, LiveCounts, LivePurchases, LiveResource, LiveStock, Purchase,
    PurchaseCursor, SeatCounts, Timestamp,
};

use super::{old, stop_requested};
use crate::{
    args::NodeArgs,
    draw::{self, amount},
    failure::Outcome,
    local_time::{date_and_time_in, zone_or_utc},
    node_client::{date_and_time, now, say, time_of_day},
    words::counted,
};

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The maximum of days in a line. More are only counted.
const DAYS_SHOWN: usize = 5;

/// Watches one of these until stopped. `false` if the entity is none of them.
pub async fn watch(client: &Client, entity: &Entity, node_args: &NodeArgs) -> Result<bool, crate::failure::Failure> {
    match entity {
        Entity::Product(id) => {
            let mut feed = client.watch_product(id);
            follow(node_args, async || feed.next().await.map(stock)).await?;
        }
        Entity::Resource(id) => {
            let mut feed = client.watch_resource(id);
            follow(node_args, async || feed.next().await.map(calendar)).await?;
        }
        Entity::Customer(id) => {
            let mut feed = client.watch_purchases(id, PurchaseCursor::default());
            follow(node_args, async || feed.next().await.map(purchases)).await?;
        }
        Entity::Session(_) | Entity::Venue(_) | Entity::Cart(_) | Entity::Code(_) => return Ok(false),
        Entity::Directory | Entity::Cluster => return Ok(false),
    }
    Ok(true)
}

/// Watches the counts of sessions until stopped.
pub async fn watch_counts(client: &Client, sessions: Vec<Id>, node_args: &NodeArgs) -> Outcome {
    let mut feed = client.watch_counts(sessions);
    let mut named = false;
    follow(node_args, async || {
        let mut lines = vec![counts(feed.next().await?)];
        if !std::mem::replace(&mut named, true) {
            lines.extend(feed.missing().map(|session| format!("there is no session {session}")));
        }
        Ok(lines)
    })
    .await
}

fn counts(state: &LiveCounts) -> String {
    let mut words = vec![format!("{}  version {}", state.session(), state.version())];
    if state.counts() != SeatCounts::default() || state.areas().is_empty() {
        words.push(draw::counts(&state.counts()));
    }
    let area =
        |AreaCounts { area, free, held, sold }: &AreaCounts| format!("{area}: {free} free, {held} held, {sold} sold");
    words.extend(state.areas().iter().map(area));
    words.extend(state.stale_for().map(old));
    words.join("  ")
}

/// Prints changes until stopped, or until the reader is gone.
async fn follow(node_args: &NodeArgs, mut next: impl AsyncFnMut() -> Result<Vec<String>, Error>) -> Outcome {
    let mut stop = pin!(stop_requested());
    loop {
        let lines = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            lines = next() => lines.map_err(|error| node_args.failure(error))?,
        };
        let at = time_of_day(now());
        if !lines.iter().all(|line| say(&format!("{at}  {line}"))) {
            return Ok(());
        }
    }
}

fn stock(state: &LiveStock) -> Vec<String> {
    let counts = state.counts();
    vec![format!("version {}  {} free, {} held, {} sold", state.version(), counts.free, counts.held, counts.sold)]
}

fn calendar(state: &LiveResource) -> Vec<String> {
    let bookings = counted(state.bookings(), "booking");
    let days = state.days().map_or_else(|| "first seen".into(), days);
    vec![format!("version {}  {bookings}  {days}", state.version())]
}

/// The days that changed: `2026-12-24, 2026-12-25`.
fn days(days: &[u32]) -> String {
    let day = |day: &u32| date_and_time(Timestamp(u64::from(*day) * DAY_MS))[..10].to_owned();
    let mut words: Vec<String> = days.iter().take(DAYS_SHOWN).map(day).collect();
    if days.len() > DAYS_SHOWN {
        words.push(format!("and {} more days", days.len() - DAYS_SHOWN));
    }
    words.join(", ")
}

fn purchases(state: &LivePurchases) -> Vec<String> {
    let line = |purchase: &Purchase| {
        let Purchase { cursor, order, at, total, zone, items: _ } = purchase;
        let at = date_and_time_in(&zone_or_utc(zone.as_deref()), *at);
        format!("purchase {cursor}  order {order}, {at}, {}", amount(*total))
    };
    state.new_purchases().iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::days;

    #[test]
    fn days_that_changed_are_named_up_to_five() {
        assert_eq!(days(&[20_811, 20_812]), "2026-12-24, 2026-12-25");
        assert_eq!(days(&[0, 1, 2, 3, 4, 5, 6]).split(", ").last(), Some("and 2 more days"));
    }
}
