//! An evening of hoarders, judged in simulated time. Ten networks take what they may of one session on a cluster of three
//! nodes, and honest buyers try beside them. The session's leader is killed in between, and later all nodes are.
//!
//! Who holds what is counted by the run itself: it knows of which network each cart is, and the committed session says which
//! carts hold. The accounts of the session are never asked.

mod buyers;
mod hoarder;
mod house;

use std::{fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use boxoffice_core::rules::Rules;
use boxoffice_node::admission::OverloadSettings;
use rand::{Rng, rngs::SmallRng};
use tokio::{
    runtime::Builder,
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing_mutex::parkinglot::Mutex;

use self::{
    buyers::Wish,
    hoarder::Hoarder,
    house::{Bought, Held, House, PLACES, SEATS},
};
use crate::{
    client_stub::ClientStub,
    cluster,
    faults::{self, FaultStats},
    gateway::{SimGateway, Webhooks},
    machine::Machine,
    network::SimNetwork,
    panics,
    rng::rng,
    settings::Settings,
    stall::StallWatch,
    trace::Trace,
    wall_clocks::WallClocks,
};

/// Nodes of the cluster.
const NODES: u64 = 3;
/// How long carts of guests live, in milliseconds.
const LIFE_MS: u64 = 900_000;
/// When the session's leader is killed, in seconds of the evening, and how long it is off.
const KILL_S: u64 = 420;
const OFF_S: u64 = 5;
/// When all nodes are killed.
const RESTART_S: u64 = 600;
/// An honest buyer comes this often, in seconds. Every third one wants places.
const HONEST_EVERY_S: u64 = 5;
/// Nobody honest comes in the last seconds of an evening, because there would be no time to pay.
const LAST_S: u64 = 60;
/// One window of the verdict, in seconds.
const WINDOW_S: u64 = 300;
/// The last buyers have this long to pay, in seconds.
const ENDING_S: u64 = 200;
/// The office: buyers behind one address, and how many of them come each minute.
const OFFICE: u64 = 200;
const OFFICE_A_MINUTE: u64 = 40;
/// The limit for everything, in simulated seconds.
const ALL_S: u64 = 7_200;

/// The number of the office's network. Hoarders have lower numbers, honest buyers higher ones.
const OFFICE_NETWORK: u64 = 1_000;
const FIRST_HONEST: u64 = 10_000;

/// What a network of hoarders does. All of them also give back, hold again, and begin payments that they never confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hoard {
    /// As much as it may.
    Greedy,
    /// As much as it may, every second seat, so that no pair is left.
    Scattered,
    /// This number of seats, all the time.
    Level(u32),
    /// As much as it may, and each minute all is given back and held again.
    Again,
    /// As many places of the area as it may, by lines that grow.
    Growth,
}

/// One evening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evening {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Simulated minutes, 20 for the whole verdict.
    pub minutes: u64,
    /// What each network of hoarders does. They are strangers to each other.
    pub hoards: Vec<Hoard>,
    /// An office of 200 buys behind one address.
    pub has_office: bool,
    /// The session's leader is killed at minute 7, and all nodes at minute 10.
    pub has_kills: bool,
    /// Print the trace on stderr.
    pub trace: bool,
}

impl Evening {
    /// Ten networks, two of each kind, for 20 minutes with kills.
    pub fn of_hoarders(seed: u64) -> Evening {
        let kinds = [Hoard::Greedy, Hoard::Scattered, Hoard::Level(12), Hoard::Again, Hoard::Growth];
        Evening { hoards: kinds.repeat(2), has_kills: true, ..Evening::without_attack(seed) }
    }

    /// 20 minutes of honest buyers.
    pub fn without_attack(seed: u64) -> Evening {
        Evening { seed, minutes: 20, hoards: Vec::new(), has_office: false, has_kills: false, trace: false }
    }

    /// An office beside honest buyers, until its last buyer has paid or given up.
    pub fn of_an_office(seed: u64) -> Evening {
        Evening { minutes: 8, has_office: true, ..Evening::without_attack(seed) }
    }
}

/// How an evening went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EveningReport {
    /// Seats that the hoarders hold at the end of each minute.
    pub hoarded: Vec<u32>,
    /// Places of the area that they hold then.
    pub hoarded_places: Vec<u32>,
    /// Honest buyers that came and that bought, by window of five minutes.
    pub honest: Vec<(u32, u32)>,
    /// The same of the office.
    pub office: (u32, u32),
    /// Asks of hoarders that were granted, and those that were refused for their share.
    pub asks: (u32, u32),
    /// The hash of its trace.
    pub hash: u64,
    /// Violated promises.
    pub violations: Vec<String>,
}

impl fmt::Display for EveningReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EveningReport { hoarded, hoarded_places, honest, office, asks, hash: _, violations } = self;
        writeln!(
            f,
            "hoarded {hoarded:?}, places {hoarded_places:?}, honest {honest:?}, office {office:?}, asks {asks:?}"
        )?;
        violations.iter().try_for_each(|violation| writeln!(f, "    {violation}"))
    }
}

/// Runs an evening on this thread. The first violation ends it.
///
/// # Panics
/// If a runtime cannot be built.
pub fn run_evening(evening: &Evening) -> EveningReport {
    panics::watch();
    // The nodes read what they have written, of each other as well.
    #[cfg(debug_assertions)]
    boxoffice_core::stored::own::only(true);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let stall = StallWatch::start(format!("{evening:?}"));
    let all = AssertUnwindSafe(|| {
        runtime.block_on(async {
            tokio::select! {
                biased;
                report = timeout(Duration::from_secs(ALL_S), simulate(evening)) => report,
                never = stall.beat() => match never {},
            }
        })
    });
    let broken = |why: &str| EveningReport { violations: vec![why.into()], ..EveningReport::default() };
    let mut report = match std::panic::catch_unwind(all) {
        Ok(Ok(report)) => report,
        Ok(Err(_)) => broken("the evening came to no end"),
        Err(_) => broken("the evening could not go on"),
    };
    drop(runtime);
    #[cfg(debug_assertions)]
    boxoffice_core::stored::own::only(false);
    drop(stall);
    report.violations.extend(panics::seen().into_iter().map(|panic| format!("panic: {panic}")));
    report
}

async fn simulate(evening: &Evening) -> EveningReport {
    let settings = Settings {
        minutes: evening.minutes,
        nodes: NODES,
        shards: 2,
        hold_ttl_ms: LIFE_MS,
        ..Settings::new(evening.seed)
    };
    let trace = Arc::new(Trace::new(evening.trace));
    let network = SimNetwork::new(&trace, rng(settings.seed, "ether", 0));
    faults::mend(&network);
    let carrying = tokio::spawn(network.clone().run());
    let (wall_clocks, gateway) = (WallClocks::new(), SimGateway::without_faults(&settings, &trace));
    let machine = |number| {
        let terms = (Rules { hold_ttl_ms: LIFE_MS, ..Rules::default() }, OverloadSettings::default());
        Arc::new(Machine::new(number, &settings, (&trace, &wall_clocks), &network, &gateway, terms))
    };
    let machines = (1..=NODES).map(machine).collect();
    let client = Arc::new(ClientStub::new(machines, (Arc::clone(&trace), network), wall_clocks, LIFE_MS));
    let webhooks: Arc<dyn Webhooks> = Arc::clone(&client) as _;
    gateway.set_webhooks(Arc::downgrade(&webhooks));

    let stats = Arc::new(Mutex::new(FaultStats::default()));
    let mut random = rng(settings.seed, "evening", 0);
    cluster::assemble(&client, NODES as usize, &stats, &mut random).await;
    let house = Arc::new(House::open(Arc::clone(&client), &mut random).await);
    let mut run = Run { evening, house, stats, random, begun: Instant::now(), report: EveningReport::default() };
    run.execute().await;
    carrying.abort();
    let Run { mut report, stats, .. } = run;
    client.machines.iter().for_each(|machine| machine.kill());
    // Actors end in their own turn.
    sleep(Duration::from_millis(1)).await;
    report.violations.extend(stats.lock().violations.iter().cloned());
    report.violations.extend(client.oracle.lock().violations.iter().cloned());
    for machine in &client.machines {
        let [compared, different] = machine.checksums();
        if different > 0 {
            let what = format!("node {}: {different} of {compared} checksums differ", machine.number);
            report.violations.push(what);
        }
    }
    report.hash = trace.hash();
    report
}

struct Run<'a> {
    evening: &'a Evening,
    house: Arc<House>,
    stats: Arc<Mutex<FaultStats>>,
    random: SmallRng,
    begun: Instant,
    report: EveningReport,
}

/// A buyer that came at this second, and whether it has bought.
type Buying = (u64, Wish, JoinHandle<Option<Bought>>);

impl Run<'_> {
    async fn execute(&mut self) {
        let (stop, stops) = watch::channel(false);
        let hoarding: Vec<JoinHandle<()>> = (1..)
            .zip(&self.evening.hoards)
            .map(|(network, hoard)| {
                let hoarder = Hoarder::new(network, *hoard, self.evening.seed, Arc::clone(&self.house));
                tokio::spawn(hoarder.hoard(stops.clone()))
            })
            .collect();
        let kills = self.start_kills();
        let (mut honest, mut office): (Vec<Buying>, Vec<Buying>) = (Vec::new(), Vec::new());
        let end_s = 60 * self.evening.minutes;
        for at_s in 0..end_s {
            sleep_until(self.begun + Duration::from_secs(at_s)).await;
            if at_s % HONEST_EVERY_S == 0 && at_s + LAST_S < end_s {
                let number = at_s / HONEST_EVERY_S;
                let wish = if number % 3 == 2 { Wish::Places } else { Wish::Pair };
                honest.push((at_s, wish, self.buy(FIRST_HONEST + number, wish, 5..=55)));
            }
            while self.evening.has_office
                && (office.len() as u64) < OFFICE
                && at_s * OFFICE_A_MINUTE / 60 > office.len() as u64
            {
                office.push((at_s, Wish::Pair, self.buy(OFFICE_NETWORK, Wish::Pair, 30..=180)));
            }
            if at_s > 0 && at_s % 60 == 0 {
                self.look(at_s / 60).await;
            }
            if !self.report.violations.is_empty() {
                break;
            }
        }
        sleep_until(self.begun + Duration::from_secs(end_s)).await;
        self.look(self.evening.minutes).await;
        stop.send_replace(true);
        if self.report.violations.is_empty() {
            sleep(Duration::from_secs(ENDING_S)).await;
            self.judge_buyers(honest, office).await;
        }
        hoarding.iter().chain(&kills).for_each(JoinHandle::abort);
        self.report.asks = self.house.asks();
    }

    /// Somebody of this network comes, holds two, and pays so many seconds later.
    fn buy(&mut self, network: u64, wish: Wish, pays_s: std::ops::RangeInclusive<u64>) -> JoinHandle<Option<Bought>> {
        let after = Duration::from_secs(self.random.random_range(pays_s));
        let random = rng(self.random.random(), "honest", network);
        tokio::spawn(buyers::buy(Arc::clone(&self.house), network, wish, after, random))
    }

    /// Counts what each network holds, and judges it.
    async fn look(&mut self, minute: u64) {
        let Some((held, wrong)) = self.house.held(&mut self.random).await else { return };
        self.report.violations.extend(wrong.into_iter().map(|wrong| format!("minute {minute}: the session: {wrong}")));
        let hoarders = 1..=self.evening.hoards.len() as u64;
        let held: Vec<(u64, Held)> =
            hoarders.map(|number| (number, held.get(&number).copied().unwrap_or_default())).collect();
        let seats: u32 = held.iter().map(|(_, held)| held.seats).sum();
        let places: u32 = held.iter().map(|(_, held)| held.places).sum();
        self.report.hoarded.push(seats);
        self.report.hoarded_places.push(places);
        // A tenth at minute 5, a twentieth from minute 16 on.
        let part = match minute {
            5 => 10,
            16.. => 20,
            _ => return,
        };
        for (what, has, whole) in [("seats", seats, SEATS), ("places", places, PLACES)] {
            if has * part > whole {
                let what = format!("minute {minute}: hoarders hold {has} of {whole} {what}, more than one in {part}");
                self.report.violations.push(what);
            }
        }
        if part == 20 {
            // The account of all bounds what they hold together, so one may have most of it for a while. In a dozen evenings one had up to
            // 26 of the 2 000 seats.
            let too_much = held.iter().filter(|(_, held)| held.seats.max(held.places) * 50 > SEATS);
            self.report.violations.extend(too_much.map(|(number, held)| {
                format!("minute {minute}: network {number} holds {held:?}, more than one in 50")
            }));
        }
    }

    /// Waits for the buyers and judges them.
    async fn judge_buyers(&mut self, honest: Vec<Buying>, office: Vec<Buying>) {
        let mut bought: Vec<Bought> = Vec::new();
        for (at_s, wish, buying) in honest {
            let window = (at_s / WINDOW_S) as usize;
            self.report.honest.resize(self.report.honest.len().max(window + 1), (0, 0));
            let (came, have) = &mut self.report.honest[window];
            *came += 1;
            match outcome(buying).await {
                Some(it) => {
                    *have += 1;
                    bought.push(it);
                }
                None => self.house.client.trace.note(&format!("who came at {at_s} s for {wish:?} did not buy")),
            }
        }
        for (_, _, buying) in office {
            let has = outcome(buying).await;
            self.report.office.0 += 1;
            self.report.office.1 += u32::from(has.is_some());
            bought.extend(has);
        }
        for (window, (came, have)) in self.report.honest.iter().enumerate() {
            if have * 100 < came * 95 {
                let what = format!("window {}: {have} of {came} honest buyers bought", window + 1);
                self.report.violations.push(what);
            }
        }
        let (came, have) = self.report.office;
        if have * 100 < came * 98 {
            self.report.violations.push(format!("{have} of {came} buyers of the office bought"));
        }
        let wrong = self.house.not_sold(&bought, &mut self.random).await;
        self.report.violations.extend(wrong);
    }

    /// Kills the session's leader, and later all nodes at once.
    fn start_kills(&self) -> Vec<JoinHandle<()>> {
        if !self.evening.has_kills {
            return Vec::new();
        }
        let (house, stats, begun) = (Arc::clone(&self.house), Arc::clone(&self.stats), self.begun);
        let killing = async move {
            sleep_until(begun + Duration::from_secs(KILL_S)).await;
            let machines = &house.client.machines;
            let leader = house.leader().unwrap_or(1);
            let leader = &machines[leader as usize - 1];
            leader.kill();
            sleep(Duration::from_secs(OFF_S)).await;
            faults::start(leader, &stats);
            sleep_until(begun + Duration::from_secs(RESTART_S)).await;
            machines.iter().for_each(|machine| machine.kill());
            for machine in machines {
                sleep(Duration::from_millis(500)).await;
                faults::start(machine, &stats);
            }
        };
        vec![tokio::spawn(killing)]
    }
}

async fn outcome(buying: JoinHandle<Option<Bought>>) -> Option<Bought> {
    // A buyer that waits for ever has not bought.
    timeout(Duration::from_secs(60), buying).await.ok()?.ok()?
}
