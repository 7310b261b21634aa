//! Callers: their credentials, the customer that they act for, and what they may see of others.

use axum::http::{HeaderMap, HeaderValue, header};
use boxoffice_core::{
    access::Role,
    answer::{Answer, Answered, BookingView},
    command::{CartCommand, Command, CustomerCommand},
    id::{Entity, Id},
    refusal::Refusal,
};
use boxoffice_node::api;
use boxoffice_wire::{
    Call, Op, Rejection,
    body::ClientHello,
    call::Item,
    customer::{CUSTOMER_HEADER, TOKEN_HEADER},
};
use smol_str::SmolStr;

use crate::{
    access::{Access, Denied},
    budgets::{Owner, Owners, Terms},
    denials::Denial,
    network::ClientNetwork,
    shared::{ConnectionPermit, Port, Shared},
};

/// A caller's credentials and the customer that it acts for. A stranger by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    pub(crate) access: Access,
    /// The customer whose token was shown.
    customer: Option<Id>,
}

impl Caller {
    /// The caller with these headers, at this port.
    ///
    /// # Errors
    /// A key or token that is not valid is refused, whatever the request is.
    pub(crate) fn of_headers(shared: &Shared, port: Port, headers: &HeaderMap) -> Result<Caller, Rejection> {
        let token = match headers.get(header::AUTHORIZATION).map(bearer) {
            None => None,
            Some(Some(token)) => Some(token),
            Some(None) => return Err(no_token()),
        };
        let access = Access::of(shared, port, token)?;
        let customer = match text(headers, CUSTOMER_HEADER)? {
            Some(name) if shared.has_customer_secret() => Some(customer_of(name)?),
            Some(_) | None => None,
        };
        let shown = shown_customer(shared, customer.as_ref(), text(headers, TOKEN_HEADER)?)?;
        Caller { access, customer: None }.acting_for(shown)
    }

    /// The same caller after its hello.
    ///
    /// # Errors
    /// A token is not valid, or the customer is another one than before. A connection acts for one customer.
    pub(crate) fn after_hello(&self, shared: &Shared, port: Port, hello: &ClientHello) -> Result<Caller, Rejection> {
        let mut caller = self.clone();
        if let Some(token) = hello.token.as_deref() {
            caller.access = Access::of(shared, port, Some(token))?;
        }
        let shown = shown_customer(shared, hello.customer.as_ref(), hello.customer_token.as_deref())?;
        caller.acting_for(shown)
    }

    /// The same caller for the customer whose token it has shown in either way.
    fn acting_for(self, shown: Option<Id>) -> Result<Caller, Rejection> {
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
            Ok(Ok(Answered { answer: Answer::Bookings(bookings), at })) if !self.sees_all() => {
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

fn shown_customer(shared: &Shared, customer: Option<&Id>, token: Option<&str>) -> Result<Option<Id>, Rejection> {
    if !shared.has_customer_secret() {
        return Ok(None);
    }
    match (customer, token) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Rejection::bad_request("a customer's token is shown, and no customer")),
        (Some(customer), Some(token)) if shared.is_customer_token(customer, token) => Ok(Some(customer.clone())),
        (Some(_), _) => {
            let words = SmolStr::new_static("this is not the token of this customer");
            Err(Rejection::Unauthenticated(words))
        }
    }
}

fn customer_of(name: &str) -> Result<Id, Rejection> {
    Id::new(name).ok_or_else(|| Rejection::bad_request("this is no customer's id"))
}

fn no_token() -> Rejection {
    Rejection::Unauthenticated(SmolStr::new_static("`Authorization` is `Bearer`, a space and a key or token"))
}

fn forbidden(words: &'static str) -> Rejection {
    Refusal::Forbidden(SmolStr::new_static(words)).into()
}

/// The value of a header. `None` if it is missing.
///
/// # Errors
/// It is there more than once, or is not ASCII.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Rejection> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        (Ok(_) | Err(_), _) => Err(Rejection::bad_request(format!("the header {name} is there once and is ASCII"))),
    }
}

fn bearer(authorization: &HeaderValue) -> Option<&str> {
    let (scheme, token) = authorization.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
