//! A caller's rights: the roles of the key or token that it has shown, and whether that is still valid.

use std::{fmt, sync::Arc, time::Duration};

use boxoffice_core::{
    access::{AccessKey, KEY_HASH_BYTES, NewKey, Role, Roles},
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
    access_end::{AccessEnd, Ended, EndsWith},
    budgets::KeyBudgets,
    denials::Denial,
    planted,
    shared::{Port, Shared, same_secret},
    token::{InvalidToken, TokenKeys},
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
    /// The attributes of that customer, as the token says.
    pub(crate) attributes: Vec<Id>,
    shown: Shown,
}

/// The credentials that were shown.
#[derive(Clone, Debug, Default)]
enum Shown {
    #[default]
    Nothing,
    /// The admin token of the configuration.
    AdminToken,
    /// Nothing, at an operators' port that needs no credentials.
    OpenPort,
    /// A key, as it was at this version of the key ring.
    Key {
        name: Id,
        key: Arc<AccessKey>,
        version: u64,
        /// The directory's version with which its leader told the key, while this node's own copy is older.
        told_at: Option<u64>,
    },
    /// A short-lived token.
    Token { expires_at: Timestamp },
    /// A customer's token, which is as good as the secret behind it.
    Customer,
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

/// What this node can say at once about a key or token.
pub(crate) enum Look {
    /// It is right.
    Right(Access),
    /// It is the admin token, which a person may have chosen.
    AdminToken(Access),
    /// It has the form of a key, and this node's copy of the directory has no such key.
    UnknownKey(KeyGuess),
    /// It was right at another time, so it is no guess.
    OutOfTime(Rejection),
    /// It is wrong.
    Wrong(Rejection),
}

/// A key that this node does not know.
pub(crate) struct KeyGuess {
    pub(crate) name: Id,
    hash: [u8; KEY_HASH_BYTES],
    version: u64,
}

impl KeyGuess {
    /// The access with the key that the directory's leader has told, if that is the one that was shown.
    pub(crate) fn access(self, key: Arc<AccessKey>, told_at: u64) -> Option<Access> {
        let KeyGuess { name, hash, version } = self;
        same_secret(&key.terms.hash, &hash).then(|| Access::key(name, key, version, Some(told_at)))
    }

    /// The access with the key that this node's copy of the directory has got meanwhile, if that is the one that was shown.
    pub(crate) fn look_again(self, shared: &Shared) -> Option<Access> {
        let version = shared.key_ring.version();
        let key = shared.backend.key(&self.name)?;
        same_secret(&key.terms.hash, &self.hash).then(|| Access::key(self.name, key, version, None))
    }
}

/// The refusal of a key that the cluster does not have.
pub(crate) fn no_such_key() -> Rejection {
    Rejection::Unauthenticated(SmolStr::new_static("this is no key of this cluster"))
}

impl Access {
    /// What this node can say about this key or token, if one was shown at this port.
    pub(crate) fn look(shared: &Shared, port: Port, token: Option<&str>) -> Look {
        let Some(token) = token else { return Look::Right(Access::of_nothing(shared, port)) };
        let refusal = |words: &'static str| Rejection::Unauthenticated(SmolStr::new_static(words));
        if let Some(expected) = &shared.config.admin_token
            && same_secret(expected.as_bytes(), token.as_bytes())
        {
            return Look::AdminToken(Access::operator(BY_ADMIN_TOKEN, Shown::AdminToken));
        }
        if let Some(shown) = ShownKey::read(token) {
            return Access::look_at_key(shared, shown);
        }
        if TokenKeys::is_token(token) && !shared.config.token_keys.is_empty() {
            let claims = match shared.config.token_keys.read(token, shared.backend.now()) {
                Ok(claims) => claims,
                Err(InvalidToken { is_signed: true, words }) => return Look::OutOfTime(refusal(words)),
                Err(InvalidToken { is_signed: false, words }) => return Look::Wrong(refusal(words)),
            };
            let is_staff = claims.roles.has(Role::Desk) || claims.roles.has(Role::Report);
            let expires_at = claims.ends_at();
            let attributes = if is_staff { Vec::new() } else { claims.attributes };
            return Look::Right(Access {
                roles: claims.roles,
                name: is_staff.then(|| format_smolstr!("token {}", claims.subject)),
                venues: claims.venues.into(),
                customer: (!is_staff).then_some(claims.subject),
                attributes,
                shown: Shown::Token { expires_at },
            });
        }
        if shared.backend.is_peer_token(token) {
            let access = Access::of_nothing(shared, port);
            // What the open operators' port gives ends with the first admin key, whatever was shown there.
            return Look::Right(match access.shown {
                Shown::OpenPort => access,
                _ => Access { shown: Shown::Peer, ..access },
            });
        }
        Look::Wrong(refusal("this is neither a key nor a token that this node knows"))
    }

    /// The access of a caller that shows nothing.
    pub(crate) fn of_nothing(shared: &Shared, port: Port) -> Access {
        if port == Port::Operators && shared.has_no_operators() {
            return Access::operator(BY_OPERATORS_PORT, Shown::OpenPort);
        }
        Access { roles: shared.config.anonymous.map_or(Roles::NONE, Roles::of), ..Access::default() }
    }

    fn operator(name: &'static str, shown: Shown) -> Access {
        let name = Some(SmolStr::new_static(name));
        Access { roles: Roles::ALL, name, shown, ..Access::default() }
    }

    fn look_at_key(shared: &Shared, shown: ShownKey<'_>) -> Look {
        // The version is read before the key, so a key that changes meanwhile is looked up again.
        let version = shared.key_ring.version();
        let Some(name) = Id::new(shown.name) else { return Look::Wrong(no_such_key()) };
        let hash = shown.hash();
        match shared.backend.key(&name) {
            Some(key) if same_secret(&key.terms.hash, &hash) => Look::Right(Access::key(name, key, version, None)),
            // Perhaps the key was made a moment ago, or made again under the name of a revoked one.
            Some(_) | None => Look::UnknownKey(KeyGuess { name, hash, version }),
        }
    }

    fn key(name: Id, key: Arc<AccessKey>, version: u64, told_at: Option<u64>) -> Access {
        Access {
            roles: key.terms.roles,
            name: Some(name.as_str().into()),
            venues: key.terms.venues.as_slice().into(),
            customer: None,
            attributes: Vec::new(),
            shown: Shown::Key { name, key, version, told_at },
        }
    }

    /// A caller that has shown a customer's token is no stranger. It may buy, whatever strangers may.
    pub(crate) fn show_customer(&mut self) {
        if matches!(self.shown, Shown::Nothing) && !planted::is("a customer is a stranger") {
            self.roles = self.roles.with(Role::Sell);
            self.shown = Shown::Customer;
        }
    }

    /// Checks that the credentials are still valid.
    ///
    /// # Errors
    /// The reason why they are not valid.
    pub(crate) fn check(&mut self, shared: &Shared) -> Result<(), Ended> {
        match &mut self.shown {
            Shown::Nothing | Shown::AdminToken | Shown::Customer | Shown::Peer => Ok(()),
            Shown::OpenPort if shared.has_no_operators() || planted::is("an open port for ever") => Ok(()),
            Shown::OpenPort => Err(Ended::Guarded),
            Shown::Token { expires_at } if *expires_at <= shared.backend.now() => Err(Ended::Expired),
            Shown::Token { .. } => Ok(()),
            Shown::Key { .. } if planted::is("key cached after revocation") => Ok(()),
            Shown::Key { name, key, version, told_at } => {
                let now = shared.key_ring.version();
                if *version == now {
                    return Ok(());
                }
                let copy = shared.key_ring.copy_version();
                // A new key under the name of a revoked one does not count.
                if shared.backend.key(name).is_some_and(|kept| kept == *key) {
                    *told_at = None;
                } else if told_at.is_none_or(|told_at| told_at <= copy)
                    || planted::is("a told key ends with an older copy")
                {
                    return Err(Ended::Revoked);
                }
                *version = now;
                Ok(())
            }
        }
    }

    /// A future that is done when the credentials are no longer valid. `None` if they last as long as the node. It is woken by
    /// what can end them only, so that a connection costs nothing while it waits.
    pub(crate) fn end(&self, shared: &Arc<Shared>) -> Option<AccessEnd> {
        let (mut access, shared) = (self.clone(), Arc::clone(shared));
        match self.shown {
            Shown::Nothing | Shown::AdminToken | Shown::Customer | Shown::Peer => None,
            Shown::OpenPort | Shown::Key { .. } => Some(Box::pin(async move {
                let mut changes = shared.key_ring.changes();
                loop {
                    if let Err(ended) = access.check(&shared) {
                        return ended;
                    }
                    // Never an error, because the sender is in `shared`.
                    let _ = changes.changed().await;
                }
            })),
            Shown::Token { expires_at } => Some(Box::pin(async move {
                let mut clock_sets = shared.key_ring.clock_sets();
                loop {
                    if let Err(ended) = access.check(&shared) {
                        return ended;
                    }
                    let left = Duration::from_millis(expires_at.0.saturating_sub(shared.backend.now().0));
                    tokio::select! {
                        () = tokio::time::sleep(left) => {}
                        _ = clock_sets.changed() => {}
                    }
                }
            })),
        }
    }

    /// What ends the credentials.
    pub(crate) fn ends_with(&self) -> EndsWith {
        match &self.shown {
            Shown::Nothing | Shown::AdminToken | Shown::Customer | Shown::Peer => EndsWith::Node,
            Shown::OpenPort => EndsWith::OpenPort,
            Shown::Key { key, .. } => EndsWith::Key(Arc::clone(key)),
            Shown::Token { expires_at } => EndsWith::Time(*expires_at),
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
            Shown::AdminToken | Shown::OpenPort | Shown::Key { .. } | Shown::Token { .. } | Shown::Customer => {
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
            Shown::AdminToken | Shown::OpenPort | Shown::Key { .. } => true,
            Shown::Token { .. } => self.roles.has(Role::Desk) || self.roles.has(Role::Report),
            Shown::Nothing | Shown::Customer | Shown::Peer => false,
        }
    }

    /// Whether the caller acts for all customers: the house, or a program of the house that sells. A screen with a key of the
    /// role watch does not.
    pub(crate) fn acts_for_all(&self) -> bool {
        match self.shown {
            Shown::AdminToken | Shown::OpenPort => true,
            Shown::Key { .. } => self.roles.has(Role::Sell) || self.roles.has(Role::Report),
            Shown::Token { .. } => self.roles.has(Role::Desk) || self.roles.has(Role::Report),
            Shown::Nothing | Shown::Customer | Shown::Peer => false,
        }
    }

    /// The name and the budgets of the key that was shown.
    pub(crate) fn key_terms(&self) -> Option<(Id, KeyBudgets)> {
        let Shown::Key { name, key, .. } = &self.shown else { return None };
        let NewKey { requests_per_second, held_max, .. } = key.terms;
        Some((name.clone(), KeyBudgets { requests_per_second, held_max }))
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
