//! `boxoffice admin offers`: the offers and allotments of a session as they are now. Offers are closed and opened again by hand, and
//! allotments released.

use boxoffice_client::{Currency, Id, Money, SessionView, Timestamp};
use boxoffice_core::command::{Allotment, Offer, PriceChange};
use boxoffice_wire::body::{AllotmentBody, OfferBody, SessionChange};
use serde_json::{Value, json};

use super::{as_json, nodes::table, print};
use crate::{
    args::NodeArgs,
    draw::amount,
    failure::Outcome,
    ids,
    local_time::{date_and_time_in, zone_or_utc},
    node_client::{self, now, say},
};

/// Shows the offers and allotments of a session, after the named ones are closed, opened again and released.
pub(super) fn offers(
    node_args: &NodeArgs,
    session: &str,
    (close, reopen, release): (&[String], &[String], &[String]),
    json: bool,
) -> Outcome {
    let id = ids::id_of("session", session)?;
    let named =
        |what: &str, named: &[String]| named.iter().map(|id| ids::id_of(what, id)).collect::<Result<Vec<Id>, _>>();
    let (close, reopen, release) = (named("offer", close)?, named("offer", reopen)?, named("allotment", release)?);
    node_client::block_on(async {
        let client = node_args.connect().await?;
        if !(close.is_empty() && reopen.is_empty() && release.is_empty()) {
            let change = SessionChange {
                close: close.into_iter().collect(),
                reopen: reopen.into_iter().collect(),
                release: release.into_iter().collect(),
                ..SessionChange::of(id.clone())
            };
            let changed = client.session_change(&change).await.map_err(|error| node_args.failure(error))?.value;
            changed.what.iter().for_each(|what| _ = say(what));
        }
        let session = crate::watch::session(&client, &id, node_args).await?;
        let lines = || [lines(&session, now()), allotment_lines(&session)].concat();
        print(&if json { vec![as_json(&object(&session))] } else { lines() });
        Ok(())
    })
}

fn all_offers(session: &SessionView) -> &[Offer] {
    session.offering.as_deref().map_or(&[], |offering| &offering.offers)
}

fn lines(session: &SessionView, now: Timestamp) -> Vec<String> {
    if all_offers(session).is_empty() {
        return vec![format!("Session {} has no offers: everything is on sale for everybody.", session.id)];
    }
    let head = ["offer", "types", "where", "price", "from", "until", "left", "state"].map(str::to_owned);
    let zone = zone_or_utc(session.zone.as_deref());
    let listed = |ids: &[Id]| ids.iter().map(Id::as_str).collect::<Vec<_>>().join(" ");
    let or = |text: String, none: &str| if text.is_empty() { none.to_owned() } else { text };
    let currency = session.prices.iter().map(|(_, price)| price.currency).next();
    let currency = currency.or_else(|| session.areas.first().map(|area| area.price.currency));
    let rows = all_offers(session).iter().map(|offer| {
        let zones: Vec<Id> = offer.categories.iter().chain(&offer.areas).cloned().collect();
        let at = |at: Option<Timestamp>| at.map_or_else(|| "-".into(), |at| date_and_time_in(&zone, at));
        [
            offer.id.to_string(),
            or(listed(&offer.types), "all"),
            or(listed(&zones), "everywhere"),
            price(offer, currency),
            at(offer.from),
            at(offer.until),
            left(session, offer).map_or_else(|| "-".into(), |left| left.to_string()),
            state(session, offer, now).into(),
        ]
    });
    table(&[head].into_iter().chain(rows).collect::<Vec<_>>())
}

/// The allotments of a session, and how many of their seats are free.
fn allotment_lines(session: &SessionView) -> Vec<String> {
    let allotments = session.offering.as_deref().map_or(&[][..], |offering| &offering.allotments);
    if allotments.is_empty() {
        return Vec::new();
    }
    let zone = zone_or_utc(session.zone.as_deref());
    let head = ["allotment", "seats", "released at", "kept"].map(str::to_owned);
    let rows = (0..).zip(allotments).map(|(number, allotment)| {
        let at = allotment.release_at.map_or_else(|| "-".into(), |at| date_and_time_in(&zone, at));
        [allotment.id.to_string(), allotment.seats.len().to_string(), at, kept(session, number, allotment)]
    });
    [String::new()].into_iter().chain(table(&[head].into_iter().chain(rows).collect::<Vec<_>>())).collect()
}

/// How many seats of an allotment are free and kept, or that it is released.
fn kept(session: &SessionView, number: usize, allotment: &Allotment) -> String {
    let Some(sale) = &session.sale else { return "-".into() };
    match sale.kept.get(number) {
        _ if sale.released.contains(&allotment.id) => "released".into(),
        Some(kept) => kept.to_string(),
        None => "-".into(),
    }
}

fn price(offer: &Offer, currency: Option<Currency>) -> String {
    let money = |amount_of: i64| match currency {
        Some(currency) => amount(Money { amount: amount_of, currency }),
        None => amount_of.to_string(),
    };
    match offer.change {
        None => "list".into(),
        Some(PriceChange::Set(price)) => money(price),
        Some(PriceChange::Minus(off)) => format!("{} off", money(off)),
        Some(PriceChange::Percent(rate)) => format!("{}.{:02} % off", rate / 100, rate % 100),
    }
}

/// How many of its counters are left, at most as many as the scarcest one has.
fn left(session: &SessionView, offer: &Offer) -> Option<u64> {
    let counters = &session.offering.as_deref()?.counters;
    let counted = &session.sale.as_ref()?.counted;
    let left = offer.counters.iter().filter_map(|id| {
        let place = counters.iter().position(|counter| counter.id == *id)?;
        Some(u64::from(counters[place].max).saturating_sub(*counted.get(place)?))
    });
    left.min()
}

fn state(session: &SessionView, offer: &Offer, now: Timestamp) -> &'static str {
    let opened = session.sale.as_ref().is_some_and(|sale| sale.opened.contains(&offer.id));
    match (offer.closed, offer.until, offer.from) {
        (true, ..) => "closed",
        (_, Some(until), _) if until <= now => "over",
        (_, _, Some(_)) if !opened => "opens later",
        _ if offer.desk => "open, for the desk",
        _ => "open",
    }
}

fn object(session: &SessionView) -> Value {
    let offers: Vec<Value> = all_offers(session)
        .iter()
        .map(|offer| {
            let body = serde_json::to_value(OfferBody::from(offer.clone())).unwrap_or_default();
            json!({"offer": body, "left": left(session, offer), "state": state(session, offer, now())})
        })
        .collect();
    let allotments = session.offering.as_deref().map_or(&[][..], |offering| &offering.allotments);
    let allotments: Vec<Value> = (0..)
        .zip(allotments)
        .map(|(number, allotment)| {
            let body = serde_json::to_value(AllotmentBody::from(allotment.clone())).unwrap_or_default();
            json!({"allotment": body, "kept": kept(session, number, allotment)})
        })
        .collect();
    let terms = session.sale.as_ref().map_or(0, |sale| sale.terms);
    json!({"session": session.id.as_str(), "terms": terms, "offers": offers, "allotments": allotments})
}
