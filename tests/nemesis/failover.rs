//! How long sessions pause when the node that leads most of them is killed, or stopped and resumed.
//!
//! For each session a prober asks a node that lives for one change after the other. Its pause is the longest time between two
//! answers. A round in which a thread of a node or of this program had to wait for a processor for 100 ms says nothing about the
//! nodes. It is drawn anew.

use std::{
    collections::BTreeMap,
    fmt, fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    cluster::{Plan, Stage},
    common::{Answer, Port, Rng, Theatre},
    settings::RunSettings,
};

/// The longest pause of a session.
const PAUSE_MAX: Duration = Duration::from_millis(1_200);

/// A thread that waits this long for a processor makes a round void.
const STALL: Duration = Duration::from_millis(100);

/// How often the threads of the nodes are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Rounds that are drawn for one that counts.
const DRAWN_MAX: usize = 10;

/// From the fault to the return of the node, and from there to the end of the round. The leaderships go back to it meanwhile.
const AWAY: Duration = Duration::from_millis(2_500);
const BACK: Duration = Duration::from_millis(4_500);

/// The pause between two requests of a prober, and before a repeat.
const THINK: Duration = Duration::from_millis(10);

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(4);

/// Sessions, and the rows and seats of their hall.
const SESSIONS: usize = 8;
const HALL: (u16, u16) = (20, 20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Stop,
}

/// Strikes each fault this many times, and prints the pauses.
pub(crate) async fn run(settings: RunSettings, rounds: usize) {
    let plan = Plan { nodes: settings.nodes, places: settings.nodes, ..Plan::default() };
    let mut stage = Stage::new(Rng::new(settings.seed), plan).await;
    let theatre = stage.play(SESSIONS, HALL, None).await;
    let mut pauses: BTreeMap<Fault, Pauses> = BTreeMap::new();
    for round in 0..rounds {
        for fault in [Fault::Kill, Fault::Stop] {
            let pauses = pauses.entry(fault).or_default();
            let mut drawn = 0;
            loop {
                drawn += 1;
                let Round { away, back, stall, terms } = strike(&mut stage, &theatre, fault).await;
                println!(
                    "{round}: {fault:?}, longest pause {} ms, {} ms after the return; {terms} terms at most, a thread \
                     waited {} ms",
                    away.as_millis(),
                    back.as_millis(),
                    stall.as_millis()
                );
                if stall < STALL {
                    pauses.away.push(away);
                    pauses.back.push(back);
                    break;
                }
                pauses.void += 1;
                if drawn == DRAWN_MAX {
                    println!("{round}: left out, because the machine is too busy");
                    break;
                }
            }
        }
    }
    for (fault, pauses) in &pauses {
        println!("{fault:?}, {} nodes: {pauses}", settings.nodes);
    }
    for (fault, pauses) in &pauses {
        assert!(2 * pauses.away.len() >= rounds, "{fault:?}: the machine is too busy to say anything");
        let longest = pauses.away.iter().max().expect("a round");
        assert!(*longest <= PAUSE_MAX, "{fault:?}: a session paused for {longest:?}");
    }
}

/// The pauses of one round.
struct Round {
    away: Duration,
    /// After the node's return.
    back: Duration,
    /// The longest wait of a thread for a processor.
    stall: Duration,
    /// How many terms the shard with most of them went on while the node was away.
    terms: u64,
}

async fn strike(stage: &mut Stage, theatre: &Theatre, fault: Fault) -> Round {
    stage.cluster.ready().await;
    let victim = stage.cluster.a_leader().await;
    let others: Vec<u64> = stage.cluster.running().into_iter().filter(|node| *node != victim).collect();
    let probers = Probers::start(stage, theatre, &others).await;
    sleep(Duration::from_millis(700 + stage.rng.below(300) as u64)).await;
    let before = stage.cluster.terms().await;
    let stalls = Stalls::watch(others.iter().filter_map(|node| stage.cluster.pid(*node)).collect());
    let struck = Instant::now();
    match fault {
        Fault::Kill => stage.cluster.kill(victim),
        Fault::Stop => stage.cluster.pause(victim),
    }
    sleep(AWAY).await;
    let after = stage.cluster.terms().await;
    let stall = stalls.longest();
    let returns = Instant::now();
    match fault {
        Fault::Kill => stage.cluster.start_node(victim).await,
        Fault::Stop => stage.cluster.resume(victim),
    }
    sleep(BACK).await;
    let answers = probers.stop().await;
    let terms = after.iter().map(|(shard, term)| term - before.get(shard).unwrap_or(term)).max().unwrap_or_default();
    Round { away: longest(&answers, struck, returns), back: longest(&answers, returns, Instant::now()), stall, terms }
}

/// The longest time without an answer for a session between two moments.
fn longest(answers: &[Vec<Instant>], from: Instant, until: Instant) -> Duration {
    let pause = |answers: &Vec<Instant>| {
        let first = answers.partition_point(|at| *at < from);
        let last = answers.partition_point(|at| *at < until);
        let within = answers[first..last].iter().copied();
        let times: Vec<Instant> = [from].into_iter().chain(within).chain([until]).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("a beginning and an end")
    };
    answers.iter().map(pause).max().expect("sessions")
}

/// A prober for each session.
struct Probers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<(usize, Vec<Instant>)>,
}

impl Probers {
    /// Probes each session through one of these nodes.
    async fn start(stage: &mut Stage, theatre: &Theatre, nodes: &[u64]) -> Probers {
        let (stop, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for (place, session) in theatre.sessions.iter().cloned().enumerate() {
            let port = stage.cluster.port(nodes[place % nodes.len()]).await;
            let (rng, stop) = (Rng::new(stage.rng.next()), Arc::clone(&stop));
            tasks.spawn(async move { (place, probe(&port, &session, rng, &stop).await) });
        }
        Probers { stop, tasks }
    }

    /// When each session was answered for.
    async fn stop(mut self) -> Vec<Vec<Instant>> {
        self.stop.store(true, Relaxed);
        let mut answers = BTreeMap::new();
        while let Some(ended) = self.tasks.join_next().await {
            answers.extend([ended.expect("a prober")]);
        }
        answers.into_values().collect()
    }
}

/// Holds a seat and cancels the cart, again and again.
async fn probe(port: &Port, session: &str, mut rng: Rng, stop: &AtomicBool) -> Vec<Instant> {
    let mut answers = Vec::new();
    while !stop.load(Relaxed) {
        let token = rng.token();
        let seat = [rng.below(HALL.0.into()), rng.below(HALL.1.into())];
        let hold = json!({"token": token, "session": session, "seats": [seat]});
        for (op, body) in [("cart.hold_seats", hold), ("cart.cancel", json!({"token": token}))] {
            let rid = format!("{op}-{}", &token[..12]);
            loop {
                match port.ask_within(op, &rid, body.clone(), LIMIT).await {
                    Answer::Ok(..) | Answer::No(_) => break,
                    Answer::Fail(_) => sleep(THINK).await,
                    Answer::Gone => panic!("a node that lives gives no answer to {op}"),
                }
            }
            answers.push(Instant::now());
            sleep(THINK).await;
        }
    }
    answers
}

/// Watches how long threads wait for a processor.
struct Stalls {
    stop: Arc<AtomicBool>,
    longest: Arc<Mutex<Duration>>,
    watcher: JoinHandle<()>,
}

impl Stalls {
    /// Watches the threads of this program and of these processes.
    fn watch(mut processes: Vec<u32>) -> Stalls {
        processes.push(std::process::id());
        let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Duration::ZERO)));
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&longest));
        let watcher = thread::spawn(move || {
            let mut waited: BTreeMap<String, Duration> = BTreeMap::new();
            while !stopped.load(Relaxed) {
                for (name, now) in processes.iter().flat_map(|process| waits(*process)) {
                    let before = waited.insert(name, now).unwrap_or(now);
                    let mut seen = seen.lock().expect("no panic");
                    *seen = (*seen).max(now.saturating_sub(before));
                }
                thread::sleep(LOOK);
            }
        });
        Stalls { stop, longest, watcher }
    }

    fn longest(self) -> Duration {
        self.stop.store(true, Relaxed);
        self.watcher.join().expect("no panic");
        *self.longest.lock().expect("no panic")
    }
}

/// How long each thread of a process has waited for a processor so far. A wait counts when it is over.
fn waits(process: u32) -> Vec<(String, Duration)> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let read = threads.filter_map(|thread| {
        let path = thread.path().join("schedstat");
        let text = fs::read_to_string(&path).ok()?;
        let waited_ns = text.split_whitespace().nth(1)?.parse().ok()?;
        Some((path.display().to_string(), Duration::from_nanos(waited_ns)))
    });
    read.collect()
}

#[derive(Default)]
struct Pauses {
    away: Vec<Duration>,
    back: Vec<Duration>,
    void: usize,
}

impl fmt::Display for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drawn = |pauses: &[Duration]| {
            let mut sorted = pauses.to_vec();
            sorted.sort_unstable();
            let place = |percent: usize| sorted.len().saturating_sub(1) * percent / 100;
            let at = |percent: usize| sorted.get(place(percent)).map_or(0, Duration::as_millis);
            format!("median {} ms, p90 {} ms, worst {} ms", at(50), at(90), at(100))
        };
        let (away, back) = (drawn(&self.away), drawn(&self.back));
        write!(f, "{} pauses, {away}; after the return {back}; {} rounds drawn anew", self.away.len(), self.void)
    }
}
