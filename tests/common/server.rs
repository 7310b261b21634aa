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
    PATIENCE,
    port::{Encoding, Port},
    shim,
};

/// The program under test.
pub(crate) const BOXOFFICE: &str = env!("CARGO_BIN_EXE_boxoffice");

/// What every node is set to before its own configuration: strangers may do everything that buyers do.
const OPEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/open.toml");

/// What every node is set to besides: it sheds nothing.
const CALM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/common/calm.toml");

/// What tests show as operators; guests show nothing.
pub(crate) const ADMIN: &str = "the admin token of tests";

/// Log segments are made small, so that a test waits for no 64 MiB of zeros.
const CONFIG: &str = "[log]\nsegment_bytes = 1_048_576\n";

/// Where a node lives: data directory, configuration, the control file of the fault library. Removed when neither this nor a server
/// that started from it is left.
pub(crate) struct Home {
    dir: Arc<TempDir>,
    args: Vec<String>,
    shim: bool,
}

/// A node that did not start.
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
        let home = Home { dir: Arc::new(dir), args: Vec::new(), shim: false };
        home.write_config(config);
        home
    }

    /// The same, with the fault library loaded: kill -9 is a power cut from now on.
    pub(crate) fn with_faults(self) -> Home {
        shim::library();
        fs::create_dir_all(self.data_dir()).expect("a data directory");
        Home { shim: true, ..self }
    }

    /// The same, with these arguments of `serve` besides.
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

    /// The command that serves from here.
    pub(crate) fn command(&self) -> Command {
        self.command_at("127.0.0.1:0")
    }

    /// The same at a certain address.
    pub(crate) fn command_at(&self, listen: &str) -> Command {
        self.command_with(listen, &[Path::new(OPEN), Path::new(CALM), &self.config_file()])
    }

    /// The command that serves from here with the built-in configuration and its own file only: budgets are as they are shipped.
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
        // No load balancer is in front of it.
        command.env("BOXOFFICE_DRAIN_MS", "0");
        if self.shim {
            command.env("LD_PRELOAD", shim::library());
            command.env("BOXOFFICE_FAULT_DIR", self.data_dir()).env("BOXOFFICE_FAULT_CONTROL", self.control_file());
        }
        command
    }

    /// The command that serves from here, in a process with this limit of file descriptors.
    pub(crate) fn limited(&self, descriptors: u64) -> Command {
        with_ulimit(&self.command(), &format!("-n {descriptors}"))
    }

    /// The same with the built-in configuration and its own file only.
    pub(crate) fn limited_as_shipped(&self, descriptors: u64) -> Command {
        with_ulimit(&self.shipped_command(), &format!("-n {descriptors}"))
    }

    /// The same, of a process that may raise the limit itself.
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

    /// The same at a certain address: where it was before.
    pub(crate) fn start_at(&self, address: SocketAddr) -> Server {
        self.serve(self.command_at(&address.to_string()))
    }

    fn serve(&self, command: Command) -> Server {
        let mut server =
            Server::spawn(command).unwrap_or_else(|refused| panic!("the node does not serve: {refused:?}"));
        server._home = Some(Arc::clone(&self.dir));
        server
    }

    /// Starts a node that must refuse to.
    ///
    /// # Panics
    /// If it serves.
    pub(crate) fn refused(&self) -> Refused {
        match Server::spawn(self.command()) {
            Ok(server) => panic!("the node serves at {}, although it must not", server.address),
            Err(refused) => refused,
        }
    }

    /// What `boxoffice inspect` says of the data directory: exit code and all output.
    pub(crate) fn inspect(&self) -> (Option<i32>, String) {
        let output = Command::new(BOXOFFICE).arg("inspect").arg(self.data_dir()).output().expect("the program runs");
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), text.concat())
    }

    /// The log's segments, by age.
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

/// A node that serves. It is killed when this is dropped.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    operators: SocketAddr,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    /// A node whose data directory is removed under it stops by itself.
    _home: Option<Arc<TempDir>>,
}

impl Server {
    /// Starts this command and waits until it serves or ends.
    pub(crate) fn spawn(mut command: Command) -> Result<Server, Refused> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (line, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let said = thread::spawn(move || {
            for text in stdout.lines().map_while(Result::ok) {
                // The test may know all it wants to know.
                let _ = line.send(text);
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut pipe, heard) = (child.stderr.take().expect("a pipe"), Arc::clone(&stderr));
        let complained = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(bytes @ 1..) = pipe.read(&mut buffer) {
                heard.lock().expect("no panic").push_str(&String::from_utf8_lossy(&buffer[..bytes]));
            }
        });
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server =
            Server { child, address, operators: address, stderr, readers: vec![said, complained], _home: None };
        let deadline = Instant::now() + PATIENCE;
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
                        return Ok(server);
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let code = server.wait().code();
                    return Err(Refused { code, stderr: server.stderr() });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("neither serving nor ended: {}", server.stderr()),
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

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection to it.
    pub(crate) async fn port(&self, encoding: Encoding) -> Port {
        Port::connect(self.address, encoding).await
    }

    /// So many connections to it, half of them in each encoding.
    pub(crate) async fn ports(&self, count: usize) -> Vec<Arc<Port>> {
        let ports = join_all((0..count).map(|number| self.port(Encoding::BOTH[number % 2]))).await;
        ports.into_iter().map(Arc::new).collect()
    }

    /// What it has written to its standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("no panic").clone()
    }

    /// Kills it without warning; with the fault library loaded that is a power cut.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a child that can be killed");
        self.wait();
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.wait();
        assert!(status.success(), "the node was told to stop and ended with {status}: {}", self.stderr());
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a child that can be signalled");
    }

    /// Whether it has ended already.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = self.wait();
        (status, self.stderr())
    }

    /// # Panics
    /// If it does not end in time.
    fn wait(&mut self) -> ExitStatus {
        block_in_place(|| {
            let deadline = Instant::now() + PATIENCE;
            loop {
                if let Some(status) = self.child.try_wait().expect("a child") {
                    self.readers.drain(..).for_each(|reader| reader.join().expect("a reader of a pipe"));
                    return status;
                }
                assert!(Instant::now() < deadline, "the node does not end: {}", self.stderr());
                thread::sleep(Duration::from_millis(2));
            }
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            return eprintln!("--- the node said ---\n{}---", self.stderr());
        }
        // A process that this one started may have the pipes still: what was heard so far is enough.
        let said = self.stderr();
        let mut contained = said.lines().filter(|line| line.contains("a panic while deciding was contained"));
        // A contained panic is a failed run, unless it was planted.
        assert!(contained.all(|line| line.contains("planted:")), "a decision panicked:\n{said}");
    }
}
