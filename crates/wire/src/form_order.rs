//! The forms of what was bought: orders with what is beside them, and purchases of customers.

use std::sync::Arc;

use boxoffice_core::{
    answer::{LineView, Order, Purchase, PurchasesPage},
    command::{Payment, Shipping},
    id::{Id, OrderId},
    money::Money,
    payment::{PaymentStatus, RefundRecord},
    time::Timestamp,
};
use serde::{Deserialize, Deserializer, Serializer, ser::SerializeStruct};
use serde_json::Value;

use crate::{
    form::{
        Form, On,
        shape::{Shapes, shapes},
    },
    limits::CART_LINES_MAX,
};

/// An order as it is answered: the order, and what is written beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderView {
    /// The order. The source of a payment through the gateway is not shown: it is empty.
    pub order: Arc<Order>,
    /// Sold for certain, but not everything sold has said so yet.
    pub settling: bool,
    /// How the money stands.
    pub payment: PaymentStatus,
    /// What was paid back, in order.
    pub refunds: Vec<RefundRecord>,
}

shapes! {
    struct OrderFields as Order {
        id: OrderId,
        customer?: Option<Id>,
        at: Timestamp,
        lines: Vec<LineView> = 0..=CART_LINES_MAX,
        total: Money,
        payment: Payment,
        shipping?: Option<Shipping>,
        /// Sold for certain, but not everything sold has said so yet.
        settling!: bool,
        payment_status: PaymentStatus,
        refunds?: Vec<RefundRecord>,
    }

    /// An order among its customer's.
    remote Purchase {
        cursor: u64,
        order: OrderId,
        at: Timestamp,
        total: Money,
    }

    remote PurchasesPage {
        purchases: Vec<Purchase>,
        /// The cursor of the newest one there is; 0 if there is none.
        newest: u64,
    }
}

/// Writes an order with what is beside it.
pub(crate) fn write_order<S: Serializer>(
    order: &Order,
    settling: bool,
    payment: &PaymentStatus,
    refunds: &Vec<RefundRecord>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let optional = [order.customer.is_some(), order.shipping.is_some(), !refunds.is_empty()].map(usize::from);
    let mut map = serializer.serialize_struct("Order", 7 + optional.iter().sum::<usize>())?;
    map.serialize_field("id", &On(&order.id))?;
    if let Some(customer) = &order.customer {
        map.serialize_field("customer", &On(customer))?;
    }
    map.serialize_field("at", &On(&order.at))?;
    map.serialize_field("lines", &On(&order.lines))?;
    map.serialize_field("total", &On(&order.total))?;
    map.serialize_field("payment", &On(&order.payment))?;
    if let Some(shipping) = &order.shipping {
        map.serialize_field("shipping", &On(shipping))?;
    }
    map.serialize_field("settling", &settling)?;
    map.serialize_field("payment_status", &On(payment))?;
    if !refunds.is_empty() {
        map.serialize_field("refunds", &On(refunds))?;
    }
    map.end()
}

impl Form for OrderView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_order(&self.order, self.settling, &self.payment, &self.refunds, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OrderView, D::Error> {
        let fields = OrderFields::deserialize(deserializer)?;
        let OrderFields { id, customer, at, lines, total, payment, shipping, .. } = fields;
        Ok(OrderView {
            order: Arc::new(Order { id, customer, at, lines, total, payment, shipping }),
            settling: fields.settling,
            payment: fields.payment_status,
            refunds: fields.refunds,
        })
    }

    fn schema(shapes: &mut Shapes) -> Value {
        OrderFields::schema(shapes)
    }
}
