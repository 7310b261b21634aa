//! The bank of a run: the test gateway, started with it and asked afterwards what it took from whom.

use boxoffice_gateway::{
    LedgerHandle, Server, Settings,
    ledger::{ChargeState, FaultRates},
};
use boxoffice_workload::check::Charge;
use tokio::sync::oneshot;

use crate::{LoadError, scenario::GatewaySpec};

/// A gateway that serves until it is dropped.
pub(crate) struct Bank {
    ledger: LedgerHandle,
    /// Dropped, it ends the gateway.
    _stop: oneshot::Sender<()>,
}

impl Bank {
    /// Starts it where the scenario says.
    pub(crate) async fn open(spec: &GatewaySpec, seed: u64) -> Result<Bank, LoadError> {
        let share = |percent: u8| f64::from(percent) / 100.0;
        let rates = FaultRates { decline: share(spec.decline_percent), timeout: share(spec.timeout_percent), seed };
        let settings = Settings { listen: spec.listen, rates, delay_ms: spec.delay_ms, ..Settings::default() };
        let server = Server::bind(settings).await;
        let server = server.map_err(|error| LoadError::Machine { what: "open the gateway's port", error })?;
        let ledger = server.ledger();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.run(async {
            // Nothing is ever sent: it ends with the sender.
            let _ = stopped.await;
        }));
        Ok(Bank { ledger, _stop: stop })
    }

    /// Every charge, by cart.
    pub(crate) fn charges(&self) -> Vec<Charge> {
        let view = self.ledger.view();
        let charges = view.charges.into_iter().filter_map(|charge| {
            let key: boxoffice_core::payment::PaymentKey = charge.key.parse().ok()?;
            let aside = if charge.state == ChargeState::Authorized { charge.authorized } else { 0 };
            Some(Charge { cart: key.cart, authorized: aside, captured: charge.captured, refunded: charge.refunded })
        });
        charges.collect()
    }
}
