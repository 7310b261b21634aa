//! The client: a typed method for every op.

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
    config::ClientConfig,
    counts::CountsWatch,
    doubt::Doubts,
    error::{Error, Reply},
    pace::Pacing,
    post::{ExpectedNode, Letter, Post, SUBMIT_QUEUE, State},
    repeats::{Repeated, Repeats},
    request_id::{RequestIds, random_u64},
    routes::Routes,
    watch::Watch,
};

/// A connection to the box office, with reconnects. Cheap to clone; all clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    /// Where requests go that its own node cannot serve.
    pub(crate) others: Arc<[Arc<Shared>]>,
    /// Connections to leaders, where requests go to them.
    pub(crate) routes: Option<Arc<Routes>>,
    pub(crate) deadline: Duration,
    pub(crate) request_id: Option<SmolStr>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// No other one of this process has it.
    pub(crate) number: u64,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) letters: mpsc::Sender<Letter>,
    pub(crate) state: watch::Receiver<State>,
    is_local: Arc<AtomicBool>,
    pub(crate) next_id: AtomicU64,
    pub(crate) request_ids: RequestIds,
    /// For the jitter of repeats only.
    pub(crate) rng: Mutex<SmallRng>,
    pub(crate) repeats: Repeated,
    pub(crate) doubts: Mutex<Doubts>,
    pub(crate) pacing: Pacing,
}

impl Client {
    /// Connects, and waits until that has worked.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason if no address could be reached before the usual deadline; the client is then gone.
    pub async fn connect(config: ClientConfig) -> Result<Client, Error> {
        let client = Client::start(config)?;
        client.connected().await?;
        Ok(client)
    }

    /// A client that connects in the background; requests wait for the connection, up to their deadline.
    ///
    /// # Errors
    /// [`Error::Closed`] if there is no address.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(config: ClientConfig) -> Result<Client, Error> {
        if config.addresses.is_empty() {
            return Err(Error::Closed("there is no address; give at least one".into()));
        }
        let deadline = config.deadline;
        let runtime = Handle::current();
        let routes = config.to_leaders.then(|| Arc::new(Routes::new(runtime.clone())));
        let shared = Shared::start(config, None, &runtime);
        Ok(Client { shared, others: Arc::new([]), routes, deadline, request_id: None })
    }

    /// Waits until there is a connection, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason there is none.
    pub async fn connected(&self) -> Result<(), Error> {
        let mut state = self.shared.state.clone();
        let there = state.wait_for(|state| matches!(state, State::Connected(_) | State::Closed(_)));
        let reached = match tokio::time::timeout(self.deadline, there).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) => State::Closed("its task has ended".into()),
            Err(_) => self.shared.state.borrow().clone(),
        };
        match reached {
            State::Connected(_) => Ok(()),
            State::Connecting(Some(why)) | State::Closed(why) => Err(Error::Closed(why)),
            State::Connecting(None) => Err(Error::Closed("no connection before the deadline".into())),
        }
    }

    /// Waits until there is a connection and the server has said who it is, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason why it has not.
    pub async fn introduced(&self) -> Result<Arc<Hello>, Error> {
        let mut state = self.shared.state.clone();
        let there = state.wait_for(|state| matches!(state, State::Connected(Some(_)) | State::Closed(_)));
        let reached = match tokio::time::timeout(self.deadline, there).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) => State::Closed("its task has ended".into()),
            Err(_) => self.shared.state.borrow().clone(),
        };
        match reached {
            State::Connected(Some(hello)) => Ok(hello),
            State::Connecting(Some(why)) | State::Closed(why) => Err(Error::Closed(why)),
            State::Connecting(None) | State::Connected(None) => {
                Err(Error::Closed("the server has not said who it is before the deadline".into()))
            }
        }
    }

    /// What the server said of itself; `None` while there is no connection.
    pub fn server(&self) -> Option<Arc<Hello>> {
        self.shared.hello()
    }

    /// The same client that repeats at these others, in turn and under the same request id, what its own node does not do:
    /// the connection is lost, or the answer is `unknown`, `not_ready` or `draining`. Each should be to another node, and
    /// all of one encoding; with [`ClientConfig::wait_for_connection`] off, nothing waits for a node that is gone.
    pub fn with_others<'a>(&self, others: impl IntoIterator<Item = &'a Client>) -> Client {
        let others = others.into_iter().map(|client| Arc::clone(&client.shared)).collect();
        Client { others, ..self.clone() }
    }

    /// How often requests of this client were repeated so far, by why.
    pub fn repeats(&self) -> Repeats {
        self.shared.repeats.count()
    }

    /// The same client with another deadline for its requests, all repeats of one together.
    pub fn with_deadline(&self, deadline: Duration) -> Client {
        Client { deadline, ..self.clone() }
    }

    /// The same client for one command under this request id (1 to 64 bytes of printable ASCII): for repeating what ended
    /// in [`Error::Unknown`], also after a restart. Another command under the same id is refused.
    pub fn with_request_id(&self, request_id: impl AsRef<str>) -> Client {
        Client { request_id: Some(SmolStr::new(request_id)), ..self.clone() }
    }

    /// A request id that was not there before: for callers who write it down before they send the command.
    pub fn new_request_id(&self) -> SmolStr {
        self.shared.request_ids.next()
    }

    /// `venue.put`: creates or changes a venue.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn venue_put(&self, id: &Id, details: VenueDetails) -> Result<Reply<()>, Error> {
        self.change_of(&Entity::Venue(id.clone()), Op::VenuePut, &body::VenuePut::new(id.clone(), details)).await
    }

    /// `venue.get`: its details and halls.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn venue_get(&self, id: &Id) -> Result<Reply<VenueView>, Error> {
        self.read_of(&Entity::Venue(id.clone()), Op::VenueGet, &body::Get { id: id.clone() }).await
    }

    /// `hall.put`: creates or changes a hall. Sessions that exist keep the layout they were made with.
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

    /// `hall.put` with comments, which nodes know since protocol 1.1.
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

    /// `hall.get`: name and layout.
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

    /// `session.get`: what, where, when, prices, counts, layout.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_get(&self, id: &Id) -> Result<Reply<SessionView>, Error> {
        self.read_of(&Entity::Session(id.clone()), Op::SessionGet, &body::Get { id: id.clone() }).await
    }

    /// `session.search`: sessions of a venue, by start; a page with a cursor for the next.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_search(&self, search: &body::SessionSearch) -> Result<Reply<SessionPage>, Error> {
        self.read(Op::SessionSearch, search).await
    }

    /// `session.map`: the state of every seat, with the version.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn session_map(&self, id: &Id) -> Result<Reply<MapView>, Error> {
        self.read_of(&Entity::Session(id.clone()), Op::SessionMap, &body::SessionMap { id: id.clone(), view: None })
            .await
    }

    /// `session.map` in the three numbers of cinemas: 2 on sale, 1 locked, 0 sold or blocked.
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

    /// `order.get`: what a cart became.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn order_get(&self, order: OrderId) -> Result<Reply<OrderView>, Error> {
        self.read_of(&Entity::Cart(order.cart()), Op::OrderGet, &body::OrderGet { order }).await
    }

    /// `watch`: follows a session as a stream of consistent maps. It starts when its first map is asked for.
    pub fn watch(&self, session: &Id) -> Watch {
        Watch::new(self.clone(), Entity::Session(session.clone()), None, None)
    }

    /// `watch` of a list: follows how many places of each session are free, held and sold. It starts when its first counts
    /// are asked for. A connection follows as many as `limits.feeds` of the server's hello says, all watches together.
    pub fn watch_counts(&self, sessions: impl IntoIterator<Item = Id>) -> CountsWatch {
        CountsWatch::new(self.clone(), sessions)
    }

    /// `batch`: several commands in one frame, each answered by itself, in their order. Up to 1 000 at once.
    ///
    /// # Errors
    /// As every op: [`Error`]; what becomes of each command is in the answer.
    pub async fn batch(&self, commands: &[BatchCommand]) -> Result<Vec<reply::Reply<()>>, Error> {
        let batch = reply::Batch { items: commands.iter().map(BatchCommand::item).collect() };
        Ok(self.read(Op::Batch, &batch).await?.value)
    }

    /// `admin.status`: how the node is.
    ///
    /// # Errors
    /// As every op: [`Error`].
    pub async fn status(&self) -> Result<Reply<NodeStatus>, Error> {
        self.read(Op::AdminStatus, &body::Empty {}).await
    }

    /// `admin.audit` of the whole node, counted afresh.
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

    /// A command that changes something, under a request id.
    pub(crate) async fn change<T: FromAnswer, B: Serialize>(&self, op: Op, body: &B) -> Result<Reply<T>, Error> {
        self.change_about(None, op, body).await
    }

    /// The same for a command that is about this entity.
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
            None => self.call(about, op, Some(&self.shared.request_ids.next()), body).await,
        }
    }

    /// A request that changes nothing.
    pub(crate) async fn read<T: FromAnswer, B: Serialize>(&self, op: Op, body: &B) -> Result<Reply<T>, Error> {
        self.call(None, op, None, body).await
    }

    /// The same for one that is about this entity.
    pub(crate) async fn read_of<T: FromAnswer, B: Serialize>(
        &self,
        entity: &Entity,
        op: Op,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        self.call(Some(entity), op, None, body).await
    }
}

impl Shared {
    /// A connection that is made in the background, in this runtime; if a node is expected, to that node.
    pub(crate) fn start(config: ClientConfig, expected: Option<ExpectedNode>, runtime: &Handle) -> Arc<Shared> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let config = Arc::new(config);
        let (letters, inbox) = mpsc::channel(SUBMIT_QUEUE);
        let (says, state) = watch::channel(State::Connecting(None));
        let is_local = Arc::new(AtomicBool::new(false));
        {
            // The caller may be outside of any runtime; the connection's timers need one.
            let _entered = runtime.enter();
            runtime.spawn(Post::new(Arc::clone(&config), expected, inbox, says, Arc::clone(&is_local)).run());
        }
        let pacing = Pacing::new(config.under_way_max);
        Arc::new(Shared {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            config,
            letters,
            state,
            is_local,
            next_id: AtomicU64::new(1),
            request_ids: RequestIds::new(),
            rng: Mutex::new(SmallRng::seed_from_u64(random_u64())),
            repeats: Repeated::default(),
            doubts: Mutex::default(),
            pacing,
        })
    }

    /// What the node at the other end says of itself, once it has.
    pub(crate) fn hello(&self) -> Option<Arc<Hello>> {
        match &*self.state.borrow() {
            State::Connected(hello) => hello.clone(),
            State::Connecting(_) | State::Closed(_) => None,
        }
    }

    /// Whether there is a connection, and the node has said who it is.
    pub(crate) fn is_introduced(&self) -> bool {
        matches!(&*self.state.borrow(), State::Connected(Some(_)))
    }

    /// Whether the newest connection is to a loopback or link-local address.
    pub(crate) fn is_local(&self) -> bool {
        self.is_local.load(Ordering::Relaxed)
    }

    /// The node at the other end, once it has said who it is.
    pub(crate) fn node(&self) -> Option<u64> {
        match &*self.state.borrow() {
            State::Connected(Some(hello)) => hello.node.parse().ok(),
            State::Connected(None) | State::Connecting(_) | State::Closed(_) => None,
        }
    }
}

/// A command of a batch: what importers need. Its request id is its own, so that a batch can be repeated.
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

    /// The same `hall.put` with comments, which nodes know since protocol 1.1. Other commands have theirs already.
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
