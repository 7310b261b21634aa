//! A node of one's own: a `boxoffice serve` process with a data directory that goes away with it.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{args::FsyncWord, failure::Failure};

/// How long an orderly stop may take before the process is killed.
const STOP_TIME: Duration = Duration::from_secs(10);

/// A running node process. Dropping it stops the process and removes its data.
pub struct LocalNode {
    child: Child,
    data_dir: PathBuf,
    /// Where it listens.
    pub address: String,
}

impl LocalNode {
    /// Starts a node on a free loopback port and waits until it serves.
    ///
    /// # Errors
    /// [`Failure::Node`] with what the process said.
    pub fn start(fsync: FsyncWord) -> Result<LocalNode, Failure> {
        LocalNode::start_with(fsync, "")
    }

    /// The same with this text as its configuration file.
    ///
    /// # Errors
    /// As [`LocalNode::start`].
    pub fn start_with(fsync: FsyncWord, config: &str) -> Result<LocalNode, Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::Node(format!("no path to this program: {error}")))?;
        let data_dir = std::env::temp_dir().join(format!("boxoffice-{}", std::process::id()));
        let word = match fsync {
            FsyncWord::Always => "always",
            FsyncWord::Interval => "interval",
            FsyncWord::Never => "never",
        };
        let file = data_dir.with_extension("toml");
        std::fs::write(&file, config)
            .map_err(|error| Failure::Node(format!("cannot write {}: {error}", file.display())))?;
        let mut child = Command::new(program)
            .args(["serve", "--config"])
            .arg(&file)
            .args(["--listen", "127.0.0.1:0", "--fsync", word, "--data-dir"])
            .arg(&data_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::Node(format!("cannot start a node: {error}")))?;
        let stdout = child.stdout.take().expect("its output is piped");
        let mut node = LocalNode { child, data_dir, address: String::new() };
        let mut line = String::new();
        // Ends with the line that names the address, or with the process.
        let _ = BufReader::new(stdout).read_line(&mut line);
        let address = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        match address {
            Some(address) => node.address = address.to_owned(),
            None => return Err(Failure::Node("the node did not start; what it said stands above".into())),
        }
        Ok(node)
    }

    /// The process id of the node.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let until = Instant::now() + STOP_TIME;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data_dir);
        let _ = std::fs::remove_file(self.data_dir.with_extension("toml"));
    }
}
