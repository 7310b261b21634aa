//! The replication from start to end.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
};

use boxoffice_env::World;
use boxoffice_shard::ShardId;
use boxoffice_storage::{
    data_epoch::EpochTracker,
    identity::DataDirectory,
    log::{GroupCommit, Preallocation},
};
use tokio::{
    runtime::{self, Handle, Runtime},
    sync::oneshot,
};

use crate::{
    config::ReplicationConfig,
    error::ReplicationError,
    history_reader,
    history_writer::{HistoryWriter, Order},
    open::{self, Restored},
    owner::{Completion, Owner},
    replication::Replication,
    replicator::{Replicator, ReplicatorParts},
    runner::Runner,
    scrub,
    snapshot_writer::SnapshotWriter,
    transfer::{self, Transfers},
};

/// The state restored from disk, before anything runs.
pub struct Opened<T> {
    /// The common state.
    pub replication: Arc<Replication<T>>,
    /// Snapshots on their way between nodes.
    pub transfers: Arc<Transfers>,
    /// The epoch that versions of entities belong to.
    pub epochs: Arc<EpochTracker>,
    restored: Restored<T>,
    runner: Runner,
    runtime: Option<Runtime>,
}

/// The replicators' loops.
pub struct Running(Vec<Loop>);

/// A replicator's loop, with the way to learn of its end.
enum Loop {
    Thread(JoinHandle<Result<(), ReplicationError>>),
    Task(oneshot::Receiver<Result<(), ReplicationError>>),
}

impl<T: Completion> Opened<T> {
    /// Reads the data directory back, and creates it if it does not exist.
    ///
    /// # Errors
    /// The directory is in use, another node's, damaged or cannot be written.
    pub fn open(config: ReplicationConfig, world: &World, runner: Runner) -> Result<Opened<T>, ReplicationError> {
        let preallocation = match runner {
            Runner::Threads => Preallocation::Background,
            Runner::Tasks(_) => Preallocation::Inline,
        };
        let restored = open::restored(config, world, preallocation)?;
        let replication = Arc::clone(&restored.replication);
        let runtime = runtime(&replication, &runner)?;
        let epochs = Arc::clone(&restored.epochs);
        Ok(Opened { replication, transfers: Arc::default(), epochs, restored, runner, runtime })
    }

    /// The data directory.
    pub fn directory(&self) -> &DataDirectory {
        &self.replication.directory
    }

    /// The runtime for the links to other nodes. It is that of the first replicator's thread, if the thread has one.
    pub fn handle(&self) -> Option<&Handle> {
        self.runtime.as_ref().map(Runtime::handle)
    }

    /// The work of transfers, to be run as a task.
    pub fn transfer(&self) -> impl Future<Output = ()> + Send + 'static {
        let on_threads = matches!(self.runner, Runner::Threads);
        transfer::run(Arc::downgrade(&self.replication), Arc::clone(&self.transfers), on_threads)
    }

    /// Starts the loops.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start<O: Owner<Completion = T>>(self, owner: &O) -> Result<Running, ReplicationError> {
        let Opened { replication, transfers, epochs: _, restored, runner, mut runtime } = self;
        let Restored { engines, log, replays, snapshots_kept, leftover, .. } = restored;
        history_reader::start(&replication, &runner)?;
        scrub::start(&replication, &runner)?;
        let snapshots = Arc::new(SnapshotWriter::start(&replication, &runner)?);
        let history = Arc::new(HistoryWriter::start(&replication, &runner)?);
        // Records of replicas that had ended before the previous process did.
        leftover.into_iter().for_each(|shard: ShardId| history.order(Order::Clear(shard)));
        let mut loops = Vec::new();
        for (number, (engine, log)) in engines.into_iter().zip(GroupCommit::writers(log)).enumerate() {
            let parts = ReplicatorParts {
                number,
                engine,
                log,
                snapshots: Arc::clone(&snapshots),
                history: Arc::clone(&history),
                snapshots_kept: snapshots_kept.clone(),
                replays: replays.clone(),
            };
            let replicator = Replicator::new(owner.clone(), Arc::clone(&replication), Arc::clone(&transfers), parts);
            let ended = (owner.clone(), Arc::clone(&replication));
            loops.push(start(replicator, ended, number, (&runner, runtime.take()))?);
        }
        Ok(Running(loops))
    }
}

impl Running {
    /// Waits until all replicators have ended.
    ///
    /// # Errors
    /// The error of the first replicator that failed.
    pub async fn ended(self) -> Result<(), ReplicationError> {
        let mut result = Ok(());
        for one in self.0 {
            result = result.and(one.ended().await);
        }
        result
    }
}

impl Loop {
    async fn ended(self) -> Result<(), ReplicationError> {
        let result = match self {
            Loop::Thread(thread) => tokio::task::spawn_blocking(move || thread.join()).await.ok().and_then(Result::ok),
            Loop::Task(ended) => ended.await.ok(),
        };
        // A panic has been reported by the panic hook already.
        result.unwrap_or_else(|| Err(ReplicationError::Resources("orderly end: the replication panicked".into())))
    }
}

/// Starts a replicator. If it fails, the others end as well, and the owner receives the error.
fn start<O: Owner>(
    replicator: Replicator<O>,
    (owner, replication): (O, Arc<Replication<O::Completion>>),
    number: usize,
    (runner, runtime): (&Runner, Option<Runtime>),
) -> Result<Loop, ReplicationError> {
    let ended = move |result: &Result<(), ReplicationError>| {
        if let Err(error) = result {
            owner.failed(error);
            replication.replicators.stop();
        }
        replication.replicators.ended(number);
    };
    match runner {
        Runner::Tasks(spawn) => {
            let (sender, receiver) = oneshot::channel();
            spawn(Box::pin(async move {
                let result = replicator.run_as_task().await;
                ended(&result);
                // The owner may not wait for its end.
                let _ = sender.send(result);
            }));
            Ok(Loop::Task(receiver))
        }
        Runner::Threads => {
            let run = move || {
                let result = match runtime {
                    Some(runtime) => runtime.block_on(replicator.run_as_task()),
                    None => replicator.run(),
                };
                ended(&result);
                result
            };
            let name = if number == 0 { "replication".to_owned() } else { format!("replication-{number}") };
            let thread = thread::Builder::new().name(name).spawn(run);
            let thread =
                thread.map_err(|error| ReplicationError::Resources(format!("thread for replication ({error})")))?;
            Ok(Loop::Thread(thread))
        }
    }
}

/// The runtime of the first replicator's thread in a cluster. Consensus comes and goes by it, without a way through
/// another thread.
fn runtime<T>(replication: &Replication<T>, runner: &Runner) -> Result<Option<Runtime>, ReplicationError> {
    if replication.config.is_alone || matches!(runner, Runner::Tasks(_)) {
        return Ok(None);
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    Ok(Some(runtime.map_err(|error| ReplicationError::Resources(format!("what replication runs on ({error})")))?))
}
