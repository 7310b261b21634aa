//! `boxoffice load`: a scenario against running nodes, or nodes started for the run.

use std::{net::TcpListener, sync::Arc, time::Duration};

use boxoffice_client::AdminToken;
use boxoffice_load::{
    LaunchConfig, LoadError, LocalCluster, LocalNode, LocalNodeError, NodeController, RunCertificate, RunConfig,
    Scenario,
};

use crate::{
    address::{self, Address},
    args::{FsyncWord, Load},
    failure::{Failure, Outcome},
    node_client::{self, block_on},
    secret,
};

/// Runs the scenario, prints its table and says where the report is. Fails if the verdict is "no".
pub fn run(args: &Load) -> Outcome {
    let mut overrides = args.set.clone();
    overrides.extend(faults(args)?);
    let certificate = if args.tls { Some(RunCertificate::new()) } else { None };
    let certificate = certificate.transpose().map_err(|error| Failure::Node(error.to_string()))?;
    let given: Vec<Address> = args.addresses.iter().map(|address| Address::parse(address)).collect();
    let tls = match &certificate {
        Some(certificate) => Some(certificate.authorities.clone()),
        None => address::authorities(&given, args.ca.as_deref())?,
    };
    let started = if args.addresses.is_empty() { Some(start(args, certificate, &mut overrides)?) } else { None };
    let (addresses, pid) = match &started {
        Some(Started::One(node)) => (vec![node.address.clone()], Some(node.pid())),
        Some(Started::Several(cluster)) => (cluster.addresses(), cluster.pids().first().copied()),
        None => (given.into_iter().map(|address| address.host_and_port).collect(), None),
    };
    let token = match &started {
        Some(Started::One(node)) => Some(node.admin_token().to_owned()),
        Some(Started::Several(cluster)) => Some(cluster.admin_token().to_owned()),
        None => node_client::token(args.admin_token.as_ref(), args.admin_token_file.as_deref())?,
    };
    let node_controller = match &started {
        Some(Started::Several(cluster)) => Some(Arc::clone(cluster) as Arc<dyn NodeController>),
        Some(Started::One(_)) | None => None,
    };
    let config = RunConfig {
        addresses,
        scenario: args.scenario.clone(),
        overrides,
        out_dir: Some(args.out.clone()),
        baseline: args.baseline.clone(),
        worse_max: args.worse_max,
        seed: args.seed,
        disk_dir: None,
        admin_token: token.map(AdminToken),
        tls,
        server_pid: args.server_pid.or(pid),
        node_controller,
        quiet: args.quiet,
    };
    let report = boxoffice_load::run(config).map_err(failed)?;
    drop(started);
    let baseline = args.baseline.as_deref().map(boxoffice_load::Report::read).transpose();
    let baseline = baseline.map_err(|error| Failure::Usage(format!("the baseline cannot be read: {error}")))?;
    print!("{}", report.to_table(baseline.as_ref()));
    println!("report: {}", args.out.join("report.html").display());
    if report.verdict.passed { Ok(()) } else { Err(Failure::Refused(report.verdict.line.clone())) }
}

/// The nodes that were started for the run, and end with it.
enum Started {
    One(LocalNode),
    Several(Arc<LocalCluster>),
}

/// Starts the nodes, with the gateway's address if the run has a gateway.
fn start(args: &Load, certificate: Option<RunCertificate>, overrides: &mut Vec<String>) -> Result<Started, Failure> {
    let scenario = Scenario::load(&args.scenario, overrides).map_err(|error| failed(error.into()))?;
    let mut config = String::new();
    if scenario.gateway.is_some() {
        // A free port for the gateway, which the run starts after the nodes. They do not call it before.
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
        let gateway = free.map_err(|error| Failure::Node(format!("no free port for the gateway: {error}")))?;
        overrides.push(format!("gateway.listen={gateway}"));
        config = format!("[payments]\nurl = \"http://{gateway}\"\n");
        if let Some(hoarders) = &scenario.hoarders {
            config = hoarders.node_config(&gateway.to_string());
        }
    }
    if let Some(onsale) = &scenario.onsale {
        config += &onsale.node_config();
    }
    let is_shipped = scenario.hoarders.is_some();
    let launch = LaunchConfig { certificate, is_shipped, ..launch(args.fsync, config)? };
    if args.nodes == 1 && !scenario.harms_nodes() {
        let node = LocalNode::start(&launch)?;
        eprintln!("started a node of its own: {} (process {})", node.address, node.pid());
        return Ok(Started::One(node));
    }
    let cluster = LocalCluster::start(args.nodes.into(), launch)?;
    block_on(async { Ok(cluster.wait_until_placed().await?) })?;
    for (address, pid) in cluster.addresses().iter().zip(cluster.pids()) {
        eprintln!("started a node of a cluster of its own: {address} (process {pid})");
    }
    Ok(Started::Several(Arc::new(cluster)))
}

/// Nodes of this program with temporary files and this text as their configuration.
///
/// # Errors
/// [`Failure::Node`] if the path of this program is not known.
pub fn launch(fsync: FsyncWord, config: String) -> Result<LaunchConfig, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::Node(format!("no path to this program: {error}")))?;
    let files = std::env::temp_dir().join(format!("boxoffice-{}", std::process::id()));
    let admin_token = secret::hex()?;
    let fsync = fsync.word();
    let (log, certificate) = (None, None);
    Ok(LaunchConfig { program, files, fsync, config, is_shipped: false, admin_token, log, certificate, port: None })
}

impl From<LocalNodeError> for Failure {
    fn from(error: LocalNodeError) -> Failure {
        Failure::Node(error.to_string())
    }
}

/// The faults of the command line, as settings of the scenario.
fn faults(args: &Load) -> Result<Vec<String>, Failure> {
    let seconds = |name: &str, key: &str, seconds: f64| match Duration::try_from_secs_f64(seconds) {
        Ok(time) => Ok(format!("faults.{key}={}", time.as_millis())),
        Err(_) => Err(Failure::Usage(format!("--{name} {seconds}: give seconds after the start, like 20 or 7.5"))),
    };
    let mut settings = Vec::new();
    if let Some(at) = args.kill_at {
        settings.push(seconds("kill-at", "kill_at_ms", at)?);
    }
    if let Some(at) = args.add_at {
        settings.push(seconds("add-at", "add_at_ms", at)?);
    }
    settings.extend(args.kills.map(|kills| format!("faults.kills={kills}")));
    Ok(settings)
}

fn failed(error: LoadError) -> Failure {
    match error {
        LoadError::Scenario(_)
        | LoadError::Picker(_)
        | LoadError::NoAddress
        | LoadError::ForeignNodes
        | LoadError::OtherBaseline(..)
        | LoadError::NotEncrypted(_)
        | LoadError::File { .. } => Failure::Usage(error.to_string()),
        LoadError::Connect { .. } | LoadError::NoHello { .. } => Failure::Unreachable(format!(
            "{error}; is `boxoffice serve` running there? Without --address a node is started for the run"
        )),
        LoadError::Query { .. } | LoadError::Setup { .. } | LoadError::System { .. } | LoadError::Internal(_) => {
            Failure::Refused(error.to_string())
        }
    }
}
