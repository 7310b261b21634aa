//! The prices of sessions as CSV: `session,price_type,category,price`, with `area` in place of the category or beside it. A line is a
//! price of one type in one category or area.
//!
//! Amounts are decimals, as in the other spreadsheets that are imported. The currency is that of the session, which is known when the
//! session is read, and so are the digits of an amount.

use std::{collections::BTreeSet, fmt, sync::Arc};

use boxoffice_core::{
    command::NewSession,
    id::Id,
    money::{Currency, Money, PRICE_MAX},
    session,
};
use boxoffice_seating as seating;
use boxoffice_wire::body;
use smol_str::SmolStr;

use super::list::{self, Form, ListLine};
use crate::{draw, words::counted};

const FORM: Form = Form {
    line_is: "a price: session,price_type,category,price, or with area in place of category",
    required: &["session", "price_type", "price"],
    optional: &["category", "area", "currency"],
    told_by: ("session", &["price_type", "price"]),
};

/// Cells in a message.
const SHOWN: usize = 5;

/// A file of prices.
#[derive(Debug, PartialEq)]
pub struct PriceFile {
    pub prices: Vec<PriceList>,
    /// What was understood of the file.
    pub note: String,
}

/// The prices of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceList {
    pub session: Id,
    cells: Vec<Cell>,
    /// The decimal mark of the file, if its numbers show one.
    mark: Option<char>,
    /// Whether prices that the file does not name stay.
    keeps_absent: bool,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq)]
struct Cell {
    line: u64,
    /// The place of the price in words.
    at: String,
    key: Key,
    /// `None` if the type is not sold there.
    price: Option<String>,
    /// The currency that the line says, and its place in words.
    currency: Option<(Currency, String)>,
}

/// Which price it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// `None` in a session without price types.
    price_type: Option<Id>,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Category(Id),
    Area(Id),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(price_type) = &self.price_type {
            write!(f, "{price_type} in ")?;
        }
        match &self.place {
            Place::Category(id) => write!(f, "category {id}"),
            Place::Area(id) => write!(f, "area {id}"),
        }
    }
}

/// Reads a list of prices. `None` if the file is none. With `keeps_absent`, prices that the file does not name stay.
///
/// # Errors
/// What is wrong with the file, with the line and the column.
pub fn read(bytes: &[u8], keeps_absent: bool) -> Result<Option<PriceFile>, String> {
    let Some(list) = list::read(bytes, &FORM)? else { return Ok(None) };
    if !list.has("category") && !list.has("area") {
        return Err(format!("line 1 names no column category and none area; a line is {}", FORM.line_is));
    }
    let written = list.lines().filter(|line| !is_not_sold(line.field("price")));
    let mark = seating::decimal_mark(written.map(|line| (line.number(), line.field("price"))))?;
    let mut prices: Vec<PriceList> = Vec::new();
    for line in list.lines() {
        let (session, cell) = (id(line, "session")?, cell(line)?);
        let place = prices.iter().position(|known| known.session == session).unwrap_or_else(|| {
            prices.push(PriceList { session: session.clone(), cells: Vec::new(), mark, keeps_absent });
            prices.len() - 1
        });
        let cells = &mut prices[place].cells;
        if let Some(first) = cells.iter().find(|known| known.key == cell.key) {
            let (line, key) = (first.line, &cell.key);
            return Err(format!("{}: line {line} has a price of session {session} for {key} already", cell.at));
        }
        cells.push(cell);
    }
    let mark = mark.map_or_else(String::new, |mark| format!(", {mark:?} before the decimals"));
    let note = format!("{}{mark}", list.note("prices"));
    Ok(Some(PriceFile { prices, note }))
}

/// Whether a cell says that a type is not sold there. An empty one does, because that is how a table of prices has it.
fn is_not_sold(text: &str) -> bool {
    text.is_empty() || text.eq_ignore_ascii_case("not sold")
}

fn id(line: ListLine<'_>, column: &str) -> Result<Id, String> {
    let text = line.field(column);
    Id::new(text).ok_or_else(|| match text {
        "" => format!("{}: there is no {column}", line.at(column)),
        _ => format!("{}: {text:?} is no id (1 to 64 of A-Z a-z 0-9 . _ : -)", line.at(column)),
    })
}

fn cell(line: ListLine<'_>) -> Result<Cell, String> {
    let place = match (line.field("category"), line.field("area")) {
        ("", "") => return Err(format!("line {}: there is neither a category nor an area", line.number())),
        (_, "") => Place::Category(id(line, "category")?),
        ("", _) => Place::Area(id(line, "area")?),
        _ => return Err(format!("line {}: there is a category and an area; make two lines of it", line.number())),
    };
    let price_type = match line.field("price_type") {
        "" => None,
        _ => Some(id(line, "price_type")?),
    };
    let currency = match line.field("currency") {
        "" => None,
        text => {
            let at = line.at("currency");
            let currency = Currency::new(&text.to_uppercase());
            Some((currency.ok_or_else(|| format!("{at}: {text} is no currency"))?, at))
        }
    };
    let price = line.field("price");
    Ok(Cell {
        line: line.number(),
        at: line.at("price"),
        key: Key { price_type, place },
        price: (!is_not_sold(price)).then(|| price.to_owned()),
        currency,
    })
}

/// What a list changes of a session.
#[derive(Debug)]
pub struct PriceChange {
    pub change: body::SessionChange,
    /// The differences in words.
    pub different: Vec<SmolStr>,
}

impl PriceList {
    /// The number of its prices, in words.
    pub fn size(&self) -> String {
        counted(self.cells.len() as u64, "price")
    }

    /// What it changes of a session whose terms have this version. `None` if the session has these prices.
    ///
    /// # Errors
    /// What does not fit to the session, with the line.
    pub fn change(&self, there: &NewSession, terms: u32) -> Result<Option<PriceChange>, String> {
        let wanted = self.applied_to(there)?;
        let different = session::differences(there, &wanted);
        if different.is_empty() {
            return Ok(None);
        }
        let NewSession { prices, extras, .. } = wanted;
        let types = |session: &boxoffice_core::command::SessionExtras| {
            session.offering.as_deref().map(|offering| offering.price_types.clone()).unwrap_or_default()
        };
        let wanted_types = types(&extras);
        let areas_differ = extras.areas != there.extras.areas;
        let types_differ = wanted_types != types(&there.extras);
        let change = body::SessionChange {
            // The differences that were told are those to this version, and no other one is to be overwritten.
            expect: Some(terms),
            prices: (prices != there.prices).then_some(prices),
            areas: areas_differ.then(|| extras.areas.into_iter().map(body::AreaBody::from).collect()),
            price_types: types_differ.then(|| wanted_types.into_iter().map(body::PriceTypeBody::from).collect()),
            ..body::SessionChange::of(there.id.clone())
        };
        Ok(Some(PriceChange { change, different }))
    }

    /// The session with these prices.
    fn applied_to(&self, there: &NewSession) -> Result<NewSession, String> {
        let mut wanted = there.clone();
        let mut known = known(there);
        let currency = there.prices.iter().map(|(_, price)| price.currency).next();
        let currency = currency.or_else(|| there.extras.areas.first().map(|area| area.price.currency));
        let currency = currency.ok_or("it has no prices, so its currency is not known")?;
        for cell in &self.cells {
            let amount = self.amount(cell, currency)?;
            self.set(&mut wanted, cell, amount.map(|amount| Money { amount, currency }))?;
            known.remove(&cell.key);
        }
        if known.is_empty() || self.keeps_absent {
            return Ok(wanted);
        }
        let shown: Vec<String> = known.iter().take(SHOWN).map(Key::to_string).collect();
        let more = match known.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(format!(
            "the file does not name {} that it has: {}{more}; add them, with `not sold` where a type is not sold any more, or say \
             --keep-absent",
            counted(known.len() as u64, "price"),
            shown.join(", ")
        ))
    }

    /// The amount of a cell in minor units. `None` if it is not sold.
    fn amount(&self, cell: &Cell, currency: Currency) -> Result<Option<i64>, String> {
        if let Some((said, at)) = cell.currency.as_ref().filter(|(said, _)| *said != currency) {
            let (said, own) = (said.as_str(), currency.as_str());
            return Err(format!("{at}: it sells in {own} and not in {said}"));
        }
        let Some(text) = &cell.price else { return Ok(None) };
        let in_words = |error| seating::amount_words(&cell.at, text, error, currency.as_str());
        let amount = seating::minor_units(text, self.mark, draw::digits(currency)).map_err(in_words)?;
        match amount <= PRICE_MAX {
            true => Ok(Some(amount)),
            false => Err(in_words(seating::AmountError::TooHigh)),
        }
    }

    fn set(&self, wanted: &mut NewSession, cell: &Cell, price: Option<Money>) -> Result<(), String> {
        let (line, Key { price_type, place }) = (cell.line, &cell.key);
        let is_known = match place {
            Place::Category(id) => wanted.prices.iter().any(|(known, _)| known == id),
            Place::Area(id) => wanted.extras.areas.iter().any(|area| area.id == *id),
        };
        if !is_known {
            let (what, id) = match place {
                Place::Category(id) => ("category", id),
                Place::Area(id) => ("area", id),
            };
            return Err(format!("line {line}: it has no {what} {id}"));
        }
        let types = wanted.extras.offering.as_deref().map_or(&[][..], |offering| &offering.price_types);
        let number = match price_type {
            None if types.is_empty() => 0,
            None => return Err(format!("line {line}: it has price types; say which one this is a price of")),
            Some(id) => types.iter().position(|known| known.id == *id).ok_or_else(|| match types.len() {
                0 => format!("line {line}: it has no price types; leave the column price_type empty"),
                _ => format!(
                    "line {line}: it has no price type {id}; it has {}",
                    types.iter().map(|of| of.id.as_str()).collect::<Vec<_>>().join(", ")
                ),
            })?,
        };
        // The prices of the first type are those of the session itself.
        if number == 0 {
            let price = price.ok_or_else(|| {
                format!("{}: the first price type is sold everywhere; give it a price, and close it by offers", cell.at)
            })?;
            match place {
                Place::Category(id) => {
                    wanted.prices.iter_mut().filter(|(known, _)| known == id).for_each(|(_, of)| *of = price)
                }
                Place::Area(id) => {
                    wanted.extras.areas.iter_mut().filter(|area| area.id == *id).for_each(|area| area.price = price);
                }
            }
            return Ok(());
        }
        let offering = wanted.extras.offering.as_mut().expect("it has price types");
        let of = &mut Arc::make_mut(offering).price_types[number];
        let (list, id) = match place {
            Place::Category(id) => (&mut of.prices, id),
            Place::Area(id) => (&mut of.area_prices, id),
        };
        list.retain(|(known, _)| known != id);
        if let Some(price) = price {
            // They are ascending.
            let place = list.partition_point(|(known, _)| known < id);
            list.insert(place, (id.clone(), price.amount));
        }
        Ok(())
    }
}

/// The prices that a session has.
fn known(there: &NewSession) -> BTreeSet<Key> {
    let types = there.extras.offering.as_deref().map_or(&[][..], |offering| &offering.price_types);
    let mut keys = BTreeSet::new();
    let mut add = |price_type: Option<&Id>, place: Place| keys.insert(Key { price_type: price_type.cloned(), place });
    let first = types.first().map(|of| &of.id);
    there.prices.iter().for_each(|(id, _)| _ = add(first, Place::Category(id.clone())));
    there.extras.areas.iter().for_each(|area| _ = add(first, Place::Area(area.id.clone())));
    for of in types.iter().skip(1) {
        of.prices.iter().for_each(|(id, _)| _ = add(Some(&of.id), Place::Category(id.clone())));
        of.area_prices.iter().for_each(|(id, _)| _ = add(Some(&of.id), Place::Area(id.clone())));
    }
    keys
}

#[cfg(test)]
mod tests {
    use boxoffice_core::{
        command::{Area, Offering, PriceType, SessionExtras},
        time::Timestamp,
    };
    use expect_test::expect;

    use super::*;

    fn euro(amount: i64) -> Money {
        Money { amount, currency: Currency::new("EUR").expect("a currency") }
    }

    fn named(text: &str) -> Id {
        Id::new(text).expect("an id")
    }

    /// Adults and children in two categories and an area. Children are not sold in the stalls.
    fn session() -> NewSession {
        let of = |id: &str, prices: &[(&str, i64)], area_prices: &[(&str, i64)]| {
            let list = |prices: &[(&str, i64)]| prices.iter().map(|(id, price)| (named(id), *price)).collect();
            let (prices, area_prices) = (list(prices), list(area_prices));
            PriceType { id: named(id), name: "".into(), names: Default::default(), prices, area_prices, tax: None }
        };
        let offering = Offering {
            price_types: vec![of("adult", &[], &[]), of("child", &[("gallery", 700)], &[("yard", 300)])],
            ..Offering::default()
        };
        let area =
            Area { id: named("yard"), name: "Yard".into(), capacity: 10, price: euro(500), names: Default::default() };
        NewSession {
            id: named("hamlet"),
            hall: named("h"),
            title: named("t"),
            starts_at: Timestamp(1_900_000_000_000),
            ends_at: Timestamp(1_900_000_600_000),
            prices: vec![(named("gallery"), euro(1_500)), (named("stalls"), euro(4_800))],
            extras: SessionExtras { areas: vec![area], offering: Some(Arc::new(offering)), ..SessionExtras::default() },
        }
    }

    /// All prices of the session.
    const WHOLE: &str = "session,price_type,category,area,price\n\
        hamlet,adult,stalls,,48.00\nhamlet,adult,gallery,,15\nhamlet,adult,,yard,5\n\
        hamlet,child,stalls,,not sold\nhamlet,child,gallery,,7.00\nhamlet,child,,yard,3.00\n";

    fn list(text: &str, keeps_absent: bool) -> PriceList {
        let plan = read(text.as_bytes(), keeps_absent).expect(text).expect("it is a list of prices");
        plan.prices.into_iter().next().expect("a session")
    }

    /// What a list changes, in words.
    fn changed(text: &str, keeps_absent: bool) -> String {
        match list(text, keeps_absent).change(&session(), 7) {
            Ok(None) => "nothing".into(),
            Ok(Some(PriceChange { change, different })) => {
                assert_eq!(change.expect, Some(7));
                let parts = [
                    ("prices", change.prices.is_some()),
                    ("areas", change.areas.is_some()),
                    ("price_types", change.price_types.is_some()),
                ];
                let parts: Vec<&str> = parts.iter().filter(|(_, is_sent)| *is_sent).map(|(part, _)| *part).collect();
                format!("{}: {}", parts.join(" "), different.join("; "))
            }
            Err(why) => why,
        }
    }

    #[test]
    fn a_table_of_prices_changes_what_differs_and_nothing_else() {
        assert_eq!(changed(WHOLE, false), "nothing");
        let with = |from: &str, to: &str| changed(&WHOLE.replace(from, to), false);
        expect!["prices: its price of stalls is 4800 minor units of EUR, not 5000 minor units of EUR"]
            .assert_eq(&with("48.00", "50.00"));
        expect!["areas: its area yard is \"Yard\", 10 places at 500 minor units of EUR, not \"Yard\", 10 places at 550 minor units of EUR"]
            .assert_eq(&with("yard,5\n", "yard,5.50\n"));
        expect![[
            r#"price_types: its price type child is "" gallery 700 yard 300, not "" gallery 700 stalls 2400 yard 300"#
        ]]
        .assert_eq(&with("not sold", "24.00"));
        // An empty cell is one that is not sold.
        expect![[r#"price_types: its price type child is "" gallery 700 yard 300, not "" yard 300"#]]
            .assert_eq(&with("gallery,,7.00", "gallery,,"));
        // The price 0 is a price.
        expect![[r#"price_types: its price type child is "" gallery 700 yard 300, not "" gallery 0 yard 300"#]]
            .assert_eq(&with("7.00", "0"));
    }

    #[test]
    fn prices_are_read_however_the_file_was_saved() {
        let german = format!("\u{feff}{}", WHOLE.replace(',', ";").replace('.', ",").replace('\n', "\r\n"));
        assert_eq!(changed(&german, false), "nothing");
        let quoted = WHOLE.replace("48.00", "\"48,00 €\"").replace("7.00", "\"7,00\"").replace("3.00", "\"3,00\"");
        assert_eq!(changed(&quoted, false), "nothing");
        let said = WHOLE.replace("area,price", "area,price,currency").replace("48.00", "48.00,EUR");
        assert_eq!(changed(&said, false), "nothing");
    }

    #[test]
    fn a_price_that_the_file_does_not_name_is_asked_for_or_stays() {
        let less = WHOLE.replace("hamlet,child,,yard,3.00\n", "").replace("hamlet,adult,gallery,,15\n", "");
        expect!["the file does not name 2 prices that it has: adult in category gallery, child in area yard; add them, with `not sold` where a type is not sold any more, or say --keep-absent"]
            .assert_eq(&changed(&less, false));
        assert_eq!(changed(&less, true), "nothing");
        // What is not sold need not be named.
        let bare = WHOLE.replace("hamlet,child,stalls,,not sold\n", "");
        assert_eq!(changed(&bare, false), "nothing");
        let one = "session,price_type,category,price\nhamlet,adult,stalls,50\n";
        expect!["prices: its price of stalls is 4800 minor units of EUR, not 5000 minor units of EUR"]
            .assert_eq(&changed(one, true));
    }

    #[test]
    fn what_does_not_fit_to_the_session_is_named_with_its_line() {
        let with = |from: &str, to: &str| changed(&WHOLE.replace(from, to), false);
        assert_eq!(with("stalls,,48.00", "stals,,48.00"), "line 2: it has no category stals");
        assert_eq!(with(",yard,5", ",yrad,5"), "line 4: it has no area yrad");
        assert_eq!(with("child,gallery", "kid,gallery"), "line 6: it has no price type kid; it has adult, child");
        assert_eq!(with("adult,stalls", ",stalls"), "line 2: it has price types; say which one this is a price of");
        expect![
            "line 2, column 5 (price): the first price type is sold everywhere; give it a price, and close it by offers"
        ]
        .assert_eq(&with("48.00", "not sold"));
        expect!["line 2, column 5 (price): 48.005 has more digits than EUR has"].assert_eq(&with("48.00", "48.005"));
        expect![[r#"line 2, column 5 (price): "free" is no price; write it like 12.50 or 12,50"#]]
            .assert_eq(&with("48.00", "free"));
        expect!["line 2, column 5 (price): 99999999999999 is too high for a price"]
            .assert_eq(&with("48.00", "99999999999999"));
        let dollars = WHOLE.replace("area,price", "area,price,currency").replace("48.00", "48.00,USD");
        assert_eq!(changed(&dollars, false), "line 2, column 6 (currency): it sells in EUR and not in USD");
        // A session with one price for each category and area.
        let mut plain = session();
        plain.extras.offering = None;
        let one = list("session,price_type,category,price\nhamlet,,stalls,50\n", true);
        let change = one.change(&plain, 0).expect("it fits").expect("a difference");
        assert_eq!(change.different, ["its price of stalls is 4800 minor units of EUR, not 5000 minor units of EUR"]);
        let typed = list("session,price_type,category,price\nhamlet,adult,stalls,50\n", true);
        let why = typed.change(&plain, 0).expect_err("a type that is not there");
        assert_eq!(why, "line 2: it has no price types; leave the column price_type empty");
    }

    #[test]
    fn mistakes_are_named_with_line_and_column() {
        let refused = |text: &str| read(text.as_bytes(), false).expect_err(text);
        let with =
            |line: &str| refused(&format!("session,price_type,category,area,price\nhamlet,adult,stalls,,48\n{line}\n"));
        assert_eq!(with("hamlet,adult,,,5"), "line 3: there is neither a category nor an area");
        assert_eq!(with("hamlet,adult,stalls,yard,5"), "line 3: there is a category and an area; make two lines of it");
        assert_eq!(with(",adult,stalls,,5"), "line 3, column 1 (session): there is no session");
        assert_eq!(
            with("hamlet,under 26,stalls,,5"),
            "line 3, column 2 (price_type): \"under 26\" is no id (1 to 64 of A-Z a-z 0-9 . _ : -)"
        );
        assert_eq!(
            with("hamlet,adult,stalls,,50"),
            "line 3, column 5 (price): line 2 has a price of session hamlet for adult in category stalls already"
        );
        // A line that ends too early does not say that something is not sold.
        assert_eq!(
            with("hamlet,adult,gallery"),
            "line 3 has 3 columns where 5 are needed; are there commas between them, as in the first line?"
        );
        assert_eq!(
            with("hamlet,adult,gallery,,12,50"),
            "line 3, column 6: there are 6 columns, the first line names 5 (an amount with a decimal comma needs quotes)"
        );
        assert!(
            with("hamlet,adult,gallery,,12.50\nhamlet,adult,balcony,,\"13,50\"").contains("different decimal marks")
        );
        let line_is = "a line is a price: session,price_type,category,price, or with area in place of category";
        assert_eq!(
            refused("session,price_type,price\nhamlet,adult,5\n"),
            format!("line 1 names no column category and none area; {line_is}")
        );
        assert_eq!(
            refused("session,category,price\nhamlet,stalls,5\n"),
            format!("line 1 names no column price_type; {line_is}")
        );
        for other in ["row,seat\nA,1\n", "name,price,stock\nCup,1.00,5\n", ""] {
            assert_eq!(read(other.as_bytes(), false), Ok(None), "{other}");
        }
    }
}
