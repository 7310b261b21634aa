//! The payment gateway as a child process, and the configuration of a node that uses it.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::SystemTime,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::task::block_in_place;

use super::{http, server::BOXOFFICE};

/// Secret that signs webhooks.
pub(crate) const SECRET: &str = "a-secret-for-trying-out";

/// Path of the program. It belongs to another package, so it is built here if necessary.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = Path::new(BOXOFFICE).with_file_name("boxoffice-gateway");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/src");
        let changed = |file: &Path| fs::metadata(file).and_then(|file| file.modified()).ok();
        let newest =
            fs::read_dir(sources).expect("the gateway's sources").filter_map(|file| changed(&file.ok()?.path()));
        if changed(&program) < newest.max() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "boxoffice-gateway", "--manifest-path"]);
            build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));
            // In the same profile as the program under test.
            let profile = program.parent().and_then(Path::file_name).and_then(|name| name.to_str()).expect("a profile");
            build.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
            assert!(build.status().expect("cargo runs").success(), "the gateway cannot be built");
            fs::File::options().append(true).open(&program).and_then(|file| file.set_modified(SystemTime::now())).ok();
        }
        program
    })
}

/// A running gateway. Dropping it kills the process and loses its ledger.
pub(crate) struct Gateway {
    child: Child,
    address: SocketAddr,
}

impl Gateway {
    /// Starts it on any port. It sends no webhooks by itself.
    pub(crate) fn start() -> Gateway {
        Gateway::spawn("127.0.0.1:0", None)
    }

    /// Starts it at the address of an earlier gateway.
    pub(crate) fn start_at(address: SocketAddr) -> Gateway {
        Gateway::spawn(&address.to_string(), None)
    }

    /// Starts it on any port, with webhooks to the node at this address.
    pub(crate) fn with_webhooks_to(node: SocketAddr) -> Gateway {
        Gateway::spawn("127.0.0.1:0", Some(node))
    }

    /// Starts it at `listen`, with webhooks to `node`.
    pub(crate) fn spawn(listen: &str, node: Option<SocketAddr>) -> Gateway {
        let mut command = Command::new(program());
        command.args(["--listen", listen]);
        if let Some(node) = node {
            command.args(["--webhook", &format!("http://{node}/v1/payments/webhook"), "--secret", SECRET]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the gateway starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        block_in_place(|| BufReader::new(stdout).read_line(&mut line)).expect("the gateway prints its address");
        let address = line.trim().strip_prefix("boxoffice-gateway listens on http://").expect("an address");
        Gateway { child, address: address.parse().expect("an address") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills the process. Returns its address.
    pub(crate) fn kill(mut self) -> SocketAddr {
        self.child.kill().expect("a child that can be killed");
        self.child.wait().expect("a child");
        self.address
    }

    /// Stops the process with SIGSTOP, so that requests wait.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the process.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child that can be signalled");
    }

    pub(crate) async fn ledger(&self) -> Value {
        let (status, text) = http::get(self.address, "/ledger").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("the ledger is JSON")
    }

    /// The charges of a cart, by attempt: state, amounts authorized, captured and refunded.
    pub(crate) async fn charges(&self, cart: &str) -> Vec<(String, i64, i64, i64)> {
        let ledger = self.ledger().await;
        let charges = ledger["charges"].as_array().expect("charges").iter();
        let of_cart = charges.filter(|charge| charge["key"].as_str().expect("a key").starts_with(cart));
        let amount = |charge: &Value, name: &str| charge[name].as_i64().expect("an amount");
        of_cart
            .map(|charge| {
                let state = charge["state"].as_str().expect("a state").to_owned();
                (state, amount(charge, "authorized"), amount(charge, "captured"), amount(charge, "refunded"))
            })
            .collect()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
