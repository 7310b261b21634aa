//! What a session that is there differs in from one that is asked for, in words that say both.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::fmt::Debug;

use smol_str::{SmolStr, ToSmolStr, format_smolstr};

use crate::{
    calendar::instant,
    command::{Allotment, Area, CustomerLimit, NewSession, Offer, Offering, PriceChange, PriceType, SessionExtras},
    id::Id,
    money::Money,
    refusal::Refusal,
    seat::Seat,
};

/// The most differences that one message says. The others are counted.
const SAID_MAX: usize = 6;

/// The most runs of seats that one difference says.
const RUNS_SHOWN: usize = 40;

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

/// The most that a change says.
const CHANGES_SAID_MAX: usize = 24;

/// The differences, each with what is there and what is asked for. None if both are the same. The order of prices does not
/// matter.
pub fn differences(known: &NewSession, wanted: &NewSession) -> Vec<SmolStr> {
    compared(known, wanted, "not")
}

/// What a change has made different, each with what is there now and what was before. What is too much is counted.
pub(crate) fn changes_between(before: &NewSession, now: &NewSession) -> Vec<SmolStr> {
    let mut what = compared(now, before, "and was");
    if what.len() > CHANGES_SAID_MAX {
        let more = what.len() + 1 - CHANGES_SAID_MAX;
        what.truncate(CHANGES_SAID_MAX - 1);
        what.push(format_smolstr!("{more} more differences"));
    }
    what
}

fn compared(known: &NewSession, wanted: &NewSession, other: &'static str) -> Vec<SmolStr> {
    let NewSession { id: _, hall, title, starts_at, ends_at, prices: _, extras } = known;
    let SessionExtras { areas: _, hold_ttl_ms, limits, comments, sells_after_begin, offering, .. } = extras;
    let SessionExtras { no_single_seats, min_party, .. } = extras;
    let mut found = Differences { all: Vec::new(), other };
    found.compare("its hall is", hall, &wanted.hall, ToSmolStr::to_smolstr);
    found.compare("its title is", title, &wanted.title, ToSmolStr::to_smolstr);
    found.compare("it begins at", starts_at, &wanted.starts_at, instant);
    found.compare("it ends at", ends_at, &wanted.ends_at, instant);
    found.prices(&known.prices, &wanted.prices);
    found.named("area", (&known.areas, &wanted.areas), |of| &of.id, area);
    found.compare("its `hold_ttl_ms` is", hold_ttl_ms, &wanted.hold_ttl_ms, optional);
    found.compare("its limit of an order is", &limits.per_order, &wanted.limits.per_order, optional);
    found.compare("its limit of a customer is", &limits.per_customer, &wanted.limits.per_customer, customer_limit);
    found.compare("its comments are", comments, &wanted.comments, text);
    found.compare("its `sells_after_begin` is", sells_after_begin, &wanted.sells_after_begin, ToSmolStr::to_smolstr);
    found.compare("its `no_single_seats` is", no_single_seats, &wanted.no_single_seats, ToSmolStr::to_smolstr);
    found.compare("its `min_party` is", min_party, &wanted.min_party, optional);
    let nothing = Offering::default();
    let (known, wanted) = (offering.as_deref().unwrap_or(&nothing), wanted.offering.as_deref().unwrap_or(&nothing));
    found.named("price type", (&known.price_types, &wanted.price_types), |of| &of.id, price_type);
    found.named("offer", (&known.offers, &wanted.offers), |of| &of.id, offer);
    found.named(
        "counter",
        (&known.counters, &wanted.counters),
        |of| &of.id,
        |of| format_smolstr!("at most {}", of.max),
    );
    found.named("allotment", (&known.allotments, &wanted.allotments), |of| &of.id, allotment);
    found.all
}

/// Differences so far, and the word before what is asked for, or was before.
struct Differences {
    all: Vec<SmolStr>,
    other: &'static str,
}

impl Differences {
    /// Adds a difference if the values are not the same. Equal words would hide it, so then they are written in full.
    fn compare<T: PartialEq + Debug>(&mut self, what: &str, known: &T, wanted: &T, words: impl Fn(&T) -> SmolStr) {
        if known == wanted {
            return;
        }
        let (is, asked) = (words(known), words(wanted));
        let other = self.other;
        self.all.push(if is == asked {
            format_smolstr!("{what} {known:?}, {other} {wanted:?}")
        } else {
            format_smolstr!("{what} {is}, {other} {asked}")
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
            self.all.push("a category has two prices".into());
        }
    }

    /// Compares lists of things with ids, which it calls `what`.
    fn named<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        (known, wanted): (&[T], &[T]),
        id_of: impl Fn(&T) -> &Id,
        words: impl Fn(&T) -> SmolStr,
    ) {
        if known == wanted {
            return;
        }
        let ids = |all: &[T]| -> Vec<Id> { all.iter().map(|one| id_of(one).clone()).collect() };
        let is: BTreeMap<&Id, &T> = known.iter().map(|one| (id_of(one), one)).collect();
        let asked: BTreeMap<&Id, &T> = wanted.iter().map(|one| (id_of(one), one)).collect();
        let before = self.all.len();
        for id in is.keys().chain(asked.keys()).collect::<BTreeSet<_>>() {
            let text = format_smolstr!("its {what} {id} is");
            self.compare(&text, &is.get(*id), &asked.get(*id), |of| of.map_or_else(none, |of| words(of)));
        }
        if before == self.all.len() {
            let list = |ids: &Vec<Id>| ids.iter().map(Id::as_str).collect::<Vec<_>>().join(" ").into();
            self.compare(&format_smolstr!("the order of its {what}s is"), &ids(known), &ids(wanted), list);
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

fn price_type(of: &PriceType) -> SmolStr {
    let PriceType { id: _, name, names, prices, area_prices, tax } = of;
    let priced = |zones: &[(Id, i64)]| -> Vec<SmolStr> {
        zones.iter().map(|(zone, price)| format_smolstr!(" {zone} {price}")).collect()
    };
    let names = if names.is_empty() { SmolStr::default() } else { format_smolstr!(", called {names:?}") };
    let tax = tax.as_ref().map_or_else(SmolStr::default, |tax| {
        format_smolstr!(", tax {:?} of {}.{:02} %", tax.code, tax.rate / 100, tax.rate % 100)
    });
    format_smolstr!("{}{}{}{names}{tax}", text(name), priced(prices).concat(), priced(area_prices).concat())
}

fn offer(of: &Offer) -> SmolStr {
    let Offer { id: _, name, names, types, categories, areas, from, until, closed, .. } = of;
    let Offer { desk, change, per_order, counters, allotments, code_group, attributes, per_customer, .. } = of;
    let mut words: Vec<SmolStr> = (!name.is_empty()).then(|| text(name)).into_iter().collect();
    if !names.is_empty() {
        words.push(format_smolstr!("called {names:?}"));
    }
    let lists = [("of", types), ("in", categories), ("in", areas), ("counted by", counters), ("out of", allotments)];
    for (what, ids) in lists {
        if !ids.is_empty() {
            let ids: Vec<&str> = ids.iter().map(Id::as_str).collect();
            words.push(format_smolstr!("{what} {}", ids.join(" ")));
        }
    }
    words.extend(from.iter().map(|from| format_smolstr!("from {}", instant(from))));
    words.extend(until.iter().map(|until| format_smolstr!("until {}", instant(until))));
    words.extend(closed.then(|| "closed".into()));
    words.extend(desk.then(|| "for the desk".into()));
    words.extend(code_group.iter().map(|group| format_smolstr!("with a code of {group}")));
    words.extend((!attributes.is_empty()).then(|| {
        let ids: Vec<&str> = attributes.iter().map(Id::as_str).collect();
        format_smolstr!("for customers who are {}", ids.join(" or "))
    }));
    words.extend(change.iter().map(|change| match change {
        PriceChange::Set(price) => format_smolstr!("at {price}"),
        PriceChange::Minus(off) => format_smolstr!("{off} off"),
        PriceChange::Percent(off) => format_smolstr!("{}.{:02} % off", off / 100, off % 100),
    }));
    words.extend(per_order.iter().map(|most| format_smolstr!("at most {most} in an order")));
    words.extend(per_customer.iter().map(|most| format_smolstr!("at most {most} of a customer")));
    if words.is_empty() { SmolStr::new_static("for everybody") } else { words.join(", ").into() }
}

fn allotment(of: &Allotment) -> SmolStr {
    let Allotment { id: _, name, names, seats, release_at, released, companions } = of;
    let names = if names.is_empty() { SmolStr::default() } else { format_smolstr!(", called {names:?}") };
    let when = release_at.map_or_else(SmolStr::default, |at| format_smolstr!(", released at {}", instant(&at)));
    let released = if *released { ", released" } else { "" };
    let companions = if *companions { ", for companions" } else { "" };
    format_smolstr!("{}, {} seats, {}{names}{when}{released}{companions}", text(name), seats.len(), runs(seats))
}

/// Seats as runs of neighbours, `row:first-last`. Only the first of many are said.
fn runs(seats: &[Seat]) -> SmolStr {
    let is_next = |one: &Seat, next: &Seat| one.row == next.row && one.seat + 1 == next.seat;
    let mut runs = seats.chunk_by(is_next).map(|run| match run {
        [Seat { row, seat }] => format_smolstr!("{row}:{seat}"),
        [Seat { row, seat }, .., last] => format_smolstr!("{row}:{seat}-{}", last.seat),
        [] => SmolStr::default(),
    });
    let said: Vec<SmolStr> = runs.by_ref().take(RUNS_SHOWN).collect();
    let more = if runs.next().is_some() { " …" } else { "" };
    format_smolstr!("{}{more}", said.join(" "))
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
