//! A payment gateway for trials and tests. It keeps to the contract of `docs/reference/gateway.md`, moves no money, and
//! misbehaves on demand.
//!
//! The `source` of an authorization decides what the gateway does with the charge ([`plan::Plan`]). The
//! [`ledger::Ledger`] records what it did. The ledger is in memory and lost when the process ends.

// In reading order: the ledger, the plans, the server, the webhooks.
pub mod ledger;
pub mod plan;
mod server;
mod webhooks;

pub use server::{LedgerHandle, Server, Settings, Webhook};
