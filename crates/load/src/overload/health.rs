//! Whether a node says that it is ready while it is overloaded, and how soon it says so.

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

/// Between two questions.
const EVERY: Duration = Duration::from_millis(250);

/// An answer that takes longer is none.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks a node all the time.
pub(super) struct Health {
    seen: Arc<Mutex<Readiness>>,
    asking: JoinHandle<()>,
}

impl Health {
    /// Begins to ask the node at this address.
    pub(super) fn watch(address: String) -> Health {
        let seen: Arc<Mutex<Readiness>> = Arc::default();
        let asking = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                loop {
                    let asked = Instant::now();
                    let is_ready = matches!(timeout(LIMIT, ask(&address)).await, Ok(Ok(true)));
                    let took_ms = asked.elapsed().as_secs_f64() * 1e3;
                    {
                        let mut seen = seen.lock().expect("no thread panics while it holds the lock");
                        seen.asked += 1;
                        seen.not_ready += u64::from(!is_ready);
                        seen.slowest_ms = seen.slowest_ms.max(took_ms);
                    }
                    sleep(EVERY).await;
                }
            }
        });
        Health { seen, asking }
    }

    /// What was answered.
    pub(super) fn end(self) -> Readiness {
        self.asking.abort();
        *self.seen.lock().expect("no thread panics while it holds the lock")
    }
}

/// Whether `/readyz` says yes.
async fn ask(address: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    Ok(&head == b"HTTP/1.1 200")
}
