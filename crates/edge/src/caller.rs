//! Callers: their credentials, the customer that they act for, and what they may see of others.

use std::{net::IpAddr, sync::Arc};

use axum::http::{HeaderMap, request::Parts};
use boxoffice_core::{
    access::Role,
    answer::{Answer, Answered, BookingView, SessionView},
    command::{Admission, CartCommand, ClusterCommand, Command, CustomerCommand, Machine},
    holder::Holder,
    id::{Entity, Id},
    refusal::Refusal,
};
use boxoffice_node::api;
use boxoffice_wire::{
    Call, Op, Rejection,
    call::{HelloFields, Item},
    feed_kind::FeedKind,
    joining,
    permission::{OwnerRule, VenueRule},
};
use smol_str::SmolStr;
use tokio::time::Instant;

use crate::{
    access::{Access, Denied, Row},
    admission::{self, Credentials, NotAdmitted},
    budgets::{KeyBudgets, Owner, Owners},
    codes,
    denials::Denial,
    network::ClientNetwork,
    planted,
    shared::{ConnectionPermit, Shared},
};

/// A caller's credentials and the customer that it acts for. A stranger by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    pub(crate) access: Access,
    /// The customer whose token was shown.
    customer: Option<Id>,
}

/// The caller of a request whose credentials were looked at before its route was.
#[derive(Clone, Debug)]
pub(crate) struct Admitted(pub(crate) Result<Caller, NotAdmitted>);

impl Admitted {
    /// The caller of a request.
    ///
    /// # Errors
    /// The caller is not admitted.
    pub(crate) async fn of(
        shared: &Arc<Shared>,
        permit: &ConnectionPermit,
        parts: &Parts,
    ) -> Result<Caller, NotAdmitted> {
        match parts.extensions.get::<Admitted>() {
            Some(Admitted(admitted)) => admitted.clone(),
            None => Caller::of_headers(shared, permit, &parts.headers).await,
        }
    }
}

impl Caller {
    /// The caller with these headers, over the connection with this permit.
    ///
    /// # Errors
    /// A key or token that is not valid is refused, whatever the request is.
    pub(crate) async fn of_headers(
        shared: &Arc<Shared>,
        permit: &ConnectionPermit,
        headers: &HeaderMap,
    ) -> Result<Caller, NotAdmitted> {
        let shown = Credentials::of_headers(shared, headers)?;
        let (access, customer) = admission::admit(shared, permit, shown).await?;
        Ok(Caller { access, customer: None }.acting_for(customer)?)
    }

    /// The same caller after its hello.
    ///
    /// # Errors
    /// A token is not valid, or the customer is another one than before. A connection acts for one customer.
    pub(crate) async fn after_hello(
        mut self,
        shared: Arc<Shared>,
        permit: Arc<ConnectionPermit>,
        hello: HelloFields,
    ) -> Result<Caller, NotAdmitted> {
        let shows_token = hello.token.is_some();
        let shown = Credentials::of_hello(&shared, hello)?;
        let (access, customer) = admission::admit(&shared, &permit, shown).await?;
        if shows_token {
            self.access = access;
        }
        Ok(self.acting_for(customer)?)
    }

    /// The same caller for the customer whose token it has shown in either way.
    fn acting_for(mut self, shown: Option<Id>) -> Result<Caller, Rejection> {
        if shown.is_some() {
            self.access.show_customer();
        }
        let mut customer = self.customer;
        for other in [self.access.customer.clone(), shown].into_iter().flatten() {
            if customer.as_ref().is_some_and(|before| *before != other) {
                return Err(forbidden("this connection acts for another customer already"));
            }
            customer = Some(other);
        }
        Ok(Caller { access: self.access, customer })
    }

    /// The owners of the budgets that this caller's requests are charged to.
    pub(crate) fn owners(&self, permit: &ConnectionPermit) -> Owners {
        if let Some((name, terms)) = self.access.key_terms() {
            return match (terms.requests_per_second, terms.held_max) {
                (None, None) => Owners::new(),
                _ => vec![(Owner::Key(name), terms)],
            };
        }
        if self.access.is_staff() {
            return Owners::new();
        }
        let network = Owner::Network(ClientNetwork::of(permit.address()));
        let customer = self.customer.clone().map(Owner::Customer);
        [Some(network), customer].into_iter().flatten().map(|owner| (owner, KeyBudgets::default())).collect()
    }

    pub(crate) fn sees_all(&self) -> bool {
        self.access.sees_all()
    }

    /// Checks a request of an op that the caller may use against the rest of the op's row, and a watch against the row of the
    /// feed. Replaces the items of a batch that are refused. The venues of entities and lines are checked when the command is
    /// submitted.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub(crate) fn admit(&self, (shared, address): (&Shared, IpAddr), op: Op, call: &mut Call) -> Result<(), Denied> {
        if names_code(call) && shared.backend.minor() < CODES_MINOR {
            // The members that are not upgraded yet could not read the name of such an entity.
            return Err(Denied::Refused(Denial::Code, Refusal::CodeNotValid.into()));
        }
        match call {
            Call::Command(command) | Call::AuditWithCarts(command) | Call::NamedOrder(command) => {
                self.admit_command((shared, address), op, command)
            }
            Call::Watch { kind, entity, since: _ } => self.may_follow(shared, *kind, entity),
            Call::WatchCounts { sessions: _ } => self.access.may(shared, Row::Feed(FeedKind::SessionCounts)),
            Call::Batch(items) => {
                for item in items {
                    if let Ok(Item { op, command, .. }) = item
                        && let Err(why) = self.admit_item((shared, address), *op, command)
                    {
                        *item = Err(why);
                    }
                }
                Ok(())
            }
            Call::AuditNode => self.admit_whole_node(op),
            Call::Hello(_)
            | Call::SearchCity(_)
            | Call::Unwatch { .. }
            | Call::Status
            | Call::Shards
            | Call::Backup(_)
            | Call::History { .. }
            | Call::AsOf { .. } => Ok(()),
        }
    }

    fn admit_item(&self, (shared, address): (&Shared, IpAddr), op: Op, command: &mut Command) -> Result<(), Rejection> {
        let admitted = match self.access.may(shared, Row::Op(op)) {
            // The right to the batch was checked already.
            Ok(()) | Err(Denied::Failed(_)) => self.admit_command((shared, address), op, command),
            denied @ Err(Denied::Refused(..)) => denied,
        };
        match admitted {
            Ok(()) | Err(Denied::Failed(_)) => Ok(()),
            Err(Denied::Refused(denial, why)) => {
                self.denied(shared, denial, &why);
                Err(why)
            }
        }
    }

    /// Checks that the caller may follow an entity, which needs what reading it needs.
    ///
    /// # Errors
    /// The reason why it may not.
    pub(crate) fn may_follow(&self, shared: &Shared, kind: FeedKind, entity: &Entity) -> Result<(), Denied> {
        if planted::is("feed row missing") {
            return Ok(());
        }
        self.access.may(shared, Row::Feed(kind))?;
        let customer = match entity {
            Entity::Customer(customer) => Some(customer),
            Entity::Session(_)
            | Entity::Product(_)
            | Entity::Resource(_)
            | Entity::Cart(_)
            | Entity::Code(_)
            | Entity::Venue(_)
            | Entity::Directory
            | Entity::Cluster => None,
        };
        self.check_owner(shared, kind.permission().owner, customer)
    }

    /// Checks a request about the whole node, which belongs to no venue.
    fn admit_whole_node(&self, op: Op) -> Result<(), Denied> {
        match op.permission().venues {
            VenueRule::OfEntity | VenueRule::OfLinesAsked | VenueRule::OfCartLines | VenueRule::Refused
                if self.access.is_limited() =>
            {
                let why = forbidden("a whole node is about all venues, and this key is for some");
                Err(Denied::Refused(Denial::Venue, why))
            }
            VenueRule::Unlimited
            | VenueRule::OfEntity
            | VenueRule::OfLinesAsked
            | VenueRule::OfCartLines
            | VenueRule::Refused => Ok(()),
        }
    }

    /// Counts a denial.
    pub(crate) fn denied(&self, shared: &Shared, denial: Denial, why: &Rejection) {
        shared.denials.note(denial, self.access.name.as_deref(), &why.to_string());
    }

    /// Checks that the caller may send this command for the customer that it names. Notes in the command what only the edge knows:
    /// whether a guest asks, and whose share the held things are charged to.
    fn admit_command(&self, (shared, address): (&Shared, IpAddr), op: Op, command: &mut Command) -> Result<(), Denied> {
        match command {
            Command::Cart(_, CartCommand::Checkout { payment, .. })
                if payment.is_recorded() && !self.may_record(shared) =>
            {
                let why = forbidden("a recorded payment needs a key with the role desk; pay through the gateway");
                return Err(Denied::Refused(Denial::Role, why));
            }
            Command::Cart(_, CartCommand::Open { guest, .. }) => *guest = !self.access.roles.has(Role::Desk),
            Command::Cart(
                _,
                CartCommand::Hold { guest, holder, attributes, .. }
                | CartCommand::SetQuantity { guest, holder, attributes, .. },
            ) => {
                *guest = !self.access.roles.has(Role::Desk);
                *holder = self.holder(shared, address);
                // Nodes of an older version of the cluster cannot read them, and have no offers that ask for any.
                if shared.backend.minor() >= ATTRIBUTES_MINOR {
                    attributes.clone_from(&self.access.attributes);
                }
            }
            Command::Cart(_, CartCommand::Checkout { holder, .. }) => {
                *holder = self.holder(shared, address);
            }
            Command::Cluster(ClusterCommand::Join { node, machine, admission, .. }) => {
                if self.vouches_for(shared, *node, machine, admission) {
                    *admission = Admission::Vouched;
                }
            }
            Command::Cart(..)
            | Command::Customer(..)
            | Command::Venue(..)
            | Command::Session(..)
            | Command::Product(..)
            | Command::Resource(..)
            | Command::Code(..)
            | Command::Directory(_)
            | Command::Cluster(_) => {}
        }
        let guesses = !self.access.roles.has(Role::Desk);
        self.check_owner(shared, op.permission().owner, named(command))?;
        shared.codes.hide((address, Instant::now()), guesses, command).map_err(|why| Denied::Refused(Denial::Code, why))
    }

    /// Whether a command shows a code that the caller may only guess. The desk may read them all.
    pub(crate) fn guesses_code(&self, command: &Command) -> bool {
        !self.access.roles.has(Role::Desk) && codes::shows(command)
    }

    /// Who holds what the caller asks for. Keys and staff have no share, and hold as much as their terms say.
    fn holder(&self, shared: &Shared, address: IpAddr) -> Option<Holder> {
        let has_share = self.access.key_terms().is_none() && !self.access.is_staff();
        has_share.then(|| shared.holders.of(address, self.customer.as_ref()))
    }

    /// Whether a machine that knows the secret of the nodes may join without an invitation. An invitation that is shown counts
    /// before all but an operator, so that it is used up.
    fn vouches_for(&self, shared: &Shared, node: Option<u64>, machine: &Machine, admission: &Admission) -> bool {
        let cluster = shared.backend.hello().cluster;
        self.access.roles.has(Role::Admin)
            || match admission {
                Admission::Invitation(_) | Admission::Replacing(_) => false,
                _ if shared.has_no_operators() => true,
                Admission::AdminProof(shown) => shared
                    .config
                    .admin_token
                    .as_ref()
                    .is_some_and(|token| joining::is_admin_proof(token.as_bytes(), &cluster, node, machine, shown)),
                Admission::Nothing | Admission::Vouched => false,
            }
    }

    /// Checks that the caller acts for the customer that a request names.
    fn check_owner(&self, shared: &Shared, rule: OwnerRule, customer: Option<&Id>) -> Result<(), Denied> {
        let is_allowed = match (rule, customer) {
            (OwnerRule::Customer | OwnerRule::CartTokenAndCustomer, Some(customer)) => self.acts_for(shared, customer),
            // The token was compared with the cart when the request was read. The owner of an order is known when it was read.
            (
                OwnerRule::CartTokenAndCustomer
                | OwnerRule::CartToken
                | OwnerRule::OrdersCustomer
                | OwnerRule::OfItsItems
                | OwnerRule::Unowned,
                None,
            ) => true,
            // The row does not fit the request. Nobody can use such an op, so the mistake is noticed.
            (OwnerRule::Customer, None)
            | (
                OwnerRule::CartToken | OwnerRule::OrdersCustomer | OwnerRule::OfItsItems | OwnerRule::Unowned,
                Some(_),
            ) => false,
        };
        if is_allowed { Ok(()) } else { Err(Denied::Refused(Denial::Customer, forbidden(ANOTHERS_REQUEST))) }
    }

    fn acts_for(&self, shared: &Shared, customer: &Id) -> bool {
        !shared.knows_customers() || self.access.acts_for_all() || self.customer.as_ref() == Some(customer)
    }

    /// Whether the caller may record a payment made elsewhere.
    fn may_record(&self, shared: &Shared) -> bool {
        shared.config.recorded_by_anyone || self.access.roles.has(Role::Desk)
    }

    /// Removes from the node's answer what the caller may not see. `reads_order` says that the answer is to `order.get`.
    /// The order in the answer to a checkout is for everyone with the cart's token.
    pub(crate) fn redact(&self, shared: &Shared, reads_order: bool, result: api::Result) -> api::Result {
        match result {
            Ok(Ok(Answered { answer: Answer::Invitation(mut invitation), at })) => {
                invitation.cluster = Some(shared.backend.hello().cluster);
                invitation.secret = shared.backend.peer_secret().map(|secret| secret.0.as_str().into());
                Ok(Ok(Answered { answer: Answer::Invitation(invitation), at }))
            }
            Ok(Ok(Answered { answer: Answer::Order { order, .. }, .. }))
                if reads_order && order.customer.as_ref().is_some_and(|customer| !self.acts_for(shared, customer)) =>
            {
                Ok(Err(Refusal::Forbidden(SmolStr::new_static(ANOTHERS_ORDER))))
            }
            Ok(Ok(Answered { answer: Answer::Session(session), at }))
                if !self.access.roles.has(Role::Desk) && session.has_secrets() =>
            {
                let session = Arc::new(SessionView::clone(&session).for_customer(&self.access.attributes));
                Ok(Ok(Answered { answer: Answer::Session(session), at }))
            }
            Ok(Ok(Answered { answer: Answer::Bookings(bookings), at }))
                if !self.sees_all() && !planted::is("orders told to guests") =>
            {
                let bookings = bookings.into_iter().map(without_owner).collect();
                Ok(Ok(Answered { answer: Answer::Bookings(bookings), at }))
            }
            Ok(_) | Err(_) => result,
        }
    }
}

/// A booking as guests see it. Its name leads nobody back to the order.
fn without_owner(booking: BookingView) -> BookingView {
    BookingView { details: SmolStr::default(), order: None, ..booking }
}

/// Whether the answer of an op is an order that belongs to its customer.
pub(crate) fn reads_order(op: Op) -> bool {
    match op.permission().owner {
        OwnerRule::OrdersCustomer => true,
        OwnerRule::Unowned
        | OwnerRule::CartToken
        | OwnerRule::CartTokenAndCustomer
        | OwnerRule::Customer
        | OwnerRule::OfItsItems => false,
    }
}

/// The first minor of the protocol that has codes.
const CODES_MINOR: u32 = 6;
/// The first one that has attributes of customers.
const ATTRIBUTES_MINOR: u32 = 6;

/// Whether a request is about the entity of a code.
fn names_code(call: &Call) -> bool {
    match call {
        Call::Command(command) | Call::AuditWithCarts(command) => matches!(command, Command::Code(..)),
        Call::History { entity, .. } => matches!(entity, Entity::Code(_)),
        _ => false,
    }
}

const ANOTHERS_REQUEST: &str = "this is asked for a customer whose token was not shown";
const ANOTHERS_ORDER: &str = "this is the order of a customer whose token was not shown";

/// The customer for whom a command is asked.
fn named(command: &Command) -> Option<&Id> {
    match command {
        Command::Cart(_, command) => command.customer(),
        Command::Customer(customer, CustomerCommand::Purchases { .. }) => Some(customer),
        // An audit is the operator's.
        Command::Customer(_, CustomerCommand::Audit)
        | Command::Venue(..)
        | Command::Session(..)
        | Command::Product(..)
        | Command::Resource(..)
        | Command::Code(..)
        | Command::Directory(_)
        | Command::Cluster(_) => None,
    }
}

fn forbidden(words: &'static str) -> Rejection {
    Refusal::Forbidden(SmolStr::new_static(words)).into()
}
