//! Bodies of the ops on what was bought.

use boxoffice_core::id::{Id, OrderId};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{
    form::{self, AtMostIfAny},
    limits::CART_LINES_MAX,
};

/// Of `order.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderGet {
    /// Which order.
    #[serde(with = "form")]
    pub order: OrderId,
}

/// Of `order.refund`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRefund {
    /// Which order.
    #[serde(with = "form")]
    pub order: OrderId,
    /// Which lines of it; all that are left if absent.
    #[serde(with = "AtMostIfAny::<CART_LINES_MAX>", default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<u32>>,
    /// Why.
    pub reason: SmolStr,
}

/// Of `customer.purchases`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomerPurchases {
    /// Whose.
    #[serde(with = "form")]
    pub customer: Id,
    /// Go on after the purchase with this cursor; from the first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}
