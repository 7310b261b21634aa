//! The readers of the store, threads or tasks.

use std::{
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use boxoffice_core::planted;
use boxoffice_storage::history::HistoryStoreError;
use tokio::time::sleep;

use crate::{
    error::ReplicationError,
    history_reads::{Found, Order, ReadError, Then},
    inbox::Inbox,
    owner::Completion,
    replication::Replication,
    replicators::Input,
    runner::Runner,
};

/// How long a reader waits for orders.
const FOREVER: Duration = Duration::MAX;

/// Starts the readers. They end when the replication is dropped.
///
/// # Errors
/// No thread can be started.
pub(crate) fn start<T: Completion>(replication: &Arc<Replication<T>>, runner: &Runner) -> Result<(), ReplicationError> {
    for queue in &replication.reads.queues {
        let reader = Reader { replication: Arc::downgrade(replication), orders: Arc::clone(queue) };
        match runner {
            Runner::Tasks(spawn) => spawn(Box::pin(reader.run_as_task())),
            Runner::Threads => {
                let thread = thread::Builder::new().name("history-read".into()).spawn(move || reader.run());
                thread.map_err(|error| ReplicationError::Resources(format!("thread for the history ({error})")))?;
            }
        }
    }
    Ok(())
}

struct Reader<T> {
    replication: Weak<Replication<T>>,
    orders: Arc<Inbox<Order>>,
}

impl<T: Completion> Reader<T> {
    fn run(self) {
        let mut taken = Vec::new();
        while !self.orders.is_closed() {
            self.orders.take(&mut taken, FOREVER);
            for order in taken.drain(..) {
                let Some(replication) = self.replication.upgrade() else { return };
                self.work(&replication, order);
            }
        }
    }

    async fn run_as_task(self) {
        let mut taken = Vec::new();
        while !self.orders.is_closed() {
            self.orders.taken(&mut taken, FOREVER).await;
            for order in taken.drain(..) {
                let Some(stores) = self.replication.upgrade().map(|replication| Arc::clone(&replication.world.stores))
                else {
                    return;
                };
                let delay = stores.read_delay();
                if !delay.is_zero() {
                    sleep(delay).await;
                }
                let Some(replication) = self.replication.upgrade() else { return };
                self.work(&replication, order);
            }
        }
    }

    fn work(&self, replication: &Replication<T>, Order { shard, entity, then }: Order) {
        let found = replication.history.get(shard, &entity);
        let found = match found {
            Err(error) if !error.is_full() && planted::is("a bad block that ends a node") => {
                return replication.replicators.fail(error);
            }
            found => found,
        };
        match then {
            Then::Owner(then) => {
                replication.reads.taken();
                then(found.map_err(|error| match error.is_full() {
                    true => ReadError::Full(error),
                    false => ReadError::Damaged(error),
                }));
            }
            Then::Replay(wait) => {
                let found = match found {
                    Ok(stored) => Found::Record(stored),
                    Err(error) if error.is_full() => later(&error),
                    Err(_) => match replication.history.mark_behind(shard, &entity) {
                        Ok(()) => Found::Behind,
                        Err(error) if error.is_full() => later(&error),
                        Err(error) => return replication.replicators.fail(error),
                    },
                };
                replication.replicators.read(shard, Input::Read { shard, wait, entity, found });
            }
        }
    }
}

fn later(error: &HistoryStoreError) -> Found {
    tracing::warn!(%error, "a shard waits for a record of the store");
    Found::Later
}
