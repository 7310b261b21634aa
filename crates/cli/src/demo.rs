//! `boxoffice demo`: three nodes of one's own in one cluster, houses to sell, a payment gateway, other buyers, and a control
//! that kills nodes and brings them back: everything a browser needs to see what this is.

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
    args::{self, FsyncWord, Reach, RoleWord},
    failure::{Failure, Outcome},
    import,
    load::launch,
    reach::say,
    words::counted,
};

/// What is sold: an opera house and a cinema; a theatre; a shop, a room and places without seats.
const HOUSES: [&str; 3] = [
    include_str!("../../../config/examples/grand.json"),
    include_str!("../../../config/examples/royal.json"),
    include_str!("../../../config/examples/corner.json"),
];

/// The key of the operators' view: what is done there stands under this name in the record.
const VIEW: &str = "operators-view";

/// Nodes of the demo.
const NODES: usize = 3;

/// Starts the nodes, fills them, sells from them until it is told to end; everything is gone afterwards.
///
/// # Errors
/// What keeps the demo from starting.
pub fn run(args: &args::Demo) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Node(format!("cannot start: {error}")))?;
    let mut end = End::listen(&runtime)?;
    let (gateway, control) = runtime.block_on(async { Ok::<_, Failure>((pay_at().await?, control::bind().await?)) })?;
    let config = format!(
        "[listen]\norigins = {:?}\n\n[page]\nproducts = {:?}\nresources = {:?}\ndemo = \"http://{}\"\n\n[payments]\nurl = \"http://{}\"\n",
        args.origins,
        buyers::PRODUCTS,
        [buyers::RESOURCE],
        control.local_addr().map_err(no_port)?,
        gateway.address(),
    );
    // Nodes sync as they do everywhere else.
    let mut launch = launch(FsyncWord::Always, config)?;
    let log = launch.files.with_extension("log");
    launch.log = Some(log.clone());
    runtime.spawn(gateway.run(std::future::pending()));
    eprintln!("starting three nodes …");
    let started = LocalCluster::start(NODES, launch).and_then(|cluster| {
        let settled = runtime.block_on(async {
            tokio::select! {
                settled = cluster.wait_until_settled() => settled.map(|()| true),
                // The caller has stopped waiting.
                () = end.told() => Ok(false),
            }
        });
        Ok(settled?.then(|| Arc::new(cluster)))
    });
    let outcome = match started {
        Ok(Some(cluster)) => sell(&runtime, &mut end, args, cluster, control),
        Ok(None) => Ok(()),
        Err(error) => {
            // What the nodes said is all there is to go by.
            eprint!("{}", std::fs::read_to_string(&log).unwrap_or_default());
            Err(error.into())
        }
    };
    // It may never have been written.
    let _ = std::fs::remove_file(&log);
    runtime.shutdown_background();
    outcome
}

/// Sells from the nodes until it is told to end.
fn sell(
    runtime: &Runtime,
    end: &mut End,
    args: &args::Demo,
    cluster: Arc<LocalCluster>,
    control: tokio::net::TcpListener,
) -> Outcome {
    let addresses = cluster.addresses();
    let admin_token = Some(cluster.admin_token().to_owned());
    let reach = Reach { address: addresses[0].clone(), admin_token, admin_token_file: None };
    HOUSES.iter().try_for_each(|house| import::quietly(house, &reach))?;
    let key = keys::make(&reach, VIEW, &[RoleWord::Desk, RoleWord::Report])?;
    // It knows the nodes for as long as the demo does.
    runtime.spawn(control::serve(control, Arc::downgrade(&cluster), key));
    println!(
        "\nBoxoffice is on sale at three nodes, with {}. Any node serves the page:\n",
        counted(args.buyers.into(), "buyer")
    );
    for address in &addresses {
        println!("    http://{address}/");
    }
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
            () = end.told() => Ok(()),
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
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if let Err(error) = std::process::Command::new(opener).arg(url).spawn() {
        eprintln!("{opener} cannot be started ({error}): open {url} yourself");
    }
}

/// Ctrl-C, what service managers send, and a terminal that is closed; listened to from the start on, so that nothing is left
/// behind.
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

    /// Resolves when one of them has come, also if that was long ago.
    async fn told(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
