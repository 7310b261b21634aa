//! A cart's attempts to pay, with the checkout under way, and authorizations that were given up.

use alloc::vec::Vec;

use boxoffice_declare::Stored;

use crate::{
    command::{Payment, Shipping},
    event::CartEvent,
    holder::Holder,
    id::{Id, Request},
    money::Money,
    payment::{OnDecline, VoidRecord, VoidStatus, follows},
    planted,
    time::Timestamp,
};

/// The attempts of one cart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub(super) struct PaymentAttempts {
    /// How many checkouts of more than one step were begun, regardless of their result.
    #[n(0)]
    pub(super) begun: u32,
    /// How many attempts the gateway may have been asked for, including the one under way. A checkout that is refused before the
    /// gateway is asked gives its number back.
    #[n(1)]
    pub(super) count: u32,
    /// Attempts whose money was given up, or is to be.
    #[n(2)]
    pub(super) voids: Vec<VoidRecord>,
    /// The checkout under way, while the cart is checking out.
    #[n(3)]
    pub(super) checkout: Option<Checkout>,
}

/// A checkout of more than one step, under way.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub(crate) struct Checkout {
    #[n(0)]
    pub(crate) attempt: u32,
    #[n(1)]
    pub(crate) payment: Payment,
    #[n(5)]
    pub(crate) customer: Option<Id>,
    #[n(6)]
    pub(crate) shipping: Option<Shipping>,
    #[n(2)]
    pub(crate) amount: Money,
    #[n(3)]
    pub(crate) request: Request,
    /// When it began, in running time.
    #[n(4)]
    pub(crate) begun_at: Timestamp,
    /// Who holds the lines that are held only now.
    #[n(7)]
    pub(crate) holder: Option<Holder>,
}

impl PaymentAttempts {
    /// Writes what happened to an attempt.
    pub(super) fn apply(&mut self, event: &CartEvent) {
        match event {
            CartEvent::CheckoutBegun {
                attempt,
                at,
                payment,
                customer,
                shipping,
                amount,
                deadline: _,
                request,
                holder,
            } => {
                assert!(follows(*attempt, self.count), "attempts to pay are counted");
                self.count = *attempt;
                self.begun += 1;
                self.checkout = Some(Checkout {
                    attempt: *attempt,
                    payment: (**payment).clone(),
                    customer: customer.clone(),
                    shipping: shipping.as_deref().cloned(),
                    amount: *amount,
                    request: *request,
                    begun_at: *at,
                    holder: *holder,
                });
            }
            CartEvent::CheckoutAbandoned { asked, void, .. } => {
                let checkout = self.checkout.take().expect("only a checkout under way is abandoned");
                if !asked && !planted::is("a refused checkout that keeps its number") {
                    assert!(!void, "attempt {} is given up, and no gateway was asked for it", checkout.attempt);
                    self.count -= 1;
                }
                if *void {
                    self.add_void(checkout.attempt);
                }
            }
            CartEvent::CheckedOut { .. } => self.checkout = None,
            CartEvent::StrayAuthorized { attempt, .. } => self.add_void(*attempt),
            CartEvent::VoidChanged { attempt, status } => {
                let void = self.voids.iter_mut().find(|void| void.attempt == *attempt);
                void.expect("only attempts that are given up change so").status = status.clone();
            }
            other => panic!("{other:?} happens to no attempt to pay"),
        }
    }

    fn add_void(&mut self, attempt: u32) {
        assert!(self.void(attempt).is_none(), "attempt {attempt} is given up twice");
        self.voids.push(VoidRecord { attempt, status: VoidStatus::Pending });
    }

    pub(super) fn void(&self, attempt: u32) -> Option<&VoidRecord> {
        self.voids.iter().find(|void| void.attempt == attempt)
    }
}

impl Checkout {
    /// Whether a gateway is asked. A free order needs none.
    pub(super) fn asks_gateway(&self) -> bool {
        !self.payment.is_recorded() && self.amount.amount != 0
    }

    /// Whether a decline ends the cart. `usual` is the configured behaviour.
    pub(crate) fn on_decline(&self, usual: OnDecline) -> OnDecline {
        match &self.payment {
            Payment::Recorded { .. } => OnDecline::Keep,
            Payment::Gateway { on_decline, .. } => on_decline.unwrap_or(usual),
        }
    }
}
