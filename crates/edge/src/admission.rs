//! Looks at the credentials of a request or of a hello, and delays the answer to those that may be wrong.
//!
//! The cost of a guess is taken when the credential is looked at. What cannot be judged here is asked of the directory.

use std::{sync::Arc, time::Duration};

use axum::http::{HeaderMap, HeaderValue, header};
use boxoffice_core::id::Id;
use boxoffice_wire::{
    FailKind, Rejection,
    call::HelloFields,
    customer::{CUSTOMER_HEADER, TOKEN_HEADER},
    weight,
};
use smol_str::SmolStr;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    access::{Access, KeyGuess, Look, no_such_key},
    auth_failures::AnswerTime,
    denials::Denial,
    key_questions::KeyAnswer,
    planted,
    shared::{ConnectionPermit, Shared},
};

/// How long an unknown key about which the directory is not asked waits for this node's copy of the directory, which is rarely
/// older.
const COPY_TIMEOUT: Duration = Duration::from_millis(200);

/// Why a caller is not admitted.
#[derive(Clone, Debug)]
pub(crate) enum NotAdmitted {
    /// The credentials are wrong, or nobody looked at them because the network has shown too many.
    Rejected(Rejection),
    /// This node cannot know whether they are right.
    Failed(FailKind),
}

impl From<Rejection> for NotAdmitted {
    fn from(why: Rejection) -> NotAdmitted {
        NotAdmitted::Rejected(why)
    }
}

/// The credentials of a request or of a hello.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// A key, the admin token, or a short-lived token.
    token: Option<SmolStr>,
    /// `Authorization` was not `Bearer`.
    is_unreadable: bool,
    customer: Option<(Id, Option<SmolStr>)>,
}

impl Credentials {
    /// The credentials in the headers of a request.
    ///
    /// # Errors
    /// The headers of a customer are not well formed.
    pub(crate) fn of_headers(shared: &Shared, headers: &HeaderMap) -> Result<Credentials, Rejection> {
        let token = headers.get(header::AUTHORIZATION).map(bearer);
        let customer = match text(headers, CUSTOMER_HEADER)? {
            Some(name) if shared.has_customer_secret() => Some(customer_of(name)?),
            Some(_) | None => None,
        };
        let customer = customer_shown(shared, customer, text(headers, TOKEN_HEADER)?.map(SmolStr::new))?;
        let is_unreadable = token == Some(None);
        Ok(Credentials { token: token.flatten().map(SmolStr::new), is_unreadable, customer })
    }

    /// The credentials in a hello.
    ///
    /// # Errors
    /// A customer's token comes without its customer.
    pub(crate) fn of_hello(shared: &Shared, hello: HelloFields) -> Result<Credentials, Rejection> {
        let customer = customer_shown(shared, hello.customer, hello.customer_token)?;
        Ok(Credentials { token: hello.token, is_unreadable: false, customer })
    }

    /// What this node can say at once.
    fn look(&self, shared: &Shared, permit: &ConnectionPermit) -> Look {
        let wrong = |words: &'static str| Look::Wrong(Rejection::Unauthenticated(SmolStr::new_static(words)));
        if self.is_unreadable {
            return wrong("`Authorization` is `Bearer`, a space and a key or token");
        }
        if let Some((customer, token)) = &self.customer
            && !token.as_ref().is_some_and(|token| shared.is_customer_token(customer, token))
        {
            return wrong("this is not the token of this customer");
        }
        Access::look(shared, permit.port, self.token.as_deref())
    }
}

/// The access of a caller over this connection, and the customer whose token it has shown. Waits for the credentials' turn if
/// they may be wrong.
///
/// # Errors
/// The caller is not admitted.
pub(crate) async fn admit(
    shared: &Arc<Shared>,
    permit: &ConnectionPermit,
    shown: Credentials,
) -> Result<(Access, Option<Id>), NotAdmitted> {
    let (address, step) = (permit.address(), shared.config.limits.auth_failure_step);
    let failures = &shared.auth_failures;
    let access = match shown.look(shared, permit) {
        Look::Right(access) => access,
        Look::AdminToken(access) if failures.was_right(address, Instant::now()) => {
            failures.note_right(address, Instant::now());
            access
        }
        // A right admin token is treated as a wrong one up to its answer.
        Look::AdminToken(access) if planted::is("right admin token answered early") => access,
        Look::AdminToken(access) => {
            let turn = failures.take_turn(address, Instant::now(), step).map_err(too_many)?;
            sleep_until(turn.at).await;
            failures.note_right(address, Instant::now());
            failures.give_back(&turn);
            access
        }
        Look::UnknownKey(guess) => {
            // Taken before the question, so that closing early saves nothing.
            let turn = failures.take_turn(address, Instant::now(), step);
            match ask(shared, permit, guess).await? {
                Some(access) => {
                    turn.iter().for_each(|turn| failures.give_back(turn));
                    access
                }
                None => {
                    // The answer does not depend on this budget, or it would differ from that to a right admin token.
                    let _ = charge_request(shared, permit);
                    return Err(wrong(shared, permit, turn.map_err(too_many), no_such_key()).await);
                }
            }
        }
        Look::OutOfTime(why) => {
            charge_request(shared, permit)?;
            note(shared, permit, &why);
            return Err(why.into());
        }
        Look::Wrong(why) => {
            let _ = charge_request(shared, permit);
            let turn = failures.take_turn(address, Instant::now(), step).map_err(too_many);
            return Err(wrong(shared, permit, turn, why).await);
        }
    };
    Ok((access, shown.customer.map(|(customer, _)| customer)))
}

/// Charges a request to the network's budget. A caller with right credentials is charged by its own.
fn charge_request(shared: &Shared, permit: &ConnectionPermit) -> Result<(), Rejection> {
    let charged = shared.budgets.request_of(permit.address(), weight::REQUEST, Instant::now());
    charged.map_err(|over| over.rejection())
}

/// The refusal of wrong credentials, when their turn comes.
async fn wrong(
    shared: &Shared,
    permit: &ConnectionPermit,
    turn: Result<AnswerTime, Rejection>,
    why: Rejection,
) -> NotAdmitted {
    note(shared, permit, &why);
    match turn {
        Ok(turn) => {
            sleep_until(turn.at).await;
            why.into()
        }
        Err(_) if planted::is("wrong credentials are looked at for ever") => why.into(),
        Err(too_many) => too_many.into(),
    }
}

/// Asks the directory's leader about a key.
async fn ask(shared: &Arc<Shared>, permit: &ConnectionPermit, guess: KeyGuess) -> Result<Option<Access>, NotAdmitted> {
    match shared.key_questions.ask(&shared.backend, permit.address(), &guess.name).await {
        KeyAnswer::Key { key, directory } => Ok(guess.access(key, directory)),
        KeyAnswer::None => Ok(None),
        KeyAnswer::Limited => {
            sleep(COPY_TIMEOUT).await;
            Ok(guess.look_again(shared))
        }
        KeyAnswer::Unknown => Err(NotAdmitted::Failed(FailKind::NotReady)),
    }
}

fn note(shared: &Shared, permit: &ConnectionPermit, why: &Rejection) {
    shared.denials.note(Denial::Token, Some(&permit.address().to_string()), &why.to_string());
}

fn too_many(retry_after: Duration) -> Rejection {
    let retry_after_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).max(1);
    let why = SmolStr::new_static("too many wrong keys or tokens from this network");
    Rejection::RateLimited { why, retry_after_ms: Some(retry_after_ms) }
}

/// The customer that a caller names, with the token that it shows.
fn customer_shown(
    shared: &Shared,
    customer: Option<Id>,
    token: Option<SmolStr>,
) -> Result<Option<(Id, Option<SmolStr>)>, Rejection> {
    match (customer, token) {
        _ if !shared.has_customer_secret() => Ok(None),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Rejection::bad_request("a customer's token is shown, and no customer")),
        (Some(customer), token) => Ok(Some((customer, token))),
    }
}

fn customer_of(name: &str) -> Result<Id, Rejection> {
    Id::new(name).ok_or_else(|| Rejection::bad_request("this is no customer's id"))
}

fn bearer(authorization: &HeaderValue) -> Option<&str> {
    let (scheme, token) = authorization.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
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
