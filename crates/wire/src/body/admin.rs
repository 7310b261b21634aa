//! Bodies of the ops of operators.

use boxoffice_core::{
    id::{CartId, Entity, Id},
    payment::Settlement,
    seat::Seat,
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::form;

/// Of `admin.audit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Of what; the whole node if absent.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<Entity>,
}

/// Of `admin.history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Of what.
    #[serde(with = "form")]
    pub entity: Entity,
    /// Only what happened to this seat of a session.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<Seat>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only what is older than this version: the `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

/// Of `admin.release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminRelease {
    /// Whose line.
    #[serde(with = "form")]
    pub cart: CartId,
    /// Which line.
    pub line: u32,
    /// Why: the cart's owner is shown it.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub reason: SmolStr,
}

/// Of `admin.settle`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminSettle {
    /// Whose payment.
    #[serde(with = "form")]
    pub cart: CartId,
    /// Which attempt.
    pub attempt: u32,
    /// `authorized`, `declined`, `captured`, `voided` or `refunded`.
    pub outcome: SmolStr,
    /// The gateway's name for what it set aside; of `authorized`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<SmolStr>,
    /// Which refund of the order, from 1; of `refunded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refund: Option<u32>,
}

/// Of `admin.join`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminJoin {
    /// Which member the machine wants to be; the next free one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u64>,
    /// The random name of its data directory: 32 hexadecimal digits.
    #[serde(with = "form::hex128")]
    pub disk: u128,
    /// Where other members reach it: host and port.
    pub peer: SmolStr,
    /// Where clients reach it: host and port.
    pub client: SmolStr,
    /// The version of the program it runs.
    pub program: SmolStr,
    /// What shows that it knows the secret of the cluster's nodes: 64 hexadecimal digits ([`crate::joining`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<SmolStr>,
}

/// Of `admin.drain` and `admin.remove`: the member with this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminLeave {
    /// Which member.
    pub node: u64,
    /// Even if too few members are left for more than one voter in each shard.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub force: bool,
}

/// Of `admin.undrain` and `admin.replace`: the member with this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminNode {
    /// Which member.
    pub node: u64,
}

/// Of `admin.key_create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCreate {
    /// Its name: it stands in the record of what is done with the key.
    #[serde(with = "form")]
    pub id: Id,
    /// SHA-256 of its secret: 64 hexadecimal digits ([`crate::access`]).
    pub hash: SmolStr,
    /// What it may do: `watch`, `sell`, `desk`, `report`, `admin`.
    pub roles: Vec<SmolStr>,
    /// The venues that it may do it for; all if empty.
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    pub venues: Vec<Id>,
    /// Requests a second on one node; as many as the node takes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// What its carts may hold at the same time on one node; any number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_max: Option<u32>,
}

impl AdminSettle {
    /// The body that says this.
    pub fn new(cart: CartId, attempt: u32, outcome: Settlement) -> AdminSettle {
        let (outcome, reference, refund) = match outcome {
            Settlement::Authorized { reference } => ("authorized", Some(reference), None),
            Settlement::Declined => ("declined", None, None),
            Settlement::Captured => ("captured", None, None),
            Settlement::Voided => ("voided", None, None),
            Settlement::Refunded { refund } => ("refunded", None, Some(refund)),
        };
        AdminSettle { cart, attempt, outcome: outcome.into(), reference, refund }
    }
}
