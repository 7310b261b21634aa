//! A handle to a connection and its task.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_wire::hello::Hello;
use rand::{SeedableRng, rngs::SmallRng};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};

use crate::{
    concurrency_limit::Limiter,
    config::ClientConfig,
    connection_task::{ConnectionState, ConnectionTask, ExpectedNode, Outgoing, SUBMIT_QUEUE, TASK_ENDED},
    error::Error,
    in_doubt::InDoubtRequests,
    request_id::{RequestIds, random_u64},
    retries::RetryCounters,
};

/// A handle to a connection task. The task ends when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionHandle {
    /// Unique in this process.
    pub(crate) id: u64,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    pub(crate) state: watch::Receiver<ConnectionState>,
    is_local: Arc<AtomicBool>,
    next_id: AtomicU64,
    pub(crate) request_ids: RequestIds,
    /// Only for the jitter of retries.
    pub(crate) rng: Mutex<SmallRng>,
    pub(crate) retries: RetryCounters,
    pub(crate) in_doubt: Mutex<InDoubtRequests>,
    pub(crate) limiter: Limiter,
}

impl ConnectionHandle {
    /// Starts a connection task in this runtime. If a node is expected, the task stays connected only to that node.
    pub(crate) fn start(
        config: ClientConfig,
        expected: Option<ExpectedNode>,
        runtime: &Handle,
    ) -> Arc<ConnectionHandle> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let config = Arc::new(config);
        let (outgoing, outgoing_receiver) = mpsc::channel(SUBMIT_QUEUE);
        let (state_sender, state) = watch::channel(ConnectionState::Connecting(None));
        let is_local = Arc::new(AtomicBool::new(false));
        {
            // The caller may be outside of any runtime, but the connection's timers need one.
            let _entered = runtime.enter();
            let (config, is_local) = (Arc::clone(&config), Arc::clone(&is_local));
            runtime.spawn(ConnectionTask::new(config, expected, outgoing_receiver, state_sender, is_local).run());
        }
        let limiter = Limiter::new(config.under_way_max);
        Arc::new(ConnectionHandle {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            config,
            outgoing,
            state,
            is_local,
            next_id: AtomicU64::new(1),
            request_ids: RequestIds::new(),
            rng: Mutex::new(SmallRng::seed_from_u64(random_u64())),
            retries: RetryCounters::default(),
            in_doubt: Mutex::default(),
            limiter,
        })
    }

    /// The hello of the node at the other end. `None` without a connection, or before the hello has arrived.
    pub(crate) fn hello(&self) -> Option<Arc<Hello>> {
        match &*self.state.borrow() {
            ConnectionState::Connected(hello) => hello.clone(),
            ConnectionState::Connecting(_) | ConnectionState::Closed(_) => None,
        }
    }

    /// Whether there is a connection on which the node's hello has arrived.
    pub(crate) fn has_hello(&self) -> bool {
        matches!(&*self.state.borrow(), ConnectionState::Connected(Some(_)))
    }

    /// Whether the newest connection is to a loopback or link-local address.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local.load(Ordering::Relaxed)
    }

    /// The node at the other end, once its hello has arrived.
    pub(crate) fn node(&self) -> Option<u64> {
        self.hello()?.node.parse().ok()
    }

    /// Waits up to this time until the state is as wanted. Returns the hello, if it has arrived.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason why there is no connection.
    pub(crate) async fn wait_for(
        &self,
        time: Duration,
        is_wanted: impl Fn(&ConnectionState) -> bool,
    ) -> Result<Option<Arc<Hello>>, Error> {
        let mut state = self.state.clone();
        let done = state.wait_for(|state| is_wanted(state) || matches!(state, ConnectionState::Closed(_)));
        let reached = match tokio::time::timeout(time, done).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) => ConnectionState::Closed(TASK_ENDED.into()),
            Err(_) => self.state.borrow().clone(),
        };
        match reached {
            ConnectionState::Connected(hello) => Ok(hello),
            ConnectionState::Connecting(Some(reason)) | ConnectionState::Closed(reason) => Err(Error::Closed(reason)),
            ConnectionState::Connecting(None) => Err(Error::Closed("no connection before the deadline".into())),
        }
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(&*self.state.borrow(), ConnectionState::Closed(_))
    }

    /// [`Error::Closed`] with the reason why the client does not connect any more.
    pub(crate) fn closed_error(&self) -> Error {
        match &*self.state.borrow() {
            ConnectionState::Closed(reason) => Error::Closed(reason.clone()),
            ConnectionState::Connecting(_) | ConnectionState::Connected(_) => Error::Closed(TASK_ENDED.into()),
        }
    }
}
