//! `boxoffice admin reconcile`: payments that the gateway knows and the cluster does not, as after a restore from a backup.

use std::path::Path;

use boxoffice_client::{CartAudit, CartState, Client, Error, PaymentStatus, RefundStatus, Timestamp, VoidStatus};
use boxoffice_core::{
    money::{Currency, Money},
    payment::PaymentKey,
};
use boxoffice_payment::HttpGateway;
use boxoffice_wire::{
    payment::{ListedAttempt, ListedState, plain},
    repr,
};
use tokio::runtime::Handle;

use super::print;
use crate::{
    args::NodeArgs,
    config::Config,
    draw::amount,
    failure::{Failure, Outcome},
    node_client::{self, say},
};

/// Compares the gateway's list with the cluster, and prints what the cluster does not know.
///
/// # Errors
/// [`Failure::Refused`] if there is something, or the gateway has no list.
pub fn run(node_args: &NodeArgs, config: Option<&Path>, since: Option<Timestamp>) -> Outcome {
    let config = Config::load(config).map_err(|error| Failure::Usage(error.to_string()))?;
    let gateway = config.gateway.ok_or_else(|| {
        Failure::Usage("no gateway is configured: name the file that has payments.url with --config".into())
    })?;
    let since = since.and_then(repr::rfc3339);
    node_client::block_on(async {
        let gateway =
            HttpGateway::new(&gateway, Handle::current()).map_err(|error| Failure::Usage(error.to_string()))?;
        let client = node_args.connect().await?;
        let (mut after, mut attempts, mut unknown) = (None, 0_usize, 0_usize);
        loop {
            let page = gateway.list(since.as_deref(), after.as_deref()).await;
            let page = page.map_err(|why| Failure::Refused(format!("the gateway gives no list: {why}")))?;
            attempts += page.authorizations.len();
            for attempt in &page.authorizations {
                if let Some(line) = unknown_line(&client, attempt).await.map_err(|error| node_args.failure(error))? {
                    print(&[line]);
                    unknown += 1;
                }
            }
            match page.next {
                Some(next) if after.as_ref() != Some(&next) => after = Some(next),
                _ => break,
            }
        }
        match unknown {
            0 => {
                say(&format!("all money of the gateway's {attempts} attempts to pay is known to the cluster"));
                Ok(())
            }
            _ => Err(Failure::Refused(format!(
                "{unknown} of the gateway's {attempts} attempts to pay have money that the cluster does not know; refund each at the \
                 gateway, or sell the buyer the same again"
            ))),
        }
    })
}

/// A line about an attempt with money that the cluster does not know.
async fn unknown_line(client: &Client, attempt: &ListedAttempt) -> Result<Option<String>, Error> {
    let kept = match attempt.status {
        ListedState::Authorized => attempt.authorized,
        ListedState::Captured => attempt.captured - attempt.refunded,
        ListedState::Pending | ListedState::Declined | ListedState::Voided => 0,
    };
    if kept <= 0 {
        return Ok(None);
    }
    let why = match attempt.key.parse::<PaymentKey>() {
        Ok(key) => {
            let audit = match client.audit_cart(key.cart).await {
                Ok(audit) => Some(audit.value),
                Err(Error::Refused(no)) if no.name == "not_found" => None,
                Err(error) => return Err(error),
            };
            unknown(attempt, key.attempt, audit.as_ref())
        }
        Err(()) => Some("its key is not one of this program".to_owned()),
    };
    let money = Currency::new(&attempt.currency)
        .map_or_else(|| format!("{kept} {}", attempt.currency), |currency| amount(Money { amount: kept, currency }));
    let state = if attempt.status == ListedState::Captured { "captured" } else { "authorized" };
    let reference = attempt.reference.as_deref().unwrap_or("-");
    // The gateway's texts may have control characters.
    let [key, at, reference] = [&attempt.key, &attempt.at, reference].map(plain);
    Ok(why.map(|why| format!("{key}  {at}  {state} {money}  {reference}  {why}")))
}

/// Why the cluster does not know the money of an attempt, or knows another sum. `None` if it knows it.
fn unknown(listed: &ListedAttempt, attempt: u32, audit: Option<&CartAudit>) -> Option<String> {
    let Some(audit) = audit else { return Some("no such cart or order is known".into()) };
    if let Some(void) = audit.voids.iter().find(|void| void.attempt == attempt) {
        return match &void.status {
            VoidStatus::Voided => Some("it was voided, as far as the cluster knows".into()),
            // The node asks again, or an operator settles it.
            VoidStatus::Pending | VoidStatus::Failed { .. } => None,
        };
    }
    if audit.attempt != Some(attempt) {
        return Some("the cart knows no such attempt".into());
    }
    match (&audit.payment, audit.cart.state) {
        // The node asks on.
        (None, CartState::CheckingOut) => None,
        (None, state) => Some(format!("the cart is {}, and has no order", state.as_str())),
        (Some(PaymentStatus::Recorded), _) => Some("its order was paid elsewhere".into()),
        // The capture is asked for again, or an operator settles it.
        (Some(PaymentStatus::Authorized | PaymentStatus::CaptureFailed { .. }), _) => None,
        (Some(PaymentStatus::Captured), _) => {
            let total = audit.cart.total.map_or(0, |total| total.amount);
            let refunds = audit.refunds.iter().filter(|refund| refund.status == RefundStatus::Refunded);
            let refunded: i64 = refunds.map(|refund| refund.amount.amount).sum();
            let is_same = (listed.captured, listed.refunded) == (total, refunded);
            let waits = audit.refunds.iter().any(|refund| refund.status == RefundStatus::Pending);
            (!is_same && !waits).then(|| {
                format!(
                    "{} captured and {} refunded there, {total} and {refunded} here",
                    listed.captured, listed.refunded
                )
            })
        }
    }
}
