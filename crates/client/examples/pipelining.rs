//! Keeps many requests under way on one connection: opens ten thousand carts and prints how long it took.
//!
//! ```text
//! boxoffice serve &
//! cargo run --release -p boxoffice-client --example pipelining -- 127.0.0.1:7180
//! ```

use std::time::Instant;

use boxoffice_client::{Cart, Client, ClientConfig};

/// Carts to open.
const CARTS: usize = 10_000;

/// Concurrent buyers. Each has one request under way.
const BUYERS: usize = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7180".into());
    let client = Client::connect(ClientConfig::new([address])).await?;
    let begin = Instant::now();
    let mut buyers = tokio::task::JoinSet::new();
    for _ in 0..BUYERS {
        let client = client.clone();
        buyers.spawn(async move {
            for _ in 0..CARTS / BUYERS {
                Cart::new(&client).open(None, None).await?;
            }
            Ok::<(), boxoffice_client::Error>(())
        });
    }
    while let Some(buyer) = buyers.join_next().await {
        buyer??;
    }
    let took = begin.elapsed();
    println!("{CARTS} carts in {took:?}: {:.0} a second over one connection", CARTS as f64 / took.as_secs_f64());
    Ok(())
}
