//! Clients that connect, send nothing and stay connected.

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

/// Time limit of one connection attempt.
const CONNECT: Duration = Duration::from_millis(500);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// Idle clients of one node, until this is dropped. Rejected clients reconnect.
pub(crate) struct IdleClients {
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl IdleClients {
    /// Keeps `count` clients connected.
    pub(crate) fn connect(address: SocketAddr, count: usize) -> IdleClients {
        // This process also needs a descriptor for each client.
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("a limit that can be raised");
        let (stop, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&connections));
        let thread = thread::spawn(move || {
            let mut clients = VecDeque::with_capacity(count);
            while !stopped.load(Ordering::Relaxed) {
                // A rejected client, or one without a place in the queue, tries again.
                if let Ok(client) = TcpStream::connect_timeout(&address, CONNECT) {
                    clients.push_back(client);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                if clients.len() > count {
                    clients.pop_front();
                }
                thread::sleep(PAUSE);
            }
        });
        IdleClients { stop, connections, thread: Some(thread) }
    }

    /// The number of successful connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for IdleClients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a thread that connects");
        }
    }
}
