//! `boxoffice demo`: a cluster of three nodes with houses to sell, a payment gateway, other buyers, and a control that kills
//! nodes and starts them again.

mod buyers;
mod control;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use boxoffice_gateway::{Server, Settings};
use boxoffice_load::LocalCluster;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{self, Signal, SignalKind},
};

use crate::{
    admin::keys,
    args::{self, FsyncWord, NodeArgs, RoleWord},
    failure::{Failure, Outcome},
    import,
    load::launch,
    node_client::say,
    words::counted,
};

/// An opera house and a cinema, a theatre, a shop with a room and places without seats, and a theatre with price types.
const HOUSES: [&str; 4] = [
    include_str!("../../../config/examples/grand.json"),
    include_str!("../../../config/examples/royal.json"),
    include_str!("../../../config/examples/corner.json"),
    include_str!("../../../config/examples/globe.json"),
];

/// The codes of the theatre's members.
const CODES: &str = include_str!("../../../config/examples/globe-codes.csv");

/// The code that a visitor of the demo may show, and the session of which only members buy yet.
const MEMBER: (&str, &str) = ("GLOBE-7Q2M-XK", "henry-v-second-night");

/// The name of the operators' view in the record of changes.
const VIEW: &str = "operators-view";

/// Nodes of the demo.
const NODES: usize = 3;

/// Starts the nodes, fills them, and sells until it is stopped. Removes everything afterwards.
///
/// # Errors
/// Why the demo cannot start.
pub fn run(args: &args::Demo) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Node(format!("cannot start: {error}")))?;
    let mut end = End::listen(&runtime)?;
    let (gateway, control) = runtime.block_on(async { Ok::<_, Failure>((pay_at().await?, control::bind().await?)) })?;
    let config = format!(
        "[listen]\norigins = {:?}\ncode_secret = \"for the demo and nothing else\"\n\n[page]\nproducts = {:?}\nresources = {:?}\ndemo = \"http://{}\"\n\n[payments]\nurl = \"http://{}\"\n",
        args.origins,
        buyers::PRODUCTS,
        [buyers::RESOURCE],
        control.local_addr().map_err(no_port)?,
        gateway.address(),
    );
    // The nodes sync as real ones do.
    let mut launch = launch(FsyncWord::Always, config)?;
    let log = launch.files.with_extension("log");
    launch.log = Some(log.clone());
    launch.port = args.port;
    runtime.spawn(gateway.run(std::future::pending()));
    eprintln!("starting three nodes …");
    let started = LocalCluster::start(NODES, launch).and_then(|cluster| {
        let validated = runtime.block_on(async {
            tokio::select! {
                validated = cluster.wait_until_placed() => validated.map(|()| true),
                // The caller has stopped waiting.
                () = end.requested() => Ok(false),
            }
        });
        Ok(validated?.then(|| Arc::new(cluster)))
    });
    let outcome = match started {
        Ok(Some(cluster)) => sell(&runtime, &mut end, args, cluster, control),
        Ok(None) => Ok(()),
        Err(error) => {
            // The log of the nodes tells why.
            eprint!("{}", std::fs::read_to_string(&log).unwrap_or_default());
            Err(error.into())
        }
    };
    // The log may not exist.
    let _ = std::fs::remove_file(&log);
    runtime.shutdown_background();
    outcome
}

/// Sells until the demo is stopped.
fn sell(
    runtime: &Runtime,
    end: &mut End,
    args: &args::Demo,
    cluster: Arc<LocalCluster>,
    control: tokio::net::TcpListener,
) -> Outcome {
    let addresses = cluster.addresses();
    let admin_token = Some(cluster.admin_token().to_owned());
    let node_args = NodeArgs { address: addresses[0].clone(), ca: None, admin_token, admin_token_file: None };
    HOUSES.iter().try_for_each(|house| import::quietly(house, &node_args))?;
    import::codes_quietly(CODES, &node_args)?;
    let key = keys::make(&node_args, VIEW, &[RoleWord::Desk, RoleWord::Report])?;
    // The control must not keep the nodes alive.
    runtime.spawn(control::serve(control, Arc::downgrade(&cluster), key));
    println!(
        "\nBoxoffice is on sale at three nodes, with {}. Any node serves the page:\n",
        counted(args.buyers.into(), "buyer")
    );
    for address in &addresses {
        println!("    http://{address}/");
    }
    let (code, session) = MEMBER;
    println!("\nOnly members of the theatre buy seats of {session} yet. You are one with the code {code}.");
    println!(
        "\nKill a node and bring it back, and see what becomes of it:\n\n    http://{}/#/operator\n",
        addresses[0]
    );
    say("Ctrl-C ends it and leaves nothing behind.");
    if args.open {
        open(&format!("http://{}/", addresses[0]));
    }
    runtime.block_on(async {
        let buying = buyers::buy(addresses, args.buyers, args.seed);
        tokio::select! {
            () = end.requested() => Ok(()),
            failed = buying => failed,
        }
    })
}

async fn pay_at() -> Result<Server, Failure> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Server::bind(Settings { listen, ..Settings::default() }).await.map_err(no_port)
}

fn no_port(error: std::io::Error) -> Failure {
    Failure::Node(format!("no free port on this machine: {error}"))
}

/// Opens an address in the browser of this machine.
fn open(url: &str) {
    if let Err(error) = std::process::Command::new("xdg-open").arg(url).spawn() {
        eprintln!("xdg-open cannot be started ({error}): open {url} yourself");
    }
}

/// Ctrl-C, SIGTERM and a closed terminal. They count from the start on, so that nothing is left behind.
struct End {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl End {
    fn listen(runtime: &Runtime) -> Result<End, Failure> {
        let _here = runtime.enter();
        let signal = |kind| unix::signal(kind).map_err(|error| Failure::Node(format!("no signals: {error}")));
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(End { interrupt, terminate, hang_up: signal(SignalKind::hangup())? })
    }

    /// Resolves when one of them has come, even before this call.
    async fn requested(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
