//! Counters, revisions, attempts, versions, amounts and times near their maximum, for every kind of entity.
//!
//! There are two nets. In the first, random runs have prices, stocks, times and clocks near their maximum, and their counters are
//! raised in the middle. Every promise is checked after every commit, and the run ends with nothing held or owed. In the second,
//! hosts of such states receive commands, asks and replies with any numbers. Misfits are refused, nothing panics or wraps, and
//! every sum is right.
//!
//! `ENDS_SEEDS` is the number of seeds of each, `ENDS_FROM` the first one.

mod wild;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use boxoffice_core::{
    answer::{Answer, Outcome},
    ask::Ask,
    cluster::Copies,
    command::{
        Admission, Area, CartCommand, ClusterCommand, Command, HoldPolicy, Limits, Machine, Move, NewSession,
        ProductCommand, ProductDetails, ResourceCommand, SessionExtras, VenueCommand, Want, WantedLine,
    },
    host::{Effect, Host, Input, Turn},
    id::{Entity, HoldId, Request, RequestHash},
    money::AMOUNT_MAX,
    payment::OnDecline,
    portion::Content,
    refusal::Refusal,
    rules::Rules,
    state_map::{State, StateMap},
    time::{Moment, TIMESTAMP_MAX, Timestamp},
    version::ReadVersions,
};

use self::wild::Wild;
use crate::{
    fixture::Fixture,
    high_numbers::RaisedNumbers,
    random_runs::{FaultRates, RandomRun, Rng, buyer, rules, scaled},
    script::{details, euros, id, layout, new_session, pay, product, resource},
    test_gateway::CallFate,
};

/// The default number of seeds of each net.
const SEEDS: u64 = 300;
const STEPS: u32 = 60;
const WORDS: u32 = 250;

/// A minute, and an hour.
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// The highest revision that is granted. A cart needs room above it for its own commits.
const REVISION_MAX: u64 = u64::MAX - (1 << 41);

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let from: u64 = number("ENDS_FROM").unwrap_or(0);
    from..from + number("ENDS_SEEDS").unwrap_or_else(|| scaled(SEEDS))
}

/// Prints the seed if the run panics.
struct SeedReport(&'static str, u64);

impl Drop for SeedReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: seed {} panicked", self.0, self.1);
        }
    }
}

#[test]
fn random_runs_with_high_numbers() {
    let mut counts = AnswerCounts::new();
    for seed in seeds() {
        let _report = SeedReport("a random run with high numbers", seed);
        random_run_with_high_numbers(seed).iter().for_each(|(name, count)| *counts.entry(name).or_default() += count);
    }
    println!("{counts:?}");
}

#[test]
fn hosts_survive_messages_with_any_numbers() {
    let mut counts = AnswerCounts::new();
    for seed in seeds() {
        let _report = SeedReport("arbitrary numbers", seed);
        run_any_numbers(seed).iter().for_each(|(name, count)| *counts.entry(name).or_default() += count);
    }
    println!("{counts:?}");
}

#[test]
fn guests_may_have_the_longest_lifetime() {
    let mut fixture = Fixture::new(Rules { hold_ttl_max_ms: u64::MAX, guest_ttl_max_ms: u64::MAX, ..rules() });
    let open = CartCommand::Open { customer: None, ttl_ms: Some(u64::MAX), guest: true };
    let ticket = fixture.send(Some("open"), Command::Cart(buyer(0), open));
    fixture.run();
    assert!(fixture.answers[&ticket].is_ok(), "{:?}", fixture.answers[&ticket]);
}

/// Counts of answers, by the name of the refusal.
type AnswerCounts = BTreeMap<&'static str, u32>;

/// Counts an answer. The text of a refusal must work with any numbers.
fn note(counts: &mut AnswerCounts, outcome: &Outcome) {
    let name = match outcome {
        Ok(_) => "granted",
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            refusal.name()
        }
    };
    *counts.entry(name).or_default() += 1;
}

/// How far numbers are raised, and whether there is room for the commits of a cart.
fn raised(wild: &mut Wild, states: &StateMap) -> (RaisedNumbers, bool) {
    let room = wild.chance(70);
    let last = u64::MAX - wild.rng.below(20) - wild.one(&[0, 1 << 32]);
    let highest = states.entities().map(|(_, state)| state.version()).max().unwrap_or_default();
    let raised = RaisedNumbers {
        versions: if room {
            wild.one(&[0, u64::from(u32::MAX), u64::MAX / 2, u64::MAX - (1 << 33)])
        } else {
            last - highest
        },
        revisions: wild.one(&[0, u64::MAX / 2, REVISION_MAX - (1 << 21), REVISION_MAX]) >> 20 << 20,
        attempts: wild.one(&[0, 1 << 15, u64::from(u16::MAX) - 20]),
        payments: wild.one(&[0, 1 << 31, u64::from(u32::MAX) - 20]),
        lines: wild.one(&[0, u64::from(u16::MAX) - 4, u64::from(u32::MAX) - 60]),
        messages: if room { wild.one(&[0, u64::MAX / 2, u64::MAX - (1 << 33)]) } else { last - 200 },
        generations: wild.one(&[0, 1 << 39, (1 << 40) - 6]),
    };
    (raised, room)
}

/// A fixture at one end of time, with extreme prices, lifetimes and counts.
fn extreme_fixture(wild: &mut Wild) -> Fixture {
    let rules = match wild.rng.below(2) {
        0 => Rules { hold_ttl_max_ms: u64::MAX, ..rules() },
        _ => rules(),
    };
    let mut fixture = Fixture::new(rules);
    let truth = wild.one(&[0, 1_700_000_000_000, TIMESTAMP_MAX.0 - HOUR_MS]);
    let running = wild.one(&[0, 1_700_000_000_000, TIMESTAMP_MAX.0 - HOUR_MS]);
    (fixture.now, fixture.distance_ms) = (Timestamp(running), truth as i64 - running as i64);
    let layout = layout("aaaa/bbB");
    let to_venue = |command| Command::Venue(id("venue"), command);
    fixture.send(Some("venue"), to_venue(VenueCommand::Put(details())));
    fixture.run();
    let (hall, name) = (id("hall"), "Hall".into());
    fixture.send(
        Some("hall"),
        to_venue(VenueCommand::PutHall { hall, name, comments: "".into(), layout: layout.clone() }),
    );
    fixture.run();
    let (capacity, price) = (wild.one(&[1, 6, 999_999, 1_000_000]), wild.price());
    let stand =
        Area { id: id("stand"), name: "Stand".into(), capacity, price: euros(price), names: Default::default() };
    let limits = wild.limits();
    let limits = Limits { per_order: limits.per_order.map(|max| max.max(1)), ..Limits::default() };
    for (name, at, areas) in [("s", 10 * MINUTE_MS, Vec::new()), ("t", 40 * MINUTE_MS, vec![stand])] {
        let times = (truth + at, truth + at + 10 * MINUTE_MS);
        let session = new_session(name, &layout, times.0, times.1, None);
        let extras = SessionExtras { areas, limits: limits.clone(), ..session.extras };
        let session = NewSession { extras, ..session };
        fixture.send(Some(name), to_venue(VenueCommand::CreateSession(session)));
    }
    for (name, hold) in [("p", HoldPolicy::AtAdd), ("q", HoldPolicy::AtCheckout)] {
        let stock = wild.one(&[1, 5, AMOUNT_MAX as u64 - 1, AMOUNT_MAX as u64]);
        let details = ProductDetails { hold, ..product(euros(wild.price()), stock) };
        fixture.send(Some(name), Command::Product(id(name), ProductCommand::Put(Box::new(details))));
    }
    let room = Box::new(resource(euros(wild.price())));
    fixture.send(Some("room"), Command::Resource(id("r"), ResourceCommand::Put(room)));
    let versions = Some(ReadVersions::own());
    let machine =
        Box::new(Machine { disk: 1, peer: "a:1".into(), client: "a:2".into(), program: "1".into(), versions });
    fixture.send(None, Command::Cluster(ClusterCommand::Found { node: 1, machine, shards: 3, replicas: 3 }));
    fixture.run();
    fixture
}

/// Numbers that occur in the states.
fn near(states: &StateMap) -> Vec<u64> {
    let mut near = Vec::new();
    for (_, state) in states.entities() {
        near.push(state.version());
        near.extend(state.deadline().map(|deadline| deadline.0));
        match &**state {
            State::Cart(cart) => {
                let lines = cart.view().map(|view| view.lines).unwrap_or_default();
                near.extend(lines.iter().map(|line| u64::from(line.line)));
                let claims = cart.claims();
                near.extend(claims.iter().flat_map(|claim| [claim.revision, u64::from(claim.hold.attempt)]));
                near.extend(cart.open_payments().map(|open| u64::from(open.key.attempt)));
            }
            State::Product(product) => near.extend(product.audit().holds.iter().map(|hold| hold.revision)),
            State::Cluster(cluster) => {
                near.push(cluster.next_generation());
                near.extend(cluster.places().iter().map(|place| place.version));
            }
            _ => {}
        }
    }
    near
}

/// Versions, and revisions of holds. They never fall.
#[derive(Default)]
struct Rising {
    versions: BTreeMap<Entity, u64>,
    revisions: BTreeMap<(Entity, HoldId), u64>,
}

impl Rising {
    fn check(&mut self, states: &StateMap) {
        for (entity, state) in states.entities() {
            let version = state.version();
            let before = self.versions.insert(entity.clone(), version);
            assert!(before.is_none_or(|before| before <= version), "{entity} falls from {before:?} to {version}");
            let holds = match &**state {
                State::Session(session) => session.audit().holds,
                State::Product(product) => product.audit().holds,
                State::Resource(resource) => resource.audit().holds,
                State::Customer(customer) => customer.audit().holds,
                State::Code(code) => code.audit().holds,
                State::Venue(_) | State::Cart(_) | State::Directory(_) | State::Cluster(_) => Vec::new(),
            };
            let there: BTreeSet<HoldId> = holds.iter().map(|hold| hold.hold).collect();
            self.revisions.retain(|(of, hold), _| of != entity || there.contains(hold));
            for hold in holds {
                let before = self.revisions.insert((entity.clone(), hold.hold), hold.revision);
                let falls = before.is_some_and(|before| before > hold.revision);
                assert!(!falls, "{:?} falls from {before:?} to {}", hold.hold, hold.revision);
            }
            check_state(state);
        }
    }
}

/// Checks every sum of a state with wide numbers.
fn check_state(state: &State) {
    match state {
        State::Product(product) => check_answer(&Answer::Product(product.view())),
        State::Session(session) => check_answer(&Answer::Session(session.view())),
        State::Cart(cart) => {
            if let Some(view) = cart.view() {
                check_answer(&Answer::Cart(view));
            }
            if let Some(order) = cart.order() {
                let sum: i128 = order.lines.iter().map(|line| amount(&line.content)).sum();
                assert_eq!(i128::from(order.total.amount), sum, "{order:?}");
            }
        }
        State::Cluster(cluster) => {
            for place in cluster.places() {
                let Copies { voters, learners } = &place.target;
                for replica in voters.iter().chain(learners) {
                    assert!(replica.generation < 1 << 40, "{replica:?} has the id of another node's");
                    assert!(replica.generation < cluster.next_generation(), "{replica:?} is used again");
                }
            }
        }
        State::Venue(_) | State::Resource(_) | State::Customer(_) | State::Code(_) | State::Directory(_) => {}
    }
}

fn amount(content: &Content) -> i128 {
    match content {
        Content::Seats(seats) => seats.iter().map(|priced| i128::from(priced.price)).sum(),
        Content::Places { quantity, price, .. } | Content::Units { quantity, price, .. } => {
            i128::from(*quantity) * i128::from(*price)
        }
        Content::Slot { price, .. } => i128::from(*price),
    }
}

/// Every sum of an answer.
fn check_answer(answer: &Answer) {
    match answer {
        Answer::Cart(view) => {
            let sum: i128 = view.lines.iter().map(|line| amount(&line.content)).sum();
            let total = view.total.map(|total| i128::from(total.amount));
            assert_eq!(total.unwrap_or_default(), sum, "{view:?}");
            assert!(sum <= i128::from(AMOUNT_MAX), "{view:?}");
        }
        Answer::Product(view) => {
            let counts = view.counts;
            let all = u128::from(counts.free) + u128::from(counts.held) + u128::from(counts.sold);
            assert_eq!(all, u128::from(view.details.stock), "{view:?}");
        }
        Answer::Session(view) => {
            let counts = view.counts;
            let all = [counts.free, counts.held, counts.sold, counts.blocked].map(u64::from);
            assert_eq!(all.iter().sum::<u64>(), u64::from(view.layout.seats()), "{counts:?}");
            for (area, counts) in view.areas.iter().zip(&view.area_counts) {
                let all = u64::from(counts.free) + u64::from(counts.held) + u64::from(counts.sold);
                assert_eq!(all, u64::from(area.capacity), "{counts:?}");
            }
        }
        Answer::Purchases(page) => {
            assert!(page.purchases.windows(2).all(|pair| pair[0].cursor < pair[1].cursor), "{page:?}");
            assert!(page.purchases.iter().all(|purchase| purchase.cursor <= page.newest), "{page:?}");
        }
        Answer::FreeSlots(slots) => {
            assert!(slots.iter().all(|(begin, end)| begin < end && *end <= TIMESTAMP_MAX), "{slots:?}");
        }
        Answer::Bookings(bookings) | Answer::Booked(bookings) => {
            assert!(bookings.iter().all(|booking| booking.begin < booking.end), "{bookings:?}");
        }
        _ => {}
    }
}

pub(crate) fn random_run_with_high_numbers(seed: u64) -> AnswerCounts {
    let mut wild = Wild { rng: Rng(seed.wrapping_mul(7) ^ 0xe0d5), near: Vec::new(), cluster: 0 };
    let mut run = RandomRun::of(extreme_fixture(&mut wild), seed);
    let mut rising = Rising::default();
    let mut room = true;
    let rates = if wild.chance(50) { FaultRates::ROUGH } else { FaultRates::WITH_OPERATORS };
    for step in 0..3 * STEPS {
        if step == STEPS {
            let (raised, has_room) = raised(&mut wild, &run.fixture.states);
            room = has_room;
            let states = raised.raise(&run.fixture.states.cut());
            assert_eq!(states.audit().violations, [""; 0], "raised by {raised:?}");
            run.fixture.restart_from(states, raised.versions, raised.payments as u32);
            rising.revisions.clear();
        }
        if step % 5 == 0 {
            wild.look(&run.fixture.states);
        }
        if wild.chance(35) {
            let ticket = run.fixture.send(Some(&format!("w{step}")), wild.command(true));
            run.tickets.insert(ticket);
        } else {
            run.step(rates);
        }
        rising.check(&run.fixture.states);
    }
    run.run_until_idle();
    rising.check(&run.fixture.states);
    let mut counts = AnswerCounts::new();
    for outcome in run.fixture.answers.values() {
        if let Ok(answered) = outcome {
            check_answer(&answered.answer);
        }
        note(&mut counts, outcome);
    }
    if room {
        run.check_idle(false);
    }
    counts
}

/// Hosts that receive messages with any numbers. Their decisions are applied at once.
struct AnyNumbersRun {
    states: StateMap,
    rules: std::sync::Arc<Rules>,
    hosts: BTreeMap<Entity, Host<()>>,
    mail: VecDeque<(Entity, Input<()>)>,
    rising: Rising,
    turn: Turn<()>,
    moment: Moment,
    counts: AnswerCounts,
}

impl AnyNumbersRun {
    fn deliver(&mut self, wild: &mut Wild, to: Entity, input: Input<()>) {
        let woken = matches!(input, Input::Wake);
        let host = self
            .hosts
            .entry(to.clone())
            .or_insert_with(|| Host::new(to.clone(), self.states.get(&to), std::sync::Arc::clone(&self.rules)));
        self.turn.clear();
        host.handle(self.moment, input, &mut self.turn);
        let turn = std::mem::take(&mut self.turn);
        let again = !woken || turn.wake_at.is_none_or(|wake_at| wake_at > self.moment.at);
        assert!(again, "{to} is awake and asks to be woken at {:?} at {:?}", turn.wake_at, self.moment);
        if !turn.events.is_empty() {
            self.states.apply(&to, turn.events.clone());
        }
        let version = self.states.get(&to).map_or(0, |state| state.version());
        assert_eq!(version, turn.after + turn.events.len() as u64, "{to}");
        for effect in turn.now.iter().chain(&turn.committed).chain(&turn.read) {
            match effect {
                Effect::Answer { to: (), outcome } => self.answered(outcome),
                Effect::Ask { to: other, ask } => {
                    let mut ask = ask.clone();
                    wild.change_ask(&mut ask);
                    self.mail.push_back((other.clone(), Input::Ask { from: to.clone(), ask }));
                }
                Effect::Reply { to: other, reply } => {
                    let mut reply = reply.clone();
                    wild.change_reply(&mut reply);
                    self.mail.push_back((other.clone(), Input::Reply { from: to.clone(), reply }));
                }
                Effect::Pay(call) => {
                    let outcome = wild.outcome_of(call);
                    let input = Input::Paid { key: call.key(), step: call.step(), outcome };
                    self.mail.push_back((to.clone(), input));
                }
            }
        }
        self.turn = turn;
    }

    fn answered(&mut self, outcome: &Outcome) {
        if let Ok(answered) = outcome {
            check_answer(&answered.answer);
        }
        note(&mut self.counts, outcome);
    }
}

fn holds_of(state: &State) -> Vec<HoldId> {
    match state {
        State::Session(session) => session.audit().holds.iter().map(|hold| hold.hold).collect(),
        State::Product(product) => product.audit().holds.iter().map(|hold| hold.hold).collect(),
        State::Resource(resource) => resource.audit().holds.iter().map(|hold| hold.hold).collect(),
        State::Customer(customer) => customer.audit().holds.iter().map(|hold| hold.hold).collect(),
        State::Code(code) => code.audit().holds.iter().map(|hold| hold.hold).collect(),
        State::Cart(cart) => cart.claims().iter().map(|claim| claim.hold).collect(),
        State::Venue(_) | State::Directory(_) | State::Cluster(_) => Vec::new(),
    }
}

pub(crate) fn run_any_numbers(seed: u64) -> AnswerCounts {
    let mut wild = Wild { rng: Rng(seed.wrapping_mul(13) ^ 0x30d5), near: Vec::new(), cluster: 0 };
    let mut run = RandomRun::of(extreme_fixture(&mut wild), seed);
    (0..STEPS).for_each(|_| run.step(FaultRates::ROUGH));
    let (raised, _) = raised(&mut wild, &run.fixture.states);
    let states = raised.raise(&run.fixture.states.cut());
    let ends = [i64::MIN, -1, 0, 1, TIMESTAMP_MAX.0 as i64, i64::MAX];
    let distance_ms = if wild.chance(40) { wild.one(&ends) } else { run.fixture.distance_ms };
    let at = if wild.chance(20) { wild.instant() } else { run.fixture.now };
    let moment = Moment { distance_ms, ..at.max(run.fixture.now).into() };
    let rules = match wild.rng.below(3) {
        0 => Rules {
            hold_ttl_ms: wild.u64().max(1),
            hold_ttl_max_ms: wild.u64().max(1),
            cart_age_max_ms: wild.u64().max(1),
            guest_ttl_max_ms: wild.u64().max(1),
            guest_age_max_ms: wild.u64().max(1),
            grace_ms: wild.u64().max(1),
            confirm_ms: wild.u64().max(1),
            settle_ms: wild.u64().max(1),
            ask_again_ms: wild.u64().max(1),
            payment_wait_ms: wild.u64().max(1),
            payment_again_ms: wild.u64().max(1),
            ..Rules::default()
        },
        _ => run.fixture.rules().clone(),
    };
    let mut run = AnyNumbersRun {
        states,
        rules: std::sync::Arc::new(rules),
        hosts: BTreeMap::new(),
        mail: VecDeque::new(),
        rising: Rising::default(),
        turn: Turn::default(),
        moment,
        counts: AnswerCounts::new(),
    };
    for step in 0..WORDS {
        if step % 5 == 0 {
            wild.look(&run.states);
        }
        let (to, input) = match wild.rng.below(10) {
            0..=5 if !run.mail.is_empty() => {
                let place = wild.rng.below(run.mail.len() as u64) as usize;
                run.mail.remove(if wild.chance(70) { 0 } else { place }).expect("looked at above")
            }
            6 | 7 => wild.message(&run.states),
            _ => {
                let command = wild.command(false);
                let request = Request { id: RequestHash(u64::from(step)), body: 0 };
                (command.entity(), Input::Command { from: (), request: Some(request), command, timeout_ms: 60_000 })
            }
        };
        run.deliver(&mut wild, to, input);
        if wild.chance(10) {
            let more = wild.u64();
            run.moment.at = Timestamp(run.moment.at.0.saturating_add(more.min(HOUR_MS)));
        }
        if wild.chance(2) {
            // All hosts restart from their states.
            run.hosts.clear();
        }
        run.rising.check(&run.states);
        if step % 5 == 0 {
            // Unexpected messages may take lines from a cart. Nothing else may go wrong.
            let mut violations = run.states.audit().violations;
            violations.retain(|violation| !violation.contains(": line of "));
            assert_eq!(violations, [""; 0], "{:?}", run.moment);
        }
    }
    run.counts
}

/// A fixture with a product, and its states with raised numbers.
fn shop(raised: RaisedNumbers, commands: &[(&str, CartCommand)]) -> Fixture {
    let mut fixture = Fixture::new(Rules::default());
    let details = Box::new(product(euros(100), 10));
    fixture.send(Some("put"), Command::Product(id("p"), ProductCommand::Put(details)));
    fixture.run();
    for (request, command) in commands {
        fixture.send(Some(request), Command::Cart(buyer(0), command.clone()));
        fixture.run();
    }
    let states = raised.raise(&fixture.states.cut());
    fixture.restart_from(states, raised.versions, raised.payments as u32);
    fixture.run();
    fixture
}

fn units(name: &str, quantity: u32) -> CartCommand {
    let want = Want::Units { quantity, now: false };
    CartCommand::Hold {
        lines: vec![WantedLine::new(Entity::Product(id(name)), want)],
        customer: None,
        guest: false,
        holder: None,
        attributes: Vec::new(),
    }
}

fn outcome_of(fixture: &mut Fixture, request: &str, command: Command) -> Result<Answer, Refusal> {
    let ticket = fixture.send(Some(request), command);
    fixture.run();
    fixture.answers[&ticket].clone().map(|answered| answered.answer)
}

/// Whether it is a refusal of a body, with these words in it.
fn is_refused(counts: &Result<Answer, Refusal>, words: &str) -> bool {
    matches!(counts, Err(Refusal::BadRequest(why)) if why.contains(words))
}

#[test]
pub(crate) fn an_entity_at_its_last_version_refuses_changes() {
    let versions = RaisedNumbers { versions: u64::MAX - 1, ..RaisedNumbers::default() };
    let mut fixture = shop(versions, &[]);
    let put = ProductCommand::Put(Box::new(product(euros(200), 10)));
    let counts = outcome_of(&mut fixture, "again", Command::Product(id("p"), put));
    assert!(is_refused(&counts, "changed as often as can be counted"), "{counts:?}");

    let messages = RaisedNumbers { messages: u64::MAX - 1, ..RaisedNumbers::default() };
    let mut fixture = shop(
        messages,
        &[
            ("1", units("p", 2)),
            (
                "2",
                CartCommand::SetQuantity { line: 1, quantity: 1, guest: false, holder: None, attributes: Vec::new() },
            ),
        ],
    );
    let counts = outcome_of(&mut fixture, "3", Command::Cart(buyer(0), CartCommand::Cancel));
    assert!(is_refused(&counts, "changed as often as can be counted"), "{counts:?}");
}

#[test]
pub(crate) fn revisions_of_a_hold_leave_room_for_its_cart() {
    let mut fixture = shop(RaisedNumbers::default(), &[]);
    let (cart, product) = (Entity::Cart(buyer(0)), Entity::Product(id("p")));
    let hold = HoldId { cart: buyer(0), request: RequestHash(1), part: 0, attempt: 0 };
    for (revision, granted) in [(u64::MAX, false), (REVISION_MAX + 1, false), (REVISION_MAX, true)] {
        let want = Want::Units { quantity: 3, now: false };
        let input = Input::Ask {
            from: cart.clone(),
            ask: Ask::Hold {
                hold,
                revision,
                want,
                life_ms: 1,
                holder: None,
                desk: false,
                code: None,
                attributes: Vec::new(),
                customer: None,
            },
        };
        let mut host: Host<()> = Host::new(product.clone(), fixture.states.get(&product), Default::default());
        let mut turn = Turn::default();
        host.handle(fixture.now, input.clone(), &mut turn);
        assert_eq!(!turn.events.is_empty(), granted, "revision {revision}: {turn:?}");
    }
    // The cart does not know it, so it is free again.
    let want = Want::Units { quantity: 3, now: false };
    let ask = Ask::Hold {
        hold,
        revision: REVISION_MAX,
        want,
        life_ms: 1,
        holder: None,
        desk: false,
        code: None,
        attributes: Vec::new(),
        customer: None,
    };
    fixture.post(crate::fixture::Message { to: product, input: Input::Ask { from: cart, ask } });
    fixture.run();
    fixture.wait(HOUR_MS, Fixture::run);
    assert_eq!(fixture.states.audit().units.free, 10);
}

#[test]
fn counts_of_lines_and_payment_attempts_do_not_overflow() {
    let lines = RaisedNumbers { lines: u64::from(u32::MAX) - 2, ..RaisedNumbers::default() };
    let mut fixture = shop(lines, &[("1", units("p", 1))]);
    let details = Box::new(product(euros(100), 10));
    fixture.send(Some("put q"), Command::Product(id("q"), ProductCommand::Put(details)));
    fixture.run();
    let counts = outcome_of(&mut fixture, "2", Command::Cart(buyer(0), units("q", 1)));
    assert!(is_refused(&counts, "too many lines"), "{counts:?}");
    assert!(
        outcome_of(&mut fixture, "3", Command::Cart(buyer(0), units("p", 1))).is_ok(),
        "more of a line is not a new line"
    );

    let mut fixture = shop(RaisedNumbers::default(), &[("1", units("p", 1))]);
    fixture.gateway.plan("authorize", &[CallFate::Declines]);
    let keep = || Command::Cart(buyer(0), pay(Some(OnDecline::Keep), None));
    assert!(matches!(outcome_of(&mut fixture, "2", keep()), Err(Refusal::PaymentDeclined(_))));
    let payments = RaisedNumbers { payments: u64::from(u32::MAX) - 1, ..RaisedNumbers::default() };
    let raised = payments.raise(&fixture.states.cut());
    fixture.restart_from(raised, 0, u32::MAX - 1);
    let counts = outcome_of(&mut fixture, "3", keep());
    assert!(is_refused(&counts, "tried to pay too often"), "{counts:?}");
}

/// A backup does not know what the gateway was asked after it. With the key of such an attempt the gateway would answer what it answered
/// then.
#[test]
pub(crate) fn an_attempt_after_a_restore_has_a_key_of_its_own() {
    let mut fixture = shop(RaisedNumbers::default(), &[("1", units("p", 1))]);
    let backup = fixture.states.cut();
    let keep = || Command::Cart(buyer(0), pay(Some(OnDecline::Keep), None));
    fixture.gateway.plan("authorize", &[CallFate::Declines]);
    assert!(matches!(outcome_of(&mut fixture, "2", keep()), Err(Refusal::PaymentDeclined(_))));
    fixture.restart_from(StateMap::restore(backup), 0, 0);
    fixture.set_rules(Rules { payment_epoch: 5, ..fixture.rules().clone() });
    let paid = outcome_of(&mut fixture, "3", keep());
    assert!(paid.is_ok(), "{paid:?}");
    assert_eq!(fixture.gateway.accounts.len(), 2, "{:?}", fixture.gateway.accounts);
}

#[test]
pub(crate) fn generations_of_replicas_end_before_they_name_another_node() {
    let mut fixture = shop(RaisedNumbers::default(), &[]);
    let versions = Some(ReadVersions::own());
    let of_disk = |disk| Machine { disk, peer: "a:1".into(), client: "a:2".into(), program: "1".into(), versions };
    let machine = |disk| Box::new(of_disk(disk));
    let describe = |fixture: &mut Fixture, command| outcome_of(fixture, "x", Command::Cluster(command));
    let found = ClusterCommand::Found { node: 1, machine: machine(1), shards: 2, replicas: 1 };
    assert!(describe(&mut fixture, found).is_ok());
    for node in [2, 3] {
        let counts = outcome_of(
            &mut fixture,
            &format!("j{node}"),
            Command::Cluster(ClusterCommand::Join {
                node: None,
                machine: machine(node),
                proof: None,
                admission: Admission::Vouched,
            }),
        );
        assert!(counts.is_ok());
        assert!(describe(&mut fixture, ClusterCommand::Arrived { node: node as u64, machine: machine(node) }).is_ok());
    }
    let before = fixture.states.get(&Entity::Cluster).expect("the cluster exists");
    let State::Cluster(cluster) = &*before else { panic!("not a cluster") };
    // One generation is left.
    let generations = (1 << 40) - 1 - cluster.next_generation();
    let raised = RaisedNumbers { generations, ..RaisedNumbers::default() }.raise(&fixture.states.cut());
    fixture.restart_from(raised, 0, 0);
    let place = |based_on, shard, node| ClusterCommand::Place {
        based_on,
        moves: vec![Move { shard, voters: vec![node], learners: Vec::new(), leader: node }],
    };
    let version = before.version();
    assert!(describe(&mut fixture, place(version, 1, 2)).is_ok());
    let counts = describe(&mut fixture, place(version + 1, 2, 3));
    assert!(is_refused(&counts, "every generation"), "{counts:?}");
}
