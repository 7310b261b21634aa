//! `boxoffice load`: a scenario against running nodes, or against one of its own.

use std::net::TcpListener;

use boxoffice_client::AdminToken;
use boxoffice_load::{LoadError, RunConfig, Scenario};

use crate::{
    args::Load,
    failure::{Failure, Outcome},
    local_node::LocalNode,
};

/// Runs the scenario, prints its table and says where the report is. Fails if the verdict is "no".
pub fn run(args: &Load) -> Outcome {
    let mut overrides = args.set.clone();
    let (addresses, node) = if args.addresses.is_empty() {
        let scenario = Scenario::load(&args.scenario, &overrides).map_err(|error| failed(error.into()))?;
        let mut config = String::new();
        if scenario.gateway.is_some() {
            // A free port for the gateway that the run starts, told to the node before there is one: it asks no sooner.
            let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
            let gateway = free.map_err(|error| Failure::Node(format!("no free port for the gateway: {error}")))?;
            overrides.push(format!("gateway.listen={gateway}"));
            config = format!("[payments]\nurl = \"http://{gateway}\"\n");
        }
        let node = LocalNode::start_with(args.fsync, &config)?;
        eprintln!("started a node of its own: {} (process {})", node.address, node.pid());
        (vec![node.address.clone()], Some(node))
    } else {
        (args.addresses.clone(), None)
    };
    let config = RunConfig {
        addresses,
        scenario: args.scenario.clone(),
        overrides,
        out_dir: Some(args.out.clone()),
        baseline: args.baseline.clone(),
        seed: args.seed,
        disk_dir: None,
        admin_token: args.admin_token.clone().map(AdminToken),
        server_pid: args.server_pid.or_else(|| node.as_ref().map(LocalNode::pid)),
        quiet: args.quiet,
    };
    let report = boxoffice_load::run(config).map_err(failed)?;
    drop(node);
    let baseline = args.baseline.as_deref().map(boxoffice_load::Report::read).transpose();
    let baseline = baseline.map_err(|error| Failure::Usage(format!("the baseline cannot be read: {error}")))?;
    print!("{}", report.to_table(baseline.as_ref()));
    println!("report: {}", args.out.join("report.html").display());
    if report.verdict.passed { Ok(()) } else { Err(Failure::Refused(report.verdict.line.clone())) }
}

fn failed(error: LoadError) -> Failure {
    match error {
        LoadError::Scenario(_) | LoadError::Picker(_) | LoadError::NoAddress | LoadError::File { .. } => {
            Failure::Usage(error.to_string())
        }
        LoadError::Connect { .. } | LoadError::Silent { .. } => Failure::Unreachable(format!(
            "{error}; is `boxoffice serve` running there? Without --address a node is started for the run"
        )),
        LoadError::Asked { .. } | LoadError::Setup { .. } | LoadError::Machine { .. } | LoadError::Broken(_) => {
            Failure::Refused(error.to_string())
        }
    }
}
