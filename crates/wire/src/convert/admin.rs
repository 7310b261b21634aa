//! What operators ask for, and who may be watched.

use boxoffice_core::{
    command::{CartCommand, Command, CustomerCommand, ProductCommand, ResourceCommand, SessionCommand},
    id::Entity,
    payment::Settlement,
    refusal::Refusal,
};

use super::{Converted, limit, text};
use crate::{
    body::{self, Resume, ResumeBody},
    limits::PAYMENT_TEXT_BYTES_MAX,
    rejection::Rejection,
    request::{Call, Since},
};

/// The audit of one entity.
pub(crate) fn audit(entity: Entity) -> Converted<Command> {
    match entity {
        Entity::Session(id) => Ok(Command::Session(id, SessionCommand::Audit)),
        Entity::Cart(id) => Ok(Command::Cart(id, CartCommand::Audit)),
        Entity::Product(id) => Ok(Command::Product(id, ProductCommand::Audit)),
        Entity::Resource(id) => Ok(Command::Resource(id, ResourceCommand::Audit)),
        Entity::Customer(id) => Ok(Command::Customer(id, CustomerCommand::Audit)),
        Entity::Venue(_) | Entity::Directory => {
            Err(Rejection::bad_request("sessions, products, resources, carts and customers are audited"))
        }
    }
}

pub(crate) fn history(body: body::History) -> Converted<Call> {
    let limit = limit(body.limit)?;
    match (&body.entity, body.seat) {
        (Entity::Session(_), _) | (_, None) => {}
        (_, Some(_)) => return Err(Rejection::bad_request("a `seat` is one of a session")),
    }
    Ok(Call::History { entity: body.entity, seat: body.seat, limit, before: body.before })
}

pub(crate) fn release(body: body::AdminRelease) -> Command {
    Command::Cart(body.cart, CartCommand::Revoke { line: body.line })
}

pub(crate) fn settle(body: body::AdminSettle) -> Converted<Command> {
    let outcome = match (body.outcome.as_str(), body.reference) {
        ("authorized", Some(reference)) => {
            Settlement::Authorized { reference: text("reference", reference, 1, PAYMENT_TEXT_BYTES_MAX)? }
        }
        ("authorized", None) => return Err(Rejection::bad_request("`authorized` needs the gateway's `reference`")),
        ("declined", None) => Settlement::Declined,
        ("declined", Some(_)) => return Err(Rejection::bad_request("`declined` has no `reference`")),
        _ => return Err(Rejection::bad_request("`outcome` is `authorized` or `declined`")),
    };
    Ok(Command::Cart(body.cart, CartCommand::Settle { attempt: body.attempt, outcome }))
}

/// Who is watched, and from where on: whoever watches a cart shows its token.
pub(crate) fn watch(body: body::Watch) -> Converted<Call> {
    match (&body.entity, body.token) {
        (Entity::Cart(cart), Some(token)) if boxoffice_core::command::owns(token, *cart) => {}
        (Entity::Cart(_), Some(_)) => return Err(Refusal::NotYourCart.into()),
        (Entity::Cart(_), None) => return Err(Rejection::bad_request("a cart is watched with its `token`")),
        (Entity::Session(_) | Entity::Product(_) | Entity::Resource(_) | Entity::Customer(_), _) => {}
        (Entity::Venue(_) | Entity::Directory, _) => {
            return Err(Rejection::bad_request("sessions, products, resources, carts and customers are watched"));
        }
    }
    let since = match (&body.entity, body.resume) {
        (_, None) => None,
        (Entity::Customer(_), Some(ResumeBody { cursor: Some(cursor), .. })) => Some(Since::Cursor(cursor)),
        (Entity::Customer(_), Some(_)) => {
            return Err(Rejection::bad_request("`resume` of a customer has a `cursor`"));
        }
        (_, Some(ResumeBody { epoch: Some(epoch), version: Some(version), .. })) => {
            Some(Since::Version(Resume { epoch, version }))
        }
        (_, Some(_)) => return Err(Rejection::bad_request("`resume` has an `epoch` and a `version`")),
    };
    Ok(Call::Watch { entity: body.entity, since })
}
