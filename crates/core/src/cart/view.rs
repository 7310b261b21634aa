//! What is told of a cart.

use alloc::vec::Vec;

use smol_str::format_smolstr;

use super::{Cart, decide::total};
use crate::{
    answer::{CartAudit, CartState, CartView, LineView},
    id::{CartId, HoldId, Id},
    money::Money,
    seat::Seat,
    time::Timestamp,
};

impl Cart {
    /// The cart as its owner sees it; `None` if nobody opened it.
    pub fn view(&self) -> Option<CartView> {
        let body = self.body.as_ref()?;
        let lines = self.lines();
        let total = total(&lines).and_then(|amount| Some(Money { amount, currency: body.currency? }));
        Some(CartView {
            id: self.id,
            state: body.state,
            customer: body.customer.clone(),
            opened_at: body.opened_at,
            deadline: body.deadline,
            lines,
            total,
            order: body.order.as_ref().map(|order| order.id),
        })
    }

    /// The holds its lines rest on: session, hold, revision, seats.
    pub fn holds(&self) -> impl Iterator<Item = (&Id, HoldId, u64, Vec<Seat>)> {
        let lines = self.body.as_ref().map_or(&[][..], |body| &body.lines);
        let seats = |line: &super::Line| line.seats.iter().map(|priced| priced.seat).collect();
        lines.iter().map(move |line| (&line.session, line.hold, line.revision, seats(line)))
    }

    /// Everything; `None` if nobody opened it.
    pub fn audit(&self) -> Option<CartAudit> {
        let cart = self.view()?;
        let mut violations = Vec::new();
        let done = cart.state == CartState::Done;
        match self.order() {
            Some(_) if !done => violations.push(format_smolstr!("an order, but the cart is {}", cart.state.as_str())),
            None if done => violations.push("done, but no order".into()),
            Some(order) if order.lines != cart.lines => violations.push("the order's lines are not the cart's".into()),
            Some(order) if Some(order.total) != cart.total => {
                violations.push("the order's total is not the lines'".into())
            }
            Some(_) | None => {}
        }
        if cart.lines.iter().any(|line| line.seats.is_empty()) {
            violations.push("a line without seats".into());
        }
        let holds = self.holds().map(|(session, hold, revision, seats)| (session.clone(), hold, revision, seats));
        Some(CartAudit { holds: holds.collect(), owed: self.outbox.len() as u32, cart, violations })
    }

    /// A cart that has just been opened, before it is.
    pub(super) fn fresh_view(id: CartId, customer: Option<Id>, at: Timestamp, deadline: Timestamp) -> CartView {
        let state = CartState::Active;
        CartView { id, state, customer, opened_at: at, deadline, lines: Vec::new(), total: None, order: None }
    }

    pub(super) fn lines(&self) -> Vec<LineView> {
        let lines = self.body.as_ref().map_or(&[][..], |body| &body.lines);
        let view = |line: &super::Line| LineView {
            line: line.number,
            session: line.session.clone(),
            seats: line.seats.clone(),
        };
        lines.iter().map(view).collect()
    }
}
