//! The gallery: tens of thousands of watchers of seat maps in one thread, each a WebSocket connection of its own, with little
//! more memory than the kernel needs for it.
//!
//! Every frame is counted, every version is held against the one before, and when it came is remembered to the microsecond of
//! [`now_us`], a clock that all processes of the machine share. A frame's text is read once however many get it.

// In reading order: bytes, what they say, one connection, all of them, what is counted.
pub(crate) mod frames;
mod seen;

mod link;
mod tally;
mod thread;

use std::{
    io::{self, BufRead, Write},
    sync::mpsc,
};

use mio::Waker;
use serde::{Deserialize, Serialize};

pub use self::tally::{Latencies, Tally};

/// The most watchers of one gallery: a process may have 20 000 files open here.
pub const WATCHERS_MAX: u32 = 19_000;

/// Who watches what, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GallerySpec {
    /// Nodes, as `ip:port`; watchers are spread over them.
    pub addresses: Vec<String>,
    /// How many connections.
    pub watchers: u32,
    /// What is watched: watcher `n` begins with session `n × feeds`, and takes as many as [`GallerySpec::feeds`] says.
    pub sessions: Vec<String>,
    /// How many of the sessions each connection watches.
    pub feeds: u32,
    /// Only the counts of its sessions are watched, as one list.
    pub counts: bool,
    /// Each watcher keeps the map it sees.
    pub keep_maps: bool,
}

/// A change of a session, and when it was made by [`now_us`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// Which of [`GallerySpec::sessions`].
    pub session: u32,
    /// The session's version after it.
    pub version: u64,
    /// When.
    pub at_us: u64,
}

/// What a gallery is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// How many stand.
    Look,
    /// Counting begins anew.
    Begin,
    /// How many do not have these versions of these sessions yet.
    Reached(Vec<(u32, u64)>),
    /// What was counted, with the time from each of these changes until it was received.
    Tell(Vec<Mark>),
    /// How many have this map of a session at this version, packed.
    Compare {
        /// Which of [`GallerySpec::sessions`].
        session: u32,
        /// At which version.
        version: u64,
        /// Two bits a seat.
        seats: Vec<u8>,
    },
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Order::Look`].
    Standing(Standing),
    /// To [`Order::Begin`].
    Begun,
    /// To [`Order::Reached`].
    Reached {
        /// Feeds that are behind.
        behind: u64,
        /// When the last of the others received what was asked for; 0 if nobody needed it.
        last_us: u64,
    },
    /// To [`Order::Tell`].
    Told(Box<Tally>),
    /// To [`Order::Compare`].
    Compared {
        /// Watchers of the session with this very map.
        same: u64,
        /// Those with another one.
        different: u64,
        /// One of those, for people.
        example: Option<String>,
    },
}

/// Who stands in a gallery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Connections that are open.
    pub connected: u32,
    /// Feeds that have begun.
    pub whole: u64,
    /// Feeds there are to be.
    pub wanted: u64,
    /// What went wrong first, if anything did.
    pub trouble: Option<String>,
}

impl Standing {
    /// Whether everybody sees what they came for.
    pub fn is_complete(&self) -> bool {
        self.whole == self.wanted
    }
}

/// Microseconds by the machine's steady clock, the same for all its processes.
pub fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// A gallery on a thread of its own, which ends with it.
#[derive(Debug)]
pub struct Gallery {
    orders: mpsc::Sender<Asked>,
    waker: Waker,
}

/// An order, and where the answer goes.
struct Asked(Order, tokio::sync::oneshot::Sender<Answer>);

impl Gallery {
    /// Has everybody come in, which takes a while; see [`Order::Look`].
    ///
    /// # Errors
    /// What the system says, if there cannot be a thread or an address is none.
    pub fn open(spec: GallerySpec) -> io::Result<Gallery> {
        if spec.watchers > WATCHERS_MAX {
            let most = format!("a gallery has at most {WATCHERS_MAX} watchers");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, most));
        }
        let (orders, receiver) = mpsc::channel();
        let (thread, waker) = thread::Thread::new(spec, receiver)?;
        std::thread::Builder::new().name("gallery".into()).spawn(move || thread.run())?;
        Ok(Gallery { orders, waker })
    }

    /// Asks it.
    ///
    /// # Errors
    /// If its thread has ended.
    pub async fn ask(&self, order: Order) -> io::Result<Answer> {
        self.send(order)?.await.map_err(|_| ended())
    }

    /// Asks it where nothing can be awaited.
    ///
    /// # Errors
    /// If its thread has ended.
    pub fn ask_blocking(&self, order: Order) -> io::Result<Answer> {
        self.send(order)?.blocking_recv().map_err(|_| ended())
    }

    fn send(&self, order: Order) -> io::Result<tokio::sync::oneshot::Receiver<Answer>> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.orders.send(Asked(order, sender)).map_err(|_| ended())?;
        self.waker.wake()?;
        Ok(receiver)
    }
}

impl Drop for Gallery {
    fn drop(&mut self) {
        // Hearing that nobody can ask any more is what ends the thread.
        let (nobody, _) = mpsc::channel();
        self.orders = nobody;
        let _ = self.waker.wake();
    }
}

fn ended() -> io::Error {
    io::Error::other("the gallery's thread has ended")
}

/// A gallery that is the whole of a process: its spec is the first line that comes in, an order every further one, and each
/// order is answered with a line. Returns when no more come.
///
/// # Errors
/// What the system says, or that a line is none of ours.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut lines = input.lines();
    let Some(spec) = lines.next() else { return Ok(()) };
    let gallery = Gallery::open(serde_json::from_str(&spec?)?)?;
    for line in lines {
        let answer = gallery.ask_blocking(serde_json::from_str(&line?)?)?;
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()?;
    }
    Ok(())
}
