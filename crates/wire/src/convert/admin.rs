//! Commands of operators, and watches.

use std::collections::BTreeSet;

use boxoffice_core::{
    access::{NewKey, Role, Roles},
    cluster::ADDRESS_BYTES_MAX,
    command::{
        Admission, CartCommand, ClusterCommand, Command, CustomerCommand, DirectoryCommand, INVITATION_MS_MAX, Machine,
        ProductCommand, ResourceCommand, SessionCommand,
    },
    id::{Entity, Id},
    payment::Settlement,
    refusal::Refusal,
};
use smol_str::SmolStr;

use super::{Converted, limit, text};
use crate::{
    body::{self, Resume, ResumeBody},
    call::{Call, Since},
    feed_kind::FeedKind,
    joining,
    limits::{FEEDS_MAX, PAYMENT_TEXT_BYTES_MAX, REASON_BYTES_MAX},
    rejection::Rejection,
};

/// The audit of one entity.
pub(crate) fn audit(entity: Entity) -> Converted<Command> {
    match entity {
        Entity::Session(id) => Ok(Command::Session(id, SessionCommand::Audit)),
        Entity::Cart(id) => Ok(Command::Cart(id, CartCommand::Audit)),
        Entity::Product(id) => Ok(Command::Product(id, ProductCommand::Audit)),
        Entity::Resource(id) => Ok(Command::Resource(id, ResourceCommand::Audit)),
        Entity::Customer(id) => Ok(Command::Customer(id, CustomerCommand::Audit)),
        Entity::Venue(_) | Entity::Directory | Entity::Cluster => {
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

pub(crate) fn release(body: body::AdminRelease) -> Converted<Command> {
    let reason = text("reason", body.reason, 0, REASON_BYTES_MAX)?;
    Ok(Command::Cart(body.cart, CartCommand::Revoke { line: body.line, reason }))
}

pub(crate) fn settle(body: body::AdminSettle) -> Converted<Command> {
    let no = |words: &'static str| Err(Rejection::bad_request(words));
    let outcome = match (body.outcome.as_str(), body.reference, body.refund) {
        ("authorized", Some(reference), None) => {
            Settlement::Authorized { reference: text("reference", reference, 1, PAYMENT_TEXT_BYTES_MAX)? }
        }
        ("authorized", None, _) => return no("`authorized` needs the gateway's `reference`"),
        ("declined", None, None) => Settlement::Declined,
        ("captured", None, None) => Settlement::Captured,
        ("voided", None, None) => Settlement::Voided,
        ("refunded", None, Some(refund)) => Settlement::Refunded { refund },
        ("refunded", _, None) => return no("`refunded` needs the number of the `refund`"),
        ("authorized" | "declined" | "captured" | "voided", _, Some(_)) => {
            return no("only `refunded` has a `refund`");
        }
        ("declined" | "captured" | "voided" | "refunded", Some(_), _) => {
            return no("only `authorized` has a `reference`");
        }
        _ => return no("`outcome` is `authorized`, `declined`, `captured`, `voided` or `refunded`"),
    };
    Ok(Command::Cart(body.cart, CartCommand::Settle { attempt: body.attempt, outcome }))
}

/// A machine that wants to be a member.
pub(crate) fn join(body: body::AdminJoin) -> Converted<Command> {
    let body::AdminJoin { node, disk, peer, client, program, proof, invitation, admin_proof } = body;
    let address = |name, said| text(name, said, 1, ADDRESS_BYTES_MAX);
    let (peer, client) = (address("peer", peer)?, address("client", client)?);
    let machine = Machine { disk, peer, client, program: address("program", program)? };
    let proof = proof.map(|proof| digits("proof", &proof)).transpose()?;
    let admission = match (invitation, admin_proof) {
        (Some(invitation), None) => {
            Admission::Invitation(joining::invitation_hash(&digits("invitation", &invitation)?))
        }
        (None, Some(proof)) => Admission::AdminProof(digits("admin_proof", &proof)?),
        (None, None) => Admission::Nothing,
        (Some(_), Some(_)) => return Err(Rejection::bad_request("one of `invitation` and `admin_proof`")),
    };
    Ok(Command::Cluster(ClusterCommand::Join { node, machine: Box::new(machine), proof, admission }))
}

/// The life of an invitation without another one, in milliseconds.
const INVITATION_MS: u64 = 60 * 60 * 1_000;

/// An invitation of a machine.
pub(crate) fn invite(body: body::AdminInvite) -> Converted<Command> {
    let body::AdminInvite { hash, for_ms } = body;
    let for_ms = for_ms.unwrap_or(INVITATION_MS);
    if !(1..=INVITATION_MS_MAX).contains(&for_ms) {
        return Err(Rejection::bad_request(format!("`for_ms` is 1 to {INVITATION_MS_MAX}")));
    }
    Ok(Command::Cluster(ClusterCommand::Invite { hash: digits("hash", &hash)?, for_ms }))
}

/// 256 bits in hexadecimal digits.
fn digits(name: &str, text: &str) -> Converted<[u8; 32]> {
    joining::read(text).ok_or_else(|| Rejection::bad_request(format!("`{name}` is 64 hexadecimal digits")))
}

/// A key that an operator makes.
pub(crate) fn key_create(body: body::KeyCreate) -> Converted<Command> {
    let body::KeyCreate { id, hash, roles, venues, requests_per_second, held_max } = body;
    let hash = digits("hash", &hash)?;
    let role = |name: &SmolStr| {
        let words = "a role is `watch`, `sell`, `desk`, `report` or `admin`";
        Role::from_name(name).ok_or_else(|| Rejection::bad_request(words))
    };
    let roles = roles.iter().map(role).collect::<Converted<Roles>>()?;
    if requests_per_second == Some(0) {
        return Err(Rejection::bad_request("`requests_per_second` is at least 1"));
    }
    let terms = Box::new(NewKey { hash, roles, venues, requests_per_second, held_max });
    Ok(Command::Directory(DirectoryCommand::CreateKey { name: id, terms }))
}

/// A watch. A watch of a cart needs the cart's token.
pub(crate) fn watch(body: body::Watch) -> Converted<Call> {
    let entity = match (body.entity, body.sessions) {
        (Some(entity), None) => entity,
        (None, Some(sessions)) if body.token.is_none() && body.resume.is_none() => return counts_of(sessions),
        (None, Some(_)) => {
            return Err(Rejection::bad_request(
                "counts of `sessions` have no `token`, and always begin with a snapshot",
            ));
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(Rejection::bad_request("what is watched is an `entity`, or `sessions`"));
        }
    };
    let Some(kind) = FeedKind::of(&entity) else {
        return Err(Rejection::bad_request("sessions, products, resources, carts and customers are watched"));
    };
    match (&entity, body.token) {
        (Entity::Cart(cart), Some(token)) if boxoffice_core::command::owns(token, *cart) => {}
        (Entity::Cart(_), Some(_)) => return Err(Refusal::NotYourCart.into()),
        (Entity::Cart(_), None) => return Err(Rejection::bad_request("a cart is watched with its `token`")),
        (
            Entity::Session(_)
            | Entity::Product(_)
            | Entity::Resource(_)
            | Entity::Customer(_)
            | Entity::Venue(_)
            | Entity::Directory
            | Entity::Cluster,
            _,
        ) => {}
    }
    let since = match (&entity, body.resume) {
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
    Ok(Call::Watch { kind, entity, since })
}

/// The sessions of a watch of counts, without repeats.
fn counts_of(mut sessions: Vec<Id>) -> Converted<Call> {
    if sessions.is_empty() || sessions.len() > FEEDS_MAX {
        return Err(Rejection::bad_request(format!("`sessions` are 1 to {FEEDS_MAX}")));
    }
    let mut seen = BTreeSet::new();
    sessions.retain(|session| seen.insert(session.clone()));
    Ok(Call::WatchCounts { sessions })
}
