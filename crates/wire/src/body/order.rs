//! The ops on orders and purchases.

use boxoffice_core::{
    command::{CartCommand, Command, CustomerCommand},
    id::{Id, OrderId},
    text::Reason,
};
use boxoffice_declare::op;

use crate::{
    call::Call,
    convert::{Converted, distinct},
    limits::{CART_LINES_MAX, PAGE_ENTRIES, PAGE_ENTRIES_MAX},
    repr::{List, order::Order, shape::Each},
    view::{PurchasesPage, RefundRecord},
};

/// Read an order.
#[op("order.get", read, roles(Sell, Report), owner(OrdersCustomer), venues(OfCartLines), weight(3), answers(Order))]
#[example(r#"{"order": "0f1e1892ba91625a7bb986fa704738a5"}"#)]
#[example(r#"{"order": "0f1e1892ba91625a7bb986fa704738a5", "names": true}"#)]
#[derive(Eq)]
pub struct OrderGet {
    pub order: OrderId,
    /// Whether the answer has `sessions`, which say in words what the lines say by id and number. For receipts.
    #[optional]
    pub names: bool,
}

impl OrderGet {
    fn command(self) -> Converted<Call> {
        let command = Command::Cart(self.order.cart(), CartCommand::Order);
        Ok(if self.names { Call::NamedOrder(command) } else { Call::Command(command) })
    }
}

/// Refund lines of an order and put them on sale again.
#[op("order.refund", desk, venues(OfCartLines), weight(8), answers(RefundRecord))]
#[example(r#"{"lines": [1, 4], "order": "0f1e1892ba91625a7bb986fa704738a5", "reason": "the roof leaks"}"#)]
#[example(r#"{"order": "0f1e1892ba91625a7bb986fa704738a5", "reason": "the roof leaks more"}"#)]
#[derive(Eq)]
pub struct OrderRefund {
    pub order: OrderId,
    /// The lines to refund. All that are left if absent.
    #[narrow(Each(0..=u32::MAX))]
    pub lines: Option<List<u32, 1, CART_LINES_MAX>>,
    pub reason: Reason,
}

impl OrderRefund {
    fn command(self) -> Converted<Command> {
        let lines = self.lines.map(lines).transpose()?;
        Ok(Command::Cart(self.order.cart(), CartCommand::Refund { lines, reason: self.reason }))
    }
}

/// Numbers of lines, sorted, since their order in the request has no meaning.
fn lines(lines: List<u32, 1, CART_LINES_MAX>) -> Converted<Vec<u32>> {
    let mut lines = lines.into_plain();
    lines.sort_unstable();
    distinct(&lines, |line| line, "a line is named twice")?;
    Ok(lines)
}

/// The orders of a customer.
#[op(
    "customer.purchases",
    read,
    roles(Sell, Report),
    owner(Customer),
    venues(Refused),
    weight(4),
    answers(PurchasesPage)
)]
#[example(r#"{"customer": "ada", "limit": 10}"#)]
#[derive(Eq)]
pub struct CustomerPurchases {
    pub customer: Id,
    /// Continue after this purchase. From the first if absent.
    pub cursor: Option<u64>,
    /// The epoch of the page that gave the cursor. In another one, as after a restore, the answer begins with the first purchase.
    pub epoch: Option<u64>,
    /// The maximum number of entries, 100 if absent.
    #[within(1..=PAGE_ENTRIES_MAX)]
    pub limit: Option<u32>,
}

impl CustomerPurchases {
    fn command(self) -> Converted<Command> {
        let (after, limit) = (self.cursor.unwrap_or(0), self.limit.unwrap_or(PAGE_ENTRIES));
        let purchases = CustomerCommand::Purchases { after, limit, epoch: self.epoch };
        Ok(Command::Customer(self.customer, purchases))
    }
}
