//! The client: a typed method for each op. [`crate::catalog`] and [`crate::cluster`] have more of them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use boxoffice_core::{
    answer::{CartAudit, HallView, MapView, SessionAudit, SessionView, VenueView},
    command::{NewSession, ProductDetails, ResourceDetails, Title, VenueDetails},
    id::{CartId, Entity, Id, OrderId},
    layout::Layout,
    seat::Seat,
};
use boxoffice_wire::{
    Op, body,
    hello::Hello,
    reply::{self, BatchItem, FromAnswer, OrderView, SessionPage, ThreeStates},
    status::{NodeAudit, NodeStatus},
};
use rand::{SeedableRng, rngs::SmallRng};
use serde::Serialize;
use smol_str::SmolStr;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};

use crate::{
    concurrency_limit::Limiter,
    config::ClientConfig,
    connection_task::{ConnectionState, ConnectionTask, ExpectedNode, Outgoing, SUBMIT_QUEUE, TASK_ENDED},
    counts::CountsWatch,
    error::{Error, Reply},
    in_doubt::InDoubtRequests,
    request_id::{RequestIds, random_u64},
    retries::{RetryCounters, RetryCounts},
    routes::Routes,
    watch::Watch,
};

/// A connection to the box office that reconnects on its own. Cheap to clone; all clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) connection: Arc<ConnectionHandle>,
    /// Connections to nodes that get the requests that the client's own node cannot serve.
    pub(crate) fallbacks: Arc<[Arc<ConnectionHandle>]>,
    /// `None` if requests do not go to leaders.
    pub(crate) routes: Option<Arc<Routes>>,
    pub(crate) deadline: Duration,
    pub(crate) request_id: Option<SmolStr>,
}

/// A handle to a connection task. The task ends when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionHandle {
    /// Unique in this process.
    pub(crate) id: u64,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    pub(crate) state: watch::Receiver<ConnectionState>,
    is_local: Arc<AtomicBool>,
    pub(crate) next_id: AtomicU64,
    pub(crate) request_ids: RequestIds,
    /// Only for the jitter of retries.
    pub(crate) rng: Mutex<SmallRng>,
    pub(crate) retries: RetryCounters,
    pub(crate) in_doubt: Mutex<InDoubtRequests>,
    pub(crate) limiter: Limiter,
}

impl Client {
    /// Starts a client and waits until it is connected.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason if no address could be reached before the deadline of the configuration. The
    /// client is dropped then.
    pub async fn connect(config: ClientConfig) -> Result<Client, Error> {
        let client = Client::start(config)?;
        client.wait_until_connected().await?;
        Ok(client)
    }

    /// Starts a client that connects in the background. Requests wait for the connection, up to their deadline.
    ///
    /// # Errors
    /// [`Error::Closed`] if there is no address.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(config: ClientConfig) -> Result<Client, Error> {
        if config.addresses.is_empty() {
            return Err(Error::Closed("the configuration has no address; give at least one".into()));
        }
        let deadline = config.deadline;
        let runtime = Handle::current();
        let routes = config.to_leaders.then(|| Arc::new(Routes::new(runtime.clone())));
        let connection = ConnectionHandle::start(config, None, &runtime);
        Ok(Client { connection, fallbacks: Arc::new([]), routes, deadline, request_id: None })
    }

    /// Waits until there is a connection, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason why there is no connection.
    pub async fn wait_until_connected(&self) -> Result<(), Error> {
        let mut state = self.connection.state.clone();
        let done = state.wait_for(|state| matches!(state, ConnectionState::Connected(_) | ConnectionState::Closed(_)));
        let reached = match tokio::time::timeout(self.deadline, done).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) => ConnectionState::Closed(TASK_ENDED.into()),
            Err(_) => self.connection.state.borrow().clone(),
        };
        match reached {
            ConnectionState::Connected(_) => Ok(()),
            ConnectionState::Connecting(Some(reason)) | ConnectionState::Closed(reason) => Err(Error::Closed(reason)),
            ConnectionState::Connecting(None) => Err(Error::Closed("no connection before the deadline".into())),
        }
    }

    /// Waits until there is a connection and the server's hello has arrived, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason why there is no hello.
    pub async fn wait_for_hello(&self) -> Result<Arc<Hello>, Error> {
        let mut state = self.connection.state.clone();
        let done =
            state.wait_for(|state| matches!(state, ConnectionState::Connected(Some(_)) | ConnectionState::Closed(_)));
        let reached = match tokio::time::timeout(self.deadline, done).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) => ConnectionState::Closed(TASK_ENDED.into()),
            Err(_) => self.connection.state.borrow().clone(),
        };
        match reached {
            ConnectionState::Connected(Some(hello)) => Ok(hello),
            ConnectionState::Connecting(Some(reason)) | ConnectionState::Closed(reason) => Err(Error::Closed(reason)),
            ConnectionState::Connecting(None) | ConnectionState::Connected(None) => {
                Err(Error::Closed("the server sent no hello before the deadline".into()))
            }
        }
    }

    /// The server's hello. `None` while there is no connection, or before the hello has arrived.
    pub fn server_hello(&self) -> Option<Arc<Hello>> {
        self.connection.hello()
    }

    /// A client that also uses these clients' connections. If its own node does not serve a request, it retries at the
    /// fallbacks in turn, under the same request id. That is so when the connection is lost or not there, or when the
    /// answer is `not_ready` or `draining`. Each fallback should be connected to another node, and all must use the
    /// same encoding. Switch [`ClientConfig::wait_for_connection`] off, so that no request waits for a node that is
    /// gone.
    pub fn with_fallbacks<'a>(&self, fallbacks: impl IntoIterator<Item = &'a Client>) -> Client {
        let fallbacks = fallbacks.into_iter().map(|client| Arc::clone(&client.connection)).collect();
        Client { fallbacks, ..self.clone() }
    }

    /// How often this client retried requests so far, by reason.
    pub fn retry_counts(&self) -> RetryCounts {
        self.connection.retries.snapshot()
    }

    /// The same client with another deadline. A request and all its retries together have this time.
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client { deadline, ..self.clone() }
    }

    /// The same client for one command under this request id (1 to 64 bytes of printable ASCII). Use it to repeat a
    /// command that ended in [`Error::Unknown`], also after a restart. The server refuses another command under the
    /// same id.
    pub fn with_request_id(&self, request_id: impl AsRef<str>) -> Client {
        Client { request_id: Some(SmolStr::new(request_id)), ..self.clone() }
    }

    /// A new, unique request id, for callers that store the id before they send the command.
    pub fn new_request_id(&self) -> SmolStr {
        self.connection.request_ids.next()
    }

    /// `venue.put`: creates or changes a venue.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn venue_put(&self, id: &Id, details: VenueDetails) -> Result<Reply<()>, Error> {
        self.change_of(&Entity::Venue(id.clone()), Op::VenuePut, &body::VenuePut::new(id.clone(), details)).await
    }

    /// `venue.get`: a venue's details and halls.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn venue_get(&self, id: &Id) -> Result<Reply<VenueView>, Error> {
        self.read_of(&Entity::Venue(id.clone()), Op::VenueGet, &body::Get { id: id.clone() }).await
    }

    /// `hall.put`: creates or changes a hall. Existing sessions keep the layout with which they were created.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn hall_put(
        &self,
        venue: &Id,
        id: &Id,
        name: impl AsRef<str>,
        layout: Arc<Layout>,
    ) -> Result<Reply<()>, Error> {
        self.hall_put_with_comments(venue, id, name, "", layout).await
    }

    /// `hall.put` with comments. Needs a node that speaks protocol 1.1.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn hall_put_with_comments(
        &self,
        venue: &Id,
        id: &Id,
        name: impl AsRef<str>,
        comments: impl AsRef<str>,
        layout: Arc<Layout>,
    ) -> Result<Reply<()>, Error> {
        let (name, comments) = (SmolStr::new(name), SmolStr::new(comments));
        let body = body::HallPut { venue: venue.clone(), id: id.clone(), name, comments, layout };
        self.change_of(&Entity::Venue(venue.clone()), Op::HallPut, &body).await
    }

    /// `hall.get`: a hall's name and layout.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn hall_get(&self, venue: &Id, id: &Id) -> Result<Reply<HallView>, Error> {
        self.read_of(
            &Entity::Venue(venue.clone()),
            Op::HallGet,
            &body::HallGet { venue: venue.clone(), id: id.clone() },
        )
        .await
    }

    /// `session.create`: books the hall for the time and opens the session.
    ///
    /// # Errors
    /// As every op: [`Error`]; `hall_occupied` if the hall is booked at that time.
    pub async fn session_create(&self, venue: &Id, session: NewSession) -> Result<Reply<SessionView>, Error> {
        self.change(Op::SessionCreate, &body::SessionCreate::new(venue.clone(), session)).await
    }

    /// `session.get`: a session's title, hall, time, prices, counts and layout.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_get(&self, id: &Id) -> Result<Reply<SessionView>, Error> {
        self.read_of(&Entity::Session(id.clone()), Op::SessionGet, &body::Get { id: id.clone() }).await
    }

    /// `session.search`: sessions of a venue, by start. Returns a page and the cursor of the next page.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_search(&self, search: &body::SessionSearch) -> Result<Reply<SessionPage>, Error> {
        self.read(Op::SessionSearch, search).await
    }

    /// `session.map`: the state of every seat, and the version.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_map(&self, id: &Id) -> Result<Reply<MapView>, Error> {
        self.read_of(&Entity::Session(id.clone()), Op::SessionMap, &body::SessionMap { id: id.clone(), view: None })
            .await
    }

    /// `session.map` with the three numbers that cinemas use: 2 on sale, 1 locked, 0 sold or blocked.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_map_three_states(&self, id: &Id) -> Result<Reply<ThreeStates>, Error> {
        self.read_of(
            &Entity::Session(id.clone()),
            Op::SessionMap,
            &body::SessionMap { id: id.clone(), view: Some("2,1,0".into()) },
        )
        .await
    }

    /// `session.block`: keeps free seats off sale, all or none.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_block(&self, id: &Id, seats: impl IntoIterator<Item = Seat>) -> Result<Reply<()>, Error> {
        let seats = seats.into_iter().collect();
        self.change_of(&Entity::Session(id.clone()), Op::SessionBlock, &body::SessionSeats { id: id.clone(), seats })
            .await
    }

    /// `session.unblock`: puts blocked seats back on sale, all or none.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_unblock(&self, id: &Id, seats: impl IntoIterator<Item = Seat>) -> Result<Reply<()>, Error> {
        let seats = seats.into_iter().collect();
        self.change_of(&Entity::Session(id.clone()), Op::SessionUnblock, &body::SessionSeats { id: id.clone(), seats })
            .await
    }

    /// `order.get`: the order that a cart became.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn order_get(&self, order: OrderId) -> Result<Reply<OrderView>, Error> {
        self.read_of(&Entity::Cart(order.cart()), Op::OrderGet, &body::OrderGet { order }).await
    }

    /// `watch`: follows a session as a stream of consistent seat maps. The watch starts with the first [`Watch::next`].
    pub fn watch(&self, session: &Id) -> Watch {
        Watch::new(self.clone(), Entity::Session(session.clone()), None, None)
    }

    /// `watch` of a list: follows the free, held and sold places of each session. The watch starts with the first
    /// [`CountsWatch::next`]. All watches of a connection together may have as many feeds as `limits.feeds` of the
    /// server's hello says.
    pub fn watch_counts(&self, sessions: impl IntoIterator<Item = Id>) -> CountsWatch {
        CountsWatch::new(self.clone(), sessions)
    }

    /// `batch`: several commands in one frame, up to 1 000. Each has its own answer, in the order of the commands.
    ///
    /// # Errors
    /// As every op: [`Error`]. The outcome of each command is in the answer.
    pub async fn batch(&self, commands: &[BatchCommand]) -> Result<Vec<reply::Reply<()>>, Error> {
        let batch = reply::Batch { items: commands.iter().map(BatchCommand::item).collect() };
        Ok(self.read(Op::Batch, &batch).await?.value)
    }

    /// `admin.status`: the status of the node.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn status(&self) -> Result<Reply<NodeStatus>, Error> {
        self.read(Op::AdminStatus, &body::Empty {}).await
    }

    /// `admin.audit` of the whole node, recounted from its state.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn audit_node(&self) -> Result<Reply<NodeAudit>, Error> {
        self.read(Op::AdminAudit, &body::Audit { entity: None }).await
    }

    /// `admin.audit` of a session.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn audit_session(&self, id: &Id) -> Result<Reply<SessionAudit>, Error> {
        self.read(Op::AdminAudit, &body::Audit { entity: Some(Entity::Session(id.clone())) }).await
    }

    /// `admin.audit` of a cart.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn audit_cart(&self, id: CartId) -> Result<Reply<CartAudit>, Error> {
        self.read(Op::AdminAudit, &body::Audit { entity: Some(Entity::Cart(id)) }).await
    }

    /// Sends a command that changes something, under a request id.
    pub(crate) async fn change<T: FromAnswer, B: Serialize>(&self, op: Op, body: &B) -> Result<Reply<T>, Error> {
        self.change_about(None, op, body).await
    }

    /// [`Client::change`] for a command about this entity.
    pub(crate) async fn change_of<T: FromAnswer, B: Serialize>(
        &self,
        entity: &Entity,
        op: Op,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        self.change_about(Some(entity), op, body).await
    }

    async fn change_about<T: FromAnswer, B: Serialize>(
        &self,
        about: Option<&Entity>,
        op: Op,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        match &self.request_id {
            Some(given) => self.call(about, op, Some(given), body).await,
            None => self.call(about, op, Some(&self.connection.request_ids.next()), body).await,
        }
    }

    /// Sends a request that changes nothing.
    pub(crate) async fn read<T: FromAnswer, B: Serialize>(&self, op: Op, body: &B) -> Result<Reply<T>, Error> {
        self.call(None, op, None, body).await
    }

    /// [`Client::read`] for a request about this entity.
    pub(crate) async fn read_of<T: FromAnswer, B: Serialize>(
        &self,
        entity: &Entity,
        op: Op,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        self.call(Some(entity), op, None, body).await
    }
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
            // The caller may be outside of any runtime; the connection's timers need one.
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
        match &*self.state.borrow() {
            ConnectionState::Connected(Some(hello)) => hello.node.parse().ok(),
            ConnectionState::Connected(None) | ConnectionState::Connecting(_) | ConnectionState::Closed(_) => None,
        }
    }
}

/// A command of a batch. It covers the ops that importers need. Each command has its own request id, so a batch can be
/// repeated.
#[derive(Clone, Debug)]
pub struct BatchCommand {
    request_id: SmolStr,
    body: BatchBody,
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum BatchBody {
    Venue(body::VenuePut),
    Hall(body::HallPut),
    Session(body::SessionCreate),
    Block(body::SessionSeats),
    Title(body::TitlePut),
    Product(body::ProductPut),
    Resource(Box<body::ResourcePut>),
}

impl BatchCommand {
    /// `venue.put`.
    pub fn venue_put(request_id: impl AsRef<str>, id: &Id, details: VenueDetails) -> BatchCommand {
        let body = body::VenuePut::new(id.clone(), details);
        BatchCommand { request_id: SmolStr::new(request_id), body: BatchBody::Venue(body) }
    }

    /// `hall.put`.
    pub fn hall_put(
        request_id: impl AsRef<str>,
        venue: &Id,
        id: &Id,
        name: impl AsRef<str>,
        layout: Arc<Layout>,
    ) -> BatchCommand {
        let (name, comments) = (SmolStr::new(name), SmolStr::default());
        let body = body::HallPut { venue: venue.clone(), id: id.clone(), name, comments, layout };
        BatchCommand { request_id: SmolStr::new(request_id), body: BatchBody::Hall(body) }
    }

    /// The same `hall.put` with comments, which need a node that speaks protocol 1.1. No effect on other commands,
    /// which take their comments with their details.
    #[must_use]
    pub fn with_comments(mut self, comments: impl AsRef<str>) -> BatchCommand {
        if let BatchBody::Hall(body) = &mut self.body {
            body.comments = SmolStr::new(comments);
        }
        self
    }

    /// `session.create`.
    pub fn session_create(request_id: impl AsRef<str>, venue: &Id, session: NewSession) -> BatchCommand {
        let body = body::SessionCreate::new(venue.clone(), session);
        BatchCommand { request_id: SmolStr::new(request_id), body: BatchBody::Session(body) }
    }

    /// `session.block`.
    pub fn session_block(request_id: impl AsRef<str>, id: &Id, seats: impl IntoIterator<Item = Seat>) -> BatchCommand {
        let body = body::SessionSeats { id: id.clone(), seats: seats.into_iter().collect() };
        BatchCommand { request_id: SmolStr::new(request_id), body: BatchBody::Block(body) }
    }

    /// `title.put`.
    pub fn title_put(request_id: impl AsRef<str>, id: &Id, title: Title) -> BatchCommand {
        let body = BatchBody::Title(body::TitlePut::new(id.clone(), title));
        BatchCommand { request_id: SmolStr::new(request_id), body }
    }

    /// `product.put`.
    pub fn product_put(request_id: impl AsRef<str>, id: &Id, details: ProductDetails) -> BatchCommand {
        let body = BatchBody::Product(body::ProductPut::new(id.clone(), details));
        BatchCommand { request_id: SmolStr::new(request_id), body }
    }

    /// `resource.put`.
    pub fn resource_put(request_id: impl AsRef<str>, id: &Id, details: ResourceDetails) -> BatchCommand {
        let body = BatchBody::Resource(Box::new(body::ResourcePut::new(id.clone(), details)));
        BatchCommand { request_id: SmolStr::new(request_id), body }
    }

    fn item(&self) -> BatchItem<'_, &BatchBody> {
        BatchItem { op: self.op().name(), rid: Some(self.request_id.as_str().into()), body: &self.body }
    }

    fn op(&self) -> Op {
        match &self.body {
            BatchBody::Venue(_) => Op::VenuePut,
            BatchBody::Hall(_) => Op::HallPut,
            BatchBody::Session(_) => Op::SessionCreate,
            BatchBody::Block(_) => Op::SessionBlock,
            BatchBody::Title(_) => Op::TitlePut,
            BatchBody::Product(_) => Op::ProductPut,
            BatchBody::Resource(_) => Op::ResourcePut,
        }
    }
}
