//! The forms of payments: how an order is paid, how the money stands, what was paid back or given up, where the order goes.

use boxoffice_core::{
    command::{Payment, Shipping},
    money::Money,
    payment::{OnDecline, PaymentStatus, RefundRecord, RefundStatus, VoidRecord, VoidStatus},
    time::Timestamp,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use smol_str::SmolStr;

use crate::form::{self, Form, remote_form};

/// How an order is paid, by kind: `{"recorded":{…}}` or `{"gateway":{…}}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentBody {
    /// Paid elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedPayment>,
    /// Through the node's gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayPayment>,
}

/// A payment that was made elsewhere, as the client says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPayment {
    /// Cash, card, …
    pub method: SmolStr,
    /// The payer's reference.
    pub transaction_id: SmolStr,
    /// How much was paid. A cart that comes to anything else is not sold for it.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Money>,
}

/// One of the two figures that a cart is compared by: what its lines come to, or their version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// What the lines come to.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Money>,
    /// The version of the lines, `lines_version` of the cart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
}

/// A payment to be made through the node's gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayPayment {
    /// What the client had from the gateway; opaque. Never shown again.
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub source: SmolStr,
    /// What becomes of the cart if it is declined: `release` or `keep`; as the server's rules say if absent.
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    pub on_decline: Option<OnDecline>,
}

impl From<Payment> for PaymentBody {
    fn from(payment: Payment) -> PaymentBody {
        match payment {
            Payment::Recorded { method, transaction_id } => {
                // An order was paid with its total, so it says so once.
                PaymentBody { recorded: Some(RecordedPayment { method, transaction_id, amount: None }), gateway: None }
            }
            Payment::Gateway { source, on_decline } => {
                PaymentBody { recorded: None, gateway: Some(GatewayPayment { source, on_decline }) }
            }
        }
    }
}

/// As an order shows it: without the source, which is between the buyer and the gateway.
impl Form for Payment {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = PaymentBody::from(self.clone());
        if let Some(gateway) = &mut body.gateway {
            gateway.source = SmolStr::default();
        }
        body.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Payment, D::Error> {
        match PaymentBody::deserialize(deserializer)? {
            PaymentBody { recorded: Some(RecordedPayment { method, transaction_id, .. }), gateway: None } => {
                Ok(Payment::Recorded { method, transaction_id })
            }
            PaymentBody { recorded: None, gateway: Some(GatewayPayment { source, on_decline }) } => {
                Ok(Payment::Gateway { source, on_decline })
            }
            PaymentBody { .. } => Err(D::Error::custom("a payment says how: `recorded` or `gateway`")),
        }
    }
}

/// Where an order goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShippingBody {
    /// To whom.
    #[serde(default)]
    pub recipient: SmolStr,
    /// Where.
    #[serde(default)]
    pub address: SmolStr,
    /// How.
    #[serde(default)]
    pub method: SmolStr,
}

impl From<Shipping> for ShippingBody {
    fn from(Shipping { recipient, address, method }: Shipping) -> ShippingBody {
        ShippingBody { recipient, address, method }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Shipping")]
struct ShippingForm {
    #[serde(default)]
    recipient: SmolStr,
    #[serde(default)]
    address: SmolStr,
    #[serde(default)]
    method: SmolStr,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "OnDecline", rename_all = "snake_case")]
enum OnDeclineForm {
    Release,
    Keep,
}

/// How money stands: a word, and why if it failed.
#[derive(Serialize, Deserialize)]
struct Standing {
    state: SmolStr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<SmolStr>,
}

impl Standing {
    fn plain(state: &'static str) -> Standing {
        Standing { state: SmolStr::new_static(state), reason: None }
    }

    fn failed(state: &'static str, reason: &SmolStr) -> Standing {
        Standing { state: SmolStr::new_static(state), reason: Some(reason.clone()) }
    }
}

impl Form for PaymentStatus {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let standing = match self {
            PaymentStatus::Recorded => Standing::plain("recorded"),
            PaymentStatus::Authorized => Standing::plain("authorized"),
            PaymentStatus::Captured => Standing::plain("captured"),
            PaymentStatus::CaptureFailed { reason } => Standing::failed("capture_failed", reason),
        };
        standing.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PaymentStatus, D::Error> {
        let Standing { state, reason } = Standing::deserialize(deserializer)?;
        match state.as_str() {
            "recorded" => Ok(PaymentStatus::Recorded),
            "authorized" => Ok(PaymentStatus::Authorized),
            "captured" => Ok(PaymentStatus::Captured),
            "capture_failed" => Ok(PaymentStatus::CaptureFailed { reason: reason.unwrap_or_default() }),
            _ => Err(D::Error::custom("a payment is recorded, authorized, captured or capture_failed")),
        }
    }
}

impl Form for RefundStatus {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let standing = match self {
            RefundStatus::Recorded => Standing::plain("recorded"),
            RefundStatus::Pending => Standing::plain("pending"),
            RefundStatus::Refunded => Standing::plain("refunded"),
            RefundStatus::Failed { reason } => Standing::failed("failed", reason),
        };
        standing.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RefundStatus, D::Error> {
        let Standing { state, reason } = Standing::deserialize(deserializer)?;
        match state.as_str() {
            "recorded" => Ok(RefundStatus::Recorded),
            "pending" => Ok(RefundStatus::Pending),
            "refunded" => Ok(RefundStatus::Refunded),
            "failed" => Ok(RefundStatus::Failed { reason: reason.unwrap_or_default() }),
            _ => Err(D::Error::custom("a refund is recorded, pending, refunded or failed")),
        }
    }
}

impl Form for VoidStatus {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let standing = match self {
            VoidStatus::Pending => Standing::plain("pending"),
            VoidStatus::Voided => Standing::plain("voided"),
            VoidStatus::Failed { reason } => Standing::failed("failed", reason),
        };
        standing.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VoidStatus, D::Error> {
        let Standing { state, reason } = Standing::deserialize(deserializer)?;
        match state.as_str() {
            "pending" => Ok(VoidStatus::Pending),
            "voided" => Ok(VoidStatus::Voided),
            "failed" => Ok(VoidStatus::Failed { reason: reason.unwrap_or_default() }),
            _ => Err(D::Error::custom("a void is pending, voided or failed")),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "VoidRecord")]
struct VoidForm {
    attempt: u32,
    #[serde(with = "form")]
    status: VoidStatus,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RefundRecord")]
struct RefundForm {
    number: u32,
    #[serde(with = "form")]
    at: Timestamp,
    lines: Vec<u32>,
    #[serde(with = "form")]
    amount: Money,
    reason: SmolStr,
    #[serde(with = "form")]
    status: RefundStatus,
}

remote_form! {
    Shipping => ShippingForm,
    OnDecline => OnDeclineForm,
    RefundRecord => RefundForm,
    VoidRecord => VoidForm,
}
