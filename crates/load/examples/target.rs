//! A stub server on a loopback port: `cargo run --release -p boxoffice-load --example target` prints its address.
//! A run against it measures the cost of the load generator itself.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Bug, StubServer};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("{}", StubServer::start(Bug::None).await);
    std::future::pending().await
}
