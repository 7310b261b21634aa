//! The real program as a child process, with a home directory that outlives it.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::task::block_in_place;

use super::{
    Rng, TIMEOUT,
    port::{Encoding, Port},
    shim,
};

/// The program under test.
pub(crate) const BOXOFFICE: &str = env!("CARGO_BIN_EXE_boxoffice");

/// Configuration of every test node before its own file: anonymous callers have the rights of buyers.
pub(crate) const OPEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/open.toml");

/// Further configuration of every test node: overload sheds nothing.
pub(crate) const CALM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/common/calm.toml");

/// Token of operators in tests. Guests send no token.
pub(crate) const ADMIN: &str = "the-admin-token-of-all-tests-here";

/// Small log segments, so that no test waits for 64 MiB of zeros.
const CONFIG: &str = "[log]\nsegment_bytes = 1_048_576\n";

/// The home of a node: data directory, configuration, and control file of the fault library. It is removed when this and every
/// server started from it are dropped.
pub(crate) struct Home {
    dir: Arc<TempDir>,
    args: Vec<String>,
    shim: bool,
    /// Draws for each process which units a power cut loses. Without it, all that are not synced.
    units: Option<Mutex<Rng>>,
}

/// A node that failed to start.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

impl Home {
    /// A home with the usual configuration.
    pub(crate) fn new() -> Home {
        Home::with_config(CONFIG)
    }

    /// A home with this configuration file.
    pub(crate) fn with_config(config: &str) -> Home {
        let dir = tempfile::Builder::new().prefix("boxoffice-test-").tempdir().expect("a temporary directory");
        let home = Home { dir: Arc::new(dir), args: Vec::new(), shim: false, units: None };
        home.write_config(config);
        home
    }

    /// The same, with the fault library loaded: kill -9 becomes a power cut.
    pub(crate) fn with_faults(self) -> Home {
        shim::library();
        fs::create_dir_all(self.data_dir()).expect("a data directory");
        Home { shim: true, ..self }
    }

    /// The same, and a power cut loses each unsynced unit of the disk by itself.
    pub(crate) fn with_torn_units(self, rng: Rng) -> Home {
        Home { units: Some(Mutex::new(rng)), ..self.with_faults() }
    }

    /// The same, with further arguments of `serve`.
    pub(crate) fn with_args(mut self, args: &[&str]) -> Home {
        self.args.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.data_dir().join("log")
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.dir.path().join("boxoffice.toml")
    }

    pub(crate) fn control_file(&self) -> PathBuf {
        self.dir.path().join("faults")
    }

    pub(crate) fn write_config(&self, config: &str) {
        fs::write(self.config_file(), config).expect("a written configuration");
    }

    /// The command that serves from this home.
    pub(crate) fn command(&self) -> Command {
        self.command_at("127.0.0.1:0")
    }

    /// The same at this address.
    pub(crate) fn command_at(&self, listen: &str) -> Command {
        self.command_with(listen, &[Path::new(OPEN), Path::new(CALM), &self.config_file()])
    }

    /// The command that serves with the shipped configuration and its own file only, so budgets are as shipped.
    pub(crate) fn shipped_command(&self) -> Command {
        self.command_with("127.0.0.1:0", &[&self.config_file()])
    }

    fn command_with(&self, listen: &str, config: &[&Path]) -> Command {
        let mut command = Command::new(BOXOFFICE);
        command
            .arg("serve")
            .args(["--listen", listen, "--ops-listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(self.data_dir());
        for file in config {
            command.arg("--config").arg(file);
        }
        command.args(&self.args);
        command.env("BOXOFFICE_ADMIN_TOKEN", ADMIN);
        command.env("BOXOFFICE_CODE_SECRET", "the secret of all codes in tests");
        // Tests have no load balancer.
        command.env("BOXOFFICE_DRAIN_MS", "0");
        if self.shim {
            command.env("LD_PRELOAD", shim::library());
            command.env("BOXOFFICE_FAULT_DIR", self.data_dir()).env("BOXOFFICE_FAULT_CONTROL", self.control_file());
            if let Some(units) = &self.units {
                command.env("BOXOFFICE_FAULT_UNITS", shim::units(&mut units.lock().expect("no panic")));
            }
        }
        command
    }

    /// The command that serves from this home with a limit of file descriptors.
    pub(crate) fn limited(&self, descriptors: u64) -> Command {
        with_ulimit(&self.command(), &format!("-n {descriptors}"))
    }

    /// The same with the shipped configuration and its own file only.
    pub(crate) fn limited_as_shipped(&self, descriptors: u64) -> Command {
        with_ulimit(&self.shipped_command(), &format!("-n {descriptors}"))
    }

    /// The same with a soft limit, which the process may raise itself.
    pub(crate) fn limited_softly(&self, descriptors: u64) -> Command {
        with_ulimit(&self.command(), &format!("-S -n {descriptors}"))
    }

    /// Starts a node and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn start(&self) -> Server {
        self.serve(self.command())
    }

    /// The same at the address of an earlier start.
    pub(crate) fn start_at(&self, address: SocketAddr) -> Server {
        self.serve(self.command_at(&address.to_string()))
    }

    fn serve(&self, command: Command) -> Server {
        let mut server =
            Server::spawn(command).unwrap_or_else(|refused| panic!("the node does not serve: {refused:?}"));
        server._home = Some(Arc::clone(&self.dir));
        server
    }

    /// Starts a node that must refuse to start.
    ///
    /// # Panics
    /// If it serves.
    pub(crate) fn refused(&self) -> Refused {
        match Server::spawn(self.command()) {
            Ok(server) => panic!("the node serves at {}, but it must refuse to start", server.address),
            Err(refused) => refused,
        }
    }

    /// Runs `boxoffice inspect` on the data directory. Returns the exit code and all output.
    pub(crate) fn inspect(&self) -> (Option<i32>, String) {
        let output = Command::new(BOXOFFICE).arg("inspect").arg(self.data_dir()).output().expect("the program runs");
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), text.concat())
    }

    /// Runs `boxoffice verify` on the data directory. Returns the exit code and all output.
    pub(crate) fn verify(&self, more: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(BOXOFFICE);
        // The node may have had the program of the next version.
        command.arg("verify").arg(self.data_dir()).args(more).env("BOXOFFICE_NEXT_VERSION", "1");
        let output = command.output().expect("the program runs");
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), text.concat())
    }

    /// Verifies the data directory after a node has ended.
    ///
    /// # Panics
    /// If anything is wrong with it.
    pub(crate) fn is_whole(&self) {
        let (code, text) = self.verify(&[]);
        assert!(code == Some(0) && text.contains("nothing is wrong"), "{code:?}: {text}");
    }

    /// The log's segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let mut segments: Vec<PathBuf> = fs::read_dir(self.log_dir())
            .expect("a log")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .collect();
        segments.sort();
        segments
    }
}

/// The command under a limit of the shell's `ulimit`.
pub(crate) fn with_ulimit(command: &Command, limit: &str) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// A running node. Dropping it kills the process.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    operators: SocketAddr,
    /// What it printed when it served.
    greeting: String,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    /// A node would stop if its data directory were removed while it runs.
    _home: Option<Arc<TempDir>>,
}

impl Server {
    /// Starts this command and waits until it serves or ends.
    pub(crate) fn spawn(command: Command) -> Result<Server, Refused> {
        Server::spawn_reading(command, Stdio::null())
    }

    /// The same with this as its standard input.
    pub(crate) fn spawn_reading(mut command: Command, input: Stdio) -> Result<Server, Refused> {
        let mut child =
            command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (line, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stdout_reader = thread::spawn(move || {
            for text in stdout.lines().map_while(Result::ok) {
                // Debug logs of the program, so that failures can be diagnosed.
                let _ = line.send(text);
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut pipe, output) = (child.stderr.take().expect("a pipe"), Arc::clone(&stderr));
        let stderr_reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(bytes @ 1..) = pipe.read(&mut buffer) {
                output.lock().expect("no panic").push_str(&String::from_utf8_lossy(&buffer[..bytes]));
            }
        });
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Server {
            child,
            address,
            operators: address,
            greeting: String::new(),
            stderr,
            readers: vec![stdout_reader, stderr_reader],
            _home: None,
        };
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match block_in_place(|| lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))) {
                Ok(text) => {
                    if let Some((_, rest)) = text.split_once("boxoffice serves on ") {
                        let url = rest.split_whitespace().next().expect("an address");
                        let (_, address) = url.split_once("://").expect("a scheme");
                        server.address = address.parse().expect("an address");
                        let (_, operators) = rest.split_once("operators on http://").expect("the operators' port");
                        let operators = operators.split(',').next().expect("an address");
                        server.operators = operators.parse().expect("an address");
                        server.greeting = text;
                        return Ok(server);
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let code = server.wait().code();
                    return Err(Refused { code, stderr: server.stderr() });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("the node neither serves nor ends: {}", server.stderr()),
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the operators' port.
    pub(crate) fn operators(&self) -> SocketAddr {
        self.operators
    }

    /// The line that it printed when it served.
    pub(crate) fn greeting(&self) -> &str {
        &self.greeting
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Connects to the node.
    pub(crate) async fn port(&self, encoding: Encoding) -> Port {
        Port::connect(self.address, encoding).await
    }

    /// Opens `count` connections, half of them in each encoding.
    pub(crate) async fn ports(&self, count: usize) -> Vec<Arc<Port>> {
        let ports = join_all((0..count).map(|number| self.port(Encoding::BOTH[number % 2]))).await;
        ports.into_iter().map(Arc::new).collect()
    }

    /// Everything that the node has written to stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("no panic").clone()
    }

    /// Kills the process. With the fault library loaded this is a power cut.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a child that can be killed");
        self.wait();
    }

    /// Sends SIGTERM, and waits until the node has ended.
    pub(crate) fn stop(mut self) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.wait();
        assert!(status.success(), "the node ended after SIGTERM with {status}: {}", self.stderr());
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a child that can be signalled");
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits until the process ends by itself.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = self.wait();
        (status, self.stderr())
    }

    /// # Panics
    /// If it does not end in time.
    fn wait(&mut self) -> ExitStatus {
        block_in_place(|| {
            let deadline = Instant::now() + TIMEOUT;
            loop {
                if let Some(status) = self.child.try_wait().expect("a child") {
                    self.readers.drain(..).for_each(|reader| reader.join().expect("a reader of a pipe"));
                    return status;
                }
                assert!(Instant::now() < deadline, "the node is still running: {}", self.stderr());
                thread::sleep(Duration::from_millis(2));
            }
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            return eprintln!("--- stderr of the node ---\n{}---", self.stderr());
        }
        // A child of the process may still hold the pipes, so read only the output so far.
        let output = self.stderr();
        let mut contained = output.lines().filter(|line| line.contains("a panic while deciding was contained"));
        // A contained panic fails the test, unless the test planted it.
        assert!(contained.all(|line| line.contains("planted:")), "a decision panicked:\n{output}");
        // In builds with debug assertions the node's mutexes notice it.
        assert!(!output.contains("cycle in mutex dependency graph"), "locks can deadlock:\n{output}");
    }
}
