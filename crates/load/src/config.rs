//! The configuration of a run: its scenario, its nodes and its report.

use std::{path::PathBuf, sync::Arc};

use boxoffice_client::{AdminToken, TlsAuthorities};

use crate::node_controller::NodeController;

/// The configuration of a run: its scenario, its nodes and its report.
#[derive(Clone, Debug, Default)]
pub struct RunConfig {
    /// Nodes, as `host:port`.
    pub addresses: Vec<String>,
    /// The name of a built-in scenario, or a file.
    pub scenario: String,
    /// Settings that change the scenario: `closed_loop.clients=64`.
    pub overrides: Vec<String>,
    /// The directory for `report.json` and `report.html`. If absent, the run writes no report.
    pub out_dir: Option<PathBuf>,
    /// The `report.json` of an earlier run to compare with.
    pub baseline: Option<PathBuf>,
    /// By how many percent the run may be worse than the baseline. If absent, it is only compared.
    pub worse_max: Option<f64>,
    /// Seed of the run's random choices. If absent, each run draws its own.
    pub seed: Option<u64>,
    /// A directory on the servers' disk, where the run measures the raw flush time. The default is `out_dir`, or the
    /// directory for temporary files without one.
    pub disk_dir: Option<PathBuf>,
    /// The admin token, if the nodes require one.
    pub admin_token: Option<AdminToken>,
    /// Connections to the nodes are encrypted, and the nodes show a certificate of one of these authorities.
    pub tls: Option<TlsAuthorities>,
    /// The server process whose memory is reported. The default is the process that listens on the first address, if it
    /// runs on this machine.
    pub server_pid: Option<u32>,
    /// Controls the nodes. Required if the scenario kills, stops or adds nodes.
    pub node_controller: Option<Arc<dyn NodeController>>,
    /// No progress bar.
    pub quiet: bool,
}
