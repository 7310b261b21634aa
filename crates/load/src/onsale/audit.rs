//! The audit of an on-sale: what the nodes say about every session, code and order, compared with what buyers were told.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use boxoffice_client::{
    CartId, Client, CodeView, Error, OrderId, Portion, Reply, Seat, SessionAudit, SessionView, Timestamp,
};

use super::{
    Sale,
    ledger::{CartFate, Differences, KnownCart, earlier, seat_text, texts, tickets_of},
    terms::{SaleTerms, TicketKind},
};
use crate::{
    LoadError,
    connection_pool::ConnectionPool,
    progress::Progress,
    report::{Onsale, money},
};

const POOL_DIFFERS: &str = "the pool counts another number than was sold of it";

/// Reads under way on each connection.
const UNDER_WAY: usize = 32;

/// How long one read may take, with its repeats.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// The pause before the next look at sales that are not complete.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Asks the nodes for everything that was sold, and adds the differences to the report.
pub(super) async fn run(
    sale: &Sale,
    connections: &ConnectionPool,
    report: &mut Onsale,
    progress: &Progress,
) -> Result<(), LoadError> {
    let begun = Instant::now();
    resolve(sale, connections).await?;
    let (carts, mut differences) = sale.ledger.take();
    let terms = &sale.terms;
    let bought = Bought::of(&carts);
    progress.begin("audit", u64::from(terms.spec.codes) + bought.orders.len() as u64);

    let settle_until = begun + Duration::from_millis(sale.context.scenario.audit.settle_ms);
    for (number, node) in connections.connect_each_node().await?.iter().enumerate() {
        for session in 0..terms.house.sessions_all() {
            let facts = session_facts(node, terms, session, settle_until).await?;
            if number == 0 {
                report.held += u64::from(facts.held);
            }
            let times = (sale.ledger.opens_at(session), sale.ledger.release_at(session));
            compare_session(terms, session, times, &facts, &bought, &mut differences);
        }
    }

    let codes: Vec<(u32, CodeView)> = connections
        .for_each(0..terms.spec.codes, UNDER_WAY, async |client, code| {
            let view = code_view(client, terms, code, settle_until).await?;
            progress.add(1);
            Ok::<_, LoadError>((code, view))
        })
        .await?;
    for (code, view) in &codes {
        let told = bought.uses.get(code).copied().unwrap_or(0);
        report.used_up += u64::from(view.sold >= u64::from(terms.spec.uses));
        compare_code(terms, *code, view, told, &mut differences);
    }

    let orders: Vec<(CartId, Option<boxoffice_client::Order>)> = connections
        .for_each(bought.orders.iter().copied(), UNDER_WAY, async |client, cart| {
            let order = found(client.with_deadline(READ_LIMIT).order_get(cart.order()).await, "an order")?;
            progress.add(1);
            Ok::<_, LoadError>((cart, order))
        })
        .await?;
    for (cart, order) in &orders {
        let told = order.as_ref().map(|order| (order.total.amount, order.lines.as_slice()));
        compare_order(terms, (*cart, &carts[cart]), told, &mut differences);
    }

    report.tickets = bought.count(|_, _| true);
    report.with_code = bought.uses.values().sum();
    report.released = bought.count(|_, seat| terms.is_of_allotment(seat));
    report.under26 =
        (bought.under26.values().sum(), u64::from(terms.spec.under26_max) * u64::from(terms.house.sessions_all()));
    report.orders = bought.orders.len() as u64;
    report.total = bought.total;
    report.unsure = carts.values().filter(|known| known.fate == CartFate::Unsure).count() as u64;
    report.audit_s = begun.elapsed().as_secs_f64();
    report.problems.extend(differences.sentences());
    Ok(())
}

/// Compares the pools with what was bought of them, when nobody buys. A change of the terms counts them anew, so this comes before the
/// next one.
pub(super) async fn check_pools(sale: &Sale) -> Result<(), LoadError> {
    let settle_until = Instant::now() + Duration::from_millis(sale.context.scenario.audit.settle_ms);
    for (session, bought) in sale.ledger.under26_bought() {
        loop {
            let facts = session_facts(sale.desk.client(), &sale.terms, session, settle_until).await?;
            if facts.counted == bought {
                break;
            }
            if Instant::now() > settle_until {
                sale.ledger.differ(POOL_DIFFERS, || {
                    let name = sale.terms.house.session_id(session);
                    format!("{} of {name} after the opening, and {bought} were sold", facts.counted)
                });
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

/// Asks what became of carts whose last answer never came.
async fn resolve(sale: &Sale, connections: &ConnectionPool) -> Result<(), LoadError> {
    for cart in sale.ledger.carts_with(|fate| matches!(fate, CartFate::Unsure | CartFate::Held)) {
        let client = connections.client().with_deadline(READ_LIMIT);
        if let Some(order) = found(client.order_get(cart.order()).await, "an order")? {
            sale.ledger.bought(cart, &order.lines, order.total.amount);
        }
    }
    Ok(())
}

/// The answer to a read, `None` if it is refused.
fn found<T>(answer: Result<Reply<T>, Error>, what: &'static str) -> Result<Option<T>, LoadError> {
    match answer {
        Ok(reply) => Ok(Some(reply.value)),
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(LoadError::Query { what, error }),
    }
}

/// What buyers were told that they have bought, put together.
#[derive(Default)]
pub(super) struct Bought {
    /// The order of each seat, by session. A seat of several orders is in the list of doubles.
    pub(super) seats: BTreeMap<(u32, Seat), (CartId, bool)>,
    doubles: Vec<(u32, Seat, CartId, CartId)>,
    pub(super) uses: BTreeMap<u32, u64>,
    pub(super) under26: BTreeMap<u32, u64>,
    pub(super) orders: Vec<CartId>,
    total: i64,
}

impl Bought {
    pub(super) fn of(carts: &BTreeMap<CartId, KnownCart>) -> Bought {
        let mut bought = Bought::default();
        for (cart, known) in carts {
            let CartFate::Bought(total) = known.fate else { continue };
            bought.orders.push(*cart);
            bought.total += total;
            for ticket in &known.tickets {
                let place = (known.session, ticket.seat);
                if let Some((other, _)) = bought.seats.insert(place, (*cart, ticket.with_code)) {
                    bought.doubles.push((known.session, ticket.seat, other, *cart));
                }
                if let (true, Some(code)) = (ticket.with_code, known.code) {
                    *bought.uses.entry(code).or_default() += 1;
                }
                if ticket.kind == TicketKind::Under26 {
                    *bought.under26.entry(known.session).or_default() += 1;
                }
            }
        }
        bought
    }

    fn count(&self, is_counted: impl Fn(u32, Seat) -> bool) -> u64 {
        self.seats.keys().filter(|(session, seat)| is_counted(*session, *seat)).count() as u64
    }
}

/// What a node says about a session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionFacts {
    pub(super) sold: u32,
    pub(super) held: u32,
    /// What the pool counts as held and sold.
    pub(super) counted: u64,
    /// The allotment is released, and how many of its seats are kept.
    pub(super) is_released: bool,
    pub(super) kept: u32,
    /// When the terms changed last.
    pub(super) changed_at: Option<Timestamp>,
    /// Each sold seat, with its order and when it was sold.
    pub(super) sales: Vec<(Seat, OrderId, Timestamp)>,
    pub(super) violations: Vec<String>,
}

async fn session_facts(
    node: &Client,
    terms: &SaleTerms,
    session: u32,
    settle_until: Instant,
) -> Result<SessionFacts, LoadError> {
    let id = terms.house.session_id(session);
    let node = node.with_deadline(READ_LIMIT);
    loop {
        let audit = node.audit_session(&id).await;
        let audit = audit.map_err(|error| LoadError::Query { what: "a session's audit", error })?.value;
        if audit.holds.is_empty() || Instant::now() > settle_until {
            let view = node.session_get(&id).await;
            let view = view.map_err(|error| LoadError::Query { what: "a session", error })?.value;
            return Ok(SessionFacts::of(&view, &audit));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl SessionFacts {
    fn of(view: &SessionView, audit: &SessionAudit) -> SessionFacts {
        let sale = view.sale.as_deref();
        let seats = |portion: &Portion| match portion {
            Portion::Seats(seats) => seats.as_slice().to_vec(),
            _ => Vec::new(),
        };
        let sold = |sale: &boxoffice_client::SaleView| {
            let (order, at) = (sale.order, sale.at);
            seats(&sale.portion).into_iter().map(move |seat| (seat, order, at)).collect::<Vec<_>>()
        };
        SessionFacts {
            sold: view.counts.sold,
            held: view.counts.held,
            counted: sale.and_then(|sale| sale.counted.first().copied()).unwrap_or(0),
            is_released: sale.is_some_and(|sale| sale.released.contains(&super::terms::allotment_id())),
            kept: sale.map_or(0, |sale| sale.kept.iter().sum()),
            changed_at: sale.and_then(|sale| sale.changes.last()).map(|change| change.at),
            sales: audit.sales.iter().flat_map(sold).collect(),
            violations: audit.violations.iter().map(ToString::to_string).collect(),
        }
    }
}

/// What a code says, as soon as nothing of it is in a cart any more.
async fn code_view(
    client: &Client,
    terms: &SaleTerms,
    code: u32,
    settle_until: Instant,
) -> Result<CodeView, LoadError> {
    let (client, id) = (client.with_deadline(READ_LIMIT), terms.code(code));
    loop {
        let view = client.code_get(&id).await.map_err(|error| LoadError::Query { what: "a code", error })?.value;
        if view.held == 0 || Instant::now() > settle_until {
            return Ok(view);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Compares a session with what buyers were told, and with the times of its opening and its release.
pub(super) fn compare_session(
    terms: &SaleTerms,
    session: u32,
    (opens_at, release_at): (Option<Timestamp>, Option<Timestamp>),
    facts: &SessionFacts,
    bought: &Bought,
    differences: &mut Differences,
) {
    let name = terms.house.session_id(session);
    for violation in &facts.violations {
        differences.add("a session's audit names a broken promise", || format!("{violation} in {name}"));
    }
    for (of, seat, one, other) in &bought.doubles {
        if *of == session {
            differences
                .add("a seat is in two orders", || format!("{} of {name} in {one} and {other}", seat_text(*seat)));
        }
    }
    let told = bought.count(|of, _| of == session);
    if u64::from(facts.sold) != told {
        differences.add("a session has sold another number of seats than buyers were told", || {
            format!("{} of {name}, and {told}", facts.sold)
        });
    }
    let mut sold = BTreeMap::new();
    for (seat, order, at) in &facts.sales {
        if sold.insert(*seat, *order).is_some() {
            differences.add("a seat is sold twice", || format!("{} of {name}", seat_text(*seat)));
        }
        let (buyer, with_code) = match bought.seats.get(&(session, *seat)) {
            Some((cart, with_code)) => (Some(cart.order()), *with_code),
            None => (None, false),
        };
        if buyer != Some(*order) {
            differences.add("a seat is sold to another cart than the one that was told so", || {
                let buyer = buyer.map_or("no cart".to_owned(), |buyer| format!("the cart of {buyer}"));
                format!("{} of {name} to {order}, and {buyer} was told so", seat_text(*seat))
            });
        }
        if let Some(opens_at) = opens_at.filter(|opens_at| !with_code && at < opens_at) {
            differences.add("a seat was sold to everybody before the opening", || {
                format!("{} of {name}, {}", seat_text(*seat), earlier(at.0, opens_at))
            });
        }
        // The last change of a session that the desk releases by hand is the release.
        let released_at = release_at.or(facts.changed_at);
        if terms.is_of_allotment(*seat) && released_at.is_none_or(|released_at| *at < released_at) {
            differences.add("a seat of an allotment was sold before its release", || {
                let early =
                    released_at.map_or("which there never was".to_owned(), |released_at| earlier(at.0, released_at));
                format!("{} of {name}, {early}", seat_text(*seat))
            });
        }
    }
    for (seat, (cart, _)) in
        bought.seats.range((session, Seat { row: 0, seat: 0 })..(session + 1, Seat { row: 0, seat: 0 }))
    {
        if !sold.contains_key(&seat.1) {
            differences.add("a seat that was bought is not sold", || {
                format!("{} of {name} of cart {cart}", seat_text(seat.1))
            });
        }
    }
    let under26 = bought.under26.get(&session).copied().unwrap_or(0);
    if facts.held == 0 && facts.counted != under26 {
        differences.add(POOL_DIFFERS, || format!("{} of {name}, and {under26} are sold", facts.counted));
    }
    if under26 > u64::from(terms.spec.under26_max) {
        differences.add("more is sold of a pool than it has", || format!("{under26} of {name}"));
    }
    if !facts.is_released || facts.kept > 0 {
        differences
            .add("an allotment is not released in the end", || format!("{} seats of {name} are kept", facts.kept));
    }
}

/// Compares a code with the tickets that were bought with it.
pub(super) fn compare_code(terms: &SaleTerms, code: u32, view: &CodeView, told: u64, differences: &mut Differences) {
    let uses = u64::from(terms.spec.uses);
    if view.sold != told {
        differences.add("a code has another number of uses than tickets were bought with it", || {
            format!("{} of {}, and {told} tickets", view.sold, terms.code(code))
        });
    }
    if told > uses || view.held + view.sold > uses {
        differences.add("a code has more uses than it may", || {
            format!("{told} tickets with {}, which has {uses}", terms.code(code))
        });
    }
    if view.held > 0 {
        differences.add("a code has uses in carts in the end", || format!("{} of {}", view.held, terms.code(code)));
    }
}

/// Compares an order with what its buyer was told and with the table of prices.
pub(super) fn compare_order(
    terms: &SaleTerms,
    (cart, known): (CartId, &KnownCart),
    order: Option<(i64, &[boxoffice_client::LineView])>,
    differences: &mut Differences,
) {
    let Some((total, lines)) = order else {
        return differences.add("an order is lost", || format!("the one of cart {cart}"));
    };
    let tickets = match tickets_of(terms, known.session, lines) {
        Ok(tickets) => tickets,
        Err(why) => return differences.add("a line is no ticket that is sold", || why),
    };
    if tickets != known.tickets || known.fate != CartFate::Bought(total) {
        differences.add("an order is another one than its buyer was told", || {
            format!("{cart}: {} instead of {}, for {}", texts(&tickets), texts(&known.tickets), money(total))
        });
    }
    let right =
        tickets.iter().map(|ticket| terms.price(ticket.seat, ticket.kind, ticket.with_code)).sum::<Option<i64>>();
    if right != Some(total) {
        differences.add("an order costs something else than its tickets in the table", || {
            let right = right.map_or("does not sell them".to_owned(), |right| format!("says {}", money(right)));
            format!("{cart}: {}, and the table {right}", money(total))
        });
    }
}
