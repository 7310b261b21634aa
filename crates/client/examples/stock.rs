//! Sells programmes: creates a product, holds two units in a cart, changes the quantity to three, and buys them.
//!
//! ```text
//! boxoffice serve &
//! cargo run -p boxoffice-client --example stock -- 127.0.0.1:7180
//! ```

use boxoffice_client::{Cart, Client, ClientConfig, Currency, HoldPolicy, Id, Limits, Money, ProductDetails, recorded};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7180".into());
    let client = Client::connect(ClientConfig::new([address])).await?;
    let programme = Id::new("programme").ok_or("not a valid id")?;
    let details = ProductDetails {
        name: "Programme".into(),
        properties: vec![("pages".into(), "40".into())],
        blob: Vec::new(),
        price: Money { amount: 350, currency: Currency::new("EUR").ok_or("not a currency")? },
        stock: 100,
        hold: HoldPolicy::AtAdd,
        hold_ttl_ms: None,
        limits: Limits::default(),
        tax: None,
    };
    client.product_put(&programme, details).await?;

    let cart = Cart::new(&client);
    let line = match cart.hold_stock(&programme, 2).await {
        Ok(held) => held.value.lines[0].line,
        // Not enough units are free. The refusal says how many are.
        Err(error) if error.refusal().is_some_and(|no| no.name == "out_of_stock") => {
            println!("{error}; run this example against a fresh server");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    cart.set_quantity(line, 3).await?;
    let bought = cart.checkout(recorded("cash", "till 1"), None).await?.value;
    println!("order {} for {}", bought.id, bought.total.amount);
    println!("left: {:?}", client.product_get(&programme).await?.value.counts);
    Ok(())
}
