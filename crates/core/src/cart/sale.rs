//! The writes of a checkout's end without an order, of the sale, and of refunds.

use alloc::{boxed::Box, sync::Arc};

use smol_str::SmolStr;

use super::{Cart, Checkout, line::LineHold, memory::Memory, order::OrderRecord};
use crate::{
    answer::{CartState, Ended, Order, Purchase, PurchasedItem},
    ask::Ask,
    event::{CartEvent, Reserved},
    id::{Entity, Request},
    payment::{GatewayCall, PaymentFailure, PaymentKey, RefundRecord, RefundStatus},
    planted,
    time::TIMESTAMP_MAX,
};

impl Cart {
    /// Ends the checkout under way without an order. The cart is active again, or canceled.
    pub(super) fn abandon(&mut self, event: &CartEvent) {
        let CartEvent::CheckoutAbandoned { failure, release, void, reference, at, asked: _ } = event else {
            panic!("{event:?} abandons no checkout")
        };
        let checkout = self.checkout().expect("only a checkout under way is abandoned");
        let Checkout { attempt, request, begun_at, .. } = *checkout;
        self.attempts_mut().apply(event);
        if *void {
            self.owe_void(attempt, reference.clone());
        }
        let version = self.version;
        let body = self.body_mut();
        body.state = CartState::Active;
        if let Some(failure) = failure {
            let differs = matches!(failure, PaymentFailure::AmountMismatch { .. });
            let is_forgotten =
                planted::is("a decline forgotten") || (differs && planted::is("another amount forgotten"));
            if !is_forgotten {
                body.remember(Memory::failed(version, request, failure));
            }
        }
        // During the payment, inventories may have extended holds beyond the deadline of the cart.
        body.lines.iter_mut().for_each(|line| line.believed_until = TIMESTAMP_MAX);
        if *release {
            let failure = failure.clone().expect("only a payment that came to nothing ends a cart");
            self.give_up(CartState::Canceled, Ended::Unpaid(failure));
        } else {
            self.body_mut().stop_clock(at.0.saturating_sub(begun_at.0));
        }
    }

    /// The cart becomes an order. It owes every inventory the sale, the gateway the capture, and the customer the purchase.
    pub(super) fn check_out(
        &mut self,
        event: &CartEvent,
        order: &Arc<Order>,
        reserved: &[Reserved],
        reference: Option<&SmolStr>,
        request: Request,
    ) {
        let Cart { version, id, body, outbox, .. } = self;
        let body = body.as_mut().expect("only opened carts are paid");
        let attempt = match body.state {
            CartState::Active => 0,
            CartState::CheckingOut => {
                let attempts = body.attempts.as_mut().expect("a checkout under way is an attempt");
                let attempt = attempts.checkout.as_ref().expect("a checkout is under way").attempt;
                attempts.apply(event);
                attempt
            }
            ended @ (CartState::Done | CartState::Canceled | CartState::Expired) => panic!("cart {id} is {ended:?}"),
        };
        assert!(!body.lines.is_empty(), "an order of nothing");
        body.state = CartState::Done;
        body.customer.clone_from(&order.customer);
        body.remember(Memory::ordered(request));
        for found in reserved {
            let line = body.line_mut(found.line);
            line.hold = Some(LineHold::new(found.hold, found.revision));
            line.quota = found.quota.clone().map(Box::new);
        }
        body.order = Some(Box::new(OrderRecord::new(order, *version, attempt, reference.cloned())));
        for line in &body.lines {
            assert!(line.hold.is_some(), "line {} of an order is not held", line.number);
            for claim in line.claims(*id, body.customer.as_ref()) {
                let (hold, revision, portion) = (claim.hold, super::committed_after(claim.revision), claim.portion());
                outbox.owe(Some(claim.entity), Ask::Sell { hold, revision, portion, order: order.id, at: order.at });
            }
        }
        self.owe_forgets();
        if let Some(reference) = reference {
            let key = PaymentKey { cart: self.id, attempt };
            let capture = GatewayCall::Capture { key, reference: reference.clone(), amount: order.total };
            self.outbox.owe(None, Ask::Pay(capture));
        }
        if let Some(customer) = &order.customer {
            let items = PurchasedItem::of_lines(&order.lines);
            let zone = order.lines.iter().find_map(|line| line.zone.clone());
            let purchase = Purchase { cursor: 0, order: order.id, at: order.at, total: order.total, zone, items };
            self.outbox.owe(Some(Entity::Customer(customer.clone())), Ask::Post { purchase });
        }
    }

    /// Lines of the order are paid back. The cart owes the refund to their inventories and to the gateway.
    pub(super) fn refund(&mut self, event: &CartEvent, refund: &RefundRecord) {
        let Cart { id, body, outbox, .. } = self;
        let body = body.as_mut().expect("only opened carts become orders");
        let order = body.order.as_mut().expect("only orders are refunded");
        order.apply(event);
        for line in body.lines.iter().filter(|line| refund.lines.contains(&line.number)) {
            for claim in line.claims(*id, body.customer.as_ref()) {
                outbox.owe(Some(claim.entity), Ask::Refund { hold: claim.hold });
            }
        }
        if refund.status == RefundStatus::Pending
            && let Some(reference) = order.reference.clone()
        {
            let key = PaymentKey { cart: *id, attempt: order.attempt };
            let call = GatewayCall::Refund { key, refund: refund.number, reference, amount: refund.amount };
            outbox.owe(None, Ask::Pay(call));
        }
    }

    pub(super) fn owe_void(&mut self, attempt: u32, reference: Option<SmolStr>) {
        let key = PaymentKey { cart: self.id, attempt };
        self.outbox.owe(None, Ask::Pay(GatewayCall::Void { key, reference }));
    }
}
