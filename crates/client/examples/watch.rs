//! Follows every change of a session's seats, across reconnects.
//!
//! ```text
//! cargo run -p boxoffice-client --example watch -- 127.0.0.1:7180 hamlet-tonight
//! ```

use boxoffice_client::{Change, Client, ClientConfig, Id};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7180".into());
    let session = arguments.next().unwrap_or_else(|| "hamlet-tonight".into());
    let session = Id::new(&session).ok_or("not a valid session id; use letters, digits and . _ : -")?;
    let client = Client::connect(ClientConfig::new([address])).await?;
    let mut watch = client.watch(&session);
    loop {
        let map = watch.next().await?;
        let counts = map.counts();
        print!("version {}: {} free, {} held, {} sold", map.version(), counts.free, counts.held, counts.sold);
        match map.change() {
            Change::All => println!(" of {}", map.seats()),
            Change::Seats { seats, .. } => println!("; now {seats:?}"),
        }
    }
}
