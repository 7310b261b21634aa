//! The rows of the permission table: what a caller needs.
//!
//! Each op has a row in the table of [`crate::body`], each kind of feed and each path has that of an op
//! ([`crate::feed_kind`], [`crate::path`]). The edge decides by these rows, and `docs/reference/access.md` is made of them.

use boxoffice_core::access::{Role, Roles};

/// What a caller needs for an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The roles of which the caller needs one. Empty if every caller may use the op. A role includes others.
    pub roles: &'static [Role],
    /// Callers without these roles that may use the op all the same.
    pub or: &'static [Exception],
    pub owner: OwnerRule,
    pub venues: VenueRule,
    pub batch: BatchRule,
}

impl Permission {
    /// Whether one of these roles is enough.
    pub const fn is_open_to(&self, roles: Roles) -> bool {
        // An iterator cannot be used in a constant.
        let mut index = 0;
        while index < self.roles.len() {
            if roles.has(self.roles[index]) {
                return true;
            }
            index += 1;
        }
        self.roles.is_empty()
    }
}

/// A caller that may use an op without its roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// A machine that wants to join, and has proved that it knows the secret of the cluster's nodes.
    JoiningMachine,
}

impl Exception {
    /// Its name in the table.
    pub const fn words(self) -> &'static str {
        match self {
            Exception::JoiningMachine => "a joining machine",
        }
    }
}

/// Whose data an op reads or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerRule {
    /// Data of no customer, or an operator's op that is about all customers.
    Unowned,
    /// A cart, which belongs to any caller that shows its token.
    CartToken,
    /// The same. If the request names a customer, the caller must act for that customer.
    CartTokenAndCustomer,
    /// A customer's data. The caller must act for the customer that the request names.
    Customer,
    /// An order. If it has a customer, the caller must act for that customer.
    OrdersCustomer,
    /// What the items are about, each by the rule of its own op.
    OfItsItems,
}

impl OwnerRule {
    /// The rule as the table shows it.
    pub const fn words(self) -> &'static str {
        match self {
            OwnerRule::Unowned => "–",
            OwnerRule::CartToken => "the cart's token",
            OwnerRule::CartTokenAndCustomer => "the cart's token, and a customer that is named",
            OwnerRule::Customer => "the customer",
            OwnerRule::OrdersCustomer => "the order's customer",
            OwnerRule::OfItsItems => "as its items",
        }
    }
}

/// What the venues of a limited key or token mean for an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VenueRule {
    /// Nothing: the offer, and carts that are opened by their token.
    Unlimited,
    /// The venue or session of the request must be of these venues, and every line of its cart. Products, resources,
    /// customers, the directory and the whole node belong to no venue, so they are refused.
    OfEntity,
    /// Every line that is asked for must be of these venues.
    OfLinesAsked,
    /// Every line of the cart or order must be of these venues.
    OfCartLines,
    /// The op is about no venue, or about all of them, and is refused.
    Refused,
}

impl VenueRule {
    /// The rule as the table shows it.
    pub const fn words(self) -> &'static str {
        match self {
            VenueRule::Unlimited => "no limit",
            VenueRule::OfEntity => "of its venue",
            VenueRule::OfLinesAsked => "of every line asked for",
            VenueRule::OfCartLines => "of every line of the cart or order",
            VenueRule::Refused => "refused",
        }
    }

    /// Whether the rule needs nothing but the key: neither the request's entity nor the lines of a cart.
    pub(crate) const fn is_decided_by_the_key(self) -> bool {
        match self {
            VenueRule::Unlimited | VenueRule::Refused => true,
            VenueRule::OfEntity | VenueRule::OfLinesAsked | VenueRule::OfCartLines => false,
        }
    }
}

/// Whether an op may be an item of a `batch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRule {
    /// An item, for a caller that may use it alone.
    Item,
    /// Only in a frame of its own.
    Alone,
}

impl BatchRule {
    /// The rule as the table shows it.
    pub const fn words(self) -> &'static str {
        match self {
            BatchRule::Item => "yes",
            BatchRule::Alone => "no",
        }
    }
}
