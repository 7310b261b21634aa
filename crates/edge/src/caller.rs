//! Who asks: what they have shown, for whom they may ask then, and what they are told of others.

use axum::http::{HeaderMap, HeaderValue, header};
use boxoffice_core::{
    answer::{Answer, Answered},
    command::{CartCommand, Command, CustomerCommand, ResourceCommand},
    id::{Entity, Id},
    refusal::Refusal,
};
use boxoffice_node::door;
use boxoffice_wire::{
    Call, Rejection,
    body::ClientHello,
    customer::{CUSTOMER_HEADER, TOKEN_HEADER},
    request::Item,
};
use smol_str::SmolStr;

use crate::shared::Shared;

/// What whoever asks has shown; nothing so far by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The admin token.
    is_operator: bool,
    /// The token of this customer.
    customer: Option<Id>,
}

impl Caller {
    /// Who these headers show.
    ///
    /// # Errors
    /// A token that is shown and does not fit is refused, whatever is asked.
    pub(crate) fn of_headers(shared: &Shared, headers: &HeaderMap) -> Result<Caller, Rejection> {
        let is_operator = match headers.get(header::AUTHORIZATION).map(bearer) {
            None => false,
            Some(_) if shared.is_unguarded() => false,
            Some(Some(token)) if shared.is_admin_token(token) => true,
            Some(_) => return Err(not_the_admin_token()),
        };
        if !shared.knows_customers() {
            return Ok(Caller { is_operator, customer: None });
        }
        let customer = match text(headers, CUSTOMER_HEADER)? {
            None => None,
            Some(name) => Some(Id::new(name).ok_or_else(|| Rejection::bad_request("this is no customer's id"))?),
        };
        let customer = shown_customer(shared, customer.as_ref(), text(headers, TOKEN_HEADER)?)?;
        Ok(Caller { is_operator, customer })
    }

    /// The same caller after it has said who it is.
    ///
    /// # Errors
    /// A token that does not fit, or another customer than before: a connection acts for one.
    pub(crate) fn after_hello(&self, shared: &Shared, hello: &ClientHello) -> Result<Caller, Rejection> {
        let mut caller = self.clone();
        if let Some(token) = &hello.token
            && !shared.is_unguarded()
        {
            if !shared.is_admin_token(token) {
                return Err(not_the_admin_token());
            }
            caller.is_operator = true;
        }
        if !shared.knows_customers() {
            return Ok(caller);
        }
        if let Some(customer) = shown_customer(shared, hello.customer.as_ref(), hello.customer_token.as_deref())? {
            if caller.customer.as_ref().is_some_and(|before| *before != customer) {
                return Err(forbidden("this connection acts for another customer already"));
            }
            caller.customer = Some(customer);
        }
        Ok(caller)
    }

    /// Whether it may ask for what operators may.
    pub(crate) fn may_administer(&self, shared: &Shared) -> bool {
        self.is_operator || shared.is_unguarded()
    }

    /// Lets what may be asked pass, item by item where there are several.
    ///
    /// # Errors
    /// 108 if it is asked for a customer that the caller does not act for.
    pub(crate) fn admit(&self, shared: &Shared, call: &mut Call) -> Result<(), Rejection> {
        match call {
            Call::Command(command) => self.admit_command(shared, command),
            Call::Watch { entity: Entity::Customer(customer), since: _ } => self.check(shared, Some(customer)),
            Call::Batch(items) => {
                for item in items {
                    if let Ok(Item { command, .. }) = item
                        && let Err(why) = self.admit_command(shared, command)
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
            | Call::AuditNode
            | Call::History { .. } => Ok(()),
        }
    }

    fn admit_command(&self, shared: &Shared, command: &mut Command) -> Result<(), Rejection> {
        match command {
            Command::Cart(_, command) => self.check(shared, named(command)),
            Command::Customer(customer, CustomerCommand::Purchases { .. }) => self.check(shared, Some(customer)),
            Command::Resource(_, ResourceCommand::Bookings { after: Some((_, name)), .. })
                if !self.may_administer(shared) =>
            {
                *name = shared.veil.lifted(name);
                Ok(())
            }
            // What audits tell of a customer is for operators anyway.
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
            Some(customer) if !self.acts_for(shared, customer) => Err(forbidden(ANOTHERS_REQUEST)),
            Some(_) | None => Ok(()),
        }
    }

    fn acts_for(&self, shared: &Shared, customer: &Id) -> bool {
        !shared.knows_customers() || self.is_operator || self.customer.as_ref() == Some(customer)
    }

    /// What the caller is told of what the node answered. `reads_order`: to `order.get`, and not to a checkout, which
    /// whoever has the cart's token may do.
    pub(crate) fn told(&self, shared: &Shared, reads_order: bool, result: door::Result) -> door::Result {
        match result {
            Ok(Ok(Answered { answer: Answer::Order { order, .. }, .. }))
                if reads_order && order.customer.as_ref().is_some_and(|customer| !self.acts_for(shared, customer)) =>
            {
                Ok(Err(Refusal::Forbidden(SmolStr::new_static(ANOTHERS_ORDER))))
            }
            Ok(outcome) if !self.may_administer(shared) => Ok(shared.veil.over(outcome)),
            Ok(_) | Err(_) => result,
        }
    }
}

/// Whether a command reads an order that anybody may name.
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

fn not_the_admin_token() -> Rejection {
    Rejection::Unauthenticated(SmolStr::new_static("this is not the admin token"))
}

fn forbidden(words: &'static str) -> Rejection {
    Refusal::Forbidden(SmolStr::new_static(words)).into()
}

/// The value of a header that is there once, if it is there.
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
