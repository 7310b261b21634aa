//! `boxoffice admin offers`: the offers of a session as they are now, and one closed or opened again by hand.

use boxoffice_client::{Currency, Id, Money, SessionView, Timestamp};
use boxoffice_core::command::{Offer, PriceChange};
use boxoffice_wire::body::{OfferBody, SessionChange};
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

/// Shows the offers of a session, after these are closed and those opened again.
pub(super) fn offers(
    node_args: &NodeArgs,
    session: &str,
    (close, reopen): (&[String], &[String]),
    json: bool,
) -> Outcome {
    let id = ids::id_of("session", session)?;
    let named = |ids: &[String]| ids.iter().map(|id| ids::id_of("offer", id)).collect::<Result<Vec<Id>, _>>();
    let (close, reopen) = (named(close)?, named(reopen)?);
    node_client::block_on(async {
        let client = node_args.connect().await?;
        if !(close.is_empty() && reopen.is_empty()) {
            let (close, reopen) = (close.into_iter().collect(), reopen.into_iter().collect());
            let change = SessionChange { close, reopen, ..SessionChange::of(id.clone()) };
            let changed = client.session_change(&change).await.map_err(|error| node_args.failure(error))?.value;
            changed.what.iter().for_each(|what| _ = say(what));
        }
        let session = crate::watch::session(&client, &id, node_args).await?;
        print(&if json { vec![as_json(&object(&session))] } else { lines(&session, now()) });
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
    json!({"session": session.id.as_str(), "terms": session.sale.as_ref().map_or(0, |sale| sale.terms), "offers": offers})
}
