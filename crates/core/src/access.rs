//! Roles, and the keys that carry them.
//!
//! The rules store the keys. The node that a caller is connected to decides which role an operation needs and whether the
//! caller has it.

use alloc::vec::Vec;

use boxoffice_declare::Stored;

use crate::{id::Id, time::Timestamp};

/// Bytes of the SHA-256 hash of a key's secret.
pub const KEY_HASH_BYTES: usize = 32;

/// The most keys of a cluster at the same time.
pub const KEYS_MAX: usize = 1_000;

/// The most venues that one key may be limited to.
pub const KEY_VENUES_MAX: usize = 100;

/// The permissions of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads the offer, and follows it live.
    Watch,
    /// Has carts, and pays through the gateway. Includes `watch`.
    Sell,
    /// Works at the box office, with recorded payments, long lives of carts, blocks, releases, refunds, settlements, and changes
    /// of the offer. Includes `sell`.
    Desk,
    /// Reads audits, histories and the node's status. Includes `watch`.
    Report,
    /// Manages the members of the cluster, and the keys. Includes every role.
    Admin,
}

impl Role {
    /// All roles, in order.
    pub const ALL: [Role; 5] = [Role::Watch, Role::Sell, Role::Desk, Role::Report, Role::Admin];

    /// Its name in requests and configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Watch => "watch",
            Role::Sell => "sell",
            Role::Desk => "desk",
            Role::Report => "report",
            Role::Admin => "admin",
        }
    }

    /// The role with this name.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The role and those that it includes.
    const fn bits(self) -> u8 {
        match self {
            Role::Watch => Role::Watch.bit(),
            Role::Sell => Role::Sell.bit() | Role::Watch.bits(),
            Role::Desk => Role::Desk.bit() | Role::Sell.bits(),
            Role::Report => Role::Report.bit() | Role::Watch.bits(),
            Role::Admin => Role::Admin.bit() | Role::Desk.bits() | Role::Report.bits(),
        }
    }
}

/// A set of roles, closed under what each includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct Roles(#[n(0)] u8);

impl Roles {
    /// No role.
    pub const NONE: Roles = Roles(0);

    /// Every role.
    pub const ALL: Roles = Roles(Role::Admin.bits());

    /// A role and those that it includes.
    pub const fn of(role: Role) -> Roles {
        Roles(role.bits())
    }

    /// These roles and another one.
    #[must_use]
    pub const fn with(self, role: Role) -> Roles {
        Roles(self.0 | role.bits())
    }

    /// Whether the role is in the set.
    pub const fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// Whether there is no role in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The roles, in order, without those that other roles of the set include.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let included = move |role: Role| {
            let has_greater = |other: Role| other != role && self.has(other) && Roles::of(other).has(role);
            Role::ALL.into_iter().any(has_greater)
        };
        Role::ALL.into_iter().filter(move |role| self.has(*role) && !included(*role)).map(Role::name)
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<T: IntoIterator<Item = Role>>(roles: T) -> Roles {
        roles.into_iter().fold(Roles::NONE, Roles::with)
    }
}

/// The terms of a key.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct NewKey {
    /// The SHA-256 hash of its secret. The secret itself never leaves its owner's machine.
    #[n(0)]
    pub hash: [u8; KEY_HASH_BYTES],
    #[n(1)]
    pub roles: Roles,
    /// The venues that it is limited to. All if empty.
    #[n(2)]
    pub venues: Vec<Id>,
    /// Requests a second on one node. Without a limit, as many as the node takes.
    #[n(3)]
    pub requests_per_second: Option<u32>,
    /// Seats, places, units and slots that its carts may hold at the same time on one node. Any number if absent.
    #[n(4)]
    pub held_max: Option<u32>,
}

/// A key of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct AccessKey {
    #[n(0)]
    pub terms: NewKey,
    /// In true time.
    #[n(1)]
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::{Role, Roles};

    #[test]
    fn roles_include_others() {
        let has =
            |role: Role| -> Vec<Role> { Role::ALL.into_iter().filter(|other| Roles::of(role).has(*other)).collect() };
        assert_eq!(has(Role::Watch), [Role::Watch]);
        assert_eq!(has(Role::Sell), [Role::Watch, Role::Sell]);
        assert_eq!(has(Role::Desk), [Role::Watch, Role::Sell, Role::Desk]);
        assert_eq!(has(Role::Report), [Role::Watch, Role::Report]);
        assert_eq!(has(Role::Admin), Role::ALL);
        assert_eq!(Roles::of(Role::Admin), Roles::ALL);
        assert!(Roles::NONE.is_empty() && !Roles::of(Role::Watch).is_empty());
    }

    #[test]
    fn a_set_is_named_without_what_is_included() {
        let names = |roles: &[Role]| roles.iter().copied().collect::<Roles>().names().collect::<Vec<_>>();
        assert_eq!(names(&[]), Vec::<&str>::new());
        assert_eq!(names(&[Role::Report, Role::Desk]), vec!["desk", "report"]);
        assert_eq!(names(&[Role::Watch, Role::Sell]), vec!["sell"]);
        assert_eq!(names(&Role::ALL), vec!["admin"]);
        for role in Role::ALL {
            assert_eq!(Role::from_name(role.name()), Some(role));
        }
        assert_eq!(Role::from_name("root"), None);
    }
}
