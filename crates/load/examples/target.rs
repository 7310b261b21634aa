//! A box office in memory on a loopback port: `cargo run --profile bench -p boxoffice-load --example target` prints its address.
//! A run against it shows what the load generator costs by itself.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{BoxOffice, Lie};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("{}", BoxOffice::open(Lie::None).await);
    std::future::pending().await
}
