//! Orders and purchases.

use std::sync::Arc;

use boxoffice_core::{
    answer::{LineView, Order, Purchase, PurchasedItem, PurchasesPage},
    command::{Payment, Shipping},
    id::{Entity, Id, OrderId},
    money::Money,
    payment::{PaymentStatus, RefundRecord},
    time::Timestamp,
};
use serde::{Deserialize, Deserializer, Serializer, ser::SerializeStruct};
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    limits::CART_LINES_MAX,
    repr::{
        ToWire, WireRepr,
        shape::{Shapes, shapes},
    },
};

/// An order with its payment and refunds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderView {
    /// The order. The source of a payment through the gateway is not shown and is empty.
    pub order: Arc<Order>,
    /// The sale is certain, but not all inventories have confirmed it yet.
    pub settling: bool,
    pub payment: PaymentStatus,
    /// Oldest first.
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
        /// Whether some inventories have not confirmed the sale yet. It is certain.
        settling!: bool,
        payment_status: PaymentStatus,
        refunds?: Vec<RefundRecord>,
    }

    /// An order of a customer's purchases.
    remote Purchase {
        cursor: u64,
        order: OrderId,
        at: Timestamp,
        total: Money,
        /// The IANA name of the time zone of the first line that has one.
        zone?: Option<SmolStr>,
        /// What it was for, summed by session, product and resource.
        items: Vec<PurchasedItem>,
    }

    /// How much of one thing an order was for.
    remote PurchasedItem {
        entity: Entity,
        /// The number of seats, places or units. Each slot counts as one.
        quantity: u32,
    }

    remote PurchasesPage {
        purchases: Vec<Purchase>,
        /// The cursor of the newest purchase. 0 if there is none.
        newest: u64,
    }
}

/// Writes an order with its payment and refunds.
pub(crate) fn write_order<S: Serializer>(
    order: &Order,
    settling: bool,
    payment: &PaymentStatus,
    refunds: &Vec<RefundRecord>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let optional = [order.customer.is_some(), order.shipping.is_some(), !refunds.is_empty()].map(usize::from);
    let mut map = serializer.serialize_struct("Order", 7 + optional.iter().sum::<usize>())?;
    map.serialize_field("id", &ToWire(&order.id))?;
    if let Some(customer) = &order.customer {
        map.serialize_field("customer", &ToWire(customer))?;
    }
    map.serialize_field("at", &ToWire(&order.at))?;
    map.serialize_field("lines", &ToWire(&order.lines))?;
    map.serialize_field("total", &ToWire(&order.total))?;
    map.serialize_field("payment", &ToWire(&order.payment))?;
    if let Some(shipping) = &order.shipping {
        map.serialize_field("shipping", &ToWire(shipping))?;
    }
    map.serialize_field("settling", &settling)?;
    map.serialize_field("payment_status", &ToWire(payment))?;
    if !refunds.is_empty() {
        map.serialize_field("refunds", &ToWire(refunds))?;
    }
    map.end()
}

impl WireRepr for OrderView {
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
