//! The client: a typed method for each op. [`crate::catalog`] and [`crate::cluster`] have more of them.

use std::{sync::Arc, time::Duration};

use boxoffice_core::{
    command::{NewSession, VenueDetails},
    id::{CartId, Entity, Id, OrderId},
    seat::Seat,
};
use boxoffice_wire::{
    AnsweredOp, Op, body,
    hello::Hello,
    reply::{self, FromBody, SessionPage, ThreeStates},
    status::{NodeAudit, NodeStatus},
    view::{CartAudit, HallView, MapView, Order, SessionAudit, SessionView, VenueChange, VenueView},
};
use serde::Serialize;
use smol_str::SmolStr;
use tokio::runtime::Handle;

use crate::{
    batch::BatchCommand,
    config::ClientConfig,
    connection::ConnectionHandle,
    connection_task::ConnectionState,
    error::{Error, Reply},
    retries::RetryCounts,
    routes::Routes,
};

/// A connection to the box office that reconnects on its own. Cheap to clone, and all clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) connection: Arc<ConnectionHandle>,
    /// Connections to nodes that get the requests that the client's own node cannot serve.
    pub(crate) fallbacks: Arc<[Arc<ConnectionHandle>]>,
    /// `None` if requests do not go to leaders.
    pub(crate) routes: Option<Arc<Routes>>,
    pub(crate) deadline: Duration,
    pub(crate) patience: Option<Duration>,
    pub(crate) request_id: Option<SmolStr>,
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
        let (deadline, patience) = (config.deadline, config.patience);
        let runtime = Handle::current();
        let routes = config.to_leaders.then(|| Arc::new(Routes::new(runtime.clone())));
        let connection = ConnectionHandle::start(config, None, &runtime);
        Ok(Client { connection, fallbacks: Arc::new([]), routes, deadline, patience, request_id: None })
    }

    /// Waits until there is a connection, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason why there is no connection.
    pub async fn wait_until_connected(&self) -> Result<(), Error> {
        self.connection.wait_for(self.deadline, |state| matches!(state, ConnectionState::Connected(_))).await?;
        Ok(())
    }

    /// Waits until there is a connection and the server's hello has arrived, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Closed`] with the reason why there is no hello.
    pub async fn wait_for_hello(&self) -> Result<Arc<Hello>, Error> {
        let has_hello = |state: &ConnectionState| matches!(state, ConnectionState::Connected(Some(_)));
        let hello = self.connection.wait_for(self.deadline, has_hello).await?;
        hello.ok_or_else(|| Error::Closed("the server sent no hello before the deadline".into()))
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

    /// The same client for a buyer who waits this long after asking for a hold. See
    /// [`ClientConfig::patience`].
    pub fn with_patience(&self, patience: Duration) -> Client {
        Client { patience: Some(patience), ..self.clone() }
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
    pub async fn venue_put(&self, id: &Id, details: VenueDetails) -> Result<Reply<VenueChange>, Error> {
        self.ask_of(&Entity::Venue(id.clone()), &body::VenuePut::new(id.clone(), details)).await
    }

    /// `venue.get`: a venue's details and halls.
    pub async fn venue_get(&self, id: &Id) -> Result<Reply<VenueView>, Error> {
        self.ask_of(&Entity::Venue(id.clone()), &body::VenueGet(body::Get::of(id.clone()))).await
    }

    /// `hall.get`: a hall's name and layout.
    pub async fn hall_get(&self, venue: &Id, id: &Id) -> Result<Reply<HallView>, Error> {
        self.ask_of(&Entity::Venue(venue.clone()), &body::HallGet::of(venue.clone(), id.clone())).await
    }

    /// `session.create`: books the hall for the time and opens the session.
    ///
    /// # Errors
    /// `hall_occupied` if the hall is booked at that time.
    pub async fn session_create(&self, venue: &Id, session: NewSession) -> Result<Reply<SessionView>, Error> {
        self.ask(&body::SessionCreate::new(venue.clone(), session)).await
    }

    /// `session.get`: a session's title, hall, time, prices, counts and layout.
    pub async fn session_get(&self, id: &Id) -> Result<Reply<SessionView>, Error> {
        self.ask_of(&Entity::Session(id.clone()), &body::SessionGet::of(id.clone())).await
    }

    /// `session.search`: sessions of a venue, by start. Returns a page and the cursor of the next page.
    pub async fn session_search(&self, search: &body::SessionSearch) -> Result<Reply<SessionPage>, Error> {
        self.ask(search).await
    }

    /// `session.map`: the state of every seat, and the version.
    pub async fn session_map(&self, id: &Id) -> Result<Reply<MapView>, Error> {
        self.ask_of(&Entity::Session(id.clone()), &body::SessionMap::of(id.clone())).await
    }

    /// `session.map` with the three numbers that cinemas use: 2 on sale, 1 locked, 0 sold or blocked.
    pub async fn session_map_three_states(&self, id: &Id) -> Result<Reply<ThreeStates>, Error> {
        let body = body::SessionMap { view: Some("2,1,0".into()), ..body::SessionMap::of(id.clone()) };
        self.send_of(&Entity::Session(id.clone()), Op::SessionMap, &body).await
    }

    /// `session.block`: keeps free seats off sale, all or none.
    pub async fn session_block(&self, id: &Id, seats: impl IntoIterator<Item = Seat>) -> Result<Reply<()>, Error> {
        let seats = body::SessionSeats::of(id.clone(), seats.into_iter().collect());
        self.ask_of(&Entity::Session(id.clone()), &body::SessionBlock(seats)).await
    }

    /// `session.unblock`: puts blocked seats back on sale, all or none.
    pub async fn session_unblock(&self, id: &Id, seats: impl IntoIterator<Item = Seat>) -> Result<Reply<()>, Error> {
        let seats = body::SessionSeats::of(id.clone(), seats.into_iter().collect());
        self.ask_of(&Entity::Session(id.clone()), &body::SessionUnblock(seats)).await
    }

    /// `order.get`: the order that a cart became.
    pub async fn order_get(&self, order: OrderId) -> Result<Reply<Order>, Error> {
        self.ask_of(&Entity::Cart(order.cart()), &body::OrderGet { order, names: false }).await
    }

    /// `order.get` with `names`: the order, and in its `sessions` what the lines say by id and number, for a receipt.
    pub async fn order_with_names(&self, order: OrderId) -> Result<Reply<Order>, Error> {
        self.ask_of(&Entity::Cart(order.cart()), &body::OrderGet { order, names: true }).await
    }

    /// `batch`: several commands in one frame, up to 1 000. Each has its own answer, in the order of the commands.
    ///
    /// # Errors
    /// The outcome of each command is in the answer.
    pub async fn batch(&self, commands: &[BatchCommand]) -> Result<Vec<reply::Reply<()>>, Error> {
        let batch = reply::Batch { items: commands.iter().map(BatchCommand::item).collect() };
        Ok(self.send(Op::Batch, &batch).await?.value)
    }

    /// `admin.status`: the status of the node.
    pub async fn status(&self) -> Result<Reply<NodeStatus>, Error> {
        self.send(Op::AdminStatus, &body::Empty {}).await
    }

    /// `admin.audit` of the whole node, recounted from its state.
    pub async fn audit_node(&self) -> Result<Reply<NodeAudit>, Error> {
        self.audit(None).await
    }

    /// `admin.audit` of a session.
    pub async fn audit_session(&self, id: &Id) -> Result<Reply<SessionAudit>, Error> {
        self.audit(Some(Entity::Session(id.clone()))).await
    }

    /// `admin.audit` of a cart.
    pub async fn audit_cart(&self, id: CartId) -> Result<Reply<CartAudit>, Error> {
        self.audit(Some(Entity::Cart(id))).await
    }

    /// `admin.audit`, whose answer is one for each kind of entity.
    pub(crate) async fn audit<T: FromBody>(&self, entity: Option<Entity>) -> Result<Reply<T>, Error> {
        self.send(Op::AdminAudit, &body::Audit { entity, customers: false }).await
    }

    /// `admin.audit` of a session, product, resource or customer, whose node also asks the carts of all holds and sales for their
    /// customers and for the begin of each hold. The audit is of the entity's kind, for example [`SessionAudit`].
    pub async fn audit_with_customers<T: FromBody>(&self, entity: Entity) -> Result<Reply<T>, Error> {
        self.send(Op::AdminAudit, &body::Audit { entity: Some(entity), customers: true }).await
    }

    /// Sends the body of an op.
    pub(crate) async fn ask<B: AnsweredOp + Sync>(&self, body: &B) -> Result<Reply<B::Answer>, Error> {
        self.send(B::OP, body).await
    }

    /// [`Client::ask`] about this entity.
    pub(crate) async fn ask_of<B: AnsweredOp + Sync>(
        &self,
        entity: &Entity,
        body: &B,
    ) -> Result<Reply<B::Answer>, Error> {
        self.send_of(entity, B::OP, body).await
    }

    /// Sends a request: under a request id if the op changes something.
    pub(crate) async fn send<T: FromBody, B: Serialize + Sync>(&self, op: Op, body: &B) -> Result<Reply<T>, Error> {
        self.send_about(None, op, body).await
    }

    /// [`Client::send`] for a request about this entity.
    pub(crate) async fn send_of<T: FromBody, B: Serialize + Sync>(
        &self,
        entity: &Entity,
        op: Op,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        self.send_about(Some(entity), op, body).await
    }

    async fn send_about<T: FromBody, B: Serialize + Sync>(
        &self,
        about: Option<&Entity>,
        op: Op,
        body: &B,
    ) -> Result<Reply<T>, Error> {
        match &self.request_id {
            _ if !op.changes() => self.call(about, op, None, body).await,
            Some(given) => self.call(about, op, Some(given), body).await,
            None => self.call(about, op, Some(&self.connection.request_ids.next()), body).await,
        }
    }
}
