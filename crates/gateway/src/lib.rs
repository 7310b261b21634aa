//! A payment gateway to try out and to test with: it keeps to the contract of `docs/payments.md`, moves no money, and
//! misbehaves on demand.
//!
//! What it does is said by the `source` of an authorization ([`plan::Plan`]); what it did stands in its [`ledger::Ledger`].
//! Everything is in memory and gone with the process.

// In reading order: what is wished, what is kept, who is told, the door.
pub mod ledger;
pub mod plan;
mod server;
mod webhooks;

pub use server::{LedgerHandle, Server, Settings, Webhook};
