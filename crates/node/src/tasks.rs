//! How the loops of a node are run: on threads of their own, or all as tasks of one runtime, which may be simulated.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::{runtime::Handle, task::AbortHandle};
use tracing_mutex::parkinglot::Mutex;

/// A gate before every task of a node. While it is shut none of them goes on, as if its process was stopped (SIGSTOP), but time
/// goes by. Actors only act on messages of tasks and callers. They finish those that they have.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<Passage>>);

#[derive(Default)]
struct Passage {
    is_shut: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    /// An open gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// From now on no task passes.
    pub fn shut(&self) {
        self.0.lock().is_shut = true;
    }

    /// All tasks pass again.
    pub fn open(&self) {
        let waiting = {
            let mut passage = self.0.lock();
            passage.is_shut = false;
            std::mem::take(&mut passage.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether no task passes.
    pub fn is_shut(&self) -> bool {
        self.0.lock().is_shut
    }

    /// Whether the task behind `waker` passes. If not, it is woken when it does.
    fn passes(&self, waker: &Waker) -> bool {
        let mut passage = self.0.lock();
        if passage.is_shut && !passage.waiting.iter().any(|known| known.will_wake(waker)) {
            passage.waiting.push(waker.clone());
        }
        !passage.is_shut
    }
}

struct Gated<F> {
    gate: Gate,
    inside: Pin<Box<F>>,
}

impl<F: Future> Future for Gated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.gate.passes(context.waker()) {
            true => self.inside.as_mut().poll(context),
            false => Poll::Pending,
        }
    }
}

/// The tasks of a node.
pub(crate) struct Tasks {
    /// The runtime of actors and of their tasks.
    pub(crate) selling: Handle,
    watching: Handle,
    sells_with_one_thread: bool,
    /// Only if everything is a task.
    all: Option<All>,
}

struct All {
    gate: Gate,
    running: Mutex<Vec<AbortHandle>>,
}

impl Tasks {
    /// Tasks on these runtimes, behind a gate if there must be no other threads.
    pub(crate) fn new(selling: Handle, watching: Handle, gate: Option<Gate>) -> Tasks {
        let sells_with_one_thread = selling.metrics().num_workers() == 1;
        Tasks {
            selling,
            watching,
            sells_with_one_thread,
            all: gate.map(|gate| All { gate, running: Mutex::default() }),
        }
    }

    /// Whether there must be no other threads.
    pub(crate) fn only(&self) -> bool {
        self.all.is_some()
    }

    /// Whether all actors share one thread.
    pub(crate) fn sells_with_one_thread(&self) -> bool {
        self.sells_with_one_thread
    }

    /// Runs a task beside the actors.
    pub(crate) fn sell(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn(&self.selling, task);
    }

    /// Runs a task beside the feeds.
    pub(crate) fn watch(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn(&self.watching, task);
    }

    fn spawn(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        let Some(all) = &self.all else {
            runtime.spawn(task);
            return;
        };
        let task = runtime.spawn(Gated { gate: all.gate.clone(), inside: Box::pin(task) });
        let mut running = all.running.lock();
        if running.len() == running.capacity() {
            running.retain(|task| !task.is_finished());
        }
        running.push(task.abort_handle());
    }

    /// Aborts every task, if everything is a task.
    pub(crate) fn abort(&self) {
        if let Some(all) = &self.all {
            all.running.lock().drain(..).for_each(|task| task.abort());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn behind_a_shut_gate_nothing_goes_on_but_time() {
        let gate = Gate::new();
        let tasks = Tasks::new(Handle::current(), Handle::current(), Some(gate.clone()));
        let seconds = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&seconds);
        tasks.sell(async move {
            loop {
                sleep(Duration::from_secs(1)).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let after = async |ms| {
            sleep(Duration::from_millis(ms)).await;
            seconds.load(Ordering::Relaxed)
        };
        assert_eq!(after(2_500).await, 2);
        gate.shut();
        assert_eq!(after(10_000).await, 2);
        gate.open();
        assert_eq!(after(1).await, 3, "what was due meanwhile is done at once");
        assert_eq!(after(1_000).await, 4);
        tasks.abort();
        assert_eq!(after(5_000).await, 4);
    }
}
