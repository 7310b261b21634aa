//! A cluster, buyers who ask at any node, watchers at each, and everything that must hold once a fault is over.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    nodes::{Cluster, Plan},
    watchers::Watchers,
};
use crate::common::{
    Answer, Buyers, Dice, Encoding, Goods, PATIENCE, Port, Record, Theatre, Till, eventually, town::audit,
};

/// Buyers at once.
pub(crate) const BUYERS: usize = 8;

/// Carts that are read again at nodes that are not asked for all of them.
const SAMPLE: usize = 40;

/// How long a fault lasts at least that is to show: links are given up and leaders elected meanwhile.
const LASTING: Duration = Duration::from_secs(3);

/// Orders that are made under a fault at least.
const ORDERS: usize = 10;

/// How many replicas a shard of carts and sessions has.
const REPLICAS: u64 = 3;

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) dice: Dice,
    /// What is played, sold out or not.
    pub(crate) theatre: Theatre,
    pub(crate) record: Record,
    /// Whether buyers are offered places, units and time besides seats, and the name of a customer.
    pub(crate) sells_everything: bool,
    watchers: Option<Watchers>,
    /// Carts that were checked at every node already.
    pub(super) checked: usize,
    /// Steps of payments that had failed for good, and that an operator has seen to.
    pub(super) settled: BTreeSet<String>,
    plays: usize,
}

impl Stage {
    pub(crate) async fn new(dice: Dice, plan: Plan) -> Stage {
        Stage::with(dice, Cluster::start(plan).await)
    }

    /// With a cluster that serves.
    pub(crate) fn of(cluster: Cluster, dice: Dice) -> Stage {
        Stage::with(dice, cluster)
    }

    /// The same with this cluster.
    pub(crate) fn with(dice: Dice, cluster: Cluster) -> Stage {
        let theatre = Theatre { sessions: Vec::new(), rows: 0, seats: 0, price: 0, goods: None };
        let record = Record::default();
        Stage {
            cluster,
            dice,
            theatre,
            record,
            sells_everything: false,
            watchers: None,
            checked: 0,
            settled: BTreeSet::new(),
            plays: 0,
        }
    }

    /// New sessions, so that there is something to sell, and buyers of them.
    pub(crate) async fn begin(&mut self) -> Buyers {
        self.theatre = self.play(8, (30, 40), None).await;
        if self.sells_everything {
            let port = self.cluster.port(self.cluster.running()[0]).await;
            let mut goods = Goods::open(&port, self.plays).await;
            goods.through_gateway = self.cluster.gateway.is_some();
            self.theatre.goods = Some(goods);
        }
        let nodes: Vec<_> = self.cluster.running().into_iter().map(|id| (id, self.cluster.client(id))).collect();
        self.watchers = Some(Watchers::start(nodes, &self.theatre));
        let tills: Vec<Arc<dyn Till>> =
            (0..BUYERS).map(|_| Arc::new(self.cluster.anywhere(self.dice.next())) as Arc<dyn Till>).collect();
        let record = std::mem::take(&mut self.record);
        Buyers::start_at(tills, &self.theatre, record, &mut self.dice)
    }

    /// So many new sessions.
    pub(crate) async fn play(&mut self, sessions: usize, rows_seats: (u16, u16), ttl_ms: Option<u64>) -> Theatre {
        self.plays += 1;
        let (venue, title) = (format!("royal-{}", self.plays), format!("play-{}", self.plays));
        let nodes = self.cluster.running();
        let port = self.cluster.port(nodes[self.dice.below(nodes.len())]).await;
        Theatre::open_called(&port, &venue, &title, sessions, rows_seats, ttl_ms).await
    }

    /// One fault under load. Before it, during it as far as it says so, and after it buyers buy; then everything is checked.
    pub(crate) async fn story(&mut self, name: &str, fault: impl AsyncFnOnce(&mut Cluster, &mut Buyers, &mut Dice)) {
        println!("--- {name}");
        let began = Instant::now();
        let mut buyers = self.begin().await;
        buyers.orders(10).await;
        let struck = Instant::now();
        fault(&mut self.cluster, &mut buyers, &mut self.dice).await;
        self.cluster.links.heal();
        let healed = Instant::now();
        buyers.orders(1).await;
        let first = healed.elapsed();
        self.cluster.ready().await;
        let ready = healed.elapsed();
        buyers.orders(10).await;
        self.end(buyers).await;
        println!(
            "--- {name}: {:?}, {:?} of it the fault; an order {first:?}, ready {ready:?} after healing; longest gap {} ms",
            began.elapsed(),
            healed - struck,
            self.record.longest_gap_ms(struck),
        );
    }

    /// Buyers stop, and everything is checked.
    pub(crate) async fn end(&mut self, buyers: Buyers) {
        self.end_with(buyers, async |_| {}).await;
    }

    /// The same with carts that are to be checked besides those of the buyers.
    pub(crate) async fn end_with(&mut self, buyers: Buyers, add: impl AsyncFnOnce(&mut Stage)) {
        let stopping = Instant::now();
        self.record = buyers.stop().await;
        add(self).await;
        let stopped = stopping.elapsed();
        self.cluster.converged().await;
        let converged = stopping.elapsed();
        self.check().await;
        println!("stopped after {stopped:?}, converged after {converged:?}, checked after {:?}", stopping.elapsed());
    }

    /// What every node says is what buyers were told, and what watchers see at last.
    async fn check(&mut self) {
        let nodes = self.cluster.running();
        let first = self.dice.below(nodes.len());
        let carts = self.record.carts.len();
        for (number, &node) in nodes[first..].iter().chain(&nodes[..first]).enumerate() {
            let port = self.cluster.port(node).await;
            let from = if number == 0 { self.checked } else { self.checked.max(carts.saturating_sub(SAMPLE)) };
            self.record.check_carts(&port, from).await;
            self.record.check_maps(&port, &self.theatre).await;
            if let Some(goods) = &self.theatre.goods {
                goods.check(&port, &self.record).await;
            }
            self.record.check_histories(&port, &self.theatre).await;
            if number == 0 {
                self.record.check_repeats(&port).await;
            }
        }
        self.check_money(&nodes).await;
        self.checked = carts;
        self.check_audits(&nodes).await;
        self.check_watchers(&nodes).await;
    }

    /// Everything that was ever bought is there at every node.
    pub(crate) async fn check_everything(&mut self) {
        self.cluster.converged().await;
        let nodes = self.cluster.running();
        for &node in &nodes {
            self.record.check_carts(&self.cluster.port(node).await, 0).await;
        }
        self.check_audits(&nodes).await;
        let (carts, orders) = (self.record.carts.len(), self.record.orders());
        println!(
            "{carts} carts, {orders} orders, {} repeats; {} nodes; refusals {:?}",
            self.cluster.doors.repeated(),
            nodes.len(),
            self.record.refused
        );
    }

    /// The nodes' own audits find nothing wrong, and their sums are ours: each node's, or where not every node has everything,
    /// that of all together.
    async fn check_audits(&self, nodes: &[u64]) {
        for &node in nodes.iter().filter(|_| nodes.len() as u64 <= REPLICAS) {
            self.record.check_audit(&self.cluster.port(node).await).await;
        }
        let copies = REPLICAS.min(nodes.len() as u64);
        // The nodes count one after the other, and holds may run out meanwhile.
        eventually("as many seats are held in sessions as in carts", async || {
            let mut audits = Vec::new();
            for &node in nodes {
                audits.push(audit(&self.cluster.port(node).await).await);
            }
            let sum = |name: &str| audits.iter().map(|audit| audit[name].as_u64().expect("a sum")).sum::<u64>();
            assert_eq!(sum("orders"), copies * self.record.orders() as u64, "{audits:#?}");
            assert_eq!(sum("order_seats"), sum("sold_seats"), "{audits:#?}");
            (sum("held_seats") == sum("cart_seats")).then_some(())
        })
        .await;
    }

    async fn check_watchers(&mut self, nodes: &[u64]) {
        let Some(mut watchers) = self.watchers.take() else { return };
        let port = self.cluster.port(nodes[0]).await;
        for session in &self.theatre.sessions {
            let map = self.theatre.map(&port, session).await;
            watchers.see(nodes, session, &map).await;
        }
    }
}

/// Some time with a fault, during which and after which orders are made.
pub(crate) async fn lasts(buyers: &mut Buyers) {
    let (before, began) = (buyers.count(), Instant::now());
    sleep(LASTING).await;
    let meanwhile = buyers.count() - before;
    buyers.orders(ORDERS).await;
    println!(
        "{meanwhile} orders in {LASTING:?}, {ORDERS} more until {:?}; {:?}",
        began.elapsed(),
        buyers.refused_so_far()
    );
}

/// Leaders stay who they are although some do not reach others.
pub(crate) async fn nobody_flaps(cluster: &Cluster) {
    let before = cluster.terms().await;
    sleep(LASTING).await;
    assert_eq!(cluster.terms().await, before, "elections go on and on");
}

/// Asks one node for something it cannot do alone: it says so in time.
pub(crate) async fn refuses_in_time(cluster: &Cluster, node: u64, token: String) {
    let port = Port::connect(cluster.client(node), Encoding::Json).await;
    let frame = json!({"op": "cart.open", "rid": "alone", "deadline_ms": 1_000, "body": {"token": token}});
    let answer = port.exchange(frame, PATIENCE).await;
    assert!(
        matches!(answer, Answer::Fail(901..=904)),
        "node {node} is cut off and has to say so before the deadline: {answer:?}"
    );
}
