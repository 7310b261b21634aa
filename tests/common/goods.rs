//! Goods besides numbered seats: places of an area, units of products, and time of rooms. Buyers of these, and the check of the
//! node's state against their record.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    Rng, eventually,
    fixture::{event, product, purchases, room},
    port::{Answer, Port},
    record::{CartRecord, Record, What},
    theatre::{read_time, written},
};

/// Units of each product, and places of the area. Less than buyers want.
const STOCK: u64 = 200;
const CAPACITY: u64 = 400;

/// The most units of the limited products for one customer.
const CUSTOMER_MAX: u64 = 40;

/// The first hour that is booked, and the number of hours.
const FROM_MS: u64 = 1_900_800_000_000;
const HOURS: u64 = 24 * 40;
const HOUR_MS: u64 = 60 * 60 * 1_000;

/// Bookings that are read at once.
const PAGE: usize = 1_000;

/// All goods of one round besides seats.
#[derive(Clone, Debug)]
pub(crate) struct Goods {
    /// The first and the last are limited per customer, together. The last two are reserved at the checkout only.
    products: Vec<String>,
    quota: String,
    event: String,
    rooms: Vec<String>,
    customers: Vec<String>,
    /// Whether some of it is paid through the gateway.
    pub(crate) through_gateway: bool,
}

impl Goods {
    /// Creates the goods. Their names contain this number.
    pub(crate) async fn open(port: &Port, number: usize) -> Goods {
        let named = |kind: &str, count: usize| (0..count).map(|each| format!("{kind}-{number}-{each}")).collect();
        let goods = Goods {
            products: named("product", 4),
            quota: format!("quota-{number}"),
            event: format!("event-{number}"),
            rooms: named("room", 2),
            customers: named("customer", 4),
            through_gateway: false,
        };
        for (place, name) in goods.products.iter().enumerate() {
            let mut more = json!({"hold": if place < 2 { "at_add" } else { "at_checkout" }});
            if goods.is_limited(name) {
                more["limits"] = json!({"per_customer": {"quota": goods.quota, "max": CUSTOMER_MAX}});
            }
            product(port, name, STOCK, more).await;
        }
        event(port, &goods.event, CAPACITY, Value::Null).await;
        for name in &goods.rooms {
            room(port, name, Value::Null).await;
        }
        goods
    }

    fn is_limited(&self, product: &String) -> bool {
        [self.products.first(), self.products.last()].contains(&Some(product))
    }

    /// The customer of a buyer. Half of the buyers name one.
    pub(crate) fn customer(&self, rng: &mut Rng) -> Option<String> {
        rng.percent(50).then(|| any(rng, &self.customers))
    }

    /// Draws a hold or a change of a line. Some holds include these seats.
    pub(crate) fn next_hold(&self, rng: &mut Rng, cart: &CartRecord, seats: Value) -> (&'static str, Value) {
        // Limited products need a customer.
        let products = if cart.customer.is_some() { &self.products[..] } else { &self.products[1..3] };
        let units = |rng: &mut Rng| json!({"product": any(rng, products), "quantity": 1 + rng.below(5)});
        let places = |rng: &mut Rng| json!({"session": self.event, "area": "yard", "quantity": 1 + rng.below(6)});
        let slot = |rng: &mut Rng| {
            let begin = FROM_MS + rng.below(HOURS as usize) as u64 * HOUR_MS;
            let end = begin + (1 + rng.below(3) as u64) * HOUR_MS;
            json!({"resource": any(rng, &self.rooms), "begin": begin, "end": end})
        };
        match rng.below(10) {
            0..2 => ("cart.hold_places", places(rng)),
            2..4 => ("cart.hold_stock", units(rng)),
            4..6 => ("cart.hold_slot", slot(rng)),
            6..8 => {
                let all = [seats, units(rng), places(rng), slot(rng)];
                let without = rng.below(all.len() + 1);
                let lines: Vec<_> = all.iter().enumerate().filter(|(number, _)| *number != without).collect();
                let lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
                ("cart.hold_all", json!({"lines": lines}))
            }
            _ => {
                let counted = cart.lines.iter().filter_map(|(number, line)| Some((number, line.quantity()?)));
                let counted: Vec<_> = counted.collect();
                if counted.is_empty() {
                    return ("cart.hold_stock", units(rng));
                }
                let (line, quantity) = counted[rng.below(counted.len())];
                // Draws less, the same (which extends the cart's lifetime), more, or none.
                let wanted = (quantity + 2).saturating_sub(rng.below(5) as u64);
                ("cart.set_quantity", json!({"line": line, "quantity": wanted}))
            }
        }
    }

    /// Checks everything against the buyers' record (P1, P5, P7, P12, P13). Pending releases may take a moment.
    ///
    /// # Panics
    /// If the node differs from the record.
    pub(crate) async fn check(&self, port: &Port, record: &Record) {
        // Held and sold counts by entity.
        let mut counts: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        let mut slots: BTreeMap<&str, BTreeMap<u64, (u64, &'static str)>> = BTreeMap::new();
        for (line, sold) in record.carts.iter().flat_map(CartRecord::has) {
            match line.what {
                What::Seats(_) => {}
                What::Places { quantity, .. } | What::Units { quantity, .. } => {
                    counts.entry(line.of.as_str()).or_default()[usize::from(sold)] += quantity;
                }
                What::Slot { begin, end, .. } => {
                    let booked = slots.entry(line.of.as_str()).or_default();
                    let before = booked.insert(begin, (end, if sold { "sold" } else { "held" }));
                    assert!(before.is_none(), "{} was granted twice at {begin}", line.of);
                }
            }
        }
        for (room, booked) in &slots {
            let all: Vec<_> = booked.iter().collect();
            let overlap = all.windows(2).find(|pair| pair[0].1.0 > *pair[1].0);
            assert_eq!(overlap, None, "{room} was granted twice at a time (P13)");
        }
        let expected = |entity: &str, all: u64| {
            let [held, sold] = counts.get(entity).copied().unwrap_or_default();
            json!([all.checked_sub(held + sold).expect("no more than there is"), held, sold])
        };
        for name in &self.products {
            let expected = expected(&format!("product/{name}"), STOCK);
            has_counts(port, "product.get", name, &expected, |body| &body["counts"]).await;
        }
        let expected = expected(&format!("session/{}", self.event), CAPACITY);
        has_counts(port, "session.get", &self.event, &expected, |body| &body["areas"][0]).await;
        for name in &self.rooms {
            let expected = slots.remove(format!("resource/{name}").as_str()).unwrap_or_default();
            let expected: Vec<_> =
                expected.into_iter().map(|(begin, (end, state))| (begin, end, state.to_owned())).collect();
            eventually(&format!("{name} is booked {expected:?}"), async || {
                (bookings(port, name).await == expected).then_some(())
            })
            .await;
        }
        self.check_quotas(port, record).await;
        for customer in &self.customers {
            let theirs = record.carts.iter().filter(|cart| cart.customer.as_ref() == Some(customer));
            let orders: BTreeSet<String> =
                theirs.filter_map(|cart| cart.order.as_ref()).map(|(order, _)| order.clone()).collect();
            eventually(&format!("{customer} has bought {} times (P12)", orders.len()), async || {
                let listed = purchases(port, customer).await;
                let all: BTreeSet<String> = listed.iter().cloned().collect();
                assert_eq!(all.len(), listed.len(), "an order is listed twice: {listed:?}");
                (all == orders).then_some(())
            })
            .await;
        }
    }
}

impl Goods {
    /// Checks that no customer exceeds the limit, and that the node's counts equal ours.
    async fn check_quotas(&self, port: &Port, record: &Record) {
        for customer in &self.customers {
            let mut counted = [0; 2];
            for (line, sold) in
                record.carts.iter().filter(|cart| cart.customer.as_ref() == Some(customer)).flat_map(CartRecord::has)
            {
                let product = line.of.strip_prefix("product/").map(str::to_owned);
                if product.is_some_and(|product| self.is_limited(&product)) {
                    counted[usize::from(sold)] += line.quantity().expect("units");
                }
            }
            assert!(
                counted.iter().sum::<u64>() <= CUSTOMER_MAX,
                "{customer} has {counted:?}, the limit is {CUSTOMER_MAX}"
            );
            eventually(&format!("{customer} has {counted:?} of the quota"), async || {
                let audit = port.read("admin.audit", json!({"entity": format!("customer/{customer}")})).await;
                let Answer::Ok(audit, _) = audit else { return (counted == [0; 2]).then_some(()) };
                assert_eq!(audit["violations"], json!([]), "{audit}");
                let quotas = audit["quotas"].as_array().expect("quotas").iter();
                let mut found = quotas.filter(|quota| quota["quota"] == self.quota.as_str());
                let found = found.next().map_or(json!([0, 0]), |quota| json!([quota["held"], quota["sold"]]));
                (found == json!(counted)).then_some(())
            })
            .await;
        }
    }
}

/// Waits until these numbers are free, held and sold.
pub(crate) async fn has_counts(port: &Port, op: &str, name: &str, expected: &Value, counts: impl Fn(&Value) -> &Value) {
    let mut last = Value::Null;
    eventually(&format!("{name} has {expected} free, held, sold"), async || {
        let body = port.read(op, json!({"id": name})).await.ok();
        let counts = counts(&body);
        let found = json!([counts["free"], counts["held"], counts["sold"]]);
        if found != last {
            println!("{name}: {found}");
        }
        last.clone_from(&found);
        (found == *expected).then_some(())
    })
    .await;
}

/// Begin, end and state of every booking.
async fn bookings(port: &Port, room: &str) -> Vec<(u64, u64, String)> {
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let to = FROM_MS + (HOURS + 24) * HOUR_MS;
        let window = json!({"resource": room, "from": FROM_MS, "to": to, "limit": PAGE, "cursor": cursor});
        let page = port.read("resource.bookings", written(port.encoding(), &window)).await.ok();
        for booking in page["bookings"].as_array().expect("bookings") {
            let state = booking["state"].as_str().expect("a state").to_owned();
            all.push((read_time(&booking["begin"]), read_time(&booking["end"]), state));
        }
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            return all;
        }
    }
}

fn any(rng: &mut Rng, names: &[String]) -> String {
    names[rng.below(names.len())].clone()
}
