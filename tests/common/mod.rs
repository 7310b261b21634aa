//! Shared by the end-to-end tests: the real program as a child process, an independent client, a theatre, buyers that record
//! every answer, and the check of this record against the node.
#![allow(dead_code, unused_imports, reason = "each test uses a part of this")]

mod damage;
pub(crate) mod fixture;
mod gateway;
mod goods;
pub(crate) mod http;
mod idle_clients;
mod pack;
pub(crate) mod paying;
mod pem;
mod port;
pub(crate) mod released;
mod rng;
mod server;
mod shim;
mod shopper;
mod theatre;

mod buyers;
mod check;
mod record;

use std::time::Duration;

use tokio::time::{Instant, sleep};

pub(crate) use buyers::{BuyerConnection, Buyers};
pub(crate) use damage::{flip, written_to};
pub(crate) use gateway::{Gateway, SECRET};
pub(crate) use goods::{Goods, has_counts};
pub(crate) use idle_clients::IdleClients;
pub(crate) use pem::Pem;
pub(crate) use port::{Answer, Encoding, No, Port};
pub(crate) use record::{Asked, CartRecord, CartStatus, Granted, Line, Record};
pub(crate) use rng::Rng;
pub(crate) use server::{ADMIN, BOXOFFICE, CALM, Home, OPEN, Refused, Server, with_ulimit};
pub(crate) use shim::{Faults, library as fault_library, lose, write_control};
pub(crate) use shopper::{Shopper, checkout, recorded};
pub(crate) use theatre::{Map, SeatName, Theatre, read_time, time, written};

/// Time limit for anything that must happen. It is generous, so that a busy machine fails no test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Calls `ask` until it returns a value.
///
/// # Panics
/// If there is no value within [`TIMEOUT`]. The message contains `what`.
pub(crate) async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_within(what, TIMEOUT, ask).await
}

pub(crate) async fn eventually_within<T>(what: &str, limit: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "timed out after {limit:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
