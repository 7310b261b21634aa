//! The audit: fetches what the servers say after the run, with bounded cost, and compares it with the clients' records.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    time::{Duration, Instant},
};

use boxoffice_client::{
    BookingView, CartAudit, CartId, Client, CustomerAudit, Error, Id, NodeAudit, PlaceStatus, Reply, ResourceAudit,
    ResourceBookings, Timestamp,
};
use boxoffice_wire::cluster::node_of;
use boxoffice_workload::{
    check::{AuditedState, Breach, EXAMPLES_MAX, Findings, RunInventory, check},
    goods::{Good, Goods, Slot},
    history::{CartRecord, History},
    house::House,
};

use crate::{
    LoadError, connection_pool::ConnectionPool, progress::Progress, report::Audit, scenario::Scenario,
    test_gateway::TestGateway,
};

/// Audits under way on each connection.
const UNDER_WAY: usize = 32;

/// How often a failed audit is sent again.
const TRIES_MAX: usize = 20;

/// The pause before a retry, and before the next look at sales that are not complete.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Bookings of one page.
const BOOKINGS_A_PAGE: u32 = 1_000;

/// The code of the refusal `not_found`.
const NOT_FOUND: u16 = 701;

/// The totals of each node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTotals {
    nodes: Vec<NodeTotal>,
}

/// The totals of what one node keeps.
#[derive(Clone, Debug)]
struct NodeTotal {
    node: String,
    /// Whether the node has a replica of every shard. An incomplete node lacks parts of what belongs together.
    is_complete: bool,
    audit: NodeAudit,
}

impl NodeTotals {
    pub(crate) async fn fetch(connections: &ConnectionPool) -> Result<NodeTotals, LoadError> {
        let clients = connections.connect_each_node().await?;
        let cluster = if clients.len() > 1 { Some(connections.cluster_status().await?) } else { None };
        let mut nodes = Vec::new();
        for client in clients {
            let audit = retry(|| client.audit_node()).await;
            let audit: NodeAudit = audit.map_err(|error| LoadError::Query { what: "its audit", error })?.value;
            let node = client.server_hello().map_or_else(|| "?".to_owned(), |hello| hello.node.to_string());
            let keeps = |place: &PlaceStatus| {
                let replicas = place.voters.iter().chain(&place.learners);
                replicas.filter_map(|replica| node_of(replica)).any(|id| id.to_string() == node)
            };
            let is_complete = cluster.as_ref().is_none_or(|cluster| cluster.places.iter().all(keeps));
            nodes.push(NodeTotal { node, is_complete, audit });
        }
        Ok(NodeTotals { nodes })
    }

    fn complete_nodes(&self) -> impl Iterator<Item = &NodeTotal> {
        self.nodes.iter().filter(|node| node.is_complete)
    }

    /// The violations that complete nodes report. An incomplete node cannot judge, because it lacks parts of what
    /// belongs together.
    fn violations(&self) -> impl Iterator<Item = String> {
        self.complete_nodes().flat_map(|node| {
            node.audit.violations.iter().map(|violation| match self.nodes.len() {
                1 => violation.to_string(),
                _ => format!("node {}: {violation}", node.node),
            })
        })
    }

    /// How complete nodes differ in their final counts, as text.
    fn difference(&self) -> Option<String> {
        let mut whole = self.complete_nodes();
        let first = whole.next()?;
        let other = whole.find(|node| final_counts(&node.audit) != final_counts(&first.audit))?;
        let (one, another) = (final_counts(&first.audit), final_counts(&other.audit));
        Some(format!("node {} counts {one:?}, node {} {another:?}", first.node, other.node))
    }

    fn owed(&self) -> u64 {
        self.nodes.iter().map(|node| node.audit.owed).sum()
    }

    /// Whether there is nothing left to wait for.
    fn is_complete(&self) -> bool {
        self.owed() == 0 && self.difference().is_none() && self.violations().next().is_none()
    }

    /// The growth since `before` of seats sold and orders, on the complete node with the least growth.
    fn growth_since(&self, before: &NodeTotals) -> Option<(u64, u64)> {
        let then = &before.complete_nodes().next()?.audit;
        let growth = self.complete_nodes().map(|node| {
            let seats = node.audit.sold_seats.checked_sub(then.sold_seats)?;
            Some((seats, node.audit.orders.checked_sub(then.orders)?))
        });
        growth.collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}

/// The counts that no longer change when all flows have ended, even if holds still expire.
fn final_counts(audit: &NodeAudit) -> NodeAudit {
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

/// What the audit compares: everything that was sold, the clients' records and the gateway.
#[derive(Clone, Copy)]
pub(crate) struct AuditInput<'a> {
    pub(crate) house: &'a House,
    pub(crate) goods: &'a Goods,
    pub(crate) history: &'a History,
    pub(crate) test_gateway: Option<&'a TestGateway>,
    /// The whole time that flows could book.
    pub(crate) calendar: Slot,
}

/// The entities besides seated sessions that flows used, by number.
#[derive(Default)]
struct OtherEntities {
    products: Vec<u32>,
    arenas: Vec<u32>,
    resources: Vec<u32>,
    customers: Vec<u32>,
}

impl OtherEntities {
    fn used(goods: &Goods, history: &History) -> OtherEntities {
        let (mut arenas, mut resources, mut customers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for cart in &history.carts {
            customers.extend(cart.customer);
            for take in &cart.goods_holds {
                match take.good {
                    // The audit fetches all products, so that the units left add up.
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
        OtherEntities {
            products: (0..goods.products).collect(),
            arenas: arenas.into_iter().collect(),
            resources: resources.into_iter().collect(),
            customers: customers.into_iter().collect(),
        }
    }

    fn count(&self) -> u64 {
        (self.products.len() + self.arenas.len() + self.resources.len() + self.customers.len()) as u64
    }

    /// Fetches the servers' audits of these entities.
    async fn fetch(
        &self,
        connections: &ConnectionPool,
        goods: &Goods,
        calendar: Slot,
        progress: &Progress,
        audited: &mut AuditedState,
    ) -> Result<(), LoadError> {
        let audit_product = async |client: &Client, number| {
            let id = goods.product_id(number);
            retry(|| client.audit_product(&id)).await.map(|reply| reply.value)
        };
        audited.products = fetch_concurrently(connections, &self.products, audit_product, progress).await?;
        let audit_arena = async |client: &Client, number| {
            let id = goods.arena_id(number);
            retry(|| client.audit_session(&id)).await.map(|reply| reply.value)
        };
        audited.arenas = fetch_concurrently(connections, &self.arenas, audit_arena, progress).await?;
        let audit_resource =
            async |client: &Client, number| resource(client, &goods.resource_id(number), calendar).await;
        audited.resources = fetch_concurrently(connections, &self.resources, audit_resource, progress).await?;
        let audit_customer = async |client: &Client, number| {
            let id = goods.customer_id(number);
            let audit = unless_not_found(retry(|| client.audit_customer(&id)).await)?;
            // A customer without a purchase is not known.
            Ok(audit.unwrap_or_else(|| CustomerAudit {
                customer: id,
                quotas: Vec::new(),
                holds: Vec::new(),
                sales: Vec::new(),
                purchases: Vec::new(),
                violations: Vec::new(),
            }))
        };
        audited.customers = fetch_concurrently(connections, &self.customers, audit_customer, progress).await?;
        Ok(())
    }
}

/// A resource with all its bookings, page by page.
async fn resource(client: &Client, id: &Id, calendar: Slot) -> Result<(ResourceAudit, Vec<BookingView>), Error> {
    let audit = retry(|| client.audit_resource(id)).await?.value;
    let mut bookings: Vec<BookingView> = Vec::new();
    let mut search = ResourceBookings {
        resource: id.clone(),
        from: calendar.begin,
        to: calendar.end,
        limit: Some(BOOKINGS_A_PAGE),
        cursor: None,
    };
    loop {
        let page = retry(|| client.resource_bookings(&search)).await?.value;
        bookings.extend(page.bookings);
        match page.cursor {
            Some(cursor) => search.cursor = Some(cursor),
            None => return Ok((audit, bookings)),
        }
    }
}

/// What one pass of the audit fetches.
struct Sample {
    sessions: Vec<u32>,
    carts: Vec<CartRecord>,
    others: OtherEntities,
}

impl Sample {
    fn count(&self) -> u64 {
        (self.sessions.len() + self.carts.len()) as u64 + self.others.count()
    }
}

/// Findings, and the states of the carts whose outcome no client knows.
#[derive(Default)]
struct Pass {
    findings: Findings,
    unknown: BTreeMap<String, u64>,
}

/// Audits a run: the nodes, the sessions used, the carts in doubt and a sample of the other carts.
pub(crate) async fn run(
    connections: &ConnectionPool,
    scenario: &Scenario,
    input: AuditInput<'_>,
    before: &NodeTotals,
    progress: &Progress,
) -> Result<Audit, LoadError> {
    let history = input.history;
    let start = Instant::now();
    let after = final_totals(connections, scenario, start).await?;

    let used: BTreeSet<u32> =
        history.carts.iter().flat_map(|cart| cart.holds.iter().map(|hold| hold.session)).collect();
    let sample = Sample {
        sessions: sample_evenly(used.iter().copied().collect(), scenario.audit.sessions_max as usize),
        carts: carts_to_audit(history, scenario.audit.carts_max as usize),
        others: OtherEntities::used(input.goods, history),
    };
    let mut first = Pass::default();
    let addresses = connections.addresses();
    for (number, address) in addresses.iter().enumerate() {
        let node = connections.only_to(address).await?;
        let pass = audit_until_final(&node, scenario, input, &sample, start, progress).await?;
        if number == 0 {
            first = pass;
        } else {
            merge_findings(&mut first.findings, &pass.findings, &addresses[0], address);
        }
    }

    let Pass { mut findings, unknown } = first;
    let growth = after.growth_since(before);
    check_totals(&mut findings, &after, growth, history);
    Ok(Audit {
        findings,
        sessions_used: used.len() as u64,
        others_used: sample.others.count(),
        nodes: after.nodes.iter().map(|node| node.node.clone()).collect(),
        node_seats_sold: growth.map(|(seats, _)| seats),
        node_orders: growth.map(|(_, orders)| orders),
        unknown,
    })
}

/// The nodes' totals when nothing is open, or when the scenario's time for that is over.
async fn final_totals(
    connections: &ConnectionPool,
    scenario: &Scenario,
    start: Instant,
) -> Result<NodeTotals, LoadError> {
    let time = Duration::from_millis(scenario.audit.settle_ms);
    let mut totals = NodeTotals::fetch(connections).await?;
    while !totals.is_complete() && start.elapsed() < time {
        tokio::time::sleep(RETRY_AFTER).await;
        totals = NodeTotals::fetch(connections).await?;
    }
    Ok(totals)
}

/// Audits through one node. Repeats the pass while sales are not complete, until the scenario's time for that is over.
async fn audit_until_final(
    connections: &ConnectionPool,
    scenario: &Scenario,
    input: AuditInput<'_>,
    sample: &Sample,
    start: Instant,
    progress: &Progress,
) -> Result<Pass, LoadError> {
    let time = Duration::from_millis(scenario.audit.settle_ms);
    let mut pass = Pass::default();
    for _ in 0..TRIES_MAX {
        progress.begin("audit", sample.count());
        pass = audit_once(connections, scenario, input, sample, progress).await?;
        let unsettled = pass.findings.count(Breach::Unsettled) > 0;
        if !unsettled || start.elapsed() > time {
            break;
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
    Ok(pass)
}

/// Compares the nodes' own totals with each other and with the orders that clients know of.
fn check_totals(findings: &mut Findings, after: &NodeTotals, growth: Option<(u64, u64)>, history: &History) {
    for violation in after.violations() {
        findings.add(Breach::Reported, || violation);
    }
    if let Some(difference) = after.difference() {
        findings.add(Breach::Disagreed, || difference);
    }
    let bought = history.carts.iter().filter(|cart| cart.bought().is_some()).count() as u64;
    // A node must count at least the orders that clients know of.
    if after.complete_nodes().next().is_some() && growth.is_none_or(|(_, orders)| orders < bought) {
        findings.add(Breach::Lost, || {
            let orders = growth.map(|(_, orders)| orders);
            format!("a node counts {orders:?} more orders than before the run, but clients know of {bought}")
        });
    }
}

/// Adds the findings of a pass through another node. Each breach counts as often as in the pass that found it most
/// often.
fn merge_findings(findings: &mut Findings, found: &Findings, first: &str, other: &str) {
    for (breach, count) in &found.breaches {
        let known = findings.breaches.entry(*breach).or_default();
        *known = (*known).max(*count);
    }
    let room = EXAMPLES_MAX.saturating_sub(findings.examples.len());
    let new: Vec<String> =
        found.examples.iter().filter(|example| !findings.examples.contains(example)).cloned().collect();
    findings.examples.extend(new.into_iter().take(room).map(|example| format!("{example} (through {other})")));
    // A hold may have expired between the two passes, so held goods are not compared.
    let sold = |findings: &Findings| {
        let Findings { sessions, seats_sold, sales, units_sold, purchases, charges, .. } = findings;
        [*sessions, *seats_sold, *sales, *units_sold, *purchases, *charges]
    };
    let (one, another) = (sold(findings), sold(found));
    if one != another {
        findings.add(Breach::Disagreed, || {
            format!(
                "sessions, seats, sales, units, purchases and charges through {first} are {one:?}, \
                 through {other} {another:?}"
            )
        });
    }
}

/// Fetches everything once and checks it.
async fn audit_once(
    connections: &ConnectionPool,
    scenario: &Scenario,
    input: AuditInput<'_>,
    sample: &Sample,
    progress: &Progress,
) -> Result<Pass, LoadError> {
    let AuditInput { house, goods, history, test_gateway, calendar } = input;
    let Sample { sessions, carts, others } = sample;
    let audit_session = async |client: &Client, number| {
        let id = house.session_id(number);
        retry(|| client.audit_session(&id)).await.map(|reply| reply.value)
    };
    let sessions = fetch_concurrently(connections, sessions, audit_session, progress).await?;
    let audit_cart = async |client: &Client, id| unless_not_found(retry(|| client.audit_cart(id)).await);
    let ids: Vec<CartId> = carts.iter().map(|cart| cart.cart).collect();
    let found: BTreeMap<CartId, Option<CartAudit>> =
        fetch_concurrently(connections, &ids, audit_cart, progress).await?;

    let mut audited = AuditedState {
        sessions,
        carts: found.values().flatten().cloned().collect(),
        charges: test_gateway.map(TestGateway::charges),
        ..AuditedState::default()
    };
    others.fetch(connections, goods, calendar, progress, &mut audited).await?;
    audited.at = Timestamp(connections.server_time_ms().await?);
    let mut findings = check(RunInventory { house, price: scenario.seat_price(), goods }, history, &audited);
    let mut unknown = BTreeMap::new();
    for cart in carts {
        let state = found.get(&cart.cart).and_then(Option::as_ref).map(|audit| audit.cart.state.as_str());
        if cart.has_unknown() {
            *unknown.entry(state.unwrap_or("not there").to_owned()).or_default() += 1;
        }
        if state.is_none() && !cart.versions.is_empty() {
            findings.add(Breach::Lost, || format!("cart {} was opened and does not exist", cart.cart));
        }
    }
    Ok(Pass { findings, unknown })
}

/// All carts whose outcome their client does not know, and at most `most` others, evenly spread.
fn carts_to_audit(history: &History, most: usize) -> Vec<CartRecord> {
    let (doubtful, plain): (Vec<&CartRecord>, Vec<&CartRecord>) =
        history.carts.iter().partition(|cart| cart.has_unknown());
    let opened = plain.into_iter().filter(|cart| !cart.versions.is_empty()).collect();
    doubtful.into_iter().chain(sample_evenly(opened, most)).cloned().collect()
}

/// At most `most` elements, evenly spread.
fn sample_evenly<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let count = all.len();
    if count <= most {
        return all;
    }
    // Element n is taken if n·most/count is at least one greater than for element n − 1.
    let taken = |number: usize| number == 0 || number * most / count > (number - 1) * most / count;
    all.into_iter().enumerate().filter(|(number, _)| taken(*number)).map(|(_, each)| each).take(most).collect()
}

/// Fetches an answer for each key, several at a time on each connection.
async fn fetch_concurrently<K: Copy + Ord, T>(
    connections: &ConnectionPool,
    keys: &[K],
    ask: impl AsyncFn(&Client, K) -> Result<T, Error>,
    progress: &Progress,
) -> Result<BTreeMap<K, T>, LoadError> {
    let answers = connections.for_each(keys.iter().copied(), UNDER_WAY, async |client, key| {
        let answer = ask(client, key).await?;
        progress.add(1);
        Ok((key, answer))
    });
    answers.await.map_err(|error| LoadError::Query { what: "an audit", error })
}

/// The value of an answer. `None` if the server does not know what was asked for.
fn unless_not_found<T>(answer: Result<Reply<T>, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(reply) => Ok(Some(reply.value)),
        Err(error) if error.refusal().is_some_and(|no| no.code == NOT_FOUND) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Repeats a request that fails. A refusal is an answer and ends the repetition.
async fn retry<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> Result<T, Error> {
    let mut tries = 1;
    loop {
        match ask().await {
            Err(error) if error.refusal().is_none() && tries < TRIES_MAX => {
                tries += 1;
                tokio::time::sleep(RETRY_AFTER).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_evenly() {
        assert_eq!(sample_evenly((0..10).collect(), 20), (0..10).collect::<Vec<_>>());
        assert_eq!(sample_evenly((0..10).collect(), 5), [0, 2, 4, 6, 8]);
        let sample = sample_evenly((0..1_000).collect(), 300);
        assert_eq!(sample.len(), 300);
        assert!(sample.windows(2).all(|pair| pair[1] - pair[0] <= 4));
        assert!(*sample.last().expect("some") > 990);
    }
}
