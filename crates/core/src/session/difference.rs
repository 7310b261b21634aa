//! What a session that is there differs in from one that is asked for, in words that say both.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::fmt::Debug;

use smol_str::{SmolStr, ToSmolStr, format_smolstr};

use crate::{
    calendar::instant,
    command::{Area, CustomerLimit, NewSession, SessionExtras},
    id::Id,
    money::Money,
    refusal::Refusal,
};

/// The most differences that one message says. The others are counted.
const SAID_MAX: usize = 6;

/// The longest text that is repeated whole, in characters.
const TEXT_SHOWN: usize = 100;

/// The refusal of a session that is there and has these differences from the one that is asked for.
pub(crate) fn exists_differently(session: &Id, differences: &[SmolStr]) -> Refusal {
    let said = &differences[..differences.len().min(SAID_MAX)];
    let more = match differences.len() - said.len() {
        0 => SmolStr::default(),
        more => format_smolstr!("; and {more} more"),
    };
    Refusal::AlreadyExistsDifferently(format_smolstr!("session {session}: {}{more}", said.join("; ")))
}

/// The differences, each with what is there and what is asked for. None if both are the same. The order of prices does not
/// matter.
pub fn differences(known: &NewSession, wanted: &NewSession) -> Vec<SmolStr> {
    let NewSession { id: _, hall, title, starts_at, ends_at, prices: _, extras } = known;
    let SessionExtras { areas: _, hold_ttl_ms, limits, comments, sells_after_begin } = extras;
    let mut found = Differences::default();
    found.compare("its hall is", hall, &wanted.hall, ToSmolStr::to_smolstr);
    found.compare("its title is", title, &wanted.title, ToSmolStr::to_smolstr);
    found.compare("it begins at", starts_at, &wanted.starts_at, instant);
    found.compare("it ends at", ends_at, &wanted.ends_at, instant);
    found.prices(&known.prices, &wanted.prices);
    found.areas(&known.areas, &wanted.areas);
    found.compare("its `hold_ttl_ms` is", hold_ttl_ms, &wanted.hold_ttl_ms, optional);
    found.compare("its limit of an order is", &limits.per_order, &wanted.limits.per_order, optional);
    found.compare("its limit of a customer is", &limits.per_customer, &wanted.limits.per_customer, customer_limit);
    found.compare("its comments are", comments, &wanted.comments, text);
    found.compare("its `sells_after_begin` is", sells_after_begin, &wanted.sells_after_begin, ToSmolStr::to_smolstr);
    found.0
}

#[derive(Default)]
struct Differences(Vec<SmolStr>);

impl Differences {
    /// Adds a difference if the values are not the same. Equal words would hide it, so then they are written in full.
    fn compare<T: PartialEq + Debug>(&mut self, what: &str, known: &T, wanted: &T, words: impl Fn(&T) -> SmolStr) {
        if known == wanted {
            return;
        }
        let (is, asked) = (words(known), words(wanted));
        self.0.push(if is == asked {
            format_smolstr!("{what} {known:?}, not {wanted:?}")
        } else {
            format_smolstr!("{what} {is}, not {asked}")
        });
    }

    fn prices(&mut self, known: &[(Id, Money)], wanted: &[(Id, Money)]) {
        let by_category = |prices: &[(Id, Money)]| -> BTreeMap<Id, Money> { prices.iter().cloned().collect() };
        let (is, asked) = (by_category(known), by_category(wanted));
        let categories: BTreeSet<&Id> = is.keys().chain(asked.keys()).collect();
        for category in categories {
            let what = format_smolstr!("its price of {category} is");
            self.compare(&what, &is.get(category), &asked.get(category), |price| price.map_or_else(none, money));
        }
        if asked.len() < wanted.len() {
            self.0.push("a category has two prices".into());
        }
    }

    fn areas(&mut self, known: &[Area], wanted: &[Area]) {
        let ids = |areas: &[Area]| -> Vec<Id> { areas.iter().map(|area| area.id.clone()).collect() };
        let of = |areas: &[Area], id: &Id| areas.iter().find(|area| area.id == *id).cloned();
        let before = self.0.len();
        for id in ids(known).into_iter().chain(ids(wanted)).collect::<BTreeSet<Id>>() {
            let what = format_smolstr!("its area {id} is");
            self.compare(&what, &of(known, &id), &of(wanted, &id), |of| of.as_ref().map_or_else(none, area));
        }
        if before == self.0.len() {
            let list = |ids: &Vec<Id>| ids.iter().map(Id::as_str).collect::<Vec<_>>().join(" ").into();
            self.compare("the order of its areas is", &ids(known), &ids(wanted), list);
        }
    }
}

fn none() -> SmolStr {
    SmolStr::new_static("none")
}

fn money(money: &Money) -> SmolStr {
    format_smolstr!("{} minor units of {:?}", money.amount, money.currency)
}

fn area(area: &Area) -> SmolStr {
    let Area { id: _, name, capacity, price, names } = area;
    let names = if names.is_empty() { SmolStr::default() } else { format_smolstr!(", called {names:?}") };
    format_smolstr!("{}, {capacity} places at {}{names}", text(name), money(price))
}

fn optional<T: ToSmolStr>(value: &Option<T>) -> SmolStr {
    value.as_ref().map_or_else(none, ToSmolStr::to_smolstr)
}

fn customer_limit(limit: &Option<CustomerLimit>) -> SmolStr {
    limit.as_ref().map_or_else(none, |CustomerLimit { quota, max }| format_smolstr!("{max} of {quota}"))
}

/// A text in quotes, or its beginning and its length.
fn text(text: &SmolStr) -> SmolStr {
    match text.char_indices().nth(TEXT_SHOWN) {
        None => format_smolstr!("{text:?}"),
        Some((end, _)) => format_smolstr!("{:?}… of {} bytes", &text[..end], text.len()),
    }
}
