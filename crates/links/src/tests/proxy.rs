//! A proxy that injects faults into a link.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};
use tracing_mutex::parkinglot::Mutex;

/// The treatment of the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Flow {
    /// Bytes pass.
    Open = 0,
    /// Bytes are not read.
    Held = 1,
    /// Bytes are dropped, and a close of one side does not reach the other.
    Swallowed = 2,
    /// Bytes pass one at a time, 5 ms apart.
    Trickling = 3,
}

#[derive(Default)]
struct Direction {
    way: AtomicU8,
    /// Corrupts the next byte that passes.
    spoil: AtomicBool,
}

/// The connecting side is on the left, the target on the right.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    rightward: Arc<Direction>,
    leftward: Arc<Direction>,
    cut: watch::Sender<u64>,

    task: tokio::task::AbortHandle,
}

impl Proxy {
    pub(crate) async fn to(target: SocketAddr) -> Proxy {
        Proxy::recording(target, Arc::default()).await
    }

    /// A proxy that keeps the bytes that pass to the right on its first connection.
    pub(crate) async fn recording(target: SocketAddr, record: Arc<Mutex<Vec<u8>>>) -> Proxy {
        let mut record = Some(record);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (rightward, leftward) = (Arc::new(Direction::default()), Arc::new(Direction::default()));
        let (cut, cuts) = watch::channel(0);
        let (right, left) = (Arc::clone(&rightward), Arc::clone(&leftward));
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(target).await else { continue };
                near.set_nodelay(true).expect("an option");
                far.set_nodelay(true).expect("an option");
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                let (mut one, mut two) = (cuts.clone(), cuts.clone());
                one.mark_unchanged();
                two.mark_unchanged();
                tokio::spawn(pump(near_in, far_out, Arc::clone(&right), one, record.take()));
                tokio::spawn(pump(far_in, near_out, Arc::clone(&left), two, None));
            }
        });
        Proxy { address, rightward, leftward, cut, task: task.abort_handle() }
    }

    pub(crate) fn set(&self, rightward: Flow, leftward: Flow) {
        self.rightward.way.store(rightward as u8, Relaxed);
        self.leftward.way.store(leftward as u8, Relaxed);
    }

    /// Corrupts the next byte that passes to the right.
    pub(crate) fn corrupt_one(&self) {
        self.rightward.spoil.store(true, Relaxed);
    }

    /// Closes every connection through this proxy.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

type Record = Option<Arc<Mutex<Vec<u8>>>>;

async fn pump(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    direction: Arc<Direction>,
    mut cuts: watch::Receiver<u64>,
    record: Record,
) {
    tokio::select! {
        biased;
        _ = cuts.changed() => {}
        _ = pass(from, to, &direction, record) => {}
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: &Direction,
    record: Record,
) -> std::io::Result<()> {
    let is = |way: Flow| direction.way.load(Relaxed) == way as u8;
    let short = Duration::from_millis(5);
    let mut read = vec![0; 16 * 1024];
    loop {
        while is(Flow::Held) {
            tokio::time::sleep(short).await;
        }
        let length = from.read(&mut read).await.unwrap_or(0);
        while is(Flow::Held) {
            tokio::time::sleep(short).await;
        }
        if is(Flow::Swallowed) {
            if length == 0 {
                std::future::pending::<()>().await;
            }
            continue;
        }
        if length == 0 {
            return Ok(());
        }
        if direction.spoil.swap(false, Relaxed) {
            read[length / 2] ^= 0x10;
        }
        if let Some(record) = &record {
            record.lock().extend_from_slice(&read[..length]);
        }
        let mut rest = &read[..length];
        while is(Flow::Trickling) && !rest.is_empty() {
            to.write_all(&rest[..1]).await?;
            rest = &rest[1..];
            tokio::time::sleep(short).await;
        }
        to.write_all(rest).await?;
    }
}
