//! Probes whether a node reports itself ready under overload, and how long the answer takes.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::report::Readiness;

/// The pause between two probes.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// The longest time for an answer. A later answer counts as "not ready".
const LIMIT: Duration = Duration::from_secs(5);

/// A task that probes a node continuously.
pub(super) struct ReadinessProbe {
    stats: Arc<Mutex<Readiness>>,
    task: JoinHandle<()>,
}

impl ReadinessProbe {
    /// Starts to probe the node at this address.
    pub(super) fn start(address: String) -> ReadinessProbe {
        let stats: Arc<Mutex<Readiness>> = Arc::default();
        let task = tokio::spawn({
            let stats = Arc::clone(&stats);
            async move {
                loop {
                    let sent = Instant::now();
                    let is_ready = matches!(timeout(LIMIT, probe(&address)).await, Ok(Ok(true)));
                    let took_ms = sent.elapsed().as_secs_f64() * 1e3;
                    {
                        let mut stats = stats.lock().expect("no thread panics while it holds the lock");
                        stats.asked += 1;
                        stats.not_ready += u64::from(!is_ready);
                        stats.slowest_ms = stats.slowest_ms.max(took_ms);
                    }
                    sleep(PROBE_EVERY).await;
                }
            }
        });
        ReadinessProbe { stats, task }
    }

    /// Stops, and returns what was observed.
    pub(super) fn stop(self) -> Readiness {
        self.task.abort();
        *self.stats.lock().expect("no thread panics while it holds the lock")
    }
}

/// Whether `/readyz` answers 200.
async fn probe(address: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    Ok(&head == b"HTTP/1.1 200")
}
