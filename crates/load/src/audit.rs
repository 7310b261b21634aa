//! The audit: what the servers say afterwards, fetched with bounded cost and held against the clients' books.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use boxoffice_client::{
    BookingView, CartAudit, CartId, Client, CustomerAudit, Error, Id, NodeAudit, PlaceStatus, ResourceAudit,
    ResourceBookings, SessionAudit, Timestamp,
};
use boxoffice_wire::cluster::node_of;
use boxoffice_workload::{
    check::{AuditedState, Breach, EXAMPLES_MAX, Findings, RunInventory, check},
    goods::{Good, Goods, Slot},
    history::{CartRecord, History},
    house::House,
};

use crate::{LoadError, bank::Bank, counter::Counter, progress::Progress, report::Audit, scenario::Scenario};

/// Audits under way on each connection.
const UNDER_WAY: usize = 32;

/// How often an audit that did not work is asked for again.
const TRIES_MAX: usize = 20;

/// How long to wait before that, and before looking again for sales that are not settled.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Bookings of one page.
const BOOKINGS_A_PAGE: u32 = 1_000;

/// The number of `not_found`.
const NOT_FOUND: u16 = 701;

/// What each node counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTotals {
    nodes: Vec<NodeTotal>,
}

/// What one node counts of what it keeps.
#[derive(Clone, Debug)]
struct NodeTotal {
    node: String,
    /// Whether it keeps everything there is; else much of what belongs together is elsewhere.
    is_whole: bool,
    audit: NodeAudit,
}

impl NodeTotals {
    /// Asks every node.
    pub(crate) async fn ask(counter: &Counter) -> Result<NodeTotals, LoadError> {
        let clients = counter.each_node().await?;
        let cluster = if clients.len() > 1 { Some(counter.cluster().await?) } else { None };
        let mut nodes = Vec::new();
        for client in clients {
            let audit = patiently(|| client.audit_node()).await;
            let audit: NodeAudit = audit.map_err(|error| LoadError::Asked { what: "its audit", error })?.value;
            let node = client.server_hello().map_or_else(|| "?".to_owned(), |hello| hello.node.to_string());
            let keeps = |place: &PlaceStatus| {
                let replicas = place.voters.iter().chain(&place.learners);
                replicas.filter_map(|replica| node_of(replica)).any(|id| id.to_string() == node)
            };
            let is_whole = cluster.as_ref().is_none_or(|cluster| cluster.places.iter().all(keeps));
            nodes.push(NodeTotal { node, is_whole, audit });
        }
        Ok(NodeTotals { nodes })
    }

    fn whole(&self) -> impl Iterator<Item = &NodeTotal> {
        self.nodes.iter().filter(|node| node.is_whole)
    }

    /// What nodes that keep everything say is wrong. One that lacks what belongs together cannot judge it.
    fn violations(&self) -> impl Iterator<Item = String> {
        self.whole().flat_map(|node| {
            node.audit.violations.iter().map(|violation| match self.nodes.len() {
                1 => violation.to_string(),
                _ => format!("node {}: {violation}", node.node),
            })
        })
    }

    /// In words, how nodes that keep everything differ in what changes no more.
    fn difference(&self) -> Option<String> {
        let mut whole = self.whole();
        let first = whole.next()?;
        let other = whole.find(|node| settled(&node.audit) != settled(&first.audit))?;
        let (one, another) = (settled(&first.audit), settled(&other.audit));
        Some(format!("node {} counts {one:?}, node {} {another:?}", first.node, other.node))
    }

    fn owed(&self) -> u64 {
        self.nodes.iter().map(|node| node.audit.owed).sum()
    }

    /// Whether there is nothing left to wait for.
    fn is_calm(&self) -> bool {
        self.owed() == 0 && self.difference().is_none() && self.violations().next().is_none()
    }

    /// By how much these counts have grown since before, on the node where they have grown least: seats sold, and orders.
    fn grown(&self, before: &NodeTotals) -> Option<(u64, u64)> {
        let then = &before.whole().next()?.audit;
        let grown = self.whole().map(|node| {
            let seats = node.audit.sold_seats.checked_sub(then.sold_seats)?;
            Some((seats, node.audit.orders.checked_sub(then.orders)?))
        });
        grown.collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}

/// What stays as it is when nobody buys any more, whatever still runs out.
fn settled(audit: &NodeAudit) -> NodeAudit {
    NodeAudit {
        venues: audit.venues,
        sessions: audit.sessions,
        titles: audit.titles,
        products: audit.products,
        resources: audit.resources,
        customers: audit.customers,
        purchases: audit.purchases,
        sold_seats: audit.sold_seats,
        orders: audit.orders,
        order_seats: audit.order_seats,
        order_totals: audit.order_totals.clone(),
        payments: audit.payments,
        refunds: audit.refunds,
        refund_totals: audit.refund_totals.clone(),
        ..NodeAudit::default()
    }
}

/// What is audited: everything that was sold, what the clients were told, and who took the money.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) house: &'a House,
    pub(crate) goods: &'a Goods,
    pub(crate) history: &'a History,
    pub(crate) bank: Option<&'a Bank>,
    /// When everything is booked.
    pub(crate) calendar: Slot,
}

/// The entities besides seated sessions that flows used, by number.
#[derive(Default)]
struct Others {
    products: Vec<u32>,
    arenas: Vec<u32>,
    resources: Vec<u32>,
    customers: Vec<u32>,
}

impl Others {
    fn used(goods: &Goods, history: &History) -> Others {
        let (mut arenas, mut resources, mut customers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for cart in &history.carts {
            customers.extend(cart.customer);
            for take in &cart.goods_holds {
                match take.good {
                    // All products are looked at, so that what is left adds up.
                    Good::Product(_) => {}
                    Good::Area { arena, .. } => {
                        arenas.insert(arena);
                    }
                    Good::Slot { resource, .. } => {
                        resources.insert(resource);
                    }
                }
            }
        }
        resources.extend(history.changes.iter().map(|change| change.resource));
        Others {
            products: (0..goods.products).collect(),
            arenas: arenas.into_iter().collect(),
            resources: resources.into_iter().collect(),
            customers: customers.into_iter().collect(),
        }
    }

    fn count(&self) -> u64 {
        (self.products.len() + self.arenas.len() + self.resources.len() + self.customers.len()) as u64
    }

    /// Fetches what the servers say of them.
    async fn fetch(
        &self,
        counter: &Counter,
        goods: &Goods,
        calendar: Slot,
        progress: &Progress,
        audited: &mut AuditedState,
    ) -> Result<(), LoadError> {
        let name = goods.clone();
        let ask = move |client: Client, number: u32| {
            let id = name.product_id(number);
            async move { patiently(|| client.audit_product(&id)).await.map(|reply| reply.value) }
        };
        audited.products = side_by_side(counter, &self.products, ask, progress).await?.into_iter().collect();
        let name = goods.clone();
        let ask = move |client: Client, number: u32| {
            let id = name.arena_id(number);
            async move { patiently(|| client.audit_session(&id)).await.map(|reply| reply.value) }
        };
        audited.arenas = side_by_side(counter, &self.arenas, ask, progress).await?.into_iter().collect();
        let name = goods.clone();
        let ask = move |client: Client, number: u32| {
            let id = name.resource_id(number);
            async move { resource(&client, &id, calendar).await }
        };
        audited.resources = side_by_side(counter, &self.resources, ask, progress).await?.into_iter().collect();
        let name = goods.clone();
        let ask = move |client: Client, number: u32| {
            let id = name.customer_id(number);
            async move {
                match patiently(|| client.audit_customer(&id)).await {
                    Ok(reply) => Ok(Some(reply.value)),
                    // Nobody who bought nothing is known.
                    Err(error) if error.refusal().is_some_and(|no| no.code == NOT_FOUND) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        let customers = side_by_side(counter, &self.customers, ask, progress).await?;
        for (number, audit) in customers {
            let id = goods.customer_id(number);
            let nothing = || CustomerAudit {
                customer: id,
                quotas: Vec::new(),
                holds: Vec::new(),
                sales: Vec::new(),
                purchases: Vec::new(),
                violations: Vec::new(),
            };
            audited.customers.insert(number, audit.unwrap_or_else(nothing));
        }
        Ok(())
    }
}

/// A resource with all its bookings, page by page.
async fn resource(client: &Client, id: &Id, calendar: Slot) -> Result<(ResourceAudit, Vec<BookingView>), Error> {
    let audit = patiently(|| client.audit_resource(id)).await?.value;
    let mut bookings: Vec<BookingView> = Vec::new();
    let mut search = ResourceBookings {
        resource: id.clone(),
        from: calendar.begin,
        to: calendar.end,
        limit: Some(BOOKINGS_A_PAGE),
        cursor: None,
    };
    loop {
        let page = patiently(|| client.resource_bookings(&search)).await?.value;
        bookings.extend(page.bookings);
        match page.cursor {
            Some(cursor) => search.cursor = Some(cursor),
            None => return Ok((audit, bookings)),
        }
    }
}

/// Audits a run: the nodes, the sessions used, the carts in doubt and some of the others.
pub(crate) async fn run(
    counter: &Counter,
    scenario: &Scenario,
    subject: Subject<'_>,
    before: &NodeTotals,
    progress: &Progress,
) -> Result<Audit, LoadError> {
    let history = subject.history;
    let others = Others::used(subject.goods, history);
    let settle = Duration::from_millis(scenario.audit.settle_ms);
    let start = Instant::now();
    let mut after = NodeTotals::ask(counter).await?;
    while !after.is_calm() && start.elapsed() < settle {
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
        after = NodeTotals::ask(counter).await?;
    }

    let used: BTreeSet<u32> =
        history.carts.iter().flat_map(|cart| cart.holds.iter().map(|hold| hold.session)).collect();
    let sessions: Vec<u32> = spread(used.iter().copied().collect(), scenario.audit.sessions_max as usize);
    let carts = carts(history, scenario.audit.carts_max as usize);
    let (mut findings, mut unknown) = (Findings::default(), BTreeMap::new());
    let addresses = counter.addresses();
    for (number, address) in addresses.iter().enumerate() {
        let at = counter.at(address).await?;
        let (mut found, mut doubt) = (Findings::default(), BTreeMap::new());
        for _ in 0..TRIES_MAX {
            progress.begin("audit", (sessions.len() + carts.len()) as u64 + others.count());
            (found, doubt) = look(&at, scenario, subject, &sessions, &others, &carts, progress).await?;
            let unsettled = found.count(Breach::Unsettled) > 0;
            if !unsettled || start.elapsed() > settle {
                break;
            }
            tokio::time::sleep(TRY_AGAIN_AFTER).await;
        }
        if number == 0 {
            (findings, unknown) = (found, doubt);
        } else {
            also(&mut findings, &found, &addresses[0], address);
        }
    }

    for violation in after.violations() {
        findings.add(Breach::Reported, || violation);
    }
    if let Some(difference) = after.difference() {
        findings.add(Breach::Disagreed, || difference);
    }
    let grown = after.grown(before);
    let bought = history.carts.iter().filter(|cart| cart.order().is_some()).count() as u64;
    // A node's own count cannot be less than what clients were told.
    if after.whole().next().is_some() && grown.is_none_or(|(_, orders)| orders < bought) {
        findings.add(Breach::Lost, || {
            let orders = grown.map(|(_, orders)| orders);
            format!("a node counts {orders:?} more orders than before the run; clients were told of {bought}")
        });
    }
    Ok(Audit {
        findings,
        sessions_used: used.len() as u64,
        others_used: others.count(),
        nodes: after.nodes.iter().map(|node| node.node.clone()).collect(),
        node_seats_sold: grown.map(|(seats, _)| seats),
        node_orders: grown.map(|(_, orders)| orders),
        unknown,
    })
}

/// Adds what was found through another node: each breach as often as where it was found most often.
fn also(findings: &mut Findings, found: &Findings, first: &str, other: &str) {
    for (breach, count) in &found.breaches {
        let known = findings.breaches.entry(*breach).or_default();
        *known = (*known).max(*count);
    }
    let room = EXAMPLES_MAX.saturating_sub(findings.examples.len());
    let new: Vec<String> =
        found.examples.iter().filter(|example| !findings.examples.contains(example)).cloned().collect();
    findings.examples.extend(new.into_iter().take(room).map(|example| format!("{example} (through {other})")));
    // What is held may have run out between the two.
    let sold = |findings: &Findings| {
        let Findings { sessions, seats_sold, sales, units_sold, purchases, charges, .. } = findings;
        [*sessions, *seats_sold, *sales, *units_sold, *purchases, *charges]
    };
    let (one, another) = (sold(findings), sold(found));
    if one != another {
        findings.add(Breach::Disagreed, || {
            format!("sessions, seats, sales, units, purchases and charges through {first} are {one:?}, through {other} {another:?}")
        });
    }
}

/// Fetches everything once and checks it.
async fn look(
    counter: &Counter,
    scenario: &Scenario,
    subject: Subject<'_>,
    sessions: &[u32],
    others: &Others,
    carts: &[CartRecord],
    progress: &Progress,
) -> Result<(Findings, BTreeMap<String, u64>), LoadError> {
    let Subject { house, goods, history, bank, calendar } = subject;
    let names = house.clone();
    let audit_session = move |client: Client, number: u32| {
        let id = names.session_id(number);
        async move { patiently(|| client.audit_session(&id)).await.map(|reply| reply.value) }
    };
    let audits: Vec<(u32, SessionAudit)> = side_by_side(counter, sessions, audit_session, progress).await?;
    let audit_cart = |client: Client, id: CartId| async move {
        match patiently(|| client.audit_cart(id)).await {
            Ok(reply) => Ok(Some(reply.value)),
            Err(error) if error.refusal().is_some_and(|no| no.code == NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let ids: Vec<CartId> = carts.iter().map(|cart| cart.cart).collect();
    let found: BTreeMap<CartId, Option<CartAudit>> =
        side_by_side(counter, &ids, audit_cart, progress).await?.into_iter().collect();

    let mut audited = AuditedState {
        sessions: audits.into_iter().collect(),
        carts: found.values().flatten().cloned().collect(),
        charges: bank.map(Bank::charges),
        ..AuditedState::default()
    };
    others.fetch(counter, goods, calendar, progress, &mut audited).await?;
    audited.at = Timestamp(counter.server_time_ms().await?);
    let mut findings = check(RunInventory { house, price: scenario.seat_price(), goods }, history, &audited);
    let mut unknown = BTreeMap::new();
    for cart in carts {
        let state = found.get(&cart.cart).and_then(Option::as_ref).map(|audit| audit.cart.state.as_str());
        if cart.has_unknown() {
            *unknown.entry(state.unwrap_or("not there").to_owned()).or_default() += 1;
        }
        if state.is_none() && !cart.versions.is_empty() {
            findings.add(Breach::Lost, || format!("cart {} was opened and is not there", cart.cart));
        }
    }
    Ok((findings, unknown))
}

/// All carts in doubt, and so many of the others, evenly spread.
fn carts(history: &History, most: usize) -> Vec<CartRecord> {
    let (doubtful, plain): (Vec<&CartRecord>, Vec<&CartRecord>) =
        history.carts.iter().partition(|cart| cart.has_unknown());
    let told = plain.into_iter().filter(|cart| !cart.versions.is_empty()).collect();
    doubtful.into_iter().chain(spread(told, most)).cloned().collect()
}

/// At most so many of these, evenly spread.
fn spread<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let count = all.len();
    if count <= most {
        return all;
    }
    // Element n is taken if n·most/count is a whole step further than that of n − 1.
    let taken = |number: usize| number == 0 || number * most / count > (number - 1) * most / count;
    all.into_iter().enumerate().filter(|(number, _)| taken(*number)).map(|(_, each)| each).take(most).collect()
}

/// Asks about everything, some at a time on each connection.
async fn side_by_side<K, T, F>(
    counter: &Counter,
    keys: &[K],
    ask: impl Fn(Client, K) -> F + Clone + Send + 'static,
    progress: &Progress,
) -> Result<Vec<(K, T)>, LoadError>
where
    K: Copy + Send + Sync + 'static,
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send,
{
    let keys: Arc<[K]> = keys.into();
    let next = Arc::new(AtomicUsize::new(0));
    let answers: Arc<Mutex<Vec<(K, T)>>> = Arc::default();
    let mut workers = Vec::new();
    for worker in 0..(counter.clients().len() * UNDER_WAY).min(keys.len()) {
        let client = counter.clients()[worker % counter.clients().len()].clone();
        let (keys, next, answers, ask) = (keys.clone(), next.clone(), answers.clone(), ask.clone());
        let progress = progress.clone();
        workers.push(tokio::spawn(async move {
            while let Some(&key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answer = ask(client.clone(), key).await?;
                answers.lock().expect("nobody panics with the list").push((key, answer));
                progress.add(1);
            }
            Ok(())
        }));
    }
    for worker in workers {
        let asked = worker.await.map_err(|_| LoadError::Broken("an audit's task panicked"))?;
        asked.map_err(|error| LoadError::Asked { what: "an audit", error })?;
    }
    let mut answers = answers.lock().expect("nobody panics with the list");
    Ok(std::mem::take(&mut *answers))
}

/// Asks again while it does not work; a refusal is an answer.
async fn patiently<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> Result<T, Error> {
    let mut tries = 1;
    loop {
        match ask().await {
            Err(error) if error.refusal().is_none() && tries < TRIES_MAX => {
                tries += 1;
                tokio::time::sleep(TRY_AGAIN_AFTER).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_everything() {
        assert_eq!(spread((0..10).collect(), 20), (0..10).collect::<Vec<_>>());
        assert_eq!(spread((0..10).collect(), 5), [0, 2, 4, 6, 8]);
        let sample = spread((0..1_000).collect(), 300);
        assert_eq!(sample.len(), 300);
        assert!(sample.windows(2).all(|pair| pair[1] - pair[0] <= 4));
        assert!(*sample.last().expect("some") > 990);
    }
}
