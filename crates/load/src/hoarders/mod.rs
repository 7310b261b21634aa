//! Networks that hoard one session, and honest buyers beside them. Each network has connections of its own, over which
//! the run says its address as a proxy does.

mod address;
mod buyers;
mod hoarder;
mod ledger;
mod school;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use boxoffice_client::{CartId, Client, ClientConfig, Entity, Id, Portion, SessionAudit, Timestamp};
use boxoffice_shard::ring::shard_of;
use boxoffice_workload::house::House;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{sync::watch, task::JoinHandle, time::sleep_until};

use self::{
    address::NetworkAddress,
    buyers::{Bought, Wish},
    hoarder::Hoarder,
    ledger::Ledger,
};
use crate::{
    LoadError, RunConfig,
    clock::now_ms,
    connection_pool::ConnectionPool,
    node_controller::NodeController,
    progress::Progress,
    report::{Came, HoardMinute, Hoarders},
    scenario::{HoardKind, HoarderRun, HoardersSpec},
};

/// A minute and a window of the verdict, in milliseconds of the evening.
const MINUTE_MS: u64 = 60_000;
const WINDOW_MS: u64 = 300_000;
/// An honest buyer comes this often. Every third one wants places.
const HONEST_EVERY_MS: u64 = 5_000;
/// How long honest buyers take to pay, in milliseconds.
const HONEST_PAYS_MS: std::ops::RangeInclusive<u64> = 5_000..=55_000;
/// Nobody honest comes in the last minute, because there would be no time to pay.
const LAST_MS: u64 = 60_000;
/// The office and the burst: buyers, how many come each minute, and how long they take to pay.
const OFFICE: u64 = 200;
const OFFICE_A_MINUTE: u64 = 40;
const OFFICE_PAYS_MS: std::ops::RangeInclusive<u64> = 30_000..=180_000;
/// The carts of the family.
const FAMILY: [u16; 4] = [2, 2, 3, 3];
/// The family pays this long before its carts end.
const FAMILY_EARLY_MS: u64 = 30_000;
/// When the session's leader is killed, how long it is off, and when all nodes are killed.
const KILL_MS: u64 = 420_000;
const OFF_MS: u64 = 5_000;
const RESTART_MS: u64 = 600_000;
/// The percentage of honest buyers that must buy in each window, and of the office.
const HONEST_PERCENT: u32 = 95;
const OFFICE_PERCENT: u32 = 98;
/// What is bought in the end is paid or given back within this time, in real milliseconds.
const SETTLE_MS: u64 = 3_000;
/// How long an audit may take.
const AUDIT_LIMIT: Duration = Duration::from_secs(60);
/// A grant that ends sooner than this after an audit is not looked for in it, in real milliseconds.
const ENDS_SOON_MS: u64 = 1_500;

/// What hoarders and buyers share.
pub(crate) struct Evening {
    spec: HoardersSpec,
    addresses: Vec<String>,
    /// A client of the operator.
    operator: Client,
    session: Id,
    rows: u16,
    width: u16,
    begun: Instant,
    ledger: Ledger,
}

impl Evening {
    /// A client of a network that begins with this node.
    async fn connect(&self, network: NetworkAddress, node: usize) -> Result<Client, String> {
        let nodes = self.addresses.len();
        let addresses: Vec<String> = (0..nodes).map(|step| self.addresses[(node + step) % nodes].clone()).collect();
        let config = ClientConfig {
            forwarded_for: Some(network.address()),
            deadline: Duration::from_secs(5),
            ..ClientConfig::new(addresses)
        };
        Client::connect(config).await.map_err(|error| error.to_string())
    }

    fn entity(&self) -> Entity {
        Entity::Session(self.session.clone())
    }

    async fn sleep_until(&self, ms: u64) {
        sleep_until((self.begun + Duration::from_millis(self.spec.ms(ms))).into()).await;
    }

    /// Milliseconds of the evening, which may be faster than real ones.
    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64 * u64::from(self.spec.speed)
    }
}

/// A buyer that came at this millisecond of the evening.
type Buying = (u64, JoinHandle<Result<Bought, String>>);

/// Runs the evening.
pub(crate) async fn run(
    config: &RunConfig,
    (connections, house, places_of_area): (&Arc<ConnectionPool>, &House, u32),
    spec: &HoardersSpec,
    seed: u64,
    progress: &Progress,
) -> Result<Hoarders, LoadError> {
    let evening = Arc::new(Evening {
        spec: spec.clone(),
        addresses: connections.addresses(),
        operator: connections.client().clone(),
        session: house.session_id(0),
        rows: house.rows,
        width: house.seats,
        begun: Instant::now(),
        ledger: Ledger::default(),
    });
    let random = SmallRng::seed_from_u64(seed);
    let report = Hoarders {
        run: serde_json::to_value(spec.run).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default(),
        networks: spec.hoarding(),
        house: (u32::from(house.rows) * u32::from(house.seats), places_of_area),
        ..Hoarders::default()
    };
    let mut run = Run { evening, random, report, bought: Vec::new() };
    progress.begin("hoarders", spec.minutes.into());
    let killing = match (&config.node_controller, spec.kills) {
        (Some(controller), true) => {
            let nodes = connections.connect_each_node().await?;
            let places = connections.cluster_status().await?.places.len();
            let data_shards = u16::try_from(places.saturating_sub(1)).unwrap_or(u16::MAX);
            Some(tokio::spawn(kill(Arc::clone(&run.evening), Arc::clone(controller), nodes, data_shards)))
        }
        _ => None,
    };
    run.execute(progress).await;
    if let Some(killing) = killing {
        match killing.await {
            Ok(Ok(told)) => run.report.told.extend(told),
            Ok(Err(problem)) => run.report.problems.push(problem),
            Err(_) => return Err(LoadError::Internal("the task that kills nodes panicked")),
        }
    }
    run.check_sales(connections).await?;
    Ok(run.report)
}

struct Run {
    evening: Arc<Evening>,
    random: SmallRng,
    report: Hoarders,
    bought: Vec<Bought>,
}

impl Run {
    async fn execute(&mut self, progress: &Progress) {
        let evening = Arc::clone(&self.evening);
        let spec = &evening.spec;
        let (stop, stops) = watch::channel(false);
        let hoarding: Vec<JoinHandle<()>> = (0..spec.hoarding())
            .map(|number| {
                let hoarder =
                    Hoarder::new(number, kind_of(spec.kind, number), Arc::clone(&evening), self.random.random());
                tokio::spawn(hoarder.hoard(stops.clone()))
            })
            .collect();
        let school = (spec.run == HoarderRun::School).then(|| tokio::spawn(school::hold(Arc::clone(&evening))));
        let (mut honest, mut others): (Vec<Buying>, Vec<Buying>) = (Vec::new(), Vec::new());
        let end_ms = u64::from(spec.minutes) * MINUTE_MS;
        for second in 0..end_ms / 1_000 {
            let at_ms = second * 1_000;
            evening.sleep_until(at_ms).await;
            if at_ms % HONEST_EVERY_MS == 0 && at_ms + LAST_MS < end_ms {
                let number = (at_ms / HONEST_EVERY_MS) as u32;
                let wish = if number % 3 == 2 { Wish::Places(2) } else { Wish::Neighbors(2) };
                honest.push((at_ms, self.buy(NetworkAddress::honest(number), wish, HONEST_PAYS_MS)));
            }
            self.others_come(at_ms, &mut others);
            if at_ms > 0 && at_ms % MINUTE_MS == 0 {
                self.look((at_ms / MINUTE_MS) as u32).await;
                progress.add(1);
            }
        }
        evening.sleep_until(end_ms).await;
        self.look(spec.minutes).await;
        progress.add(1);
        stop.send_replace(true);
        for hoarder in hoarding {
            if hoarder.await.is_err() {
                self.report.problems.push("a hoarder's task panicked".into());
            }
        }
        for (at_ms, buying) in honest {
            let window = (at_ms / WINDOW_MS) as usize;
            self.report.windows.resize(self.report.windows.len().max(window + 1), Came::default());
            let has = self.outcome("honest", buying).await;
            let window = &mut self.report.windows[window];
            window.came += 1;
            window.bought += u32::from(has);
        }
        for (_, buying) in others {
            let has = self.outcome(&self.report.run.clone(), buying).await;
            let came = self.report.others.get_or_insert_default();
            came.came += 1;
            came.bought += u32::from(has);
        }
        if let Some(school) = school {
            match school.await {
                Ok(Ok((told, bought))) => {
                    self.report.told.push(told);
                    self.bought.extend(bought);
                }
                Ok(Err(problem)) => self.report.problems.push(format!("the school: {problem}")),
                Err(_) => self.report.problems.push("the school's task panicked".into()),
            }
        }
        let (granted, refused) = evening.ledger.asks();
        (self.report.granted, self.report.refused) = (granted, refused);
        self.judge();
    }

    /// The buyers besides honest ones that come at this time.
    fn others_come(&mut self, at_ms: u64, others: &mut Vec<Buying>) {
        let office = NetworkAddress::office();
        match self.evening.spec.run {
            HoarderRun::Office | HoarderRun::OfficeAttacked => {
                while (others.len() as u64) < OFFICE && at_ms * OFFICE_A_MINUTE / MINUTE_MS > others.len() as u64 {
                    others.push((at_ms, self.buy(office, Wish::Neighbors(2), OFFICE_PAYS_MS)));
                }
            }
            HoarderRun::Burst => {
                while (others.len() as u64) < OFFICE && at_ms * OFFICE / MINUTE_MS > others.len() as u64 {
                    others.push((at_ms, self.buy(office, Wish::Neighbors(2), OFFICE_PAYS_MS)));
                }
            }
            HoarderRun::Family if at_ms == 0 => {
                let pays_ms = self.evening.spec.life_ms() * u64::from(self.evening.spec.speed) - FAMILY_EARLY_MS;
                for seats in FAMILY {
                    others.push((at_ms, self.buy(office, Wish::Neighbors(seats), pays_ms..=pays_ms)));
                }
            }
            HoarderRun::Family | HoarderRun::Attack | HoarderRun::Hundred | HoarderRun::School => {}
        }
    }

    /// Somebody of this network comes, holds, and pays some time later.
    fn buy(
        &mut self,
        network: NetworkAddress,
        wish: Wish,
        pays_ms: std::ops::RangeInclusive<u64>,
    ) -> JoinHandle<Result<Bought, String>> {
        let after = Duration::from_millis(self.evening.spec.ms(self.random.random_range(pays_ms)));
        let node = self.random.random_range(0..self.evening.addresses.len());
        tokio::spawn(buyers::buy(Arc::clone(&self.evening), network, node, wish, after))
    }

    async fn outcome(&mut self, who: &str, buying: JoinHandle<Result<Bought, String>>) -> bool {
        match buying.await {
            Ok(Ok(bought)) => {
                self.bought.push(bought);
                true
            }
            Ok(Err(why)) => {
                *self.report.not_bought.entry(format!("{who}: {why}")).or_default() += 1;
                false
            }
            Err(_) => {
                self.report.problems.push("a buyer's task panicked".into());
                false
            }
        }
    }

    /// Counts what each network holds in the session's audit, and compares that with the grants.
    async fn look(&mut self, minute: u32) {
        let before = self.evening.ledger.sure();
        // All nodes may be off for some seconds.
        let asked = self.evening.operator.with_deadline(AUDIT_LIMIT).audit_session(&self.evening.session).await;
        let audit = match asked {
            Ok(reply) => reply.value,
            Err(error) => {
                return self.report.problems.push(format!("minute {minute}: no audit of the session: {error}"));
            }
        };
        let mut seen =
            HoardMinute { minute, believed: self.evening.ledger.believed(now_ms()), ..HoardMinute::default() };
        let held = held_by_cart(&audit);
        let mut seats_by_network = std::collections::BTreeMap::<u32, u32>::new();
        for (cart, (seats, places)) in &held {
            if let Some(network) = self.evening.ledger.network(*cart) {
                seen.seats += seats;
                seen.places += places;
                *seats_by_network.entry(network).or_default() += seats;
            }
        }
        seen.most = seats_by_network.values().copied().max().unwrap_or(0);
        let lives = Timestamp(now_ms() + ENDS_SOON_MS);
        let sure = self.evening.ledger.sure_since(&before, lives);
        let lost = sure.iter().filter(|(cart, has)| held.get(cart).map_or(0, |(seats, places)| seats + places) != *has);
        let lost: Vec<String> = lost.map(|(cart, has)| format!("cart {cart} was granted {has}")).collect();
        if let Some(first) = lost.first() {
            let count = lost.len();
            self.report.problems.push(format!("minute {minute}: the audit has {count} carts otherwise: {first}"));
        }
        self.report.problems.extend(audit.violations.iter().map(|wrong| format!("minute {minute}: {wrong}")));
        self.report.minutes.push(seen);
    }

    fn judge(&mut self) {
        let spec = &self.evening.spec;
        let report = &mut self.report;
        let mut problems = Vec::new();
        for (number, window) in report.windows.iter().enumerate() {
            // The honest buyers beside an office that is attacked have the same rule.
            if !window.has(HONEST_PERCENT) {
                let Came { came, bought } = *window;
                problems.push(format!("window {}: {bought} of {came} honest buyers bought", number + 1));
            }
        }
        match (spec.run, report.others) {
            (HoarderRun::Office, Some(came)) if !came.has(OFFICE_PERCENT) => {
                problems.push(format!("{} of {} buyers of the office bought", came.bought, came.came));
            }
            (HoarderRun::Family, Some(came)) if came.bought < came.came => {
                problems.push(format!("{} of {} carts of the family bought", came.bought, came.came));
            }
            _ => {}
        }
        let (seats, places) = report.house;
        let mut part = |minute: u32, part: u32| {
            let Some(it) = report.at(minute) else { return };
            for (what, has, whole) in [("seats", it.seats, seats), ("places", it.places, places)] {
                if has * part > whole {
                    problems
                        .push(format!("minute {minute}: hoarders hold {has} of {whole} {what}, more than 1 in {part}"));
                }
            }
        };
        if matches!(spec.run, HoarderRun::Attack) {
            part(5, 10);
            (16..=spec.minutes).for_each(|minute| part(minute, 20));
        }
        self.report.problems.extend(problems);
    }

    /// Compares what buyers were told with the session, through each node.
    async fn check_sales(&mut self, connections: &ConnectionPool) -> Result<(), LoadError> {
        tokio::time::sleep(Duration::from_millis(SETTLE_MS)).await;
        for (number, node) in connections.connect_each_node().await?.iter().enumerate() {
            let audit = node.audit_session(&self.evening.session).await;
            let audit = audit.map_err(|error| LoadError::Query { what: "the session's audit", error })?.value;
            let sold: u32 = audit.sales.iter().map(|sale| quantity(&sale.portion)).sum();
            let told: u32 = self.bought.iter().map(|bought| bought.quantity).sum();
            let carts: std::collections::BTreeSet<CartId> = audit.sales.iter().map(|sale| sale.hold.cart).collect();
            let lost = self.bought.iter().filter(|bought| !carts.contains(&bought.cart)).count();
            if lost > 0 || sold != told {
                let what = format!(
                    "node {}: {sold} are sold, buyers were told of {told}, and {lost} carts are lost",
                    number + 1
                );
                self.report.problems.push(what);
            }
        }
        Ok(())
    }
}

fn quantity(portion: &Portion) -> u32 {
    match portion {
        Portion::Seats(seats) => seats.as_slice().len() as u32,
        Portion::Places { quantity, .. } => *quantity,
        Portion::Units(_) | Portion::Slot { .. } | Portion::Quota { .. } | Portion::Uses(_) => 0,
    }
}

/// The seats and places of each cart in the session.
fn held_by_cart(audit: &SessionAudit) -> std::collections::BTreeMap<CartId, (u32, u32)> {
    let mut all = std::collections::BTreeMap::<CartId, (u32, u32)>::new();
    for hold in &audit.holds {
        let (seats, places) = all.entry(hold.hold.cart).or_default();
        match &hold.portion {
            Portion::Seats(of) => *seats += of.as_slice().len() as u32,
            other => *places += quantity(other),
        }
    }
    all
}

fn kind_of(kind: HoardKind, number: u32) -> HoardKind {
    let kinds = [HoardKind::Greedy, HoardKind::Scattered, HoardKind::Level, HoardKind::Again, HoardKind::Growth];
    if kind == HoardKind::Mixed { kinds[number as usize % kinds.len()] } else { kind }
}

/// Kills the session's leader, and later all nodes at once. Returns what happened.
async fn kill(
    evening: Arc<Evening>,
    controller: Arc<dyn NodeController>,
    nodes: Vec<Client>,
    data_shards: u16,
) -> Result<Vec<String>, String> {
    let mut told = Vec::new();
    let end_ms = u64::from(evening.spec.minutes) * MINUTE_MS;
    if KILL_MS + OFF_MS < end_ms {
        evening.sleep_until(KILL_MS).await;
        let shard = u32::from(shard_of(evening.entity().hash_prefix(), data_shards));
        let mut leader = 0;
        for (number, node) in nodes.iter().enumerate() {
            let status = node.with_deadline(Duration::from_secs(2)).status().await;
            let status = status.map_err(|error| format!("node {} says not what it leads: {error}", number + 1))?;
            if status.value.shards.iter().any(|it| it.shard == shard && it.role == "leader") {
                leader = number;
            }
        }
        let killing = Arc::clone(&controller);
        blocking(move || killing.kill(leader)).await?;
        tokio::time::sleep(Duration::from_millis(evening.spec.ms(OFF_MS))).await;
        let starting = Arc::clone(&controller);
        blocking(move || starting.start(leader)).await?;
        told.push(format!("node {}, which led the session, was killed at minute 7", leader + 1));
    }
    if RESTART_MS < end_ms {
        evening.sleep_until(RESTART_MS).await;
        let from = Instant::now();
        blocking(move || controller.restart_all()).await?;
        told.push(format!(
            "all nodes were killed at minute 10, and served {:.1} s later",
            from.elapsed().as_secs_f64()
        ));
    }
    Ok(told)
}

async fn blocking(work: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("the node controller panicked".into()))
}
