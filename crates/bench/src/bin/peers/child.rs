//! Server processes of the bench. Each has a directory of its own, which is removed with the process.

use std::{
    fs,
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use boxoffice_load::machine::process_cpu;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a server may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// How many bytes of a dead server's log are shown.
const LOG_TAIL_BYTES: usize = 2_000;

/// The user of servers that refuse to run as root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// The user with this name in `/etc/passwd`.
    pub(crate) fn named(name: &str) -> io::Result<Option<User>> {
        let passwd = fs::read_to_string("/etc/passwd")?;
        let user = passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == name).then_some(())?;
            Some(User { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
        });
        Ok(user)
    }

    /// Makes `command` run as this user.
    pub(crate) fn take_over(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Gives a directory to this user.
    pub(crate) fn own(self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
    }
}

/// A running server. Dropping it stops the process by its id, waits for it, and removes its directory.
pub(crate) struct Server {
    child: Child,
    stop: Signal,
    directory: TempDir,
}

impl Server {
    /// Starts `command` with its output in `directory`. `stop` is the signal that ends it.
    pub(crate) fn start(mut command: Command, directory: TempDir, stop: Signal) -> io::Result<Server> {
        let log = fs::File::create(directory.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start {}: {error}", command.get_program().display()))
        })?;
        Ok(Server { child, stop, directory })
    }

    /// The end of the server's output, for when it fails.
    pub(crate) fn log_tail(&self) -> String {
        let mut log = Vec::new();
        let read = fs::File::open(self.directory.path().join("log")).and_then(|mut file| file.read_to_end(&mut log));
        match read {
            Ok(_) => String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned(),
            Err(error) => format!("(no log: {error})"),
        }
    }

    /// An error if it has ended already.
    pub(crate) fn check_alive(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(io::Error::other(format!("the server ended ({status}):\n{}", self.log_tail()))),
        }
    }

    /// Processor time used so far by it and its children.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        process_cpu(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        // It may have ended by itself.
        let _ = kill_process(pid, self.stop);
        let start = Instant::now();
        while start.elapsed() < STOP_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of a server's own.
pub(crate) fn directory_in(parent: &Path, name: &str) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(parent)
}

/// A port of the loopback interface that is free at the moment.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
