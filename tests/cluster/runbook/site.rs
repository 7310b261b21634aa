//! Three machines as the pages name them, each with a folder and a node of its own, and the commands that are typed at them.

use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use boxoffice_core::time::Timestamp;
use boxoffice_wire::repr;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{task::block_in_place, time::sleep};

use crate::{
    cluster::{faketime, free_address},
    common::{
        ADMIN, Answer, BOXOFFICE, CALM, Encoding, Faults, OPEN, Rng, Server, Shopper, Theatre, eventually,
        fault_library, http, write_control,
    },
};

/// The machines, by the first word of their prompts.
const NAMES: [&str; 3] = ["one", "two", "three"];

/// The operators' port of every machine, as pages name it.
const OPERATORS: &str = "127.0.0.1:7380";

/// The instant of pages.
const INSTANT: &str = "2026-11-30T09:24:00Z";

/// The pause before and after an instant to which a backup is restored. Marks are closer to each other.
const PAUSE: Duration = Duration::from_millis(600);

/// Small files, as in all tests of clusters. No load balancer is waited for.
const SMALL: &str = "[log]\nsegment_bytes = 262_144\n\n[snapshots]\nentries = 300\n\n[history]\nmemtable_bytes = 1_048_576\n\n\
                     [backup]\nmark_ms = 200\n";

/// The secret behind customers' tokens.
const CUSTOMERS: &str = "what-the-tokens-of-customers-are-made-with";

/// So much of an invitation stands in a page.
const INVITATION_CHARS: usize = 24;

/// Orders of one sale.
const ORDERS: usize = 5;

/// The folder of the pages.
pub(super) fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/runbook")
}

/// What the machines' nodes are loaded with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// The library that fills disks.
    Disks,
    /// The library that sets clocks.
    Clocks,
}

struct Machine {
    name: &'static str,
    /// The addresses of its node in pages.
    named: [String; 3],
    /// Those of this run, in the same order: clients, peers, operators.
    addresses: [SocketAddr; 3],
    dir: PathBuf,
    server: Option<Server>,
    /// What its nodes have logged that have ended.
    journal: String,
}

impl Machine {
    fn data_dir(&self) -> PathBuf {
        self.dir.join("boxoffice")
    }

    fn control_file(&self) -> PathBuf {
        self.dir.join("faults")
    }

    fn clock_file(&self) -> PathBuf {
        self.dir.join("clock")
    }

    fn operators(&self) -> SocketAddr {
        self.addresses[2]
    }

    fn note_journal(&mut self, stderr: &str) {
        self.journal.push_str(stderr);
    }
}

pub(super) struct Site {
    dir: TempDir,
    machines: Vec<Machine>,
    trouble: Trouble,
    /// The last line of the last invitation.
    invitation: String,
    /// What pages call [`INSTANT`].
    instant: String,
    theatre: Option<Theatre>,
    rng: Rng,
}

impl Site {
    /// Three machines, whose nodes are one cluster.
    pub(super) async fn three(trouble: Trouble) -> Site {
        let mut site = Site::new(&NAMES, trouble);
        site.serve("one");
        for name in &NAMES[1..] {
            site.run("one", "boxoffice admin invite").await;
            site.run(name, "boxoffice join --config /etc/boxoffice/boxoffice.toml").await;
        }
        site.is_whole().await;
        site
    }

    /// One machine, whose node is alone.
    pub(super) async fn alone() -> Site {
        let mut site = Site::new(&NAMES[..1], Trouble::None);
        site.serve("one");
        site
    }

    fn new(names: &[&'static str], trouble: Trouble) -> Site {
        let dir = tempfile::Builder::new().prefix("boxoffice-test-").tempdir().expect("a temporary directory");
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).expect("a directory");
        symlink(BOXOFFICE, bin.join("boxoffice")).expect("the program's name");
        // In the place of the system's journal.
        let journalctl = bin.join("journalctl");
        fs::write(&journalctl, "#!/bin/sh\ncat ../journal\n").expect("a written file");
        fs::set_permissions(&journalctl, fs::Permissions::from_mode(0o755)).expect("a program");
        let machines = names.iter().zip(11..).map(|(name, number)| {
            let host = format!("10.20.0.{number}");
            let machine = Machine {
                name,
                named: [format!("{host}:7180"), format!("{host}:7280"), OPERATORS.to_owned()],
                addresses: [free_address(), free_address(), free_address()],
                dir: dir.path().join(name),
                server: None,
                journal: String::new(),
            };
            fs::create_dir_all(machine.dir.join("etc")).expect("a directory");
            fs::create_dir_all(machine.dir.join("home")).expect("a directory");
            fs::write(machine.dir.join("etc/admin.token"), ADMIN).expect("a written file");
            fs::write(machine.dir.join("etc/customers.secret"), CUSTOMERS).expect("a written file");
            fs::write(machine.dir.join("small.toml"), SMALL).expect("a written file");
            faketime::set(&machine.clock_file(), 0);
            machine
        });
        let machines = machines.collect();
        let rng = Rng::of_test("runbook");
        let (invitation, instant) = (String::new(), INSTANT.to_owned());
        let site = Site { dir, machines, trouble, invitation, instant, theatre: None, rng };
        let page = fs::read_to_string(pages().with_extension("md")).expect("the first page");
        let (_, config) = page.split_once("```toml\n").expect("a configuration");
        let (config, _) = config.split_once("```").expect("its end");
        for machine in &site.machines {
            let own = config.replace("10.20.0.11", machine.named[0].trim_end_matches(":7180"));
            let operators = format!("\n[ops]\nlisten = \"{}\"\n", machine.operators());
            let config = site.real(machine, &own) + &operators;
            fs::write(machine.dir.join("etc/boxoffice.toml"), config).expect("a written file");
        }
        site
    }

    fn machine(&self, name: &str) -> &Machine {
        let found = self.machines.iter().find(|machine| machine.name == name);
        found.unwrap_or_else(|| panic!("there is no machine {name}"))
    }

    fn machine_mut(&mut self, name: &str) -> &mut Machine {
        let found = self.machines.iter_mut().find(|machine| machine.name == name);
        found.unwrap_or_else(|| panic!("there is no machine {name}"))
    }

    /// The names of a page with what they are in this run, at this machine.
    fn names(&self, machine: &Machine) -> Vec<(String, String)> {
        let dir = machine.dir.display();
        let mut names = vec![
            ("/var/lib/boxoffice".to_owned(), format!("{dir}/boxoffice")),
            ("/etc/boxoffice".to_owned(), format!("{dir}/etc")),
            ("/backup".to_owned(), format!("{}/backup", self.dir.path().display())),
            (INSTANT.to_owned(), self.instant.clone()),
        ];
        for other in &self.machines {
            let addresses = other.named.iter().zip(other.addresses);
            let addresses = addresses.filter(|(named, _)| *named != OPERATORS || other.name == machine.name);
            names.extend(addresses.map(|(named, address)| (named.clone(), address.to_string())));
        }
        names
    }

    fn real(&self, machine: &Machine, text: &str) -> String {
        self.names(machine).iter().fold(text.to_owned(), |text, (named, real)| text.replace(named, real))
    }

    fn readable(&self, machine: &Machine, text: &str) -> String {
        self.names(machine).iter().fold(text.to_owned(), |text, (named, real)| text.replace(real, named))
    }

    /// Types a command at a machine. Returns what is printed, in the words of the pages.
    pub(super) async fn run(&mut self, name: &str, typed: &str) -> String {
        block_in_place(|| match typed {
            "systemctl start boxoffice" => {
                self.start(name, "boxoffice serve --config /etc/boxoffice/boxoffice.toml");
                // It is in the journal.
                String::new()
            }
            "systemctl stop boxoffice" => {
                self.stop(name);
                String::new()
            }
            typed if typed.starts_with("boxoffice join ") => self.start(name, typed),
            typed => self.print(name, typed),
        })
    }

    /// Starts the node of a machine with this command. Returns what it prints until it serves or has ended.
    fn start(&mut self, name: &str, typed: &str) -> String {
        let machine = self.machine(name);
        assert!(machine.server.is_none(), "the node of {name} runs already");
        let real = self.real(machine, typed);
        let small = machine.dir.join("small.toml");
        let mut command = Command::new(BOXOFFICE);
        command.args(real.split_whitespace().skip(1));
        for config in [Path::new(OPEN), Path::new(CALM), &small] {
            command.arg("--config").arg(config);
        }
        command.env("BOXOFFICE_DRAIN_MS", "0").env("NO_COLOR", "1");
        match self.trouble {
            Trouble::None => {}
            Trouble::Disks => {
                fs::create_dir_all(machine.data_dir()).expect("a data directory");
                command.env("LD_PRELOAD", fault_library()).env("BOXOFFICE_FAULT_DIR", machine.data_dir());
                command.env("BOXOFFICE_FAULT_CONTROL", machine.control_file());
            }
            Trouble::Clocks => faketime::set_up(&mut command, &machine.clock_file()),
        }
        let pasted = machine.dir.join("pasted");
        fs::write(&pasted, format!("{}\n", self.invitation)).expect("a written file");
        let input = Stdio::from(File::open(&pasted).expect("a file"));
        fs::remove_file(&pasted).expect("a file");
        let (printed, server) = match Server::spawn_reading(command, input) {
            Ok(server) => (server.stderr() + server.greeting(), Some(server)),
            Err(refused) => {
                self.machine_mut(name).note_journal(&refused.stderr);
                (refused.stderr, None)
            }
        };
        self.machine_mut(name).server = server;
        // The log goes on in the journal.
        let is_log = |line: &&str| line.starts_with("20");
        let printed: Vec<&str> = printed.lines().filter(|line| !is_log(line)).collect();
        self.readable(self.machine(name), &printed.join("\n"))
    }

    fn print(&mut self, name: &str, typed: &str) -> String {
        let machine = self.machine(name);
        let journal = machine.journal.clone() + &machine.server.as_ref().map(Server::stderr).unwrap_or_default();
        fs::write(machine.dir.join("journal"), journal).expect("a written file");
        let bin = self.dir.path().join("bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        // Both outputs in the order in which a terminal shows them.
        let script = format!("exec 2>&1\n{}", self.real(machine, typed));
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(machine.dir.join("home")).env("PATH", path).env("NO_COLOR", "1");
        command.env("BOXOFFICE_ADDRESS", machine.operators().to_string()).env("TMPDIR", &machine.dir);
        command.env("BOXOFFICE_ADMIN_TOKEN_FILE", machine.dir.join("etc/admin.token")).stdin(Stdio::null());
        let output = command.output().expect("a shell");
        let mut printed = self.readable(self.machine(name), String::from_utf8_lossy(&output.stdout).trim_end());
        if typed == "boxoffice admin invite" {
            printed.lines().last().unwrap_or_default().clone_into(&mut self.invitation);
            // It has the secret of the nodes.
            let begin: String = self.invitation.chars().take(INVITATION_CHARS).collect();
            printed = printed.replace(&self.invitation, &format!("{begin}…"));
        }
        printed
    }

    fn stop(&mut self, name: &str) {
        let machine = self.machine_mut(name);
        let server = machine.server.take().unwrap_or_else(|| panic!("the node of {name} does not run"));
        machine.note_journal(&server.stderr());
        server.stop();
    }

    /// Kills the node of a machine.
    pub(super) fn kill(&mut self, name: &str) {
        let machine = self.machine_mut(name);
        let server = machine.server.take().unwrap_or_else(|| panic!("the node of {name} does not run"));
        machine.note_journal(&server.stderr());
        server.kill();
    }

    /// Starts the node of a machine.
    ///
    /// # Panics
    /// If it does not serve.
    pub(super) fn serve(&mut self, name: &str) {
        block_in_place(|| self.start(name, "boxoffice serve --config /etc/boxoffice/boxoffice.toml"));
        assert!(
            self.machine(name).server.is_some(),
            "the node of {name} does not serve: {}",
            self.machine(name).journal
        );
    }

    /// Removes the data directory of a machine.
    pub(super) fn lose_disk(&self, name: &str) {
        fs::remove_dir_all(self.machine(name).data_dir()).expect("a data directory");
    }

    /// The segments of a machine's log, oldest first.
    pub(super) fn segments(&self, name: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.machine(name).data_dir().join("log")).expect("a log");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut segments: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
        segments.sort();
        segments
    }

    /// Fills the disk of a machine, and sells until its node notices.
    pub(super) async fn fill_disk(&mut self, name: &str) {
        write_control(&self.machine(name).control_file(), Faults::NoSpace);
        loop {
            self.sell().await;
            let (status, _) = http::get(self.machine(name).operators(), "/readyz").await;
            if status == 503 {
                return;
            }
        }
    }

    /// Ends what [`Self::fill_disk`] began.
    pub(super) fn make_room(&self, name: &str) {
        write_control(&self.machine(name).control_file(), Faults::None);
    }

    /// Sets the clock of a machine this many seconds off the true time.
    pub(super) fn set_clock(&self, name: &str, seconds: i64) {
        faketime::set(&self.machine(name).clock_file(), seconds);
    }

    /// From now on pages mean this instant.
    pub(super) async fn note_instant(&mut self) {
        sleep(PAUSE).await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let text = repr::rfc3339(Timestamp(now.as_millis() as u64)).expect("a year of four digits");
        self.instant = text.to_string();
        sleep(PAUSE).await;
    }

    async fn port(&self, name: &str) -> Arc<crate::common::Port> {
        let server = self.machine(name).server.as_ref().expect("a node that runs");
        Arc::new(server.port(Encoding::Json).await)
    }

    /// Sells at the first machine. Returns the orders.
    pub(super) async fn sell(&mut self) -> Vec<String> {
        let port = self.port("one").await;
        if self.theatre.is_none() {
            self.theatre = Some(Theatre::open(&port, 12, (10, 20), None).await);
        }
        let sessions = self.theatre.as_ref().expect("a theatre").sessions.clone();
        let mut orders = Vec::new();
        for number in 0..ORDERS {
            let shopper = Shopper::new(&port, &mut self.rng);
            let session = &sessions[number % sessions.len()];
            shopper.ask("cart.hold_best", json!({"session": session, "count": 1})).await.ok();
            shopper.checkout().await.ok();
            orders.push(shopper.cart());
        }
        orders
    }

    /// Checks that each of these machines has these orders.
    pub(super) async fn has_sold(&self, orders: &[String], names: &[&str]) {
        for name in names {
            let port = self.port(name).await;
            for order in orders {
                port.read("order.get", json!({"order": order})).await.ok();
            }
        }
    }

    /// Checks that a machine has none of these orders.
    pub(super) async fn lacks(&self, orders: &[String], name: &str) {
        let port = self.port(name).await;
        for order in orders {
            let found = port.read("order.get", json!({"order": order})).await;
            assert!(matches!(found, Answer::No(_)), "{found:?}");
        }
    }

    /// Waits until each shard has three voters and is led by the node that should lead it.
    pub(super) async fn is_whole(&self) {
        eventually("every shard has three voters and its leader", async || {
            let nodes = self.ask("one", "admin.nodes").await?;
            let mut leads = 0;
            for machine in &self.machines {
                let status = self.ask(machine.name, "admin.status").await?;
                let node = status["node"].as_str()?.to_owned() + ".";
                let is_wanted = |shard: &&Value| {
                    let places = nodes["places"].as_array().into_iter().flatten();
                    let mut place = places.filter(|place| place["shard"] == shard["shard"]);
                    let leader = place.next().and_then(|place| place["leader"].as_str().map(str::to_owned));
                    shard["role"] == "leader" && leader.is_some_and(|leader| leader.starts_with(&node))
                };
                leads += status["shards"].as_array()?.iter().filter(is_wanted).count();
            }
            let places = nodes["places"].as_array()?;
            let is_placed = |place: &Value| {
                place["voters"].as_array().is_some_and(|voters| voters.len() == 3) && place["from"].is_null()
            };
            (places.iter().all(is_placed) && leads == places.len()).then_some(())
        })
        .await;
    }

    async fn ask(&self, name: &str, op: &str) -> Option<Value> {
        let (_, answer) = http::post(self.machine(name).operators(), op, None, &json!({})).await;
        Some(answer.get("ok")?.clone())
    }
}
