//! The expected answers, worked out from the rows of the permission table. No function of the edge is used.

use boxoffice_wire::{
    Op,
    permission::{BatchRule, Exception, OwnerRule, Permission, VenueRule},
};

use super::{
    callers::{Caller, Rules},
    requests::About,
};

/// Nothing is shown and something is needed.
pub(super) const UNAUTHENTICATED: u64 = 107;
/// What is shown is not enough.
pub(super) const FORBIDDEN: u64 = 108;
/// The op is no item of a batch.
pub(super) const ALONE: u64 = 101;

/// The refusal that the row demands. `None` if the caller passes: the answer is then ok, or a refusal for another reason.
pub(super) fn refusal(rules: Rules, caller: &Caller, row: Permission, about: &About) -> Option<u64> {
    lacks_role(caller, row).or_else(|| is_forbidden(rules, caller, row, about).then_some(FORBIDDEN))
}

/// The refusal of a caller without any of the roles.
pub(super) fn lacks_role(caller: &Caller, row: Permission) -> Option<u64> {
    // No caller here is one of the exceptions.
    for exception in row.or {
        match exception {
            Exception::JoiningMachine => {}
        }
    }
    let is_open = row.roles.is_empty() || row.roles.iter().any(|role| caller.has(role.name()));
    let code = if caller.shows_nothing() { UNAUTHENTICATED } else { FORBIDDEN };
    (!is_open).then_some(code)
}

fn is_forbidden(rules: Rules, caller: &Caller, row: Permission, about: &About) -> bool {
    let is_anothers = match row.owner {
        OwnerRule::Unowned | OwnerRule::CartToken | OwnerRule::OfItsItems => false,
        OwnerRule::CartTokenAndCustomer | OwnerRule::Customer | OwnerRule::OrdersCustomer => {
            about.customer.is_some_and(|customer| !caller.acts_for(rules, customer))
        }
    };
    let is_elsewhere = match (caller.venue, row.venues) {
        (None, _) | (Some(_), VenueRule::Unlimited) => false,
        (Some(_), VenueRule::Refused) => true,
        (Some(own), VenueRule::OfEntity | VenueRule::OfLinesAsked | VenueRule::OfCartLines) => about.venue != Some(own),
    };
    let may_record = rules.recorded_by_anyone || caller.has("desk");
    is_anothers || is_elsewhere || (about.records && !may_record)
}

/// The refusal of an item of a batch, for a caller that may send batches.
pub(super) fn refusal_of_item(rules: Rules, caller: &Caller, op: Op, about: &About) -> Option<u64> {
    match op.permission().batch {
        BatchRule::Alone => Some(ALONE),
        BatchRule::Item => refusal(rules, caller, op.permission(), about),
    }
}
