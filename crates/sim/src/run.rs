//! One run. A fixture is set up and sells under faults. Then everything is healed and checked.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use rand::rngs::SmallRng;
use tokio::{
    runtime::Builder,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing_mutex::parkinglot::Mutex;

use crate::{
    buyer::{Buyer, CartTraces},
    client_stub::ClientStub,
    cluster, cuts,
    faults::{self, FaultStats},
    fixture::Fixture,
    frame_capture::{self, Frames},
    gateway::{SimGateway, Webhooks},
    judge::{Seen, judge},
    leftovers,
    machine::Machine,
    network::SimNetwork,
    operator::operate,
    panics, remembered,
    rng::rng,
    settings::Settings,
    spectator::Spectator,
    staff::{self, Staff},
    stall::StallWatch,
    swarm::{Fault, Swarm},
    tally::Tally,
    trace::Trace,
    upgrade,
    wall_clocks::{Distances, WallClocks},
};

/// The limit for the last carts of buyers after healing, in milliseconds.
const LAST_CARTS_MS: u64 = 600_000;
/// Buyers go on buying for this long after healing, in milliseconds.
const HEALED_MS: u64 = 30_000;
/// A process with a failed disk ends within this time after healing, in milliseconds.
const FAILING_MS: u64 = 1_000;
/// How long a change of the slowed disk takes on average. A sync has two.
const SLOW_CHANGE: Duration = Duration::from_millis(300);
/// The node with that disk leads nothing after this time, in milliseconds. It notices after 2.5 s and hands over within a second.
const SLOW_LEADS_MS: u64 = 10_000;
/// More nodes are slow and find no more bugs.
const NODES_MAX: u64 = 5;
/// Machines that may become members later.
const SPARES: u64 = 3;
/// The limit for the operator's last work after healing, in milliseconds.
const OPERATION_MS: u64 = 600_000;
/// Spectators, in both encodings.
const SPECTATORS: u64 = 4;
/// The limit for everything besides the minutes under faults, in milliseconds.
const ALL_MS: u64 = 3 * 3_600_000;
/// The interval at which a product is put again, in milliseconds.
const RESTOCK_MS: u64 = 12_000;
/// A session is opened with every fifth product.
const SESSIONS: u64 = 5;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub settings: Settings,
    /// The hash of its trace.
    pub hash: u64,
    /// Its length in simulated milliseconds.
    pub simulated_ms: u64,
    /// Injected faults by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Granted changes.
    pub changes: u64,
    /// Answered reads.
    pub reads: u64,
    /// States that watchers have seen.
    pub sights: u64,
    /// Attempts with an unknown outcome.
    pub unknown: u64,
    /// Attempts that were turned away.
    pub turned_away: u64,
    pub tally: Tally,
    /// The longest time until a node with a changed bit was whole again, in milliseconds, and the place of the bit.
    pub longest_repair: (u64, String),
    /// The state at the end.
    pub seen: Seen,
    /// Violated promises.
    pub violations: Vec<String>,
}

/// Runs a simulation on this thread.
///
/// # Errors
/// The settings cannot be simulated.
///
/// # Panics
/// If a runtime cannot be built.
pub fn run(settings: Settings) -> Result<Report, String> {
    let settings = settings.drawn();
    if !(1..=NODES_MAX).contains(&settings.nodes) {
        return Err(format!("{} nodes cannot be simulated; 1 to {NODES_MAX} can", settings.nodes));
    }
    if settings.carts == 0 || settings.minutes == 0 || settings.shards == 0 {
        return Err("a run has at least one cart, one minute and one shard".into());
    }
    panics::watch();
    #[cfg(debug_assertions)]
    boxoffice_core::version::rehearse();
    // The nodes read what they have written, of each other as well.
    #[cfg(debug_assertions)]
    boxoffice_core::stored::own::only(true);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let longest = Duration::from_secs(60 * settings.minutes) + Duration::from_millis(ALL_MS);
    let stall = StallWatch::start(settings.replay());
    let all = AssertUnwindSafe(|| {
        runtime.block_on(async {
            tokio::select! {
                biased;
                report = timeout(longest, simulate(settings)) => report,
                never = stall.beat() => match never {},
            }
        })
    });
    let mut report = match catch_unwind(all) {
        Ok(Ok(report)) => report,
        Ok(Err(_)) => Report::broken(settings, "the run came to no end: a task waits for an answer for ever"),
        Err(_) => Report::broken(settings, "the run could not go on"),
    };
    drop(runtime);
    #[cfg(debug_assertions)]
    boxoffice_core::stored::own::only(false);
    drop(stall);
    report.violations.extend(panics::seen().into_iter().map(|panic| format!("panic: {panic}")));
    Ok(report)
}

impl Report {
    /// The report of a run that could not be finished.
    fn broken(settings: Settings, why: &str) -> Report {
        Report {
            settings,
            hash: 0,
            simulated_ms: 60_000 * settings.minutes,
            faults: BTreeMap::new(),
            changes: 0,
            reads: 0,
            sights: 0,
            unknown: 0,
            turned_away: 0,
            tally: Tally::default(),
            longest_repair: Default::default(),
            seen: Seen::default(),
            violations: vec![why.into()],
        }
    }
}

/// The parts of a run that its tasks share.
struct Run {
    settings: Settings,
    trace: Arc<Trace>,
    stats: Arc<Mutex<FaultStats>>,
    network: SimNetwork,
    gateway: Arc<SimGateway>,
    client: Arc<ClientStub>,
    fixture: Arc<Fixture>,
    cart_traces: Arc<Mutex<CartTraces>>,
    rng: SmallRng,
}

/// Tasks, and the sender that stops them.
type Stoppable = (watch::Sender<bool>, Vec<JoinHandle<()>>);

async fn simulate(settings: Settings) -> Report {
    let trace = Arc::new(Trace::new(settings.trace));
    let network = SimNetwork::new(&trace, rng(settings.seed, "ether", 0));
    faults::mend(&network);
    let carrying = tokio::spawn(network.clone().run());
    let (wall_clocks, gateway) = (WallClocks::new(), SimGateway::new(&settings, &trace));
    let machine = |number| {
        let terms = (settings.rules(), settings.overload());
        Arc::new(Machine::new(number, &settings, (&trace, &wall_clocks), &network, &gateway, terms))
    };
    let swarm = Swarm::draw(&settings);
    let nodes = settings.nodes + if swarm.is_operated { SPARES } else { 0 };
    let machines: Vec<Arc<Machine>> = (1..=nodes).map(machine).collect();
    let client =
        Arc::new(ClientStub::new(machines, (Arc::clone(&trace), network.clone()), wall_clocks, settings.hold_ttl_ms));
    let webhooks: Arc<dyn Webhooks> = Arc::clone(&client) as _;
    gateway.set_webhooks(Arc::downgrade(&webhooks));
    let mut run = Run {
        settings,
        trace,
        stats: Arc::default(),
        network,
        gateway,
        client,
        fixture: Arc::new(Fixture::new(settings.hold_ttl_ms)),
        cart_traces: Arc::default(),
        rng: rng(settings.seed, "run", 0),
    };
    let seen = run.execute(swarm, nodes).await;
    carrying.abort();
    run.end(seen).await
}

impl Run {
    /// Runs everything up to the last check. Returns nothing seen if a violation ended it before.
    async fn execute(&mut self, swarm: Swarm, nodes: u64) -> Seen {
        cluster::assemble(&self.client, self.settings.nodes as usize, &self.stats, &mut self.rng).await;
        self.fixture.open(&self.client, &mut self.rng).await;
        self.trace.note(&format!("{swarm:?}"));
        let (stop_operator, operator_stops) = watch::channel(false);
        let operating = swarm.is_operated.then(|| {
            let (client, stats) = (Arc::clone(&self.client), Arc::clone(&self.stats));
            tokio::spawn(operate(client, self.network.clone(), stats, self.settings, operator_stops))
        });
        let (stop_upgrade, upgrade_stops) = watch::channel(false);
        let upgrading = swarm.upgrades.then(|| {
            let (client, stats) = (Arc::clone(&self.client), Arc::clone(&self.stats));
            tokio::spawn(upgrade::upgrade(client, stats, self.settings, upgrade_stops))
        });
        let (stop_backups, backups_stop) = watch::channel(false);
        let (backed_up, kept) = (Arc::clone(&self.client), Arc::clone(&self.stats));
        let backing_up = tokio::spawn(cuts::back_up(backed_up, kept, self.settings, backups_stop));
        let goes_on = swarm.goes_on;
        let injecting = self.inject_faults(swarm, nodes);
        let (stop, mut buying) = self.start_buyers();
        let (stop_looking, looking) = self.start_spectators();
        buying.push(self.start_restocking(stop.subscribe()));
        let staff = Staff::new(&self.settings, Arc::clone(&self.client), Arc::clone(&self.fixture));
        let at_work = tokio::spawn(staff.work(stop.subscribe()));

        self.watch_distances().await;
        if self.is_over() {
            return Seen::default();
        }
        for fault in injecting {
            fault.abort();
            // The task has ended or is canceled.
            let _ = fault.await;
        }
        stop_upgrade.send_replace(true);
        self.heal(&stop_operator, goes_on).await;
        if self.is_over() {
            return Seen::default();
        }
        if let Some(operating) = operating {
            let ended = timeout(Duration::from_millis(OPERATION_MS), operating).await;
            if !matches!(ended, Ok(Ok(()))) {
                cluster::trace_state(&self.client, &mut self.rng).await;
                let what = format!("the operator's work came to no end after everything was healed: {ended:?}");
                self.stats.lock().violations.push(what);
            }
        }
        if let Some(upgrading) = upgrading {
            // It ends at once, or with what it has begun.
            let _ = timeout(Duration::from_millis(OPERATION_MS), upgrading).await;
        }
        for machine in &self.client.members() {
            cluster::recovered(machine, &self.stats).await;
        }
        upgrade::check(&self.client, &self.stats).await;
        // A cluster that does not serve cannot be checked. Its violation is recorded already.
        let serves = |machine: &Arc<Machine>| machine.handle().is_some_and(|handle| handle.ready().is_ok());
        let all_serve = self.client.members().iter().all(serves);
        if all_serve {
            self.check_after_healing().await;
        }
        stop.send_replace(true);
        self.finish(buying, all_serve, "a buyer was not served after everything was healed").await;
        let blocked = match timeout(Duration::from_millis(LAST_CARTS_MS), at_work).await {
            Ok(Ok(blocked)) => blocked,
            ended => {
                if all_serve {
                    self.violation(format!("the staff was not served after everything was healed: {ended:?}"));
                }
                staff::Blocked::new()
            }
        };
        stop_backups.send_replace(true);
        match timeout(Duration::from_millis(OPERATION_MS), backing_up).await {
            Ok(Ok(cuts)) => self.client.oracle.lock().tally.add("cuts through all shards restored", cuts),
            ended => self.violation(format!("a backup came to no end: {ended:?}")),
        }
        stop_looking.send_replace(true);
        self.finish(looking, all_serve, "a spectator came to no end").await;
        if !all_serve {
            return Seen::default();
        }
        let has_jumps = self.stats.lock().faults.contains_key(&Fault::ClockJump);
        let walls_are_right = !has_jumps && !self.client.wall_clocks.were_set();
        let cart_traces = std::mem::take(&mut *self.cart_traces.lock());
        let (client, fixture) = (&self.client, &self.fixture);
        let seen = judge(client, (fixture, &self.gateway), &cart_traces, walls_are_right, &mut self.rng).await;
        staff::judge(client, fixture, &blocked, &mut self.rng).await;
        let had_outages = client.wall_clocks.off_ms(self.trace.now_ms()) > 0;
        let walls_were_right = !has_jumps && !had_outages && client.wall_clocks.were_never_set();
        remembered::judge(client, fixture, walls_were_right, &mut rng(self.settings.seed, "remembered", 0)).await;
        self.verify_directories().await;
        seen
    }

    /// Ends every node and verifies what it leaves on its disk.
    async fn verify_directories(&self) {
        let members = self.client.members();
        members.iter().for_each(|machine| machine.kill());
        // Actors end in their own turn.
        sleep(Duration::from_millis(1)).await;
        for machine in members {
            for found in machine.verify() {
                self.violation(format!("the data directory of node {}: {found}", machine.number));
            }
        }
    }

    fn violation(&self, what: String) {
        self.client.oracle.lock().violation(what);
    }

    /// Whether a violation ends the run at once.
    fn is_over(&self) -> bool {
        let is_broken = || {
            panics::any()
                || !self.stats.lock().violations.is_empty()
                || !self.client.oracle.lock().violations.is_empty()
        };
        self.settings.stop_at_first_violation && is_broken()
    }

    fn inject_faults(&self, swarm: Swarm, nodes: u64) -> Vec<JoinHandle<()>> {
        let seed = self.settings.seed;
        let shared = || (Arc::clone(&self.client), Arc::clone(&self.stats));
        let mut injecting = Vec::new();
        if !swarm.of_machines.is_empty() {
            for machine in &self.client.machines {
                let (client, stats) = shared();
                let world = (client, Arc::clone(&self.fixture), self.network.clone());
                injecting.push(tokio::spawn(faults::inject(Arc::clone(machine), swarm.clone(), seed, world, stats)));
            }
        }
        if swarm.has_blackouts {
            let (client, stats) = shared();
            injecting.push(tokio::spawn(faults::inject_all(client, swarm.clone(), seed, stats)));
        }
        if self.settings.cuts_at_answers {
            let (client, stats) = shared();
            injecting.push(tokio::spawn(faults::cut_at_answers(client, seed, stats)));
        }
        if swarm.has_outages {
            let (client, stats) = shared();
            injecting.push(tokio::spawn(faults::inject_outages(client, seed, stats)));
        }
        if swarm.sets_clocks {
            let (client, stats) = shared();
            injecting.push(tokio::spawn(faults::set_clocks(client, swarm.clone(), seed, stats)));
        }
        if !swarm.of_links.is_empty() {
            let (trace, stats) = (Arc::clone(&self.trace), Arc::clone(&self.stats));
            let inject = faults::inject_link_faults(self.network.clone(), swarm, (seed, nodes), trace, stats);
            injecting.push(tokio::spawn(inject));
        }
        injecting
    }

    fn start_buyers(&self) -> Stoppable {
        let (stop, stops) = watch::channel(false);
        let buyer = |number| {
            let (client, fixture) = (Arc::clone(&self.client), Arc::clone(&self.fixture));
            let buyer = Buyer::new(number, &self.settings, client, fixture, Arc::clone(&self.cart_traces));
            tokio::spawn(buyer.buy(stops.clone()))
        };
        let buying = (0..self.settings.carts).map(buyer).collect();
        (stop, buying)
    }

    fn start_spectators(&self) -> Stoppable {
        let (stop, stops) = watch::channel(false);
        let spectator = |number| {
            let (client, fixture) = (Arc::clone(&self.client), Arc::clone(&self.fixture));
            tokio::spawn(Spectator::new(number, &self.settings, client, fixture).run(stops.clone()))
        };
        let looking = (0..SPECTATORS).map(spectator).collect();
        (stop, looking)
    }

    /// Puts products again and opens sessions.
    fn start_restocking(&self, stops: watch::Receiver<bool>) -> JoinHandle<()> {
        let (client, fixture, seed) = (Arc::clone(&self.client), Arc::clone(&self.fixture), self.settings.seed);
        tokio::spawn(async move {
            let mut rng = rng(seed, "town", 0);
            for round in 1.. {
                if *stops.borrow() {
                    break;
                }
                sleep(Duration::from_millis(RESTOCK_MS)).await;
                if round % SESSIONS == 0 {
                    fixture.next_session(&client, &mut rng).await;
                }
                let product = fixture.product(&mut rng);
                fixture.restock(&client, &mut rng, product).await;
            }
        })
    }

    /// Lets the faults happen. Meanwhile each shard's distance from true time is checked while all clocks are right.
    async fn watch_distances(&self) {
        let mut distances = Distances::default();
        for _ in 0..60 * self.settings.minutes {
            sleep(Duration::from_secs(1)).await;
            let has_jumps = self.stats.lock().faults.contains_key(&Fault::ClockJump);
            if self.client.wall_clocks.were_never_set() && !has_jumps {
                let statuses = self.client.machines.iter().filter_map(|machine| Some(machine.handle()?.status()));
                let wrong: Vec<_> = statuses.flat_map(|status| distances.look(&status.shards)).collect();
                wrong.into_iter().for_each(|wrong| self.violation(wrong));
            }
            if self.is_over() {
                return;
            }
        }
    }

    async fn heal(&self, stop_operator: &watch::Sender<bool>, goes_on: bool) {
        self.trace.note("everything is healed");
        faults::mend(&self.network);
        self.gateway.heal();
        stop_operator.send_replace(true);
        let machines = &self.client.machines;
        machines.iter().for_each(|machine| faults::heal(machine));
        // A process with a due kill has lost messages already, so it must not go on.
        machines.iter().filter(|machine| self.network.cancel_kill(machine.number)).for_each(|machine| machine.kill());
        // A process that cannot go on reports it by then.
        sleep(Duration::from_millis(FAILING_MS)).await;
        for machine in machines {
            faults::revive(machine, goes_on, &self.stats);
        }
    }

    async fn check_after_healing(&mut self) {
        cluster::wait_until_placed(&self.client, &self.stats, &mut self.rng).await;
        // It is set once.
        let _ = self.client.healed_ms.set(self.client.trace.now_ms());
        sleep(Duration::from_millis(leftovers::OVERDUE_MS)).await;
        let (client, grace_ms) = (&self.client, self.settings.rules().grace_ms);
        let wrong = leftovers::overdue(client, &self.fixture, &self.cart_traces, grace_ms, &mut self.rng).await;
        wrong.into_iter().for_each(|wrong| self.violation(wrong));
        sleep(Duration::from_millis(HEALED_MS)).await;
        self.slow_a_leader().await;
    }

    /// Slows the disk of the node that leads most while nothing else is wrong. It must lead nothing soon. During the trouble nobody
    /// can say that another node could have led, so this is no check there.
    async fn slow_a_leader(&self) {
        let members = self.client.members();
        // A node with a wrong clock leads nothing.
        let has_jumps = self.stats.lock().faults.contains_key(&Fault::ClockJump);
        if members.len() < 3 || has_jumps || self.client.wall_clocks.were_set() {
            return;
        }
        let leads = |machine: &Arc<Machine>| {
            let shards = machine.handle().map_or(Vec::new(), |handle| handle.status().shards);
            shards.iter().filter(|shard| shard.role == "leader").count()
        };
        let Some(slow) = members.iter().max_by_key(|machine| (leads(machine), machine.number)) else { return };
        self.trace.note(&format!("node {} leads {}, and its disk gets slow", slow.number, leads(slow)));
        slow.disk().set_pace(SLOW_CHANGE);
        let until_ms = self.trace.now_ms() + SLOW_LEADS_MS;
        while leads(slow) > 0 && self.trace.now_ms() < until_ms {
            sleep(Duration::from_millis(250)).await;
        }
        let left = leads(slow);
        if left > 0 {
            self.violation(format!(
                "node {} leads {left} shards with a slow disk, and others have quick ones",
                slow.number
            ));
        }
        slow.disk().set_pace(Duration::ZERO);
    }

    /// Waits for tasks to end, or aborts them if the cluster does not serve.
    async fn finish(&self, tasks: Vec<JoinHandle<()>>, all_serve: bool, otherwise: &str) {
        for task in tasks {
            if !all_serve {
                task.abort();
                continue;
            }
            let ended = timeout(Duration::from_millis(LAST_CARTS_MS), task).await;
            if !matches!(ended, Ok(Ok(()))) {
                self.violation(format!("{otherwise}: {ended:?}"));
            }
        }
    }

    /// Ends every process and reports the run.
    async fn end(self, seen: Seen) -> Report {
        let Run { settings, trace, stats, gateway, client, .. } = self;
        for machine in &client.machines {
            machine.kill();
        }
        // Actors end in their own turn.
        sleep(Duration::from_millis(1)).await;
        let (oracle, stats) = (client.oracle.lock(), stats.lock());
        let mut tally = oracle.tally.clone();
        tally.append(&stats.flips);
        tally.append(&gateway.tally());
        tally.append(&client.wall_clocks.tally());
        let mut violations: Vec<_> = stats.violations.iter().chain(&oracle.violations).cloned().collect();
        for machine in &client.machines {
            let [compared, different] = machine.checksums();
            tally.add("checksums of replicas compared", compared);
            if different > 0 {
                let number = machine.number;
                violations.push(format!("node {number}: {different} of {compared} checksums differ between replicas"));
            }
        }
        for violation in &violations {
            trace.note(&format!("violation: {violation}"));
        }
        Report {
            settings,
            hash: trace.hash(),
            simulated_ms: trace.now_ms(),
            faults: stats.faults.clone(),
            changes: oracle.changes,
            reads: oracle.reads,
            sights: oracle.sights,
            unknown: oracle.unknown,
            turned_away: oracle.turned_away,
            tally,
            longest_repair: stats.longest_repair.clone(),
            seen,
            violations,
        }
    }
}

/// A run, and all frames between its nodes.
///
/// # Errors
/// As [`run`].
pub fn run_and_capture_frames(settings: Settings) -> Result<(Report, Frames), String> {
    frame_capture::begin();
    let report = run(settings);
    let frames = frame_capture::end();
    Ok((report?, frames))
}
