//! The payment gateway of a run. The run starts it, and asks it for its charges in the audit.

use boxoffice_gateway::{
    LedgerHandle, Server, Settings,
    ledger::{ChargeState, FaultRates},
};
use boxoffice_workload::check::Charge;
use tokio::sync::oneshot;

use crate::{LoadError, scenario::GatewaySpec};

/// A gateway that serves until it is dropped.
pub(crate) struct TestGateway {
    ledger: LedgerHandle,
    /// Dropping this ends the gateway.
    _stop: oneshot::Sender<()>,
}

impl TestGateway {
    /// Starts the gateway at the address in the scenario.
    pub(crate) async fn start(spec: &GatewaySpec, seed: u64) -> Result<TestGateway, LoadError> {
        let share = |percent: u8| f64::from(percent) / 100.0;
        let rates = FaultRates { decline: share(spec.decline_percent), timeout: share(spec.timeout_percent), seed };
        let settings = Settings { listen: spec.listen, rates, delay_ms: spec.delay_ms, ..Settings::default() };
        let server = Server::bind(settings).await;
        let server = server.map_err(|error| LoadError::System { what: "open the gateway's port", error })?;
        let ledger = server.ledger();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.run(async {
            // The channel carries no message. The gateway ends when the sender is dropped.
            let _ = stopped.await;
        }));
        Ok(TestGateway { ledger, _stop: stop })
    }

    pub(crate) fn charges(&self) -> Vec<Charge> {
        let view = self.ledger.view();
        let charges = view.charges.into_iter().filter_map(|charge| {
            let key: boxoffice_core::payment::PaymentKey = charge.key.parse().ok()?;
            let authorized = if charge.state == ChargeState::Authorized { charge.authorized } else { 0 };
            Some(Charge { cart: key.cart, authorized, captured: charge.captured, refunded: charge.refunded })
        });
        charges.collect()
    }
}
