//! Who is asked for money.

use boxoffice_core::payment::{GatewayCall, GatewayOutcome};
use smol_str::SmolStr;

/// What is done with the outcome of a call.
pub type OnOutcome = Box<dyn FnOnce(GatewayOutcome) + Send>;

/// The way to a payment gateway.
pub trait Gateway: Send + Sync {
    /// Asks, and returns at once; `done` hears what came of it.
    ///
    /// `done` is called once, on any thread, and where nothing is asked even before this returns: it must not block, and the
    /// caller must hold no lock that it takes. A node that stops may never call it; the attempt is then unknown, as after
    /// a crash. An outcome is definite only if the gateway said so; everything else is [`GatewayOutcome::Unknown`].
    fn call(&self, call: GatewayCall, done: OnOutcome);

    /// Whether there is anybody to ask. Where not, no attempt should be begun: one that an earlier run of the node began
    /// elsewhere is not settled by asking nobody.
    fn is_configured(&self) -> bool {
        true
    }
}

/// Where payments are only recorded: there is nobody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGateway;

impl Gateway for NoGateway {
    /// What an earlier run of the node began elsewhere is not settled by asking nobody: nothing certain can be said.
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
    fn where_there_is_no_gateway_nothing_is_certain() {
        let key = PaymentKey { cart: CartId(1), attempt: 1 };
        let amount = Money { amount: 1, currency: Currency::new("EUR").expect("a currency") };
        let authorize = GatewayCall::Authorize { key, amount, source: "tok".into(), order: CartId(1).order() };
        for call in [authorize, GatewayCall::Void { key, reference: None }] {
            let (sender, receiver) = mpsc::channel();
            NoGateway.call(call, Box::new(move |outcome| sender.send(outcome).expect("somebody listens")));
            let answer = receiver.try_recv().expect("it is answered at once");
            assert_eq!(answer, GatewayOutcome::Unknown { reason: "no gateway is configured".into() });
        }
    }
}
