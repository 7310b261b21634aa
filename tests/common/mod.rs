//! What the end-to-end tests share: the real program as a child process, its port spoken by hand, a theatre, buyers with
//! a memory of their own, and the check of that memory against what the node says.
#![allow(dead_code, unused_imports, reason = "each of the tests uses its part")]

mod crowd;
mod damage;
mod dice;
mod gateway;
mod goods;
pub(crate) mod http;
mod pack;
pub(crate) mod paying;
mod port;
mod server;
mod shim;
mod shopper;
mod theatre;
pub(crate) mod town;

mod buyers;
mod check;
mod record;

use std::time::Duration;

use tokio::time::{Instant, sleep};

pub(crate) use buyers::{Buyers, Till};
pub(crate) use crowd::Crowd;
pub(crate) use damage::{flip, written_to};
pub(crate) use dice::Dice;
pub(crate) use gateway::{Gateway, SECRET};
pub(crate) use goods::{Goods, has_counts};
pub(crate) use port::{Answer, Encoding, No, Port};
pub(crate) use record::{Asked, CartRecord, Granted, Line, Record, Stands};
pub(crate) use server::{ADMIN, BOXOFFICE, Home, Refused, Server, with_ulimit};
pub(crate) use shim::{Faults, lose, write_control};
pub(crate) use shopper::{Shopper, checkout, recorded};
pub(crate) use theatre::{Map, SeatName, Theatre, read_time, time, written};

/// How long anything that must happen may take: far more than it should, so that a busy machine fails no test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until the answer is there.
///
/// # Panics
/// If it is not there in [`PATIENCE`]; the message says what was waited for.
pub(crate) async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_within(what, PATIENCE, ask).await
}

pub(crate) async fn eventually_within<T>(what: &str, patience: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {patience:?} in vain: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
