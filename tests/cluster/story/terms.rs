//! What the theatre sells, to whom, when and for how much. Requests are made of it, and the judge compares every answer with it.

use std::ops::Range;

use boxoffice_core::time::Timestamp;
use serde_json::{Value, json};

pub(super) const ROWS: u16 = 60;
/// Seats of a row, so the house has 1 200.
pub(super) const SEATS: u16 = 20;
/// Categories with their rows, from the stage to the back.
const CATEGORIES: [(&str, u16); 4] = [("stalls", 20), ("circle", 15), ("balcony", 15), ("gallery", 10)];
/// The rows whose 60 seats the house keeps.
pub(super) const HOUSE_ROWS: Range<u16> = 20..23;
/// At most so many people under 26.
pub(super) const YOUNG: u64 = 100;
pub(super) const YARD: &str = "yard";
/// Standing places of a session, and how many more the matinee gets.
pub(super) const PLACES: u64 = 100;
pub(super) const MORE_PLACES: u64 = 200;
/// What adults pay in each category and in the yard, then people under 26, then carers, who are not sold everywhere.
const PRICES: [(&str, [Option<i64>; 3]); 5] = [
    ("stalls", [Some(4_800), Some(2_400), Some(0)]),
    ("circle", [Some(3_900), Some(1_900), Some(0)]),
    ("balcony", [Some(2_600), Some(1_300), None]),
    ("gallery", [Some(1_500), Some(700), None]),
    (YARD, [Some(1_000), Some(500), None]),
];
/// By how much adults pay more in the matinee from tomorrow.
pub(super) const DEARER: i64 = 500;
/// The group of the members' code.
pub(super) const MEMBERS: &str = "members";
pub(super) const ZONE: &str = "Europe/London";
const HOUR_MS: u64 = 3_600_000;

/// A seat: row and seat, from 0.
pub(super) type Seat = [u16; 2];

/// As whom a seat is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Adult,
    Under26,
    Carer,
}

impl Type {
    pub(super) const ALL: [Type; 3] = [Type::Adult, Type::Under26, Type::Carer];

    pub(super) fn id(self) -> &'static str {
        match self {
            Type::Adult => "adult",
            Type::Under26 => "under26",
            Type::Carer => "carer",
        }
    }

    /// The tax that its prices contain.
    pub(super) fn tax(self) -> Value {
        match self {
            Type::Adult | Type::Under26 => json!({"rate": 2_000, "code": "standard"}),
            Type::Carer => Value::Null,
        }
    }
}

/// Who may buy under an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sold {
    ToEverybody,
    ToMembers,
    AtTheDesk,
}

/// How an offer changes the list price.
#[derive(Clone, Copy, Debug)]
enum Change {
    None,
    /// By a tenth.
    Tenth,
    /// What adults will pay more from tomorrow.
    Less,
}

#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) id: &'static str,
    pub(super) types: &'static [Type],
    pub(super) sold: Sold,
    pub(super) from: Option<u64>,
    pub(super) until: u64,
    change: Change,
    pub(super) per_order: Option<u64>,
}

impl Offer {
    /// Whether the counter of people under 26 counts its tickets.
    pub(super) fn is_counted(&self) -> bool {
        self.types == [Type::Under26]
    }

    pub(super) fn price(&self, list_price: i64) -> i64 {
        match self.change {
            Change::None => list_price,
            Change::Tenth => list_price - list_price / 10,
            Change::Less => list_price - DEARER,
        }
    }

    fn body(&self, name: &str) -> Value {
        let types: Vec<&str> = self.types.iter().map(|of| of.id()).collect();
        let mut body = json!({
            "id": self.id, "name": format!("{name} {}", self.id), "types": types,
            "from": self.from.map(time), "until": time(self.until), "per_order": self.per_order,
        });
        match self.sold {
            Sold::ToEverybody => {}
            Sold::ToMembers => body["code_group"] = MEMBERS.into(),
            Sold::AtTheDesk => body["desk"] = true.into(),
        }
        match self.change {
            Change::None => {}
            Change::Tenth => body["rate_off"] = 1_000.into(),
            Change::Less => body["amount_off"] = DEARER.into(),
        }
        if self.is_counted() {
            body["counters"] = json!(["young"]);
        }
        body
    }
}

/// The terms of a session in one version.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// What adults pay more than at first.
    dearer: i64,
    places: u64,
    pub(super) offers: Vec<Offer>,
}

impl Terms {
    /// What a price type costs there before an offer changes it. `None` where it is not sold.
    pub(super) fn list_price(&self, place: &str, of: Type) -> Option<i64> {
        let (_, prices) = PRICES.iter().find(|(name, _)| *name == place).expect("a place of the house");
        let dearer = if of == Type::Adult { self.dearer } else { 0 };
        prices[of as usize].map(|price| price + dearer)
    }

    pub(super) fn offer(&self, id: &str) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.id == id)
    }

    /// The offers and price types, whose names begin with this.
    pub(super) fn named(&self, name: &str) -> Value {
        let offers: Vec<Value> = self.offers.iter().map(|offer| offer.body(name)).collect();
        let types = Type::ALL.map(|of| {
            let mut body = json!({"id": of.id(), "name": format!("{name} {}", of.id()), "tax": of.tax()});
            // The first type has the prices of the session.
            if of != Type::Adult {
                let priced = |is_area: bool| -> Value {
                    let there = PRICES.iter().filter(|(place, _)| (*place == YARD) == is_area);
                    let priced =
                        there.filter_map(|(place, _)| Some(((*place).to_owned(), self.list_price(place, of)?.into())));
                    priced.collect::<serde_json::Map<String, Value>>().into()
                };
                (body["prices"], body["area_prices"]) = (priced(false), priced(true));
            }
            body
        });
        json!({"price_types": types, "offers": offers})
    }

    /// All that is about prices, places and offers.
    pub(super) fn body(&self, name: &str) -> Value {
        let mut body = self.named(name);
        let price = |place: &str| json!({"amount": self.list_price(place, Type::Adult), "currency": "EUR"});
        body["prices"] = CATEGORIES.iter().map(|(category, _)| ((*category).to_owned(), price(category))).collect();
        body["areas"] = json!([{"id": YARD, "name": "Yard", "capacity": self.places, "price": price(YARD)}]);
        body
    }
}

/// When what happens, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Members buy from then on.
    pub(super) presale: u64,
    /// And everybody from then on.
    pub(super) public: u64,
    /// The house seats are free from then on.
    pub(super) release: u64,
    /// The sale on the web ends, an hour before that of the desk.
    pub(super) web_end: u64,
}

impl Times {
    fn desk_end(&self) -> u64 {
        self.web_end + HOUR_MS
    }

    fn starts_at(&self) -> u64 {
        self.desk_end() + 24 * HOUR_MS
    }
}

fn offer(id: &'static str, types: &'static [Type], sold: Sold, (from, until): (Option<u64>, u64)) -> Offer {
    Offer { id, types, sold, from, until, change: Change::None, per_order: None }
}

/// The offers for everybody with this window, and those of the desk.
fn offers(window: (Option<u64>, u64), desk_end: u64) -> Vec<Offer> {
    let at_the_desk = |id, types| offer(id, types, Sold::AtTheDesk, (None, desk_end));
    vec![
        offer("web", &[Type::Adult], Sold::ToEverybody, window),
        offer("web-young", &[Type::Under26], Sold::ToEverybody, window),
        Offer { per_order: Some(1), ..offer("web-carer", &[Type::Carer], Sold::ToEverybody, window) },
        at_the_desk("desk", &[Type::Adult, Type::Carer]),
        at_the_desk("desk-young", &[Type::Under26]),
    ]
}

/// The terms of the evening.
pub(super) fn gala(times: &Times) -> Terms {
    let of_members = (Some(times.presale), times.web_end);
    let members = offer("members", &[Type::Adult, Type::Carer], Sold::ToMembers, of_members);
    let mut all = vec![
        Offer { change: Change::Tenth, ..members },
        offer("members-young", &[Type::Under26], Sold::ToMembers, of_members),
    ];
    all.extend(offers((Some(times.public), times.web_end), times.desk_end()));
    Terms { dearer: 0, places: PLACES, offers: all }
}

/// The terms of the matinee, which is on sale already.
pub(super) fn matinee(times: &Times) -> Terms {
    Terms { dearer: 0, places: PLACES, offers: offers((None, times.desk_end()), times.desk_end()) }
}

/// The same with more places, and with other prices from tomorrow on. Until then an offer takes off what is added.
pub(super) fn matinee_from(tomorrow: u64, times: &Times) -> Terms {
    let mut terms = Terms { dearer: DEARER, places: PLACES + MORE_PLACES, ..matinee(times) };
    let web = &mut terms.offers[0];
    (web.change, web.until) = (Change::Less, tomorrow);
    let dearer = offer("web-dearer", &[Type::Adult], Sold::ToEverybody, (Some(tomorrow), times.desk_end()));
    terms.offers.insert(1, dearer);
    terms
}

/// The category of a row.
pub(super) fn category(row: u16) -> &'static str {
    let mut end = 0;
    let found = CATEGORIES.iter().find(|(_, rows)| {
        end += rows;
        row < end
    });
    found.expect("a row of the house").0
}

/// The seats that the house keeps.
pub(super) fn house_seats() -> Vec<Seat> {
    HOUSE_ROWS.flat_map(|row| (0..SEATS).map(move |seat| [row, seat])).collect()
}

/// A row's label. Seats are numbered from 1.
pub(super) fn row_label(row: u16) -> String {
    format!("R{}", row + 1)
}

pub(super) fn layout() -> Value {
    let row = |row: u16| json!({"label": row_label(row), "count": SEATS, "category": category(row)});
    json!({"rows": (0..ROWS).map(row).collect::<Vec<_>>()})
}

/// The body that creates a session with these terms. The evening begins a day after the matinee.
pub(super) fn session(id: &str, times: &Times, terms: &Terms, is_gala: bool) -> Value {
    let starts_at = times.starts_at() + if is_gala { 24 * HOUR_MS } else { 0 };
    let mut body = terms.body("first");
    body["counters"] = json!([{"id": "young", "max": YOUNG}]);
    if is_gala {
        body["allotments"] =
            json!([{"id": "house", "name": "House", "seats": house_seats(), "release_at": time(times.release)}]);
    }
    let about = json!({
        "id": id, "venue": "globe", "hall": "main", "title": "hamlet",
        "starts_at": time(starts_at), "ends_at": time(starts_at + 3 * HOUR_MS),
    });
    body.as_object_mut().expect("fields").extend(about.as_object().cloned().expect("fields"));
    body
}

/// A time as JSON has it.
pub(super) fn time(ms: u64) -> Value {
    boxoffice_wire::repr::rfc3339(Timestamp(ms)).expect("a time within the calendar").into()
}
