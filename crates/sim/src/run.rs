//! One run: a town is opened, sells under trouble, is healed, and is looked at.

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
    bank::Bank,
    buyer::{Buyer, Stories},
    cluster,
    desk::Desk,
    dice::dice,
    ether::Ether,
    faults::{self, Fault, Swarm, Toll},
    judge::{Seen, judge},
    leftovers,
    machine::Machine,
    operator::operate,
    panics,
    settings::Settings,
    spectator::Spectator,
    staff::{self, Staff},
    tally::Tally,
    town::Town,
    trace::Trace,
    walls::{Distances, Walls},
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
    /// How often which trouble befell.
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
        Ok(Err(_)) => Report::broken(settings, "the run came to no end: somebody waits for an answer for ever"),
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
    let trace = Arc::new(Trace::new(settings.told));
    let toll = Arc::new(Mutex::new(Toll::default()));
    let ether = Ether::new(&trace, dice(settings.seed, "ether", 0));
    faults::mend(&ether);
    let carrying = tokio::spawn(ether.clone().carry());
    let (walls, bank) = (Walls::new(), Bank::new(&settings, &trace));
    let machine = |number| Arc::new(Machine::new(number, &settings, (&trace, &walls), &ether, &bank));
    let swarm = Swarm::draw(&settings);
    let nodes = settings.nodes + if swarm.is_operated { SPARES } else { 0 };
    let machines: Vec<Arc<Machine>> = (1..=nodes).map(machine).collect();
    let desk = Arc::new(Desk::new(machines, (Arc::clone(&trace), ether.clone()), walls, settings.hold_ttl_ms));
    bank.tells(&desk);
    let (town, stories) = (Arc::new(Town::new(settings.hold_ttl_ms)), Arc::new(Mutex::new(Stories::default())));
    let mut lots = dice(settings.seed, "run", 0);

    cluster::assemble(&desk, settings.nodes as usize, &toll, &mut lots).await;
    town.open(&desk, &mut lots).await;

    trace.note(&format!("{swarm:?}"));
    let (stop_operator, operator_stops) = watch::channel(false);
    let operating = swarm
        .is_operated
        .then(|| tokio::spawn(operate(Arc::clone(&desk), ether.clone(), Arc::clone(&toll), settings, operator_stops)));
    let of_machines = desk.machines.iter().filter(|_| !swarm.of_machines.is_empty());
    let mut befalling: Vec<_> = of_machines
        .map(|machine| {
            let sold = (Arc::clone(&desk), Arc::clone(&town), ether.clone());
            let (machine, swarm) = (Arc::clone(machine), swarm.clone());
            tokio::spawn(faults::befall(machine, swarm, settings.seed, sold, Arc::clone(&toll)))
        })
        .collect();
    if swarm.has_blackouts {
        let befall = faults::befall_all(Arc::clone(&desk), swarm.clone(), settings.seed, Arc::clone(&toll));
        befalling.push(tokio::spawn(befall));
    }
    if swarm.has_outages {
        let befall = faults::befall_outages(Arc::clone(&desk), settings.seed, Arc::clone(&toll));
        befalling.push(tokio::spawn(befall));
    }
    if swarm.sets_clocks {
        let befall = faults::set_clocks(Arc::clone(&desk), swarm.clone(), settings.seed, Arc::clone(&toll));
        befalling.push(tokio::spawn(befall));
    }
    let goes_on = swarm.goes_on;
    if !swarm.of_links.is_empty() {
        let befall =
            faults::befall_links(ether.clone(), swarm, (settings.seed, nodes), Arc::clone(&trace), Arc::clone(&toll));
        befalling.push(tokio::spawn(befall));
    }
    let (stop, stopped) = watch::channel(false);
    let mut buying: Vec<_> = (0..settings.carts)
        .map(|number| {
            let (desk, town, stories) = (Arc::clone(&desk), Arc::clone(&town), Arc::clone(&stories));
            let buyer = Buyer::new(number, &settings, desk, town, stories);
            tokio::spawn(buyer.buy(stopped.clone()))
        })
        .collect();
    let (stop_looking, looking_stops) = watch::channel(false);
    let looking: Vec<_> = (0..SPECTATORS)
        .map(|number| {
            let spectator = Spectator::new(number, &settings, Arc::clone(&desk), Arc::clone(&town));
            tokio::spawn(spectator.look_on(looking_stops.clone()))
        })
        .collect();
    let (desk_of_town, open_town) = (Arc::clone(&desk), Arc::clone(&town));
    buying.push(tokio::spawn(async move {
        let mut lots = dice(settings.seed, "town", 0);
        for round in 1.. {
            if *stopped.borrow() {
                break;
            }
            sleep(Duration::from_millis(RESTOCK_MS)).await;
            if round % SESSIONS == 0 {
                open_town.next_session(&desk_of_town, &mut lots).await;
            }
            let product = open_town.product(&mut lots);
            open_town.restock(&desk_of_town, &mut lots, product).await;
        }
    }));

    let staff = Staff::new(&settings, Arc::clone(&desk), Arc::clone(&town));
    let at_work = tokio::spawn(staff.work(stop.subscribe()));

    let is_broken = || panics::any() || !toll.lock().violations.is_empty() || !desk.oracle.lock().violations.is_empty();
    let mut distances = Distances::default();
    for _ in 0..60 * settings.minutes {
        sleep(Duration::from_secs(1)).await;
        if desk.walls.were_never_set() && !toll.lock().faults.contains_key(&Fault::ClockJump) {
            let statuses = desk.machines.iter().filter_map(|machine| Some(machine.handle()?.status()));
            let wrong: Vec<_> = statuses.flat_map(|status| distances.look(&status.shards)).collect();
            wrong.into_iter().for_each(|wrong| desk.oracle.lock().violation(wrong));
        }
        if settings.hurried && is_broken() {
            return end(settings, &desk, &bank, &toll, Seen::default()).await;
        }
    }
    for fate in befalling {
        fate.abort();
        // It is gone, or was over.
        let _ = fate.await;
    }
    trace.note("everything is healed");
    faults::mend(&ether);
    bank.heal();
    stop_operator.send_replace(true);
    desk.machines.iter().for_each(|machine| faults::heal(machine));
    // What is not heard any more is not to go on as if it had been.
    desk.machines.iter().filter(|machine| ether.spare(machine.number)).for_each(|machine| machine.kill());
    // What cannot go on says so.
    sleep(Duration::from_millis(FAILING_MS)).await;
    for machine in &desk.machines {
        faults::revive(machine, goes_on, &toll);
    }
    if settings.hurried && is_broken() {
        return end(settings, &desk, &bank, &toll, Seen::default()).await;
    }
    if let Some(operating) = operating {
        let ended = timeout(Duration::from_millis(OPERATION_MS), operating).await;
        if !matches!(ended, Ok(Ok(()))) {
            cluster::tell(&desk, &mut lots).await;
            toll.lock()
                .violations
                .push(format!("the operator's work came to no end after everything was healed: {ended:?}"));
        }
    }
    for machine in &desk.members() {
        cluster::recovered(machine, &toll).await;
    }
    // What does not serve can be neither bought from nor looked at; why is in the toll.
    let serves = |machine: &Arc<Machine>| machine.handle().is_some_and(|handle| handle.ready().is_ok());
    let all_serve = desk.members().iter().all(serves);
    if all_serve {
        cluster::settled(&desk, &toll, &mut lots).await;
        // It is the first.
        let _ = desk.peace_ms.set(desk.trace.now_ms());
        sleep(Duration::from_millis(leftovers::OVERDUE_MS)).await;
        let wrong = leftovers::overdue(&desk, &town, &stories, settings.rules().grace_ms, &mut lots).await;
        wrong.into_iter().for_each(|wrong| desk.oracle.lock().violation(wrong));
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
            desk.oracle.lock().violation(format!("a buyer was not served after everything was healed: {ended:?}"));
        }
    }
    let blocked = match timeout(Duration::from_millis(LAST_CARTS_MS), at_work).await {
        Ok(Ok(blocked)) => blocked,
        ended => {
            if all_serve {
                desk.oracle
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
            desk.oracle.lock().violation(format!("somebody who looks on came to no end: {ended:?}"));
        }
    }
    let walls_are_right = !toll.lock().faults.contains_key(&Fault::ClockJump) && !desk.walls.were_set();
    let stories = std::mem::take(&mut *stories.lock());
    let seen = match all_serve {
        true => {
            let seen = judge(&desk, (&town, &bank), &stories, walls_are_right, &mut lots).await;
            staff::judge(&desk, &town, &blocked, &mut lots).await;
            seen
        }
        false => Seen::default(),
    };

    carrying.abort();
    end(settings, &desk, &bank, &toll, seen).await
}

/// Ends every process, and says what came of the run.
async fn end(settings: Settings, desk: &Desk, bank: &Bank, toll: &Mutex<Toll>, seen: Seen) -> Report {
    for machine in &desk.machines {
        machine.kill();
    }
    // Actors end in their own turn.
    sleep(Duration::from_millis(1)).await;
    let (oracle, toll) = (desk.oracle.lock(), toll.lock());
    let mut tally = oracle.tally.clone();
    tally.append(&bank.tally());
    tally.append(&desk.walls.tally());
    let mut violations: Vec<_> = toll.violations.iter().chain(&oracle.violations).cloned().collect();
    for machine in &desk.machines {
        let [compared, different] = machine.checksums();
        tally.add("checksums of replicas compared", compared);
        if different > 0 {
            let number = machine.number;
            violations
                .push(format!("node {number}: {different} of {compared} checksums are not those of other replicas"));
        }
    }
    violations_are_traced(&desk.trace, &violations);
    Report {
        settings,
        hash: desk.trace.hash(),
        simulated_ms: desk.trace.now_ms(),
        faults: toll.faults.clone(),
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
