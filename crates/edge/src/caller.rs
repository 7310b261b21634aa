//! Callers: their credentials, the customer that they act for, and what they may see of others.

use std::sync::Arc;

use axum::http::{HeaderMap, request::Parts};
use boxoffice_core::{
    access::Role,
    answer::{Answer, Answered},
    command::{CartCommand, Command, CustomerCommand, ResourceCommand},
    id::{Entity, Id},
    refusal::Refusal,
};
use boxoffice_node::api;
use boxoffice_wire::{Call, Op, Rejection, body::ClientHello, call::Item};
use smol_str::SmolStr;

use crate::{
    access::{Access, Denied},
    admission::{self, Credentials, NotAdmitted},
    budgets::{Owner, Owners, Terms},
    denials::Denial,
    network::ClientNetwork,
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
        hello: ClientHello,
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
        [Some(network), customer].into_iter().flatten().map(|owner| (owner, Terms::default())).collect()
    }

    pub(crate) fn sees_all(&self) -> bool {
        self.access.sees_all()
    }

    /// Checks a request against the caller's rights. Replaces the items of a batch that are refused.
    ///
    /// # Errors
    /// 108 if the request is for a customer that the caller does not act for.
    pub(crate) fn admit(&self, shared: &Shared, call: &mut Call) -> Result<(), Rejection> {
        match call {
            Call::Command(command) => self.admit_command(shared, command),
            Call::Watch { entity: Entity::Customer(customer), since: _ } => self.check(shared, Some(customer)),
            Call::Batch(items) => {
                for item in items {
                    if let Ok(Item { op, command, .. }) = item
                        && let Err(why) = self.admit_item(shared, *op, command)
                    {
                        *item = Err(why);
                    }
                }
                Ok(())
            }
            Call::Hello(_)
            | Call::SearchCity(_)
            | Call::Watch { .. }
            | Call::WatchCounts { .. }
            | Call::Unwatch { .. }
            | Call::Status
            | Call::Shards
            | Call::AuditNode
            | Call::History { .. } => Ok(()),
        }
    }

    fn admit_item(&self, shared: &Shared, op: Op, command: &mut Command) -> Result<(), Rejection> {
        match self.access.may(shared, op) {
            Ok(()) => self.admit_command(shared, command),
            Err(Denied::Refused(denial, why)) => {
                self.denied(shared, denial, &why);
                Err(why)
            }
            // The right to the batch was checked already.
            Err(Denied::Failed(_)) => Ok(()),
        }
    }

    /// Counts a denial.
    pub(crate) fn denied(&self, shared: &Shared, denial: Denial, why: &Rejection) {
        shared.denials.note(denial, self.access.name.as_deref(), &why.to_string());
    }

    fn admit_command(&self, shared: &Shared, command: &mut Command) -> Result<(), Rejection> {
        match command {
            Command::Cart(_, CartCommand::Checkout { payment, .. })
                if payment.is_recorded() && !self.may_record(shared) =>
            {
                let why = forbidden("a recorded payment needs a key with the role desk; pay through the gateway");
                self.denied(shared, Denial::Role, &why);
                Err(why)
            }
            Command::Cart(_, command) => {
                if let CartCommand::Open { guest, .. } | CartCommand::Hold { guest, .. } = command {
                    *guest = !self.access.roles.has(Role::Desk);
                }
                self.check(shared, named(command))
            }
            Command::Customer(customer, CustomerCommand::Purchases { .. }) => self.check(shared, Some(customer)),
            Command::Resource(_, ResourceCommand::Bookings { after: Some((_, name)), .. }) if !self.sees_all() => {
                *name = shared.pseudonyms.real_name(name);
                Ok(())
            }
            // Audits are for operators anyway.
            Command::Customer(_, CustomerCommand::Audit)
            | Command::Venue(..)
            | Command::Session(..)
            | Command::Product(..)
            | Command::Resource(..)
            | Command::Directory(_)
            | Command::Cluster(_) => Ok(()),
        }
    }

    fn check(&self, shared: &Shared, customer: Option<&Id>) -> Result<(), Rejection> {
        match customer {
            Some(customer) if !self.acts_for(shared, customer) => {
                let why = forbidden(ANOTHERS_REQUEST);
                self.denied(shared, Denial::Customer, &why);
                Err(why)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn acts_for(&self, shared: &Shared, customer: &Id) -> bool {
        !shared.knows_customers() || self.access.is_staff() || self.customer.as_ref() == Some(customer)
    }

    /// Whether the caller may record a payment made elsewhere.
    fn may_record(&self, shared: &Shared) -> bool {
        shared.config.recorded_by_anyone || self.access.roles.has(Role::Desk)
    }

    /// Removes from the node's answer what the caller may not see. `reads_order` says that the answer is to `order.get`.
    /// The order in the answer to a checkout is for everyone with the cart's token.
    pub(crate) fn redact(&self, shared: &Shared, reads_order: bool, result: api::Result) -> api::Result {
        match result {
            Ok(Ok(Answered { answer: Answer::Order { order, .. }, .. }))
                if reads_order && order.customer.as_ref().is_some_and(|customer| !self.acts_for(shared, customer)) =>
            {
                Ok(Err(Refusal::Forbidden(SmolStr::new_static(ANOTHERS_ORDER))))
            }
            Ok(outcome) if !self.sees_all() => Ok(shared.pseudonyms.hide(outcome)),
            Ok(_) | Err(_) => result,
        }
    }
}

/// Whether a command reads an order by its id.
pub(crate) fn reads_order(command: &Command) -> bool {
    matches!(command, Command::Cart(_, CartCommand::Order))
}

const ANOTHERS_REQUEST: &str = "this is asked for a customer whose token was not shown";
const ANOTHERS_ORDER: &str = "this is the order of a customer whose token was not shown";

/// The customer that a command of a cart names.
fn named(command: &CartCommand) -> Option<&Id> {
    match command {
        CartCommand::Open { customer, .. }
        | CartCommand::Hold { customer, .. }
        | CartCommand::Checkout { customer, .. } => customer.as_ref(),
        CartCommand::Get
        | CartCommand::SetQuantity { .. }
        | CartCommand::Release { .. }
        | CartCommand::Cancel
        | CartCommand::Refund { .. }
        | CartCommand::Revoke { .. }
        | CartCommand::Settle { .. }
        | CartCommand::Paid { .. }
        | CartCommand::Order
        | CartCommand::Audit => None,
    }
}

fn forbidden(words: &'static str) -> Rejection {
    Refusal::Forbidden(SmolStr::new_static(words)).into()
}
