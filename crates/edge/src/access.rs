//! A caller's rights: the roles of the key or token that it has shown, and whether that is still valid.

use std::{fmt, sync::Arc};

use boxoffice_core::{
    access::{AccessKey, NewKey, Role, Roles},
    id::Id,
    refusal::Refusal,
    time::Timestamp,
};
use boxoffice_wire::{
    FailKind, Op, Rejection,
    access::ShownKey,
    feed_kind::FeedKind,
    permission::{Exception, Permission, VenueRule},
};
use smol_str::{SmolStr, format_smolstr};

use crate::{
    budgets::Terms,
    denials::Denial,
    shared::{Port, Shared, same_secret},
    token::TokenKeys,
};

/// Names in the record of changes for callers without a key. Names of keys have no spaces.
const BY_ADMIN_TOKEN: &str = "admin token";
const BY_OPERATORS_PORT: &str = "operators' port";

/// The credentials that a caller has shown, and its rights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) roles: Roles,
    /// The caller's name in the record of changes.
    pub(crate) name: Option<SmolStr>,
    /// The venues that the rights are limited to. All if empty.
    pub(crate) venues: Arc<[Id]>,
    /// The customer whose token was shown.
    pub(crate) customer: Option<Id>,
    shown: Shown,
}

/// The credentials that were shown.
#[derive(Clone, Debug, Default)]
enum Shown {
    #[default]
    Nothing,
    /// The admin token of the configuration, or nothing at an operators' port that needs no credentials.
    Operator,
    /// A key, as it was at this version of the key ring.
    Key { name: Id, key: Arc<AccessKey>, version: u64 },
    /// A short-lived token.
    Token { expires_at: Timestamp },
    /// The secret that the cluster's nodes share.
    Peer,
}

/// Why a request is not carried out.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The caller has no right to it.
    Refused(Denial, Rejection),
    /// This node cannot know whether the caller has the right.
    Failed(FailKind),
}

/// A row of the permission table, with the name that refusals give it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row {
    Op(Op),
    Feed(FeedKind),
}

impl Row {
    pub(crate) fn permission(self) -> Permission {
        match self {
            Row::Op(op) => op.permission(),
            Row::Feed(kind) => kind.permission(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Row::Op(op) => write!(f, "`{}`", op.name()),
            Row::Feed(kind) => write!(f, "`{}` of the {}", Op::Watch.name(), kind.name()),
        }
    }
}

/// Why a caller's credentials are no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its key was revoked.
    Revoked,
    /// Its token has expired.
    Expired,
}

impl Ended {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Ended::Revoked => "this key was revoked",
            Ended::Expired => "this token has expired",
        }
    }
}

impl Access {
    /// The access of a caller at this port with this key or token, if any.
    ///
    /// # Errors
    /// A key or token that is not valid is refused, whatever the request is.
    pub(crate) fn of(shared: &Shared, port: Port, token: Option<&str>) -> Result<Access, Rejection> {
        let Some(token) = token else { return Ok(Access::of_nothing(shared, port)) };
        let refused = |words: &'static str| Err(Rejection::Unauthenticated(SmolStr::new_static(words)));
        if let Some(expected) = &shared.config.admin_token
            && same_secret(expected.as_bytes(), token.as_bytes())
        {
            return Ok(Access::operator(BY_ADMIN_TOKEN));
        }
        if let Some(shown) = ShownKey::read(token) {
            return match Access::of_key(shared, shown) {
                Some(access) => Ok(access),
                None => refused("this is no key of this cluster"),
            };
        }
        if TokenKeys::is_token(token) && !shared.config.token_keys.is_empty() {
            let now = shared.backend.now();
            let claims = shared.config.token_keys.read(token, now);
            let claims = claims.map_err(|words| Rejection::Unauthenticated(SmolStr::new_static(words)))?;
            let is_staff = claims.roles.has(Role::Desk) || claims.roles.has(Role::Report);
            return Ok(Access {
                roles: claims.roles,
                name: is_staff.then(|| format_smolstr!("token {}", claims.subject)),
                venues: claims.venues.into(),
                customer: (!is_staff).then_some(claims.subject),
                shown: Shown::Token { expires_at: claims.expires_at },
            });
        }
        if shared.backend.is_peer_token(token) {
            return Ok(Access { shown: Shown::Peer, ..Access::of_nothing(shared, port) });
        }
        refused("this is neither a key nor a token that this node knows")
    }

    fn of_nothing(shared: &Shared, port: Port) -> Access {
        if port == Port::Operators && shared.has_no_operators() {
            return Access::operator(BY_OPERATORS_PORT);
        }
        Access { roles: shared.config.anonymous.map_or(Roles::NONE, Roles::of), ..Access::default() }
    }

    fn operator(name: &'static str) -> Access {
        let name = Some(SmolStr::new_static(name));
        Access { roles: Roles::ALL, name, shown: Shown::Operator, ..Access::default() }
    }

    fn of_key(shared: &Shared, shown: ShownKey<'_>) -> Option<Access> {
        // The version is read before the key, so a key that changes meanwhile is looked up again.
        let version = shared.key_ring.version();
        let name = Id::new(shown.name)?;
        let key = shared.backend.key(&name)?;
        same_secret(&key.terms.hash, &shown.hash()).then(|| Access {
            roles: key.terms.roles,
            name: Some(name.as_str().into()),
            venues: key.terms.venues.as_slice().into(),
            customer: None,
            shown: Shown::Key { name, key, version },
        })
    }

    /// Checks that the credentials are still valid.
    ///
    /// # Errors
    /// The reason why they are not valid.
    pub(crate) fn check(&mut self, shared: &Shared) -> Result<(), Ended> {
        match &mut self.shown {
            Shown::Nothing | Shown::Operator | Shown::Peer => Ok(()),
            Shown::Token { expires_at } if *expires_at <= shared.backend.now() => Err(Ended::Expired),
            Shown::Token { .. } => Ok(()),
            Shown::Key { name, key, version } => {
                let now = shared.key_ring.version();
                if *version == now {
                    return Ok(());
                }
                // A new key under the name of a revoked one does not count.
                if shared.backend.key(name).is_none_or(|kept| kept != *key) {
                    return Err(Ended::Revoked);
                }
                *version = now;
                Ok(())
            }
        }
    }

    /// Checks the caller's roles and the limits of its key against a row of the permission table. The request shows later
    /// whether it is about the caller's customer and venues.
    ///
    /// # Errors
    /// The reason why it may not use it.
    pub(crate) fn may(&self, shared: &Shared, row: Row) -> Result<(), Denied> {
        let permission = row.permission();
        let is_open =
            permission.is_open_to(self.roles) || permission.or.iter().any(|exception| self.is_excepted(*exception));
        if !is_open {
            return Err(self.lacks(row));
        }
        match permission.venues {
            VenueRule::Refused if self.is_limited() => {
                let words = format_smolstr!("{row} belongs to no single venue, and this key is limited to some");
                return Err(Denied::Refused(Denial::Venue, Refusal::Forbidden(words).into()));
            }
            // The others are checked when the request is known.
            VenueRule::Refused
            | VenueRule::Unlimited
            | VenueRule::OfEntity
            | VenueRule::OfLinesAsked
            | VenueRule::OfCartLines => {}
        }
        if self.may_be_revoked()
            && !permission.is_open_to(Roles::of(Role::Sell).with(Role::Report))
            && shared.is_directory_silent()
        {
            return Err(Denied::Failed(FailKind::NotReady));
        }
        Ok(())
    }

    fn is_excepted(&self, exception: Exception) -> bool {
        match exception {
            // The node checks the proof itself.
            Exception::JoiningMachine => matches!(self.shown, Shown::Peer),
        }
    }

    /// Whether the rights are limited to some venues.
    pub(crate) fn is_limited(&self) -> bool {
        !self.venues.is_empty()
    }

    fn lacks(&self, row: Row) -> Denied {
        let names: Vec<&str> = row.permission().roles.iter().map(|role| role.name()).collect();
        let needed = names.join(" or ");
        match self.shown {
            Shown::Nothing | Shown::Peer => {
                let words = format_smolstr!("{row} needs a key with the role {needed}");
                Denied::Refused(Denial::Nothing, Rejection::Unauthenticated(words))
            }
            Shown::Operator | Shown::Key { .. } | Shown::Token { .. } => {
                let words = format_smolstr!("{row} needs the role {needed}, which this key does not have");
                Denied::Refused(Denial::Role, Refusal::Forbidden(words).into())
            }
        }
    }

    /// Whether the cluster may have revoked the credentials without this node's knowledge.
    fn may_be_revoked(&self) -> bool {
        matches!(self.shown, Shown::Key { .. })
    }

    /// Whether the caller is the operator's staff or program, and not a customer or a stranger.
    pub(crate) fn is_staff(&self) -> bool {
        match self.shown {
            Shown::Operator | Shown::Key { .. } => true,
            Shown::Token { .. } => self.roles.has(Role::Desk) || self.roles.has(Role::Report),
            Shown::Nothing | Shown::Peer => false,
        }
    }

    /// Whether the caller acts for all customers: the house, or a program of the house that sells. A screen with a key of the
    /// role watch does not.
    pub(crate) fn acts_for_all(&self) -> bool {
        match self.shown {
            Shown::Operator => true,
            Shown::Key { .. } => self.roles.has(Role::Sell) || self.roles.has(Role::Report),
            Shown::Token { .. } => self.roles.has(Role::Desk) || self.roles.has(Role::Report),
            Shown::Nothing | Shown::Peer => false,
        }
    }

    /// The name and the budgets of the key that was shown.
    pub(crate) fn key_terms(&self) -> Option<(Id, Terms)> {
        let Shown::Key { name, key, .. } = &self.shown else { return None };
        let NewKey { requests_per_second, held_max, .. } = key.terms;
        Some((name.clone(), Terms { requests_per_second, held_max }))
    }

    /// Whether the caller sees details that customers and strangers do not, such as the owner of a booking.
    pub(crate) fn sees_all(&self) -> bool {
        self.roles.has(Role::Desk) || self.roles.has(Role::Report)
    }

    /// Whether the caller sees the cluster's id and the program's version.
    pub(crate) fn sees_the_cluster(&self) -> bool {
        self.sees_all() || matches!(self.shown, Shown::Peer)
    }
}
