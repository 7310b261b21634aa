//! Arbitrary numbers, mostly near an end, and commands, asks and replies with them.

use boxoffice_core::{
    ask::{Ask, Reply},
    calendar::{BookingName, CartBookingName},
    command::{
        Admission, Area, BestWish, CartCommand, ClusterCommand, Command, CustomerCommand, CustomerLimit,
        DirectoryCommand, Every, Expect, HoldPolicy, Limits, Machine, Move, NewSession, OpeningHours, Payment,
        ProductCommand, ProductDetails, Rate, Repeat, ResourceCommand, ResourceDetails, SessionCommand, SessionExtras,
        Title, Until, VenueCommand, VenueDetails, Want, WantedLine, When,
    },
    holder::Holder,
    host::Input,
    id::{CartId, Entity, HoldId, Id, RequestHash},
    money::{AMOUNT_MAX, Currency, Money, PRICE_MAX},
    payment::{GatewayCall, GatewayOutcome, OnDecline, PaymentKey, PaymentStep, Settlement},
    portion::Content,
    refusal::Refusal,
    seat::{Seat, SeatSet},
    state_map::StateMap,
    time::{TIMESTAMP_MAX, Timestamp},
    version::ReadVersions,
};

use super::{HOUR_MS, holds_of, near};
use crate::{
    random_runs::{Rng, buyer},
    script::{details, euros, id, layout, new_session, product, resource},
};

/// Arbitrary numbers, mostly near an end or near existing ones.
pub(super) struct Wild {
    pub(super) rng: Rng,
    /// Numbers that occur in the state.
    pub(super) near: Vec<u64>,
    /// The cluster's version.
    pub(super) cluster: u64,
}

impl Wild {
    /// Collects the numbers of the states.
    pub(super) fn look(&mut self, states: &StateMap) {
        self.near = near(states);
        self.cluster = states.get(&Entity::Cluster).map_or(0, |cluster| cluster.version());
    }

    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.below(of.len() as u64) as usize]
    }

    pub(super) fn chance(&mut self, hundredths: u32) -> bool {
        self.rng.chance(hundredths)
    }

    /// A number up to `max`.
    pub(super) fn up_to(&mut self, max: u64) -> u64 {
        let any = match self.rng.below(12) {
            0 => 0,
            1 => 1,
            2 => max,
            3 => max - 1,
            4 => max / 2,
            5 => max / 2 + 1,
            6 => 1 << self.rng.below(64),
            7 => (1 << self.rng.below(64)) - 1,
            8 => max - self.rng.below(1_000).min(max),
            9 if !self.near.is_empty() => {
                let near = &self.near[self.rng.below(self.near.len() as u64) as usize];
                near.wrapping_add(self.rng.below(5)).wrapping_sub(2)
            }
            _ => self.rng.below(12),
        };
        any.min(max)
    }

    pub(super) fn u64(&mut self) -> u64 {
        self.up_to(u64::MAX)
    }

    pub(super) fn u32(&mut self) -> u32 {
        self.up_to(u64::from(u32::MAX)) as u32
    }

    pub(super) fn u16(&mut self) -> u16 {
        self.up_to(u64::from(u16::MAX)) as u16
    }

    pub(super) fn i64(&mut self) -> i64 {
        let ends = [i64::MIN, i64::MIN + 1, -1, PRICE_MAX, PRICE_MAX + 1, AMOUNT_MAX, AMOUNT_MAX + 1, i64::MAX];
        if self.chance(50) { self.one(&ends) } else { self.u64() as i64 }
    }

    pub(super) fn i32(&mut self) -> i32 {
        let ends = [i32::MIN, -180_000_001, -180_000_000, -90_000_000, 0, 90_000_000, 180_000_000, i32::MAX];
        self.one(&ends)
    }

    /// A valid price.
    pub(super) fn price(&mut self) -> i64 {
        self.one(&[0, 1, 250, PRICE_MAX / 2, PRICE_MAX - 1, PRICE_MAX])
    }

    pub(super) fn maybe<T>(&mut self, some: impl FnOnce(&mut Wild) -> T) -> Option<T> {
        self.chance(50).then(|| some(self))
    }

    pub(super) fn money(&mut self) -> Money {
        let other = Money { amount: 0, currency: Currency::new("USD").expect("three letters") };
        Money { amount: self.i64(), ..if self.chance(90) { euros(0) } else { other } }
    }

    pub(super) fn instant(&mut self) -> Timestamp {
        let ends = [0, 1, TIMESTAMP_MAX.0 - 1, TIMESTAMP_MAX.0, TIMESTAMP_MAX.0 + 1, u64::MAX - 1, u64::MAX];
        Timestamp(if self.chance(40) { self.one(&ends) } else { self.u64() })
    }

    /// From and to, mostly in that order and not far from each other.
    pub(super) fn span(&mut self) -> (Timestamp, Timestamp) {
        let from = self.instant();
        let to = match self.rng.below(4) {
            0 => self.instant(),
            1 => Timestamp(from.0.saturating_add(1)),
            2 => Timestamp(from.0.saturating_add(self.u64())),
            _ => Timestamp(from.0.saturating_add(self.rng.below(HOUR_MS))),
        };
        (from, to)
    }

    pub(super) fn limits(&mut self) -> Limits {
        let per_customer = self.maybe(|wild| CustomerLimit { quota: id("few"), max: wild.u32() });
        Limits { per_order: self.maybe(Wild::u32), per_customer }
    }

    pub(super) fn seats(&mut self) -> SeatSet {
        let seat = |wild: &mut Wild| Seat { row: wild.u16(), seat: wild.u16() };
        let (first, second) = (seat(self), seat(self));
        SeatSet::new([first])
            .ok()
            .filter(|_| first == second)
            .or_else(|| SeatSet::new([first, second]).ok())
            .expect("one or two")
    }

    fn holder(&mut self) -> Option<Holder> {
        self.maybe(|wild| Holder { own: wild.u64(), wider: wild.u64() })
    }

    pub(super) fn customer(&mut self) -> Option<Id> {
        self.maybe(|_| id("ann"))
    }

    pub(super) fn when(&mut self) -> When {
        if self.chance(80) {
            let (begin, end) = self.span();
            return When::Utc { begin, end };
        }
        let texts =
            ["0000-01-01T00:00", "9999-12-31T23:59:59", "1970-01-01T00:00", "2026-02-30T10:00", "65535-99-99T99:99"];
        When::Local { begin: self.one(&texts).into(), end: self.one(&texts).into() }
    }

    /// A command to any entity. `truth` leaves out commands that need the knowledge of a gateway or an operator.
    pub(super) fn command(&mut self, truth: bool) -> Command {
        match self.rng.below(16) {
            0..=6 => {
                let buyer = buyer(self.rng.below(4));
                Command::Cart(buyer, self.cart_command(truth))
            }
            7 | 8 => {
                let name = id(self.one(&["p", "q"]));
                Command::Product(name, self.product_command())
            }
            9..=11 => Command::Resource(id("r"), self.resource_command()),
            12 => {
                let name = id(self.one(&["s", "t"]));
                let seats = |wild: &mut Wild| wild.seats().as_slice().to_vec();
                let command = match self.rng.below(5) {
                    0 => SessionCommand::Block(seats(self)),
                    1 => SessionCommand::Unblock(seats(self)),
                    2 => SessionCommand::Map,
                    3 => SessionCommand::Audit,
                    _ => SessionCommand::Get,
                };
                Command::Session(name, command)
            }
            13 => Command::Venue(id("venue"), self.venue_command()),
            14 => {
                let command = match self.rng.below(3) {
                    0 => CustomerCommand::Audit,
                    _ => CustomerCommand::Purchases { after: self.u64(), limit: self.u32(), epoch: None },
                };
                Command::Customer(id("ann"), command)
            }
            _ if self.chance(50) => Command::Cluster(self.cluster_command()),
            _ => Command::Directory(self.directory_command()),
        }
    }

    pub(super) fn wanted(&mut self) -> WantedLine {
        let entity = |name| Entity::Session(id(name));
        match self.rng.below(8) {
            0..=2 => {
                let product = id(self.one(&["p", "q"]));
                let want = Want::Units { quantity: self.u32(), now: self.chance(20) };
                WantedLine::new(Entity::Product(product), want)
            }
            3 | 4 => WantedLine::new(entity("t"), Want::places(id("stand"), self.u32())),
            5 => WantedLine::new(entity("s"), Want::seats(self.seats(), self.chance(50))),
            6 => {
                let (count, accessible, split) = (self.u16(), self.u16(), self.chance(50));
                WantedLine::new(
                    entity("s"),
                    Want::Best(BestWish {
                        count,
                        category: None,
                        section: None,
                        accessible,
                        split,
                        buy_as: Default::default(),
                    }),
                )
            }
            _ => {
                let (begin, end) = self.span();
                WantedLine::new(Entity::Resource(id("r")), Want::Slot { begin, end, details: "".into() })
            }
        }
    }

    pub(super) fn cart_command(&mut self, truth: bool) -> CartCommand {
        match self.rng.below(if truth { 11 } else { 13 }) {
            0 => CartCommand::Open {
                customer: self.customer(),
                ttl_ms: self.maybe(Wild::u64),
                guest: self.rng.chance(50),
            },
            1..=3 => {
                let lines = (0..1 + self.rng.below(3)).map(|_| self.wanted()).collect();
                CartCommand::Hold {
                    lines,
                    customer: self.customer(),
                    guest: self.rng.chance(50),
                    holder: self.holder(),
                    attributes: Vec::new(),
                }
            }
            4 => CartCommand::SetQuantity {
                line: self.u32(),
                quantity: self.u32(),
                guest: false,
                holder: self.holder(),
                attributes: Vec::new(),
            },
            5 => CartCommand::Release { line: self.u32(), seats: self.maybe(Wild::seats) },
            6 => CartCommand::Revoke { line: self.u32(), reason: "".into() },
            7 => CartCommand::Refund { lines: self.maybe(|wild| vec![wild.u32(), wild.u32()]), reason: "ill".into() },
            8 => {
                let payment = Payment::Gateway { source: "card".into(), on_decline: Some(OnDecline::Keep) };
                let total = self.maybe(Wild::money);
                let expect = Expect { total, lines: self.maybe(Wild::u64), paid: None };
                CartCommand::Checkout {
                    payment,
                    customer: self.customer(),
                    shipping: None,
                    expect,
                    holder: self.holder(),
                }
            }
            9 => CartCommand::Audit,
            10 => CartCommand::Get,
            11 => {
                let outcome = match self.rng.below(5) {
                    0 => Settlement::Authorized { reference: "auth".into() },
                    1 => Settlement::Captured,
                    2 => Settlement::Voided,
                    3 => Settlement::Refunded { refund: self.u32() },
                    _ => Settlement::Declined,
                };
                CartCommand::Settle { attempt: self.u32(), outcome }
            }
            _ => {
                let key = PaymentKey { cart: buyer(self.rng.below(4)), attempt: self.u32() };
                let (step, outcome) = self.paid();
                CartCommand::Paid { key, step, outcome }
            }
        }
    }

    pub(super) fn paid(&mut self) -> (PaymentStep, GatewayOutcome) {
        let refund = PaymentStep::Refund(self.u32());
        let step = self.one(&[PaymentStep::Authorize, PaymentStep::Capture, PaymentStep::Void, refund]);
        let reason = "no".into();
        let outcome = match self.rng.below(7) {
            0 | 1 => GatewayOutcome::Authorized { reference: "auth".into(), amount: self.money() },
            2 => GatewayOutcome::Captured,
            3 => GatewayOutcome::Voided,
            4 => GatewayOutcome::Refunded,
            5 => GatewayOutcome::Declined { reason },
            _ => GatewayOutcome::Unknown { reason },
        };
        (step, outcome)
    }

    pub(super) fn product_command(&mut self) -> ProductCommand {
        let stocks = [0, 1, 5, AMOUNT_MAX as u64 - 1, AMOUNT_MAX as u64, AMOUNT_MAX as u64 + 1, u64::MAX];
        match self.rng.below(4) {
            0 => ProductCommand::Get,
            1 => ProductCommand::Audit,
            _ => {
                let price = if self.chance(60) { euros(self.price()) } else { self.money() };
                let stock = if self.chance(60) { self.one(&stocks) } else { self.u64() };
                let hold = self.one(&[HoldPolicy::AtAdd, HoldPolicy::AtCheckout]);
                let hold_ttl_ms = self.maybe(Wild::u64);
                let limits = self.limits();
                ProductCommand::Put(Box::new(ProductDetails { hold, hold_ttl_ms, limits, ..product(price, stock) }))
            }
        }
    }

    /// The name of this booking, or of one that a cart may have made.
    fn booking_name(&mut self, booking: Id) -> BookingName {
        if self.chance(50) {
            return BookingName::Named(booking);
        }
        let hold =
            HoldId { cart: CartId(u128::MAX), request: RequestHash(self.u64()), part: self.u16(), attempt: self.u16() };
        BookingName::Cart(CartBookingName::of(hold))
    }

    pub(super) fn resource_command(&mut self) -> ResourceCommand {
        let booking = id(self.one(&["b1", "b2", "b3"]));
        match self.rng.below(10) {
            0 => {
                let hours = self.maybe(|wild| OpeningHours {
                    week: std::array::from_fn(|_| vec![(wild.u16(), wild.u16())]),
                    exceptions: vec![("9999-12-31".into(), vec![(0, wild.u16())])],
                });
                let price = if self.chance(60) { self.price() } else { self.i64() };
                let rate = Rate { amount: price, currency: euros(0).currency, per_ms: self.maybe(Wild::u64) };
                ResourceCommand::Put(Box::new(ResourceDetails {
                    capacity: self.u32(),
                    hours: hours.filter(|_| self.chance(30)),
                    before_ms: self.u64(),
                    after_ms: self.u64(),
                    notice_ms: self.u64(),
                    horizon_ms: self.maybe(Wild::u64),
                    rate,
                    hold_ttl_ms: self.maybe(Wild::u64),
                    limits: self.limits(),
                    ..resource(euros(1))
                }))
            }
            1 => {
                // A valid one, except for its price.
                let rate =
                    Rate { amount: self.price(), currency: euros(0).currency, per_ms: Some(1 + self.rng.below(9)) };
                let horizon_ms = self.maybe(|_| 3_660 * 24 * HOUR_MS);
                ResourceCommand::Put(Box::new(ResourceDetails {
                    rate,
                    horizon_ms,
                    capacity: 10_000,
                    ..resource(euros(1))
                }))
            }
            2 | 3 => {
                let repeat = self.maybe(|wild| {
                    let every = match wild.rng.below(3) {
                        0 => Every::Day,
                        1 => Every::Week(vec![wild.rng.below(9) as u8, u8::MAX]),
                        _ => Every::Month,
                    };
                    let until = match wild.rng.below(3) {
                        0 => Until::Date("9999-12-31".into()),
                        1 => Until::Count(wild.rng.below(20) as u32),
                        _ => Until::Count(wild.u32()),
                    };
                    Repeat { every, interval: if wild.chance(50) { 1 } else { wild.u32() }, until }
                });
                ResourceCommand::Reserve { booking, when: self.when(), repeat, details: "".into() }
            }
            4 => ResourceCommand::Cancel { booking: self.booking_name(booking), series: self.chance(50) },
            5 => ResourceCommand::Move { booking: self.booking_name(booking), when: self.when() },
            6 => ResourceCommand::IsAvailable(self.when()),
            7 => {
                let (from, to) = self.span();
                let name = self.booking_name(booking);
                let after = self.maybe(|wild| (wild.instant(), name));
                ResourceCommand::Bookings { from, to, limit: self.u32(), after }
            }
            8 => {
                let (from, to) = self.span();
                ResourceCommand::FreeSlots {
                    from,
                    to,
                    length_ms: self.u64(),
                    count: self.u32(),
                    step_ms: self.chance(50).then(|| self.u64()),
                    align_ms: if self.chance(50) { 0 } else { self.u64() },
                }
            }
            _ => ResourceCommand::Audit,
        }
    }

    pub(super) fn venue_command(&mut self) -> VenueCommand {
        match self.rng.below(4) {
            0 => {
                let (from, to) = self.span();
                let after = self.maybe(|wild| (wild.instant(), id("s")));
                VenueCommand::SearchSessions { hall: None, title: None, from, to, limit: self.u32(), after }
            }
            1 => VenueCommand::Put(VenueDetails { position: Some((self.i32(), self.i32())), ..details() }),
            _ => {
                let (starts_at, ends_at) = self.span();
                let name = format!("x{}", self.rng.below(20));
                let plain = new_session(&name, &layout("aaaa/bbB"), starts_at.0, ends_at.0, self.maybe(Wild::u64));
                let amount = if self.chance(60) { self.price() } else { self.i64() };
                let area = Area {
                    id: id("stand"),
                    name: "Stand".into(),
                    capacity: self.u32(),
                    price: euros(amount),
                    names: Default::default(),
                };
                let limits = self.limits();
                let prices = plain.prices.iter().map(|(name, _)| (name.clone(), euros(amount))).collect();
                let extras = SessionExtras { areas: vec![area], limits, ..plain.extras };
                VenueCommand::CreateSession(NewSession { extras, prices, ..plain })
            }
        }
    }

    pub(super) fn directory_command(&mut self) -> DirectoryCommand {
        match self.rng.below(4) {
            0 => {
                let title = Title {
                    name: "Play".into(),
                    director: "".into(),
                    cast: Vec::new(),
                    comments: "".into(),
                    duration_ms: self.maybe(Wild::u64),
                };
                DirectoryCommand::PutTitle(id("title"), title)
            }
            1 => DirectoryCommand::SearchTitles { name: None, limit: self.u32(), after: None },
            _ => {
                let near = self.maybe(|wild| (wild.i32(), wild.i32()));
                let after = self.maybe(|wild| format!("{}:venue", wild.u64()).into());
                DirectoryCommand::SearchVenues { city: None, name: None, near, limit: self.u32(), after }
            }
        }
    }

    pub(super) fn cluster_command(&mut self) -> ClusterCommand {
        let node = if self.chance(70) { 1 + self.rng.below(4) } else { self.u64() };
        let (disk, program) = (u128::from(node), "1".into());
        let versions = self.chance(90).then(ReadVersions::own);
        let machine = Box::new(Machine { disk, peer: "a:1".into(), client: "a:2".into(), program, versions });
        match self.rng.below(13) {
            0 => {
                let shards = if self.chance(80) { 3 } else { self.u16() };
                ClusterCommand::Found { node, machine, shards, replicas: self.one(&[0, 1, 3, 7, 8, u8::MAX]) }
            }
            1 | 2 => {
                ClusterCommand::Join { node: self.maybe(|_| node), machine, proof: None, admission: Admission::Vouched }
            }
            3 | 4 => ClusterCommand::Arrived { node, machine },
            5 => ClusterCommand::Drain { node, force: true },
            6 => ClusterCommand::Replace { node },
            7 => ClusterCommand::Retire { node },
            8 => ClusterCommand::Reached { shard: self.u16(), version: self.u64() },
            9 => ClusterCommand::Get,
            10 => ClusterCommand::FinishUpgrade { down: vec![self.u64()] },
            _ => {
                let voters = vec![1 + self.rng.below(3), 4];
                let one = Move { shard: self.rng.below(4) as u16, leader: voters[0], voters, learners: Vec::new() };
                let based_on = if self.chance(80) { self.cluster } else { self.u64() };
                ClusterCommand::Place { based_on, moves: vec![one] }
            }
        }
    }
}

impl Wild {
    /// Changes numbers of an ask that the receiver must check.
    pub(super) fn change_ask(&mut self, ask: &mut Ask) {
        if !self.chance(30) {
            return;
        }
        match ask {
            Ask::Hold { life_ms, .. } => *life_ms = self.u64(),
            Ask::Sell { at, .. } => *at = self.instant(),
            Ask::List { version, .. } => *version = self.u64(),
            Ask::SetZone(zone) => zone.version = self.u64(),
            Ask::Post { purchase } => (purchase.cursor, purchase.total) = (self.u64(), self.money()),
            _ => {}
        }
    }

    /// The same for a reply.
    pub(super) fn change_reply(&mut self, reply: &mut Reply) {
        if !self.chance(30) {
            return;
        }
        match reply {
            Reply::Granted(granted) => {
                match self.rng.below(3) {
                    0 => granted.revision = self.u64(),
                    1 => granted.limits = self.limits(),
                    _ => {}
                }
                granted.ttl_ms = self.maybe(Wild::u64);
                (granted.believed_ms, granted.version, granted.position) = (self.u64(), self.u64(), self.u64());
                if let Some(Content::Units { price, .. } | Content::Places { price, .. } | Content::Slot { price, .. }) =
                    &mut granted.content
                    && self.chance(50)
                {
                    *price = self.i64().max(0);
                }
            }
            Reply::Refused { revision, .. } | Reply::Released { revision, .. } => *revision = self.u64(),
            Reply::Stale { revision, .. } => *revision = self.u64(),
            Reply::Sold { version, position, .. } => (*version, *position) = (self.u64(), self.u64()),
            Reply::MineFor { life_ms, .. } => *life_ms = self.u64(),
            Reply::Listed { version } | Reply::ZoneSet { version } => *version = self.u64(),
            _ => {}
        }
    }

    pub(super) fn outcome_of(&mut self, call: &GatewayCall) -> GatewayOutcome {
        match call {
            GatewayCall::Authorize { amount, .. } if self.chance(60) => {
                GatewayOutcome::Authorized { reference: "auth".into(), amount: *amount }
            }
            _ => self.paid().1,
        }
    }

    /// A hold that may exist.
    pub(super) fn hold(&mut self, states: &StateMap) -> HoldId {
        let holds: Vec<HoldId> = states.entities().flat_map(|(_, state)| holds_of(state)).collect();
        if !holds.is_empty() && self.chance(70) {
            return self.one(&holds);
        }
        let attempt = self.u16();
        HoldId { cart: buyer(self.rng.below(4)), request: RequestHash(self.u64()), part: self.u16(), attempt }
    }

    /// An unexpected ask or reply.
    pub(super) fn message(&mut self, states: &StateMap) -> (Entity, Input<()>) {
        let hold = self.hold(states);
        let inventory = match self.rng.below(5) {
            0 => Entity::Session(id("s")),
            1 => Entity::Session(id("t")),
            2 => Entity::Product(id("p")),
            3 => Entity::Resource(id("r")),
            _ => Entity::Customer(id("ann")),
        };
        let cart = Entity::Cart(hold.cart);
        let to_cart = |reply| (cart.clone(), Input::Reply { from: inventory.clone(), reply });
        let to_inventory = |ask| (inventory.clone(), Input::Ask { from: cart.clone(), ask });
        let revision = self.u64();
        // Only a cart itself changes its holds.
        let unknown = HoldId { request: RequestHash(self.u64()), part: u16::MAX, ..hold };
        match self.rng.below(13) {
            0 => to_cart(Reply::Stale { hold, revision, live: self.chance(50) }),
            1 => to_cart(Reply::Refused { hold, revision, refusal: Refusal::InProgress }),
            2 => to_cart(Reply::Released { hold, revision }),
            3 => (inventory, Input::Reply { from: cart, reply: Reply::MineFor { hold, life_ms: self.u64() } }),
            4 => (cart, Input::Ask { from: inventory, ask: Ask::Overdue { hold } }),
            5 => (cart, Input::Ask { from: inventory, ask: Ask::Revoke { hold, reason: "".into() } }),
            6 => to_inventory(Ask::Release {
                hold: unknown,
                revision,
                left: None,
                last: self.chance(50),
                expired: false,
            }),
            7 => to_inventory(Ask::Expired { hold: unknown, revision }),
            8 => to_inventory(Ask::Refund { hold }),
            9 => {
                let want = match &inventory {
                    Entity::Session(_) => Want::places(id("stand"), self.u32()),
                    Entity::Product(_) => Want::Units { quantity: self.u32(), now: self.chance(50) },
                    Entity::Customer(_) => Want::Quota { quota: id("few"), count: self.u32(), max: self.u32() },
                    _ => {
                        let (begin, end) = self.span();
                        Want::Slot { begin, end, details: "".into() }
                    }
                };
                to_inventory(Ask::Hold {
                    hold: unknown,
                    revision,
                    want,
                    life_ms: self.u64(),
                    holder: self.holder(),
                    desk: false,
                    code: None,
                    attributes: Vec::new(),
                    customer: None,
                })
            }
            10 => {
                let key = PaymentKey { cart: hold.cart, attempt: self.u32() };
                let (step, outcome) = self.paid();
                (cart, Input::Paid { key, step, outcome })
            }
            11 => {
                let (details, version) = (details(), self.u64());
                (
                    Entity::Directory,
                    Input::Ask { from: Entity::Venue(id("venue")), ask: Ask::List { details, version } },
                )
            }
            _ => (if self.chance(50) { cart } else { inventory }, Input::Wake),
        }
    }
}
