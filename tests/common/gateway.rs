//! The payment gateway as a process of its own, and the node's configuration that leads to it.

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

/// What webhooks are signed with.
pub(crate) const SECRET: &str = "a-secret-for-trying-out";

/// The program. It belongs to another package, so it is built here if it is not built yet.
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
            // Beside the program under test, whatever profile that has.
            let profile = program.parent().and_then(Path::file_name).and_then(|name| name.to_str()).expect("a profile");
            build.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
            assert!(build.status().expect("cargo runs").success(), "the gateway cannot be built");
            fs::File::options().append(true).open(&program).and_then(|file| file.set_modified(SystemTime::now())).ok();
        }
        program
    })
}

/// A gateway that serves. It is killed when this is dropped, and its ledger is gone with it.
pub(crate) struct Gateway {
    child: Child,
    address: SocketAddr,
}

impl Gateway {
    /// Starts it on any port. It sends no webhooks by itself.
    pub(crate) fn start() -> Gateway {
        Gateway::spawn("127.0.0.1:0", None)
    }

    /// Starts it where another one was.
    pub(crate) fn start_at(address: SocketAddr) -> Gateway {
        Gateway::spawn(&address.to_string(), None)
    }

    /// Starts it anywhere, with webhooks to the node at this address.
    pub(crate) fn telling(node: SocketAddr) -> Gateway {
        Gateway::spawn("127.0.0.1:0", Some(node))
    }

    /// Starts it there, with webhooks to the node at that address.
    pub(crate) fn spawn(listen: &str, node: Option<SocketAddr>) -> Gateway {
        let mut command = Command::new(program());
        command.args(["--listen", listen]);
        if let Some(node) = node {
            command.args(["--webhook", &format!("http://{node}/v1/payments/webhook"), "--secret", SECRET]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the gateway starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        block_in_place(|| BufReader::new(stdout).read_line(&mut line)).expect("it says where it listens");
        let address = line.trim().strip_prefix("boxoffice-gateway listens on http://").expect("an address");
        Gateway { child, address: address.parse().expect("an address") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it without warning; where it was.
    pub(crate) fn kill(mut self) -> SocketAddr {
        self.child.kill().expect("a child that can be killed");
        self.child.wait().expect("a child");
        self.address
    }

    /// It stops: requests wait.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// It goes on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child that can be signalled");
    }

    /// Its ledger.
    pub(crate) async fn ledger(&self) -> Value {
        let (status, text) = http::get(self.address, "/ledger").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("the ledger is JSON")
    }

    /// The charges of a cart, by attempt: state, what was set aside, taken and paid back.
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
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
