//! Clients that connect, say nothing and stay.

use std::{
    collections::VecDeque,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long one may take to connect.
const CONNECT: Duration = Duration::from_millis(500);

/// Between two of them.
const REST: Duration = Duration::from_millis(1);

/// Idle clients of one node, until this is dropped. Those that are shut out come again.
pub(crate) struct Crowd {
    gone: Arc<AtomicBool>,
    came: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// So many of them at once.
    pub(crate) fn gather(address: SocketAddr, count: usize) -> Crowd {
        // This process needs a descriptor for each as well.
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("a limit that can be raised");
        let (gone, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (is_over, counted) = (Arc::clone(&gone), Arc::clone(&came));
        let thread = thread::spawn(move || {
            let mut crowd = VecDeque::with_capacity(count);
            while !is_over.load(Ordering::Relaxed) {
                // Who is not let in, or has no place in the queue, comes again.
                if let Ok(client) = TcpStream::connect_timeout(&address, CONNECT) {
                    crowd.push_back(client);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                if crowd.len() > count {
                    crowd.pop_front();
                }
                thread::sleep(REST);
            }
        });
        Crowd { gone, came, thread: Some(thread) }
    }

    /// How many have come so far.
    pub(crate) fn came(&self) -> usize {
        self.came.load(Ordering::Relaxed)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a thread that connects");
        }
    }
}
