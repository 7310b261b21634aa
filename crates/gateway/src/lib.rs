//! A payment gateway for trials and tests. It keeps to the contract of `docs/reference/gateway.md`, moves no money, and
//! misbehaves on demand.
//!
//! The `source` of an authorization decides what the gateway does with the charge ([`plan::Plan`]). The
//! [`ledger::Ledger`] records what it did. The ledger is in memory and lost when the process ends.
//!
//! ```
//! use boxoffice_core::payment::PaymentStep;
//! use boxoffice_gateway::plan::{Plan, Verdict};
//!
//! // The first answer to the authorization is lost, the second one comes. The capture fails for good.
//! let plan = Plan::parse("lost-1+capture-fails").expect("known words");
//! assert_eq!(plan.step(PaymentStep::Authorize).dropped, 1);
//! assert_eq!(plan.step(PaymentStep::Capture).verdict, Verdict::Reject);
//! assert_eq!(Plan::parse("perhaps"), None);
//! ```

// In reading order: the ledger, the plans, the server, the webhooks.
pub mod ledger;
pub mod plan;
mod server;
mod webhooks;

pub use server::{LedgerHandle, Server, Settings};
pub use webhooks::Webhook;
