//! The catalogue of a run: a theatre with consecutive sessions, an area in each, products, resources and quotas.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use boxoffice_core::{
    answer::Outcome,
    command::{
        Allotment, Area, BestWish, BuyAs, CodeCommand, CodeDetails, Command, Counter, CustomerLimit, HoldPolicy,
        Limits, NewSession, Offer, Offering, PriceChange, PriceType, ProductCommand, ProductDetails, Rate,
        ResourceCommand, ResourceDetails, SessionChange, SessionCommand, SessionExtras, VenueCommand, VenueDetails,
        Want, WantedLine,
    },
    id::{CartId, Entity, Id},
    layout::{Labels, Layout, Row, Run},
    money::{Currency, Money},
    seat::{Seat, SeatSet},
    time::Timestamp,
};
use rand::{Rng, rngs::SmallRng, seq::IndexedRandom};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    client_stub::{ClientStub, Ended},
    clock::BEGIN_MS,
    settings::{CODE_USES, CODES, QUOTA_MAX},
};

/// The rows of the hall, and the seats of each.
pub(crate) const SIDE: u16 = 8;
/// Places of a session's area.
const PLACES: u32 = 60;
/// Products. The first has a quota. Units of the third are held at the checkout only. The fourth has both. The last
/// changes its policy each time it is put.
const PRODUCTS: u64 = 5;
/// The offer for students, and the attribute that it asks for.
pub(crate) const STUDENTS: &str = "students";
pub(crate) const STUDENT: &str = "student";
/// A product that is held at the checkout and soon sold out.
const SCARCE: u64 = 2;
const RESOURCES: u64 = 2;
const CUSTOMERS: u64 = 12;
/// Slots are this long after the begin of a run, so that no clock jump passes them.
const LATER_MS: u64 = 400 * 24 * 3_600_000;
const HOUR_MS: u64 = 3_600_000;

/// The catalogue of a run.
#[derive(Default)]
pub(crate) struct Fixture {
    /// Opened sessions, `s0`, `s1` and so on. The newest two are on sale.
    sessions: AtomicU64,
    /// Changes of products so far.
    puts: AtomicU64,
    /// The life of carts by the rules, in milliseconds.
    hold_ttl_ms: u64,
    /// Carts that buyers fill.
    carts: Mutex<Vec<CartId>>,
    /// Lines that the staff has revoked, with the first time.
    taken: Mutex<BTreeMap<(CartId, u32), u64>>,
    /// Sessions that the staff has canceled, with the time.
    canceled: Mutex<BTreeMap<Id, u64>>,
}

/// The id with this text.
///
/// # Panics
/// If the text is not an id.
pub(crate) fn id(text: &str) -> Id {
    Id::new(text).expect("a good id")
}

fn euros(amount: i64) -> Money {
    Money { amount, currency: Currency::new("EUR").expect("a currency") }
}

impl Fixture {
    pub(crate) fn new(hold_ttl_ms: u64) -> Fixture {
        Fixture { hold_ttl_ms, ..Fixture::default() }
    }

    /// A buyer begins to fill a cart.
    pub(crate) fn fills(&self, cart: CartId) {
        self.carts.lock().push(cart);
    }

    /// A buyer is done with a cart.
    pub(crate) fn leaves(&self, cart: CartId) {
        self.carts.lock().retain(|filled| *filled != cart);
    }

    /// A cart that a buyer fills.
    pub(crate) fn some_cart(&self, rng: &mut SmallRng) -> Option<CartId> {
        self.carts.lock().choose(rng).copied()
    }

    /// The staff is about to revoke a line.
    pub(crate) fn takes_away(&self, cart: CartId, line: u32, now_ms: u64) {
        self.taken.lock().entry((cart, line)).or_insert(now_ms);
    }

    /// When the staff first revoked this line.
    pub(crate) fn taken_away(&self, cart: CartId, line: u32) -> Option<u64> {
        self.taken.lock().get(&(cart, line)).copied()
    }

    /// When the staff first revoked any line of this cart.
    pub(crate) fn taken_from(&self, cart: CartId) -> Option<u64> {
        self.taken.lock().range((cart, 0)..=(cart, u32::MAX)).map(|(_, at_ms)| *at_ms).min()
    }

    /// The staff is about to cancel a session.
    pub(crate) fn cancels(&self, session: &Id, now_ms: u64) {
        self.canceled.lock().entry(session.clone()).or_insert(now_ms);
    }

    /// When the staff canceled this session.
    pub(crate) fn canceled_ms(&self, session: &Id) -> Option<u64> {
        self.canceled.lock().get(session).copied()
    }

    /// Sessions that the staff has canceled.
    pub(crate) fn canceled(&self) -> Vec<Id> {
        self.canceled.lock().keys().cloned().collect()
    }

    /// Whether the staff may have removed a line.
    pub(crate) fn may_be_gone(&self, cart: CartId, line: u32, entity: &Entity) -> bool {
        let canceled = matches!(entity, Entity::Session(session) if self.canceled_ms(session).is_some());
        canceled || self.taken_away(cart, line).is_some()
    }

    /// A random life for one session or product, or none.
    fn own_ttl_ms(&self, rng: &mut SmallRng) -> Option<u64> {
        match rng.random_range(0..4) {
            0 => Some(self.hold_ttl_ms / 2),
            1 => Some(self.hold_ttl_ms * 3 / 4),
            _ => None,
        }
    }

    /// The number of opened sessions.
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// All inventories.
    pub(crate) fn inventories(&self) -> Vec<Entity> {
        let sessions = (0..self.sessions()).map(|number| Entity::Session(id(&format!("s{number}"))));
        let resources = (0..RESOURCES).map(|number| Entity::Resource(id(&format!("r{number}"))));
        let products = self.products().map(Entity::Product);
        let customers = self.customers().map(Entity::Customer);
        sessions.chain(products).chain(resources).chain(customers).chain(self.codes().map(Entity::Code)).collect()
    }

    pub(crate) fn codes(&self) -> impl Iterator<Item = Id> + use<> {
        (0..CODES).map(|number| id(&format!("k{number}")))
    }

    pub(crate) fn products(&self) -> impl Iterator<Item = Id> + use<> {
        (0..PRODUCTS).map(|number| id(&format!("p{number}")))
    }

    pub(crate) fn customers(&self) -> impl Iterator<Item = Id> + use<> {
        (0..CUSTOMERS).map(|number| id(&format!("c{number}")))
    }

    /// The sessions on sale.
    pub(crate) fn sold_now(&self) -> Vec<Id> {
        let end = self.sessions();
        (end.saturating_sub(2)..end).map(|number| id(&format!("s{number}"))).collect()
    }

    /// Creates the hall and the first session, products and resources.
    pub(crate) async fn open(&self, client: &ClientStub, rng: &mut SmallRng) {
        let run = Run {
            gap: 0,
            count: SIDE,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: id("standard"),
            accessible: false,
            points: Vec::new(),
        };
        let rows = (0..SIDE).map(|row| Row { label: format!("{row}").into(), section: None, runs: vec![run.clone()] });
        let layout = Arc::new(Layout::new(rows.collect(), None).expect("a good layout"));
        let details = VenueDetails {
            name: "Theatre".into(),
            city: "Here".into(),
            position: None,
            comments: "".into(),
            zone: None,
            address: "".into(),
        };
        let hall = VenueCommand::PutHall { hall: id("hall"), name: "Hall".into(), comments: "".into(), layout };
        for command in [VenueCommand::Put(details), hall] {
            self.must(client, rng, Command::Venue(id("theatre"), command)).await;
        }
        self.next_session(client, rng).await;
        for number in 0..RESOURCES {
            let details = ResourceDetails {
                name: "Room".into(),
                properties: Vec::new(),
                capacity: 1,
                zone: "Europe/Berlin".into(),
                hours: None,
                before_ms: 0,
                after_ms: 0,
                notice_ms: 0,
                horizon_ms: None,
                rate: Rate { amount: 700, currency: euros(0).currency, per_ms: None },
                hold_ttl_ms: None,
                limits: Limits::default(),
            };
            let put = ResourceCommand::Put(Box::new(details));
            self.must(client, rng, Command::Resource(id(&format!("r{number}")), put)).await;
        }
        for number in 0..PRODUCTS {
            self.restock(client, rng, number).await;
        }
        for (number, code) in self.codes().enumerate() {
            // Uses of every other one count orders.
            let by_order = number % 2 == 1;
            let put = CodeCommand::Put(CodeDetails { group: id("members"), uses: CODE_USES, ended: false, by_order });
            self.must(client, rng, Command::Code(code, put)).await;
        }
    }

    /// Puts a product with more units each time.
    pub(crate) async fn restock(&self, client: &ClientStub, rng: &mut SmallRng, number: u64) {
        let units = if number == SCARCE { 3 } else { 40 };
        let stock = units * (1 + self.puts.fetch_add(1, Ordering::Relaxed));
        let limited = [0, 3].contains(&number);
        let per_customer = limited.then(|| CustomerLimit { quota: id("posters"), max: QUOTA_MAX });
        let late = [2, 3].contains(&number) || (number + 1 == PRODUCTS && rng.random());
        let details = ProductDetails {
            name: "Poster".into(),
            properties: Vec::new(),
            blob: Vec::new(),
            price: euros(100 + stock as i64),
            stock,
            hold: if late { HoldPolicy::AtCheckout } else { HoldPolicy::AtAdd },
            hold_ttl_ms: self.own_ttl_ms(rng),
            limits: Limits { per_order: None, per_customer },
            tax: None,
        };
        let put = ProductCommand::Put(Box::new(details));
        self.must(client, rng, Command::Product(id(&format!("p{number}")), put)).await;
    }

    /// Price types, offers, a counter, and seats that are kept for the desk. All offers open together, soon, and a while later the seats
    /// are released.
    fn offering(&self, client: &ClientStub, rng: &mut SmallRng, session: &Id) -> Offering {
        let opens_at = client.wall_clocks.at_ms(client.trace.now_ms() + rng.random_range(1..12_000));
        let of = |name: &str, prices, area_prices| PriceType {
            id: id(name),
            name: "".into(),
            names: Default::default(),
            prices,
            area_prices,
            tax: None,
        };
        let offer = |name: &str| Offer {
            id: id(name),
            name: "".into(),
            names: Default::default(),
            types: vec![id(name)],
            categories: vec![],
            areas: vec![],
            from: Some(opens_at),
            until: None,
            closed: false,
            desk: false,
            change: None,
            per_order: None,
            counters: vec![],
            allotments: vec![],
            code_group: None,
            attributes: vec![],
            per_customer: None,
        };
        let half = vec![(id("standard"), 500)];
        let release_at = opens_at.after(rng.random_range(0..15_000));
        let seats: Vec<Seat> = (0..SIDE / 2).map(|seat| Seat { row: 0, seat }).collect();
        client.oracle.lock().kept.insert(session.clone(), (seats.clone(), release_at));
        let house = Allotment {
            id: id("house"),
            name: "".into(),
            names: Default::default(),
            seats,
            release_at: Some(release_at),
            released: false,
            companions: false,
        };
        // Members buy before everybody else, and for less.
        let members = Offer {
            from: None,
            change: Some(PriceChange::Minus(50)),
            code_group: Some(id("members")),
            ..offer("adult")
        };
        let members = Offer { id: id("members"), ..members };
        let students = Offer {
            id: id(STUDENTS),
            types: vec![id("adult")],
            change: Some(PriceChange::Minus(70)),
            attributes: vec![id(STUDENT)],
            ..offer("adult")
        };
        Offering {
            price_types: vec![of("adult", vec![], vec![]), of("young", half, vec![(id("floor"), 100)])],
            offers: vec![offer("adult"), Offer { counters: vec![id("young")], ..offer("young") }, members, students],
            counters: vec![Counter { id: id("young"), max: 12 }],
            allotments: vec![house],
        }
    }

    /// Other prices for the newest sessions, for what is held from now on.
    pub(crate) fn other_prices(&self, rng: &mut SmallRng) -> Command {
        let price = euros(100 * rng.random_range(5..15));
        let change = SessionChange { prices: Some(vec![(id("standard"), price)]), ..Default::default() };
        Command::Session(self.session(rng), SessionCommand::Change(Box::new(change)))
    }

    /// Opens one more session.
    pub(crate) async fn next_session(&self, client: &ClientStub, rng: &mut SmallRng) {
        let number = self.sessions();
        let session = id(&format!("s{number}"));
        let offering = has_offers(number).then(|| Arc::new(self.offering(client, rng, &session)));
        let begin = BEGIN_MS + LATER_MS + number * HOUR_MS;
        // Every other session has a quota for customers.
        let per_customer = (number % 2 == 1).then(|| CustomerLimit { quota: id("guests"), max: QUOTA_MAX });
        let area = Area {
            id: id("floor"),
            name: "Floor".into(),
            capacity: PLACES,
            price: euros(300),
            names: Default::default(),
        };
        let new = NewSession {
            id: session,
            hall: id("hall"),
            title: id("title"),
            starts_at: Timestamp(begin),
            ends_at: Timestamp(begin + HOUR_MS),
            prices: vec![(id("standard"), euros(1_000))],
            extras: SessionExtras {
                areas: vec![area],
                hold_ttl_ms: self.own_ttl_ms(rng),
                limits: Limits { per_order: None, per_customer },
                offering,
                ..Default::default()
            },
        };
        self.must(client, rng, Command::Venue(id("theatre"), VenueCommand::CreateSession(new))).await;
        self.sessions.store(number + 1, Ordering::Relaxed);
    }

    /// Executes a command until it succeeds.
    async fn must(&self, client: &ClientStub, rng: &mut SmallRng, command: Command) {
        let told = format!("{command:?}");
        let ended = client.change(rng, "town", command, u32::MAX).await;
        if let Ended::Known { outcome: Err(refusal), .. } = ended {
            client.oracle.lock().violation(format!("the fixture was refused {told}: {refusal}"));
        }
    }

    /// A random product.
    pub(crate) fn product(&self, rng: &mut SmallRng) -> u64 {
        rng.random_range(0..PRODUCTS)
    }

    /// A random customer.
    pub(crate) fn customer(&self, rng: &mut SmallRng) -> Id {
        id(&format!("c{}", rng.random_range(0..CUSTOMERS)))
    }

    /// A random session on sale.
    pub(crate) fn session(&self, rng: &mut SmallRng) -> Id {
        let newest = self.sessions() - 1;
        id(&format!("s{}", rng.random_range(newest.saturating_sub(1)..=newest)))
    }

    /// A random line to put into a cart.
    pub(crate) fn wanted(&self, rng: &mut SmallRng) -> WantedLine {
        let mut wanted = self.any_wanted(rng);
        if let Entity::Session(session) = &wanted.entity
            && session.as_str()[1..].parse().is_ok_and(has_offers)
        {
            let all = [vec![], vec![id("adult")], vec![id("young")]];
            let code = rng.random_ratio(1, 3).then(|| id(&format!("k{}", rng.random_range(0..=CODES))));
            let buy_as = BuyAs::with_code(all.choose(rng).expect("there are some").clone(), None, code);
            match &mut wanted.want {
                Want::Seats { buy_as: of, .. } | Want::Places { buy_as: of, .. } => *of = buy_as,
                Want::Best(BestWish { buy_as: of, .. }) => *of = buy_as,
                Want::Units { .. } | Want::Slot { .. } | Want::Quota { .. } | Want::Uses { .. } => {}
            }
        }
        wanted
    }

    fn any_wanted(&self, rng: &mut SmallRng) -> WantedLine {
        let session = Entity::Session(self.session(rng));
        match rng.random_range(0..12) {
            0..4 => {
                let seat =
                    |rng: &mut SmallRng| Seat { row: rng.random_range(0..SIDE), seat: rng.random_range(0..SIDE) };
                let mut seats: Vec<Seat> = (0..rng.random_range(1..5)).map(|_| seat(rng)).collect();
                seats.sort();
                seats.dedup();
                let seats = SeatSet::new(seats).expect("one to four seats, none twice");
                WantedLine::new(session, Want::seats(seats, rng.random_ratio(1, 4)))
            }
            4..6 => {
                let count = rng.random_range(1..4);
                let wish = BestWish {
                    count,
                    category: None,
                    section: None,
                    accessible: 0,
                    split: rng.random(),
                    buy_as: Default::default(),
                };
                WantedLine::new(session, Want::Best(wish))
            }
            6..8 => {
                let quantity = rng.random_range(1..4);
                WantedLine::new(session, Want::places(id("floor"), quantity))
            }
            8..11 => {
                let entity = Entity::Product(id(&format!("p{}", rng.random_range(0..PRODUCTS))));
                WantedLine::new(entity, Want::Units { quantity: rng.random_range(1..4), now: rng.random() })
            }
            _ => {
                let entity = Entity::Resource(id(&format!("r{}", rng.random_range(0..RESOURCES))));
                let begin = BEGIN_MS + LATER_MS + rng.random_range(0..200) * HOUR_MS;
                let length = *[HOUR_MS, 2 * HOUR_MS].choose(rng).expect("there are some");
                WantedLine::new(
                    entity,
                    Want::Slot { begin: Timestamp(begin), end: Timestamp(begin + length), details: "".into() },
                )
            }
        }
    }
}

/// Whether the session with this number has offers.
fn has_offers(number: u64) -> bool {
    number % 3 == 1
}

/// The audit command of an entity.
pub(crate) fn audit_of(entity: &Entity) -> Command {
    use boxoffice_core::command::{CartCommand, CustomerCommand, SessionCommand};
    match entity {
        Entity::Session(id) => Command::Session(id.clone(), SessionCommand::Audit),
        Entity::Product(id) => Command::Product(id.clone(), ProductCommand::Audit),
        Entity::Resource(id) => Command::Resource(id.clone(), ResourceCommand::Audit),
        Entity::Customer(id) => Command::Customer(id.clone(), CustomerCommand::Audit),
        Entity::Code(id) => Command::Code(id.clone(), CodeCommand::Audit),
        Entity::Cart(id) => Command::Cart(*id, CartCommand::Audit),
        other => panic!("{other} has no audit"),
    }
}

/// The state of a seat in a map with two bits a seat.
pub(crate) fn state_in(seats: &[u8], seat: Seat) -> u8 {
    let number = usize::from(seat.row) * usize::from(SIDE) + usize::from(seat.seat);
    seats[number / 4] >> (number % 4 * 2) & 3
}

/// Whether the entity does not exist.
pub(crate) fn is_unknown(outcome: &Outcome) -> bool {
    matches!(outcome, Err(refusal) if refusal.name() == "not_found")
}
