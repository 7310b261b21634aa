//! One run: a fixture is set up and sells under faults. Then everything is healed and judged.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Builder,
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    buyer::{Buyer, CartTraces},
    client_stub::ClientStub,
    cluster,
    faults::{self, FaultStats},
    fixture::Fixture,
    frame_capture::{self, Frames},
    gateway::{SimGateway, Webhooks},
    judge::{Seen, judge},
    leftovers,
    machine::Machine,
    network::SimNetwork,
    operator::operate,
    panics,
    rng::rng,
    settings::Settings,
    spectator::Spectator,
    staff::{self, Staff},
    swarm::{Fault, Swarm},
    tally::Tally,
    trace::Trace,
    wall_clocks::{Distances, WallClocks},
};

/// How long buyers may take after healing to go through with their last carts, in milliseconds.
const LAST_CARTS_MS: u64 = 600_000;
/// How long they go on buying after healing, in milliseconds.
const HEALED_MS: u64 = 30_000;
/// A process whose disk was sick until now has failed by then, if it has to, in milliseconds.
const FAILING_MS: u64 = 1_000;
/// More would be slow, and show nothing new.
const NODES_MAX: u64 = 5;
/// Machines that may become members later.
const SPARES: u64 = 3;
/// How long the operator may take to end what is begun when nothing is in the way, in milliseconds.
const OPERATION_MS: u64 = 600_000;
/// How many look on: in both encodings.
const SPECTATORS: u64 = 4;
/// How long all of it may take besides, in milliseconds: nothing is waited for that long.
const ALL_MS: u64 = 3 * 3_600_000;
/// A product is put again so often, in milliseconds.
const RESTOCK_MS: u64 = 12_000;
/// With one in so many a new session is opened.
const SESSIONS: u64 = 5;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it was.
    pub settings: Settings,
    /// Everything that happened, as one number.
    pub hash: u64,
    /// How long it took, in simulated milliseconds.
    pub simulated_ms: u64,
    /// How often each fault was injected.
    pub faults: BTreeMap<Fault, u64>,
    /// Changes that were granted.
    pub changes: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// How often watchers were shown something.
    pub sights: u64,
    /// Attempts that ended without anybody knowing how.
    pub unknown: u64,
    /// Attempts that were turned away.
    pub turned_away: u64,
    /// How often what happened.
    pub tally: Tally,
    /// What there was at the end.
    pub seen: Seen,
    /// What must not be; empty if every promise was kept.
    pub violations: Vec<String>,
}

/// Runs it, on this thread.
///
/// # Errors
/// What cannot be simulated.
///
/// # Panics
/// When there is no runtime to be had.
pub fn run(settings: Settings) -> Result<Report, String> {
    let settings = settings.drawn();
    if !(1..=NODES_MAX).contains(&settings.nodes) {
        return Err(format!("{} nodes cannot be simulated; 1 to {NODES_MAX} can", settings.nodes));
    }
    if settings.carts == 0 || settings.minutes == 0 || settings.shards == 0 {
        return Err("a run has at least one cart, one minute and one shard".into());
    }
    panics::watch();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let longest = Duration::from_secs(60 * settings.minutes) + Duration::from_millis(ALL_MS);
    let all = AssertUnwindSafe(|| runtime.block_on(async { timeout(longest, simulate(settings)).await }));
    let mut report = match catch_unwind(all) {
        Ok(Ok(report)) => report,
        Ok(Err(_)) => Report::broken(settings, "the run came to no end: a task waits for an answer for ever"),
        Err(_) => Report::broken(settings, "the run could not go on"),
    };
    drop(runtime);
    report.violations.extend(panics::seen().into_iter().map(|panic| format!("panic: {panic}")));
    Ok(report)
}

impl Report {
    /// Of a run of which nothing else is known.
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
            seen: Seen::default(),
            violations: vec![why.into()],
        }
    }
}

async fn simulate(settings: Settings) -> Report {
    let trace = Arc::new(Trace::new(settings.trace));
    let stats = Arc::new(Mutex::new(FaultStats::default()));
    let network = SimNetwork::new(&trace, rng(settings.seed, "ether", 0));
    faults::mend(&network);
    let carrying = tokio::spawn(network.clone().run());
    let (wall_clocks, gateway) = (WallClocks::new(), SimGateway::new(&settings, &trace));
    let machine = |number| Arc::new(Machine::new(number, &settings, (&trace, &wall_clocks), &network, &gateway));
    let swarm = Swarm::draw(&settings);
    let nodes = settings.nodes + if swarm.is_operated { SPARES } else { 0 };
    let machines: Vec<Arc<Machine>> = (1..=nodes).map(machine).collect();
    let client =
        Arc::new(ClientStub::new(machines, (Arc::clone(&trace), network.clone()), wall_clocks, settings.hold_ttl_ms));
    let webhooks: Arc<dyn Webhooks> = Arc::clone(&client) as _;
    gateway.set_webhooks(Arc::downgrade(&webhooks));
    let (fixture, cart_traces) =
        (Arc::new(Fixture::new(settings.hold_ttl_ms)), Arc::new(Mutex::new(CartTraces::default())));
    let mut run_rng = rng(settings.seed, "run", 0);

    cluster::assemble(&client, settings.nodes as usize, &stats, &mut run_rng).await;
    fixture.open(&client, &mut run_rng).await;

    trace.note(&format!("{swarm:?}"));
    let (stop_operator, operator_stops) = watch::channel(false);
    let operating = swarm.is_operated.then(|| {
        tokio::spawn(operate(Arc::clone(&client), network.clone(), Arc::clone(&stats), settings, operator_stops))
    });
    let of_machines = client.machines.iter().filter(|_| !swarm.of_machines.is_empty());
    let mut injecting: Vec<_> = of_machines
        .map(|machine| {
            let sold = (Arc::clone(&client), Arc::clone(&fixture), network.clone());
            let (machine, swarm) = (Arc::clone(machine), swarm.clone());
            tokio::spawn(faults::inject(machine, swarm, settings.seed, sold, Arc::clone(&stats)))
        })
        .collect();
    if swarm.has_blackouts {
        let inject = faults::inject_all(Arc::clone(&client), swarm.clone(), settings.seed, Arc::clone(&stats));
        injecting.push(tokio::spawn(inject));
    }
    if swarm.has_outages {
        let inject = faults::inject_outages(Arc::clone(&client), settings.seed, Arc::clone(&stats));
        injecting.push(tokio::spawn(inject));
    }
    if swarm.sets_clocks {
        let inject = faults::set_clocks(Arc::clone(&client), swarm.clone(), settings.seed, Arc::clone(&stats));
        injecting.push(tokio::spawn(inject));
    }
    let goes_on = swarm.goes_on;
    if !swarm.of_links.is_empty() {
        let inject = faults::inject_link_faults(
            network.clone(),
            swarm,
            (settings.seed, nodes),
            Arc::clone(&trace),
            Arc::clone(&stats),
        );
        injecting.push(tokio::spawn(inject));
    }
    let (stop, stopped) = watch::channel(false);
    let mut buying: Vec<_> = (0..settings.carts)
        .map(|number| {
            let (client, fixture, cart_traces) = (Arc::clone(&client), Arc::clone(&fixture), Arc::clone(&cart_traces));
            let buyer = Buyer::new(number, &settings, client, fixture, cart_traces);
            tokio::spawn(buyer.buy(stopped.clone()))
        })
        .collect();
    let (stop_looking, looking_stops) = watch::channel(false);
    let looking: Vec<_> = (0..SPECTATORS)
        .map(|number| {
            let spectator = Spectator::new(number, &settings, Arc::clone(&client), Arc::clone(&fixture));
            tokio::spawn(spectator.run(looking_stops.clone()))
        })
        .collect();
    let (venue_client, open_fixture) = (Arc::clone(&client), Arc::clone(&fixture));
    buying.push(tokio::spawn(async move {
        let mut venue_rng = rng(settings.seed, "town", 0);
        for round in 1.. {
            if *stopped.borrow() {
                break;
            }
            sleep(Duration::from_millis(RESTOCK_MS)).await;
            if round % SESSIONS == 0 {
                open_fixture.next_session(&venue_client, &mut venue_rng).await;
            }
            let product = open_fixture.product(&mut venue_rng);
            open_fixture.restock(&venue_client, &mut venue_rng, product).await;
        }
    }));

    let staff = Staff::new(&settings, Arc::clone(&client), Arc::clone(&fixture));
    let at_work = tokio::spawn(staff.work(stop.subscribe()));

    let is_broken =
        || panics::any() || !stats.lock().violations.is_empty() || !client.oracle.lock().violations.is_empty();
    let mut distances = Distances::default();
    for _ in 0..60 * settings.minutes {
        sleep(Duration::from_secs(1)).await;
        if client.wall_clocks.were_never_set() && !stats.lock().faults.contains_key(&Fault::ClockJump) {
            let statuses = client.machines.iter().filter_map(|machine| Some(machine.handle()?.status()));
            let wrong: Vec<_> = statuses.flat_map(|status| distances.look(&status.shards)).collect();
            wrong.into_iter().for_each(|wrong| client.oracle.lock().violation(wrong));
        }
        if settings.stop_at_first_violation && is_broken() {
            return end(settings, &client, &gateway, &stats, Seen::default()).await;
        }
    }
    for fate in injecting {
        fate.abort();
        // It is gone, or was over.
        let _ = fate.await;
    }
    trace.note("everything is healed");
    faults::mend(&network);
    gateway.heal();
    stop_operator.send_replace(true);
    client.machines.iter().for_each(|machine| faults::heal(machine));
    // What is not heard any more is not to go on as if it had been.
    client.machines.iter().filter(|machine| network.cancel_kill(machine.number)).for_each(|machine| machine.kill());
    // What cannot go on says so.
    sleep(Duration::from_millis(FAILING_MS)).await;
    for machine in &client.machines {
        faults::revive(machine, goes_on, &stats);
    }
    if settings.stop_at_first_violation && is_broken() {
        return end(settings, &client, &gateway, &stats, Seen::default()).await;
    }
    if let Some(operating) = operating {
        let ended = timeout(Duration::from_millis(OPERATION_MS), operating).await;
        if !matches!(ended, Ok(Ok(()))) {
            cluster::tell(&client, &mut run_rng).await;
            stats
                .lock()
                .violations
                .push(format!("the operator's work came to no end after everything was healed: {ended:?}"));
        }
    }
    for machine in &client.members() {
        cluster::recovered(machine, &stats).await;
    }
    // What does not serve can be neither bought from nor looked at; why is in the toll.
    let serves = |machine: &Arc<Machine>| machine.handle().is_some_and(|handle| handle.ready().is_ok());
    let all_serve = client.members().iter().all(serves);
    if all_serve {
        cluster::settled(&client, &stats, &mut run_rng).await;
        // It is the first.
        let _ = client.healed_ms.set(client.trace.now_ms());
        sleep(Duration::from_millis(leftovers::OVERDUE_MS)).await;
        let wrong = leftovers::overdue(&client, &fixture, &cart_traces, settings.rules().grace_ms, &mut run_rng).await;
        wrong.into_iter().for_each(|wrong| client.oracle.lock().violation(wrong));
        sleep(Duration::from_millis(HEALED_MS)).await;
    }
    stop.send_replace(true);
    for buyer in buying {
        if !all_serve {
            buyer.abort();
            continue;
        }
        let ended = timeout(Duration::from_millis(LAST_CARTS_MS), buyer).await;
        if !matches!(ended, Ok(Ok(()))) {
            client.oracle.lock().violation(format!("a buyer was not served after everything was healed: {ended:?}"));
        }
    }
    let blocked = match timeout(Duration::from_millis(LAST_CARTS_MS), at_work).await {
        Ok(Ok(blocked)) => blocked,
        ended => {
            if all_serve {
                client
                    .oracle
                    .lock()
                    .violation(format!("the staff was not served after everything was healed: {ended:?}"));
            }
            staff::Blocked::new()
        }
    };
    stop_looking.send_replace(true);
    for spectator in looking {
        if !all_serve {
            spectator.abort();
            continue;
        }
        let ended = timeout(Duration::from_millis(LAST_CARTS_MS), spectator).await;
        if !matches!(ended, Ok(Ok(()))) {
            client.oracle.lock().violation(format!("a spectator came to no end: {ended:?}"));
        }
    }
    let walls_are_right = !stats.lock().faults.contains_key(&Fault::ClockJump) && !client.wall_clocks.were_set();
    let cart_traces = std::mem::take(&mut *cart_traces.lock());
    let seen = match all_serve {
        true => {
            let seen = judge(&client, (&fixture, &gateway), &cart_traces, walls_are_right, &mut run_rng).await;
            staff::judge(&client, &fixture, &blocked, &mut run_rng).await;
            seen
        }
        false => Seen::default(),
    };

    carrying.abort();
    end(settings, &client, &gateway, &stats, seen).await
}

/// Ends every process, and says what came of the run.
async fn end(
    settings: Settings,
    client: &ClientStub,
    gateway: &SimGateway,
    stats: &Mutex<FaultStats>,
    seen: Seen,
) -> Report {
    for machine in &client.machines {
        machine.kill();
    }
    // Actors end in their own turn.
    sleep(Duration::from_millis(1)).await;
    let (oracle, stats) = (client.oracle.lock(), stats.lock());
    let mut tally = oracle.tally.clone();
    tally.append(&gateway.tally());
    tally.append(&client.wall_clocks.tally());
    let mut violations: Vec<_> = stats.violations.iter().chain(&oracle.violations).cloned().collect();
    for machine in &client.machines {
        let [compared, different] = machine.checksums();
        tally.add("checksums of replicas compared", compared);
        if different > 0 {
            let number = machine.number;
            violations
                .push(format!("node {number}: {different} of {compared} checksums are not those of other replicas"));
        }
    }
    violations_are_traced(&client.trace, &violations);
    Report {
        settings,
        hash: client.trace.hash(),
        simulated_ms: client.trace.now_ms(),
        faults: stats.faults.clone(),
        changes: oracle.changes,
        reads: oracle.reads,
        sights: oracle.sights,
        unknown: oracle.unknown,
        turned_away: oracle.turned_away,
        tally,
        seen,
        violations,
    }
}

fn violations_are_traced(trace: &Trace, violations: &Vec<String>) {
    for violation in violations {
        trace.note(&format!("violation: {violation}"));
    }
}

/// A run, and all frames that nodes sent each other in it.
///
/// # Errors
/// As [`run`].
pub fn run_and_capture_frames(settings: Settings) -> Result<(Report, Frames), String> {
    frame_capture::begin();
    let report = run(settings);
    let frames = frame_capture::end();
    Ok((report?, frames))
}
