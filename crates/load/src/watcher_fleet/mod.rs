//! A fleet of watchers. One thread has tens of thousands of WebSocket connections, each of which watches seat maps and
//! needs little more memory than the kernel's.
//!
//! The fleet counts every frame and checks every version against the one before. It records the time of each receipt by
//! [`now_us`](crate::clock::now_us), a clock that all processes of the machine share. It parses the text of a frame
//! once, however many watchers receive it.

// In reading order: the messages, a frame's content, one connection, all connections, what they receive, slow ones,
// the replies, the statistics.
mod messages;

mod frame_cache;

mod connection;
mod event_loop;
mod query;
mod receive;
mod slow;
mod stats;

use std::{
    io::{self, BufRead, Write},
    sync::mpsc,
};

use mio::Waker;

use self::event_loop::{EventLoop, PendingCommand};
pub use self::{
    messages::{ChangeTime, FleetCommand, FleetReply, FleetSpec, FleetStatus},
    slow::SLOW_BYTES_PER_SECOND,
    stats::{FleetStats, Latencies},
};

/// The most watchers of one fleet. A process may have 20 000 open files here.
pub const WATCHERS_MAX: u32 = 19_000;

/// A fleet on a thread of its own. Dropping it ends the thread.
#[derive(Debug)]
pub struct WatcherFleet {
    commands: mpsc::Sender<PendingCommand>,
    waker: Waker,
}

impl WatcherFleet {
    /// Starts to connect all watchers. This takes a while, see [`FleetCommand::GetStatus`].
    ///
    /// # Errors
    /// If the thread cannot be started or an address is invalid.
    pub fn start(spec: FleetSpec) -> io::Result<WatcherFleet> {
        if spec.watchers > WATCHERS_MAX {
            let most = format!("a fleet has at most {WATCHERS_MAX} watchers");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, most));
        }
        let (commands, receiver) = mpsc::channel();
        let (event_loop, waker) = EventLoop::new(spec, receiver)?;
        std::thread::Builder::new().name("watcher-fleet".into()).spawn(move || event_loop.run())?;
        Ok(WatcherFleet { commands, waker })
    }

    /// Sends a command and waits for the reply.
    ///
    /// # Errors
    /// If the fleet's thread has ended.
    pub async fn ask(&self, command: FleetCommand) -> io::Result<FleetReply> {
        self.send(command)?.await.map_err(|_| thread_ended())
    }

    /// Sends a command and blocks until the reply.
    ///
    /// # Errors
    /// If the fleet's thread has ended.
    pub fn ask_blocking(&self, command: FleetCommand) -> io::Result<FleetReply> {
        self.send(command)?.blocking_recv().map_err(|_| thread_ended())
    }

    fn send(&self, command: FleetCommand) -> io::Result<tokio::sync::oneshot::Receiver<FleetReply>> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.commands.send(PendingCommand(command, sender)).map_err(|_| thread_ended())?;
        self.waker.wake()?;
        Ok(receiver)
    }
}

impl Drop for WatcherFleet {
    fn drop(&mut self) {
        // The thread ends when the channel of its commands is closed.
        let (closed, _) = mpsc::channel();
        self.commands = closed;
        let _ = self.waker.wake();
    }
}

fn thread_ended() -> io::Error {
    io::Error::other("the thread of the watcher fleet has ended")
}

/// Serves a fleet as a process. The first input line is its spec, and each further line is a command, which is answered
/// with a line. Returns at the end of the input.
///
/// # Errors
/// If the fleet cannot be started, or a line cannot be read, parsed or written.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut lines = input.lines();
    let Some(spec) = lines.next() else { return Ok(()) };
    let fleet = WatcherFleet::start(serde_json::from_str(&spec?)?)?;
    for line in lines {
        let reply = fleet.ask_blocking(serde_json::from_str(&line?)?)?;
        writeln!(output, "{}", serde_json::to_string(&reply)?)?;
        output.flush()?;
    }
    Ok(())
}
