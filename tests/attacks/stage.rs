//! A node as shipped, a theatre, and an attack: a legitimate buyer before and during it, and the checks of both.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{buyer::Buyer, wire};
use crate::common::{ADMIN, Encoding, Home, Port, Rng, Server, Theatre, eventually, http};

/// Anonymous callers buy and record payments themselves. Budgets, overload and limits are as shipped.
pub(crate) const SHOP: &str =
    "[listen]\nanonymous = \"sell\"\n\n[payments]\nrecorded = \"anyone\"\n\n[log]\nsegment_bytes = 1_048_576\n\n";

/// The most additional memory that an attack may cost a node, with a wide margin.
const ATTACK_MIB_MAX: u64 = 192;

/// The most additional memory afterwards, because allocators keep some.
const RETAINED_MIB_MAX: u64 = 128;

/// The address of operators.
const OPERATOR: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// How often memory and the operators' port are sampled.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// Concurrent attacks. Measured attacks run alone.
const CONCURRENT_ATTACKS: u32 = 2;
static ATTACKS: Semaphore = Semaphore::const_new(CONCURRENT_ATTACKS as usize);

/// The duration of each attack in seconds, if given.
fn seconds() -> Option<f64> {
    let seconds = std::env::var("BOXOFFICE_ATTACK_S").ok();
    seconds.map(|seconds| seconds.parse().expect("BOXOFFICE_ATTACK_S is a number"))
}

/// The duration of each attack.
pub(crate) fn time() -> Duration {
    Duration::from_secs_f64(seconds().unwrap_or(1.5))
}

/// A node with a theatre in which a legitimate buyer buys.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) theatre: Theatre,
    pub(crate) rng: Rng,
    pub(crate) home: Home,
    _turn: SemaphorePermit<'static>,
}

impl Stage {
    /// A node with the shop's configuration and these additional lines.
    pub(crate) async fn new(test: &str, more: &str) -> Stage {
        Stage::of_home(test, Home::with_config(&format!("{SHOP}{more}"))).await
    }

    /// A node with this home.
    pub(crate) async fn of_home(test: &str, home: Home) -> Stage {
        let command = home.shipped_command();
        Stage::of_command(test, home, command).await
    }

    /// A node started by this command.
    pub(crate) async fn of_command(test: &str, home: Home, mut command: Command) -> Stage {
        // A file that weakens the node must make tests fail, which shows that they test something.
        if let Ok(weaker) = std::env::var("BOXOFFICE_ATTACK_CONFIG") {
            command.arg("--config").arg(weaker);
        }
        let permits = if seconds().is_some() { CONCURRENT_ATTACKS } else { 1 };
        let permit = ATTACKS.acquire_many(permits).await.expect("the semaphore is never closed");
        let rng = Rng::of_test(test);
        let server = Server::spawn(command).unwrap_or_else(|refused| panic!("the node does not serve: {refused:?}"));
        let port = server.port(Encoding::MsgPack).await;
        let sessions = 12 + (time().as_secs_f64() * 0.6) as usize;
        let theatre = Theatre::open(&port, sessions, (20, 25), None).await;
        Stage { server, theatre, rng, home, _turn: permit }
    }

    /// Stops the node and starts it again, with its data.
    pub(crate) fn restart(self) -> Stage {
        let Stage { server, theatre, rng, home, _turn } = self;
        server.stop();
        let server = Server::spawn(home.shipped_command());
        let server = server.unwrap_or_else(|refused| panic!("the node does not serve: {refused:?}"));
        Stage { server, theatre, rng, home, _turn }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The audit of the whole node, without violations.
    pub(crate) async fn audit(&self) -> Value {
        let audit = http::ask(self.server.operators(), "admin.audit", None, &json!({})).await.ok();
        assert_eq!(audit["violations"], json!([]), "{audit}");
        audit
    }

    /// A counter of the node.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let (status, text) = http::get(self.server.operators(), "/metrics").await;
        assert_eq!(status, 200, "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("there is no {name}")).parse::<f64>().expect("a number") as u64
    }

    /// Waits until nothing is held and exactly this many seats are sold.
    pub(crate) async fn has_sold_exactly(&self, sold: usize) {
        eventually(&format!("nothing is held and {sold} seats are sold"), async || {
            let audit = self.audit().await;
            let seats = [&audit["seats"]["held"], &audit["seats"]["sold"], &audit["order_seats"], &audit["holds"]];
            (seats.map(Value::as_u64)[..3] == [Some(0), Some(sold as u64), Some(sold as u64)]).then_some(())
        })
        .await;
    }

    /// Waits until only the observers are connected.
    pub(crate) async fn has_no_attackers(&self) {
        eventually("every attacker is gone", async || {
            (self.metric("boxoffice_edge_connections").await <= 2).then_some(())
        })
        .await;
    }

    /// An operator's connection.
    pub(crate) async fn operator(&self) -> Port {
        Port::connect(self.server.operators(), Encoding::Json).await
    }

    /// Measures the buyer alone, and keeps it buying while the caller attacks.
    pub(crate) async fn start_attack(&self, attack: &'static str, each: usize) -> AttackRun<'_> {
        let buyer = Buyer::start(self.address(), &self.theatre, self.rng.fork(1), each);
        sleep((time() / 3).min(Duration::from_secs(10))).await;
        let sampler = Sampler::start(self.server.pid(), self.server.operators());
        let rss = memory_mib(self.server.pid());
        AttackRun { stage: self, attack, buyer, sampler, rss, begun: Instant::now(), limit: ATTACK_MIB_MAX }
    }
}

/// Resident memory of a process, in MiB.
fn memory_mib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process that lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

/// Samples a node's memory and its operators' port.
struct Sampler {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Samples>>,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug, Default)]
struct Samples {
    rss: u64,
    /// Answers of the operators' port, and its failures.
    answers: usize,
    silent: Vec<String>,
}

impl Sampler {
    fn start(pid: u32, operators: SocketAddr) -> Sampler {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Samples>>::default());
        let (ends, all) = (Arc::clone(&stop), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            for number in 0.. {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let path = ["/healthz", "/readyz", "/metrics", "/v1/admin.status"][number % 4];
                let request = format!(
                    "GET {path} HTTP/1.1\r\nhost: {operators}\r\nauthorization: Bearer {ADMIN}\r\nconnection: close\r\n\r\n"
                );
                let answer = wire::exchange(OPERATOR, operators, &request).await;
                {
                    let mut seen = all.lock().expect("no panic");
                    seen.rss = seen.rss.max(memory_mib(pid));
                    match answer {
                        Ok(answer) if answer.status == 200 => seen.answers += 1,
                        // A full node reports at `/readyz` that it has no room.
                        Ok(answer) if path == "/readyz" && answer.status == 503 => seen.answers += 1,
                        Ok(answer) => seen.silent.push(format!("{path}: {} {}", answer.status, answer.body)),
                        Err(error) => seen.silent.push(format!("{path}: {error}")),
                    }
                }
                sleep(SAMPLE_EVERY).await;
            }
        });
        Sampler { stop, seen, task }
    }

    async fn end(self) -> Samples {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("a sampler");
        self.seen.lock().expect("no panic").clone()
    }
}

/// A running attack.
pub(crate) struct AttackRun<'a> {
    stage: &'a Stage,
    attack: &'static str,
    buyer: Buyer,
    sampler: Sampler,
    rss: u64,
    begun: Instant,
    limit: u64,
}

impl AttackRun<'_> {
    /// The rest of the attack's time.
    pub(crate) fn left(&self) -> Duration {
        time().saturating_sub(self.begun.elapsed())
    }

    /// Waits until the attack's time is over.
    pub(crate) async fn wait(&self) {
        sleep(self.left()).await;
    }

    /// Whether the attack's time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Ends the attack and prints its line. Returns how many seats the buyer has bought in all.
    ///
    /// # Panics
    /// If the buyer bought nothing during the attack or a purchase failed, the operators' port was silent, or the node took too
    /// much memory.
    pub(crate) async fn end(self) -> usize {
        let AttackRun { stage, attack, buyer, sampler, rss, begun, limit } = self;
        // A short attack may end before the buyer's first purchase.
        eventually("the buyer buys beside the attack", async || {
            let bought = buyer.bought();
            let beside = bought.purchases.iter().filter(|(at, _)| *at >= begun).count();
            let samples_before = sampler.seen.lock().expect("no panic").answers;
            ((beside >= 3 && samples_before >= 4) || !bought.failed.is_empty()).then_some(())
        })
        .await;
        let lasted = begun.elapsed();
        let bought = buyer.stop().await;
        let seen = sampler.end().await;
        let (before, beside): (Vec<_>, Vec<_>) = bought.purchases.iter().partition(|(at, _)| *at < begun);
        let after = memory_mib(stage.server.pid());
        println!(
            "attack | {attack} | {:.0} s | alone {} | beside {} | repeats {} | memory {rss}, {}, {after} MiB | operators {} answers",
            lasted.as_secs_f64(),
            latencies(&before),
            latencies(&beside),
            repeats_text(&bought.repeats),
            seen.rss,
            seen.answers
        );
        assert_eq!(bought.failed, [""; 0], "{attack}: purchases that failed");
        assert!(!before.is_empty(), "{attack}: the buyer bought nothing alone");
        assert_eq!(seen.silent, [""; 0], "{attack}: the operators' port");
        assert!(seen.rss <= rss + limit, "{attack}: memory was {rss} MiB and came to {} MiB", seen.rss);
        assert!(after <= rss + RETAINED_MIB_MAX.min(limit), "{attack}: memory was {rss} MiB and stays at {after} MiB");
        assert!(!stage.server.stderr().contains("panicked"), "{}", stage.server.stderr());
        bought.purchases.len()
    }
}

/// The number of purchases, their median time and their 99th percentile.
fn latencies(purchases: &[&(Instant, Duration)]) -> String {
    let mut times: Vec<Duration> = purchases.iter().map(|(_, took)| *took).collect();
    times.sort();
    let at = |share: f64| {
        let time = times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
        time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    format!("{} (p50 {:.1} ms, p99 {:.1} ms)", times.len(), at(0.5), at(0.99))
}

fn repeats_text(repeats: &BTreeMap<u64, usize>) -> String {
    let all: Vec<String> = repeats.iter().map(|(code, count)| format!("{code}: {count}")).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}
