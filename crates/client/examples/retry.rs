//! Repeats a command with an unknown outcome with the same request id. That is safe even from another program.
//!
//! Kill the server while the example runs and start it again. No seat is bought twice, and none is lost.
//!
//! ```text
//! cargo run -p boxoffice-client --example retry -- 127.0.0.1:7180 hamlet-tonight
//! ```

use std::time::Duration;

use boxoffice_client::{BestWish, Cart, Client, ClientConfig, Error, Id, recorded};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7180".into());
    let session = arguments.next().unwrap_or_else(|| "hamlet-tonight".into());
    let session = Id::new(&session).ok_or("not a valid session id; use letters, digits and . _ : -")?;
    let config = ClientConfig { deadline: Duration::from_secs(2), ..ClientConfig::new([address]) };
    let client = Client::start(config)?;

    // A shop that must survive its own crash stores the token and the request ids before it sends anything.
    let cart = Cart::new(&client);
    let (hold, buy) = (client.new_request_id(), client.new_request_id());
    println!("cart token {}, request ids {hold} and {buy}", cart.token_text());

    let wish = BestWish { count: 2, category: None, section: None, accessible: 0, split: false };
    loop {
        match cart.with_request_id(&hold).hold_best(&session, wish.clone()).await {
            Ok(held) => break println!("held {:?}", held.value.lines),
            // The client has already retried until its deadline. The example continues beyond it.
            Err(error @ (Error::Unknown(_) | Error::Failed(_))) => println!("{error}; trying again"),
            Err(error) => return Err(error.into()),
        }
    }
    loop {
        match cart.with_request_id(&buy).checkout(recorded("card", "4711"), None).await {
            Ok(bought) => break println!("bought: order {}", bought.value.id),
            Err(error @ (Error::Unknown(_) | Error::Failed(_))) => println!("{error}; trying again"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
