//! Feeds, judged by what arrives.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use boxoffice_wire::feed_kind::FeedKind;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    ADA, GLOBE, MARKER, ROYAL,
    callers::{Caller, Rules},
    expected, invariants,
    requests::About,
    scene::{self, Scene},
};
use crate::common::{Port, Rng, TIMEOUT};

/// How long frames are waited for after everything that must arrive has arrived elsewhere.
const QUIET: Duration = Duration::from_millis(300);

/// A watch, and what it is about.
struct Feed {
    kind: FeedKind,
    body: Value,
    about: About,
}

fn all(scene: &Scene) -> Vec<Feed> {
    let mut feeds = Vec::new();
    for kind in FeedKind::ALL {
        let mut add = |body: Value, customer, venue| {
            feeds.push(Feed { kind, body, about: About { customer, venue, records: false } });
        };
        match kind {
            FeedKind::Session => {
                add(json!({"entity": "session/royal-show"}), None, Some(ROYAL));
                add(json!({"entity": "session/globe-show"}), None, Some(GLOBE));
            }
            FeedKind::SessionCounts => {
                add(json!({"sessions": ["royal-show"]}), None, Some(ROYAL));
                add(json!({"sessions": ["globe-show"]}), None, Some(GLOBE));
            }
            FeedKind::Product => add(json!({"entity": "product/pen"}), None, None),
            FeedKind::Resource => add(json!({"entity": "resource/room"}), None, None),
            FeedKind::Cart => {
                for venue in [ROYAL, GLOBE] {
                    let scene::Venue { open, open_cart, .. } = scene.of(venue);
                    add(json!({"entity": format!("cart/{open_cart}"), "token": open}), None, Some(venue));
                }
            }
            FeedKind::Customer => add(json!({"entity": format!("customer/{ADA}")}), Some(ADA), None),
        }
    }
    feeds
}

fn name(feed: &Feed) -> String {
    let entity = feed.body["entity"].as_str().map(str::to_owned);
    format!("watch {}", entity.unwrap_or_else(|| feed.body["sessions"].to_string()))
}

/// Lets every caller follow everything, then sells something to Ada, and looks at the frames. Returns what is wrong.
pub(super) async fn wrong(
    rules: Rules,
    scene: &Scene,
    rng: &mut Rng,
    operator: &Port,
    round: usize,
    callers: &[(&Caller, &Port)],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let feeds = all(scene);
    // The numbers of the feeds that each caller was given with what they are of, and the first frames.
    let mut given = Vec::new();
    for (caller, port) in callers {
        let mut numbers = BTreeMap::new();
        for (index, feed) in feeds.iter().enumerate() {
            let answer = port.exchange_whole(json!({"op": "watch", "body": feed.body})).await;
            let code = ["no", "fail"].iter().find_map(|kind| answer[*kind]["code"].as_u64()).unwrap_or(0);
            let expected = expected::refusal(rules, caller, feed.kind.permission(), &feed.about).unwrap_or(0);
            if code != expected {
                wrong.push(format!("{}: {}: {code}, not {expected}: {answer}", caller.name, name(feed)));
            }
            let text = answer.to_string();
            if let Some(invariant) = invariants::broken(rules, caller, &name(feed), &feed.about, code, &text) {
                wrong.push(format!("{}: {}: {invariant}: {answer}", caller.name, name(feed)));
            }
            let numbers_of = |value: &Value| value["feed"].as_u64();
            let listed = answer["ok"]["feeds"].as_array().into_iter().flatten().filter_map(numbers_of);
            numbers.extend(numbers_of(&answer["ok"]).into_iter().chain(listed).map(|number| (number, index)));
        }
        // What they begin with is there before anything is sold, so that the sale is a frame of its own.
        let mut frames = VecDeque::new();
        let mut silent: BTreeSet<u64> = numbers.keys().copied().collect();
        while !silent.is_empty()
            && let Ok(Some(frame)) = timeout(TIMEOUT, port.next_other()).await
        {
            silent.retain(|number| frame["feed"].as_u64() != Some(*number));
            frames.push_back(frame);
        }
        given.push((numbers, frames));
    }
    // Each feed has something to tell now.
    let rid = format!("feeds-{round}");
    let order = scene::buy_for_ada(operator, ROYAL, rng).await;
    scene::buy_for_ada(operator, GLOBE, rng).await;
    for venue in [ROYAL, GLOBE] {
        let more = json!({"token": scene.of(venue).open, "line": 1, "quantity": 10 + round});
        operator.ask("cart.set_quantity", &rid, more).await.ok();
    }
    let pen = json!({"token": rng.token(), "product": "pen", "quantity": 1});
    operator.ask("cart.hold_stock", &rid, pen).await.ok();
    let booked = json!({
        "resource": "room", "booking": rid, "begin": "2030-04-16T10:00:00Z", "end": "2030-04-16T11:00:00Z",
    });
    operator.ask("resource.reserve", &rid, booked).await.ok();
    let customers = feeds.iter().position(|feed| feed.kind == FeedKind::Customer).expect("a feed of a customer");
    let heard = join_all(callers.iter().zip(given).map(|((caller, port), (numbers, first))| {
        heard(rules, caller, port, Expected { feeds: &feeds, numbers, first, customers, order: &order })
    }));
    wrong.extend(heard.await.into_iter().flatten());
    wrong
}

/// What a caller may hear.
struct Expected<'a> {
    feeds: &'a [Feed],
    /// The feeds that were granted, by their numbers.
    numbers: BTreeMap<u64, usize>,
    /// Frames that have come.
    first: VecDeque<Value>,
    /// The index of the customer's feed.
    customers: usize,
    /// The order of Ada that all who follow her hear of.
    order: &'a str,
}

/// Reads a caller's frames until nothing comes any more. Returns what is wrong.
async fn heard(rules: Rules, caller: &Caller, port: &Port, expected: Expected<'_>) -> Vec<String> {
    let Expected { feeds, numbers, mut first, customers, order } = expected;
    let mut wrong = Vec::new();
    let (mut frames, mut has_heard_of_the_order) = (BTreeMap::<usize, usize>::new(), false);
    // What comes after the sale is waited for. Afterwards there is nothing to wait for but the time.
    let follows = numbers.values().any(|index| *index == customers);
    loop {
        let is_owed = numbers.values().any(|index| frames.get(index).copied().unwrap_or(0) < 2);
        let limit = if is_owed || (follows && !has_heard_of_the_order) { TIMEOUT } else { QUIET };
        let frame = match first.pop_front() {
            Some(frame) => frame,
            None => match timeout(limit, port.next_other()).await {
                Ok(Some(frame)) => frame,
                _ => break,
            },
        };
        let text = frame.to_string();
        match frame["feed"].as_u64().and_then(|number| numbers.get(&number)) {
            Some(index) => {
                *frames.entry(*index).or_default() += 1;
                has_heard_of_the_order |= *index == customers && text.contains(order);
                let watched = &feeds[*index].body;
                let is_its = frame["snapshot"]["entity"].as_str().is_none_or(|entity| {
                    let session = watched["sessions"][0].as_str();
                    watched["entity"] == entity || session.is_some_and(|id| entity == format!("session/{id}"))
                });
                if !is_its {
                    wrong.push(format!("{}: a feed of something else: {frame}", caller.name));
                }
            }
            None => wrong.push(format!("{}: a frame of a feed that was refused: {frame}", caller.name)),
        }
        let may_see = caller.acts_for(rules, ADA) && caller.venue.is_none() && caller.role != "watch";
        if (text.contains("purchases") || text.contains(order) || text.contains(MARKER)) && !may_see {
            wrong.push(format!("{}: Ada's purchases arrive: {frame}", caller.name));
        }
    }
    // A feed that was granted tells something: a snapshot at least, and a delta after the sale.
    for index in numbers.values() {
        if frames.get(index).copied().unwrap_or(0) < 2 {
            wrong.push(format!("{}: {} was granted and is silent", caller.name, name(&feeds[*index])));
        }
    }
    if follows && !has_heard_of_the_order {
        wrong.push(format!("{}: the purchase did not arrive", caller.name));
    }
    wrong
}
