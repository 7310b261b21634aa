//! Payments, refunds, voids and shipping.

use boxoffice_core::{
    command::{Payment, Shipping},
    money::Money,
    payment::OnDecline,
    text::Text,
    time::Timestamp,
};
use boxoffice_declare::shape;
use smol_str::SmolStr;

use crate::{
    limits::{PAYMENT_TEXT_BYTES_MAX, SHIPPING_BYTES_MAX, SOURCE_BYTES_MAX},
    repr::{decided, repr_of, shape::shapes, words, written_as},
};

words! {
    OnDecline as OnDecline { Release: "release", Keep: "keep" }
}

/// A payment, by kind.
#[shape("Payment")]
#[derive(Default, Eq)]
#[one_of([recorded] [gateway])]
pub struct PaymentBody {
    pub recorded: Option<RecordedPayment>,
    pub gateway: Option<GatewayPayment>,
}

/// A payment that was made elsewhere.
#[shape]
#[derive(Eq)]
pub struct RecordedPayment {
    /// The method: cash, card, …
    pub method: Text<1, PAYMENT_TEXT_BYTES_MAX>,
    /// The payer's reference.
    pub transaction_id: Text<0, PAYMENT_TEXT_BYTES_MAX>,
    /// The paid amount. The checkout is refused if the total of the cart differs.
    #[since(1, 1)]
    pub amount: Option<Money>,
}

shapes! {
    /// A payment through the node's gateway.
    #[derive(Default, Eq)]
    pub struct GatewayPayment {
        /// The token that the client got from the gateway. It is never shown again.
        pub source!: Text<1, SOURCE_BYTES_MAX>,
        /// What happens to the cart if the payment is declined. The server's default if absent.
        pub on_decline?: Option<OnDecline>,
    }

    /// A payment without the source, which is secret between the buyer and the gateway.
    #[one_of([recorded] [gateway])]
    struct OrderPayment as OrderPayment {
        recorded?: Option<RecordedPayment>,
        gateway?: Option<OrderGatewayPayment>,
    }

    struct OrderGatewayPayment {
        on_decline?: Option<OnDecline>,
    }

    /// The figure to compare a cart with: one of the two.
    #[derive(Copy, Default, Eq)]
    pub struct Figure {
        /// The total of the lines.
        pub total?: Option<Money>,
        /// The version of the lines, `lines_version` of the cart.
        pub lines?: Option<u64>,
    }

    /// A shipping address.
    #[derive(Default, Eq)]
    pub struct ShippingBody as Shipping {
        pub recipient??: Text<0, SHIPPING_BYTES_MAX, true>,
        pub address??: Text<0, SHIPPING_BYTES_MAX, true>,
        pub method??: Text<0, SHIPPING_BYTES_MAX>,
    }

    /// The status of a payment.
    struct PaymentStanding as PaymentStatus {
        state: SmolStr = ["recorded", "authorized", "captured", "capture_failed"],
        /// The reason, if it failed.
        reason?: Option<SmolStr>,
    }

    /// The status of a refund.
    struct RefundStanding as RefundStatus {
        state: SmolStr = ["recorded", "pending", "refunded", "failed"],
        /// The reason, if it failed.
        reason?: Option<SmolStr>,
    }

    /// The status of a void.
    struct VoidStanding as VoidStatus {
        state: SmolStr = ["pending", "voided", "failed"],
        /// The reason, if it failed.
        reason?: Option<SmolStr>,
    }

    /// An attempt to pay whose authorization is voided.
    view VoidRecord as Void {
        attempt: u32,
        status: VoidStatus,
    }

    /// A refund.
    view RefundRecord as Refund {
        number: u32,
        at: Timestamp,
        /// The numbers of the refunded lines.
        lines: Vec<u32>,
        amount: Money,
        reason: SmolStr,
        status: RefundStatus,
    }
}

repr_of! {
    Payment: OrderPayment,
    Shipping: ShippingBody,
}

impl From<Shipping> for ShippingBody {
    fn from(Shipping { recipient, address, method }: Shipping) -> ShippingBody {
        let (recipient, address) = (Text::as_said(recipient), Text::as_said(address));
        ShippingBody { recipient, address, method: Text::as_said(method) }
    }
}

impl From<ShippingBody> for Shipping {
    fn from(ShippingBody { recipient, address, method }: ShippingBody) -> Shipping {
        let (recipient, address) = (recipient.into_plain(), address.into_plain());
        Shipping { recipient, address, method: method.into_plain() }
    }
}

impl From<Payment> for PaymentBody {
    fn from(payment: Payment) -> PaymentBody {
        match payment {
            Payment::Recorded { method, transaction_id } => {
                // The amount is the order's total, which the order already has.
                let (method, transaction_id) = (Text::as_said(method), Text::as_said(transaction_id));
                PaymentBody { recorded: Some(RecordedPayment { method, transaction_id, amount: None }), gateway: None }
            }
            Payment::Gateway { source, on_decline } => {
                let source = Text::as_said(source);
                PaymentBody { recorded: None, gateway: Some(GatewayPayment { source, on_decline }) }
            }
        }
    }
}

impl From<Payment> for OrderPayment {
    fn from(payment: Payment) -> OrderPayment {
        let PaymentBody { recorded, gateway } = payment.into();
        OrderPayment { recorded, gateway: gateway.map(|paid| OrderGatewayPayment { on_decline: paid.on_decline }) }
    }
}

impl TryFrom<OrderPayment> for Payment {
    type Error = &'static str;

    fn try_from(payment: OrderPayment) -> Result<Payment, &'static str> {
        match (payment.recorded, payment.gateway) {
            (Some(RecordedPayment { method, transaction_id, .. }), None) => {
                Ok(Payment::Recorded { method: method.into_plain(), transaction_id: transaction_id.into_plain() })
            }
            (None, Some(OrderGatewayPayment { on_decline })) => {
                Ok(Payment::Gateway { source: SmolStr::default(), on_decline })
            }
            (None, None) | (Some(_), Some(_)) => Err("a payment says how: `recorded` or `gateway`"),
        }
    }
}

/// Declares views of statuses, which are told in words.
macro_rules! standings {
    ($(
        $(#[doc = $doc:literal])+
        $status:ident as $standing:ident { $($(#[doc = $words:literal])+ $plain:ident: $word:literal),+; $failed:ident: $failed_word:literal }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $status {
            $($(#[doc = $words])+ $plain,)+
            /// It failed for good, and an operator settles it. The reason is in the gateway's words.
            $failed { reason: SmolStr },
        }

        repr_of! { $status: $standing }
        written_as! { decided::$status: $standing }

        standings! { @to_words $status, $standing, [$($plain: $word),+; $failed: $failed_word] }
        standings! { @to_words decided::$status, $standing, [$($plain: $word),+; $failed: $failed_word] }

        impl TryFrom<$standing> for $status {
            type Error = &'static str;

            fn try_from($standing { state, reason }: $standing) -> Result<$status, &'static str> {
                match state.as_str() {
                    $($word => Ok($status::$plain),)+
                    $failed_word => Ok($status::$failed { reason: reason.unwrap_or_default() }),
                    _ => Err(concat!("a state is", $(" `", $word, "`,"),+, " or `", $failed_word, "`")),
                }
            }
        }
    )+};
    (@to_words $status:ty, $standing:ident, [$($plain:ident: $word:literal),+; $failed:ident: $failed_word:literal]) => {
        impl From<$status> for $standing {
            fn from(status: $status) -> $standing {
                type Status = $status;
                let (state, reason) = match status {
                    $(Status::$plain => ($word, None),)+
                    Status::$failed { reason } => ($failed_word, Some(reason)),
                };
                $standing { state: SmolStr::new_static(state), reason }
            }
        }
    };
}

standings! {
    /// The state of an order's money.
    PaymentStatus as PaymentStanding {
        /// Paid elsewhere, as the client said.
        Recorded: "recorded",
        /// Set aside. The capture is on its way.
        Authorized: "authorized",
        /// Taken.
        Captured: "captured";
        CaptureFailed: "capture_failed"
    }
    /// The state of a refund.
    RefundStatus as RefundStanding {
        /// Paid back elsewhere, as the order was paid.
        Recorded: "recorded",
        /// The gateway is asked, or will be.
        Pending: "pending",
        /// Paid back.
        Refunded: "refunded";
        Failed: "failed"
    }
    /// The state of a void.
    VoidStatus as VoidStanding {
        /// The gateway is asked, or will be.
        Pending: "pending",
        /// The authorization is given up.
        Voided: "voided";
        Failed: "failed"
    }
}
