//! One run: a town is opened, sells under trouble, is healed, and is looked at.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::Rng;
use tokio::{
    runtime::Builder,
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    buyer::{Buyer, Stories},
    cluster,
    desk::Desk,
    dice::dice,
    ether::Ether,
    faults::{self, Fault, Swarm, Toll},
    judge::{Seen, judge},
    machine::Machine,
    oracle::Oracle,
    panics,
    settings::Settings,
    town::Town,
    trace::Trace,
};

/// How long buyers may take after healing to go through with their last carts, in milliseconds.
const LAST_CARTS_MS: u64 = 600_000;
/// How long they go on buying after healing, in milliseconds.
const HEALED_MS: u64 = 30_000;
/// More nodes than copies would each know a part only.
const NODES_MAX: u64 = 3;
/// A new session is opened so often, in milliseconds.
const SESSION_MS: u64 = 120_000;

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
    /// Attempts that ended without anybody knowing how.
    pub unknown: u64,
    /// Attempts that were turned away.
    pub turned_away: u64,
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
    if !(1..=NODES_MAX).contains(&settings.nodes) {
        return Err(format!("{} nodes cannot be simulated; 1 to {NODES_MAX} can", settings.nodes));
    }
    if settings.carts == 0 || settings.minutes == 0 || settings.shards == 0 {
        return Err("a run has at least one cart, one minute and one shard".into());
    }
    panics::watch();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let mut report = runtime.block_on(simulate(settings));
    drop(runtime);
    report.violations.extend(panics::seen().into_iter().map(|panic| format!("panic: {panic}")));
    Ok(report)
}

async fn simulate(settings: Settings) -> Report {
    let trace = Arc::new(Trace::new(settings.told));
    let toll = Arc::new(Mutex::new(Toll::default()));
    let ether = Ether::new(&trace, dice(settings.seed, "ether", 0));
    faults::mend(&ether);
    let carrying = tokio::spawn(ether.clone().carry());
    let machine = |number| Arc::new(Machine::new(number, &settings, &trace, &ether));
    let machines: Vec<Arc<Machine>> = (1..=settings.nodes).map(machine).collect();
    let oracle = Mutex::new(Oracle::default());
    let desk = Arc::new(Desk { machines, trace: Arc::clone(&trace), oracle });
    let (town, stories) = (Arc::new(Town::default()), Arc::new(Mutex::new(Stories::default())));
    let mut lots = dice(settings.seed, "run", 0);

    cluster::assemble(&desk, &toll, &mut lots).await;
    town.open(&desk, &mut lots).await;

    let swarm = Swarm::draw(&settings);
    trace.note(&format!("{swarm:?}"));
    let of_machines = desk.machines.iter().filter(|_| !swarm.of_machines.is_empty());
    let mut befalling: Vec<_> = of_machines
        .map(|machine| {
            let (machine, swarm) = (Arc::clone(machine), swarm.clone());
            tokio::spawn(faults::befall(machine, swarm, settings, Arc::clone(&trace), Arc::clone(&toll)))
        })
        .collect();
    if !swarm.of_links.is_empty() {
        let befall = faults::befall_links(ether.clone(), swarm, settings, Arc::clone(&trace), Arc::clone(&toll));
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
    let (desk_of_town, open_town) = (Arc::clone(&desk), Arc::clone(&town));
    buying.push(tokio::spawn(async move {
        let mut lots = dice(settings.seed, "town", 0);
        while !*stopped.borrow() {
            sleep(Duration::from_millis(SESSION_MS)).await;
            open_town.next_session(&desk_of_town, &mut lots).await;
            let product = lots.random_range(0..3);
            open_town.restock(&desk_of_town, &mut lots, product).await;
        }
    }));

    sleep(Duration::from_secs(60 * settings.minutes)).await;
    for fate in befalling {
        fate.abort();
        // It is gone, or was over.
        let _ = fate.await;
    }
    trace.note("everything is healed");
    faults::mend(&ether);
    for machine in &desk.machines {
        faults::heal(machine, &toll);
    }
    for machine in &desk.machines {
        cluster::recovered(machine, &toll).await;
    }
    // What does not serve can be neither bought from nor looked at; why is in the toll.
    let serves = |machine: &Arc<Machine>| machine.handle().is_some_and(|handle| handle.ready().is_ok());
    let all_serve = desk.machines.iter().all(serves);
    if all_serve {
        cluster::settled(&desk, &toll, &mut lots).await;
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
    let walls_are_right = !toll.lock().faults.contains_key(&Fault::ClockJump);
    let stories = std::mem::take(&mut *stories.lock());
    let seen = match all_serve {
        true => judge(&desk, &town, &stories, walls_are_right, &mut lots).await,
        false => Seen::default(),
    };

    for machine in &desk.machines {
        machine.kill();
    }
    carrying.abort();
    // Actors end in their own turn.
    sleep(Duration::from_millis(1)).await;
    let (oracle, toll) = (desk.oracle.lock(), toll.lock());
    let violations = toll.violations.iter().chain(&oracle.violations).cloned().collect();
    violations_are_traced(&trace, &violations);
    Report {
        settings,
        hash: trace.hash(),
        simulated_ms: trace.now_ms(),
        faults: toll.faults.clone(),
        changes: oracle.changes,
        reads: oracle.reads,
        unknown: oracle.unknown,
        turned_away: oracle.turned_away,
        seen,
        violations,
    }
}

fn violations_are_traced(trace: &Trace, violations: &Vec<String>) {
    for violation in violations {
        trace.note(&format!("violation: {violation}"));
    }
}
