//! The preparation of a run: connections, the house and goods, and the nodes' totals before the first flow.

use std::{sync::Arc, time::Instant};

use boxoffice_workload::{goods::Goods, house::House};
use rand::{TryRngCore, rngs::OsRng};

use crate::{
    LoadError, RunConfig,
    audit::NodeTotals,
    clock::now_ms,
    connection_pool::{ConnectionPool, Credentials},
    machine::{listening_pid, process_memory},
    onsale,
    progress::Progress,
    report::{Memory, Server},
    scenario::Scenario,
    setup::{self, SessionDefaults},
    test_gateway::TestGateway,
};

/// A run whose house and goods exist.
pub(super) struct Prepared {
    pub(super) scenario: Scenario,
    pub(super) started_at_ms: u64,
    pub(super) seed: u64,
    pub(super) prefix: String,
    pub(super) house: House,
    pub(super) goods: Goods,
    pub(super) test_gateway: Option<TestGateway>,
    pub(super) connections: Arc<ConnectionPool>,
    pub(super) server: Server,
    pub(super) setup_s: f64,
    /// How long it took to put the codes of an on-sale, in seconds.
    pub(super) codes_put_s: f64,
    pub(super) totals_before: NodeTotals,
    /// Data shards of the cluster. 0 for a single node, where the run does not need them.
    pub(super) shards: u16,
    pub(super) pid: Option<u32>,
    memory_before: u64,
    memory_set_up: u64,
}

impl Prepared {
    /// Starts the test gateway, connects to the nodes and creates everything that is sold.
    pub(super) async fn new(
        config: &RunConfig,
        scenario: Scenario,
        progress: &Progress,
    ) -> Result<Prepared, LoadError> {
        let started_at_ms = now_ms();
        let seed = config.seed.unwrap_or_else(random);
        let prefix = prefix(started_at_ms);
        let (house, goods) = (scenario.house(&prefix), scenario.goods(&prefix));
        let test_gateway = match &scenario.gateway {
            Some(spec) => Some(TestGateway::start(spec, seed).await?),
            None => None,
        };
        let credentials = Credentials { admin_token: config.admin_token.clone(), tls: config.tls.clone() };
        let connections = ConnectionPool::open(&config.addresses, &scenario.connect, credentials).await?;
        let connections = Arc::new(connections);
        let pid = config.server_pid.or_else(|| listening_pid(config.addresses.first()?));
        let memory_before = resident(pid);
        let server = connections.server_info().await?;

        let begun = Instant::now();
        let defaults = SessionDefaults::of(&scenario, started_at_ms);
        let codes_put_s = match &scenario.onsale {
            Some(spec) => onsale::create(&connections, &scenario, (spec, &house), started_at_ms, progress).await?,
            None => {
                setup::create_sessions(&connections, &house, &defaults, progress).await?;
                0.0
            }
        };
        setup::create_goods(&connections, &scenario, &goods, started_at_ms, progress).await?;
        let setup_s = begun.elapsed().as_secs_f64();
        let memory_set_up = resident(pid);
        let totals_before = NodeTotals::fetch(&connections).await?;
        let shards = shards(&connections).await?;
        Ok(Prepared {
            scenario,
            started_at_ms,
            seed,
            prefix,
            house,
            goods,
            test_gateway,
            connections,
            server,
            setup_s,
            codes_put_s,
            totals_before,
            shards,
            pid,
            memory_before,
            memory_set_up,
        })
    }

    /// Memory of the server process before, during and after the run. `None` if the process no longer exists: a node
    /// that was killed has another process after its restart.
    pub(super) fn memory(&self) -> Option<Memory> {
        let pid = self.pid.filter(|_| resident(self.pid) > 0)?;
        Some(Memory { pid, before: self.memory_before, set_up: self.memory_set_up, after: resident(self.pid) })
    }
}

fn resident(pid: Option<u32>) -> u64 {
    pid.and_then(process_memory).unwrap_or(0)
}

async fn shards(connections: &ConnectionPool) -> Result<u16, LoadError> {
    if connections.addresses().len() < 2 {
        return Ok(0);
    }
    let places = connections.cluster_status().await?.places.len();
    Ok(u16::try_from(places.saturating_sub(1)).unwrap_or(u16::MAX))
}

/// 64 bits that differ from run to run.
fn random() -> u64 {
    OsRng.try_next_u64().unwrap_or_else(|_| now_ms())
}

/// The prefix of all ids of a run: its start time and random bits, so that the ids of two runs on one server never
/// collide.
fn prefix(now_ms: u64) -> String {
    format!("l{:x}-{:05x}", now_ms / 1_000, random() & 0xf_ffff)
}
