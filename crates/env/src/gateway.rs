//! The payment gateway as a node sees it.

use boxoffice_core::payment::{GatewayCall, GatewayOutcome};
use smol_str::SmolStr;

/// Receives the outcome of a call.
pub type OnOutcome = Box<dyn FnOnce(GatewayOutcome) + Send>;

/// A payment gateway.
pub trait Gateway: Send + Sync {
    /// Starts a call without blocking. `done` receives its outcome.
    ///
    /// `done` is called once, on any thread, and possibly before this returns. It must not block, and the caller must hold no
    /// lock that it takes. A node that stops may never call it. The attempt is then unknown, as after a crash. An
    /// outcome is definite only if the gateway said so. Everything else is [`GatewayOutcome::Unknown`].
    fn call(&self, call: GatewayCall, done: OnOutcome);

    /// Whether a gateway is configured. A node without one must begin no attempt.
    fn is_configured(&self) -> bool {
        true
    }
}

/// The node has no gateway and only records payments.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGateway;

impl Gateway for NoGateway {
    /// The outcome is unknown, because an earlier run of the node may have begun the attempt at a gateway.
    fn call(&self, _: GatewayCall, done: OnOutcome) {
        done(GatewayOutcome::Unknown { reason: SmolStr::new("no gateway is configured") });
    }

    fn is_configured(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use boxoffice_core::{
        id::CartId,
        money::{Currency, Money},
        payment::PaymentKey,
    };

    use super::*;

    #[test]
    fn every_outcome_is_unknown_without_a_gateway() {
        let key = PaymentKey { cart: CartId(1), attempt: 1 };
        let amount = Money { amount: 1, currency: Currency::new("EUR").expect("a currency") };
        let authorize = GatewayCall::Authorize { key, amount, source: "tok".into(), order: CartId(1).order() };
        for call in [authorize, GatewayCall::Void { key, reference: None }] {
            let (sender, receiver) = mpsc::channel();
            NoGateway.call(call, Box::new(move |outcome| sender.send(outcome).expect("the receiver lives")));
            let answer = receiver.try_recv().expect("it is answered at once");
            assert_eq!(answer, GatewayOutcome::Unknown { reason: "no gateway is configured".into() });
        }
    }
}
