//! Judges every answer by what the theatre said that it sells, and by the time at which the answer was given.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    buyers::{Cart, Hold, Outcome, Show, Who, Wish},
    terms::{HOUSE_ROWS, MEMBERS, Offer, Seat, Sold, Terms, Times, Type, YARD, ZONE, category, time},
};

/// How much later than the clock of this machine the session's time may be, in milliseconds. It is never earlier.
pub(super) const LATE_MS: u64 = 1_000;

/// What the house has said.
pub(super) struct House {
    pub(super) times: Times,
    pub(super) gala: Terms,
    /// In the order of their versions.
    pub(super) matinee: [Terms; 2],
    /// The times before and after the change of the matinee.
    pub(super) changed: (u64, u64),
    /// When the matinee becomes dearer.
    pub(super) tomorrow: u64,
}

/// What was sold of a session.
#[derive(Default)]
pub(super) struct Tickets {
    pub(super) seats: BTreeSet<Seat>,
    pub(super) places: u64,
    pub(super) young: u64,
    /// Those that took a use of the code.
    pub(super) by_code: u64,
    /// Those that members bought as everybody does.
    pub(super) beside_code: u64,
}

/// What became of each seat.
struct Seats<'a> {
    granted: BTreeMap<(Show, Seat), &'a Hold>,
    /// A cart in doubt may have had them for a while.
    in_doubt: BTreeMap<(Show, Seat), &'a Hold>,
}

/// Judges all answers. Returns what was sold.
///
/// # Panics
/// If an answer is wrong.
pub(super) fn judge(house: &House, carts: &[Cart]) -> BTreeMap<Show, Tickets> {
    let mut seats = Seats { granted: BTreeMap::new(), in_doubt: BTreeMap::new() };
    for cart in carts {
        for hold in cart.holds.iter().filter(|hold| cart.is_in_doubt() || hold.is_held()) {
            for (seat, _) in hold.wish.seats() {
                let place = (hold.show, *seat);
                if cart.is_in_doubt() {
                    seats.in_doubt.insert(place, hold);
                } else if let Some(other) = seats.granted.insert(place, hold) {
                    panic!("{place:?} was granted twice: {hold:#?}, {other:#?}");
                }
            }
        }
    }
    let mut sold = BTreeMap::from([Show::Gala, Show::Matinee].map(|show| (show, Tickets::default())));
    for cart in carts {
        let mut lines: Vec<&Value> = Vec::new();
        for hold in &cart.holds {
            match &hold.outcome {
                Outcome::Held(line) => {
                    lines.push(line);
                    let mut ignored = Tickets::default();
                    let of_show = sold.get_mut(&hold.show).expect("both sessions");
                    judge_line(house, hold, line, if cart.is_in_doubt() { &mut ignored } else { of_show });
                }
                Outcome::Refused(no) => judge_refusal(house, &seats, hold, no),
                Outcome::Unknown => {}
            }
        }
        if cart.is_in_doubt() || lines.is_empty() {
            assert_eq!(cart.order, None);
            continue;
        }
        let (order, _) = cart.order.as_ref().expect("everything that was held is paid");
        assert_eq!(order["lines"], json!(lines), "nobody pays for anything but what was seen: {cart:#?}");
        let total: i64 = lines.iter().map(|line| line["total"].as_i64().expect("a sum")).sum();
        assert_eq!(order["total"], json!({"amount": total, "currency": "EUR"}), "{cart:#?}");
    }
    sold
}

/// Judges the line that a hold made.
fn judge_line(house: &House, hold: &Hold, line: &Value, sold: &mut Tickets) {
    assert_eq!(line["session"], hold.show.id());
    let mut bought_as = line["bought_as"].as_array().cloned().expect("bought under an offer");
    let total = match &hold.wish {
        Wish::Seats(wanted) => {
            let seats: Vec<Seat> = serde_json::from_value(line["seats"].clone()).expect("seats");
            let prices: Vec<i64> = serde_json::from_value(line["prices"].clone()).expect("prices");
            let types: BTreeMap<Seat, Type> = wanted.iter().copied().collect();
            assert_eq!(seats, types.keys().copied().collect::<Vec<_>>(), "all or none: {hold:#?}");
            if bought_as.len() == 1 {
                bought_as.resize(seats.len(), bought_as[0].clone());
            }
            assert_eq!((prices.len(), bought_as.len()), (seats.len(), seats.len()), "{line}");
            for ((seat, price), bought_as) in seats.iter().zip(&prices).zip(&bought_as) {
                if HOUSE_ROWS.contains(&seat[0]) && hold.show == Show::Gala && hold.who != Who::Desk {
                    assert!(hold.answered >= house.times.release, "a seat of the house before the release: {hold:#?}");
                }
                judge_ticket(house, hold, (category(seat[0]), types[seat]), (*price, 1), bought_as, sold);
                sold.seats.insert(*seat);
            }
            prices.iter().sum::<i64>()
        }
        Wish::Places(quantity, of) => {
            assert_eq!((&line["area"], &line["quantity"]), (&json!(YARD), &json!(quantity)), "{line}");
            let price = line["price"].as_i64().expect("a price");
            judge_ticket(house, hold, (YARD, *of), (price, *quantity), &bought_as[0], sold);
            sold.places += quantity;
            price * *quantity as i64
        }
    };
    assert_eq!(line["total"], total, "{line}");
}

/// Judges the price of so many tickets.
fn judge_ticket(
    house: &House,
    hold: &Hold,
    (place, of): (&str, Type),
    (price, quantity): (i64, u64),
    bought_as: &Value,
    sold: &mut Tickets,
) {
    let what = || format!("{of:?} in {place} for {price} as {bought_as}: {hold:#?}");
    let version = bought_as["terms"].as_u64().expect("a version") as usize;
    let terms = match hold.show {
        Show::Gala => [&house.gala].get(version).copied(),
        Show::Matinee => house.matinee.get(version),
    };
    let terms = terms.unwrap_or_else(|| panic!("no such terms: {}", what()));
    if hold.show == Show::Matinee {
        let (asked, answered) = house.changed;
        let fits = if version == 0 { hold.asked <= answered } else { hold.answered >= asked };
        assert!(fits, "the terms of another time, which changed from {asked} to {answered}: {}", what());
    }
    let offer = bought_as["offer"].as_str().and_then(|id| terms.offer(id));
    let offer = offer.unwrap_or_else(|| panic!("no such offer: {}", what()));
    let list_price = terms.list_price(place, of).unwrap_or_else(|| panic!("not sold: {}", what()));
    assert_eq!(bought_as["list_price"], list_price, "{}", what());
    assert_eq!(price, offer.price(list_price), "{}", what());
    assert_eq!(bought_as["price_type"], of.id(), "{}", what());
    assert_eq!(bought_as["tax"], of.tax(), "{}", what());
    let by_code = offer.sold == Sold::ToMembers;
    assert_eq!(bought_as["code_group"], if by_code { json!(MEMBERS) } else { Value::Null }, "{}", what());
    let may_buy = |offer: &Offer| match offer.sold {
        Sold::ToEverybody => true,
        Sold::ToMembers => hold.who == Who::Member,
        Sold::AtTheDesk => hold.who == Who::Desk,
    };
    assert!(may_buy(offer) && offer.types.contains(&of), "sold to another: {}", what());
    assert!(offer.from.is_none_or(|from| hold.answered >= from), "too early: {}", what());
    assert!(hold.asked < offer.until + LATE_MS, "too late: {}", what());
    // Offers that were open all the time, and of which there was enough.
    let open = terms.offers.iter().filter(|other| {
        may_buy(other)
            && other.types.contains(&of)
            && !other.is_counted()
            && other.sold != Sold::ToMembers
            && other.per_order.is_none()
            && other.from.is_none_or(|from| hold.asked >= from + LATE_MS)
            && hold.answered < other.until
    });
    let cheapest = open.map(|other| other.price(list_price)).min();
    assert!(cheapest.is_none_or(|cheapest| price <= cheapest), "another offer is cheaper: {}", what());
    sold.young += if of == Type::Under26 { quantity } else { 0 };
    sold.by_code += if by_code { quantity } else { 0 };
    sold.beside_code += if hold.who == Who::Member && !by_code { quantity } else { 0 };
}

/// Judges a refusal by its reason, and by what it says would be possible.
fn judge_refusal(house: &House, seats: &Seats<'_>, hold: &Hold, no: &Value) {
    let what = || format!("{no}: {hold:#?}");
    let times = &house.times;
    let is_desk = hold.who == Who::Desk;
    let named: Vec<Seat> =
        no.get("seats").map(|seats| serde_json::from_value(seats.clone()).expect("seats")).unwrap_or_default();
    assert!(named.iter().all(|seat| hold.wish.seats().iter().any(|(wanted, _)| wanted == seat)), "{}", what());
    match hold.code().expect("a code") {
        201 | 204 => {
            let states: Vec<&str> = no["states"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert!(!named.is_empty() && states.len() == named.len(), "{}", what());
            for (seat, state) in named.iter().zip(states) {
                let place = (hold.show, *seat);
                let others = [&seats.granted, &seats.in_doubt].map(|all| all.get(&place));
                let was_taken = others.into_iter().flatten().any(|other| other.asked <= hold.answered);
                let may_be_kept = hold.show == Show::Gala && !is_desk && hold.asked < times.release + LATE_MS;
                match state {
                    "held" | "sold" => assert!(was_taken, "nobody took {seat:?}: {}", what()),
                    "blocked" => {
                        assert!(may_be_kept && HOUSE_ROWS.contains(&seat[0]), "nobody keeps {seat:?}: {}", what())
                    }
                    _ => panic!("another state: {}", what()),
                }
            }
        }
        205 => {
            let Wish::Places(quantity, _) = hold.wish else { panic!("no places: {}", what()) };
            assert!(no["free"].as_u64().is_some_and(|free| free < quantity), "{}", what());
        }
        212 => {
            let opens_at = if hold.who == Who::Member { times.presale } else { times.public };
            assert!(hold.show == Show::Gala && !is_desk, "it is on sale: {}", what());
            match no.get("opens_at") {
                None => assert!(hold.answered >= times.web_end, "it says no begin: {}", what()),
                Some(told) => {
                    let told = told.as_u64().map_or_else(|| told.clone(), time);
                    assert_eq!(told, time(opens_at), "{}", what());
                    assert!(hold.asked < opens_at + LATE_MS, "it has begun: {}", what());
                    assert!(no["message"].as_str().is_some_and(|message| message.contains(ZONE)), "{}", what());
                }
            }
        }
        213 => {
            let place = no["place"].as_str().expect("a place");
            let terms = match hold.show {
                Show::Gala => &house.gala,
                Show::Matinee => &house.matinee[0],
            };
            let wanted = hold.wish.seats().iter().any(|([row, _], of)| category(*row) == place && *of == Type::Carer);
            assert!(wanted && no["price_type"] == "carer", "{}", what());
            assert_eq!(terms.list_price(place, Type::Carer), None, "it is sold: {}", what());
            names_others(house, hold, no, Type::Carer);
        }
        214 => {
            let of = Type::ALL.into_iter().find(|of| no["of"] == of.id()).expect("a price type");
            let wanted = hold.wish.count(of);
            // The code has fewer uses left than the wish has seats, and nothing else is open.
            let may_lack_uses = hold.who == Who::Member && hold.asked < times.public + LATE_MS;
            assert!(no["left"].as_u64().is_some_and(|left| left < wanted), "{}", what());
            match of {
                Type::Under26 => names_others(house, hold, no, of),
                // One in each order, and no limit at the desk.
                Type::Carer => assert!((wanted > 1 && !is_desk) || may_lack_uses, "{}", what()),
                Type::Adult => assert!(may_lack_uses, "{}", what()),
            }
        }
        109 | 218 => assert_eq!(hold.who, Who::Member, "no code was shown: {}", what()),
        _ => panic!("an unexpected refusal: {}", what()),
    }
}

/// Checks that a refusal of a price type names another one, if the sale was open all the time.
fn names_others(house: &House, hold: &Hold, no: &Value, of: Type) {
    let Times { public, web_end, .. } = house.times;
    let is_open = hold.who == Who::Desk || (hold.asked >= public + LATE_MS && hold.answered < web_end);
    let message = no["message"].as_str().expect("a message");
    let others = Type::ALL.into_iter().filter(|other| *other != of);
    let is_named = others.into_iter().any(|other| message.contains(&format!("{} for ", other.id())));
    assert!(is_named || !is_open, "it says nothing else that is sold: {no}: {hold:#?}");
}
