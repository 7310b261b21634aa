//! `boxoffice demo`: a node of one's own with a theatre, a shop and a room in it, other buyers, and a purchase from it at
//! this terminal.

mod buyers;

use std::io::IsTerminal;

use boxoffice_client::{Client, Id};
use boxoffice_load::LocalNode;

use crate::{
    args::{Book, Demo, FsyncWord, Reach},
    book,
    draw::counts,
    failure::{Failure, Outcome},
    import,
    load::launch,
    reach::{self, say},
    words::counted,
};

/// The theatre of the demo.
const ROYAL: &str = include_str!("../../../config/examples/royal.json");
/// The shop, the room, and places without seats.
const CORNER: &str = include_str!("../../../config/examples/corner.json");
/// The session that is sold at this terminal.
const SESSION: &str = "hamlet-tonight";

/// Starts the node, fills it and sells from it; everything is gone afterwards.
pub fn run(args: &Demo) -> Outcome {
    let node = LocalNode::start(&launch(FsyncWord::Always, String::new())?)?;
    let reach = Reach { address: node.address.clone(), admin_token: None };
    import::text(ROYAL, &reach)?;
    import::text(CORNER, &reach)?;
    say("\nOther buyers come first:");
    for line in reach::block_on(buyers::buy(&reach))? {
        say(&format!("  {line}"));
    }
    say("\nWhat is for sale now:");
    for line in reach::block_on(offer(&reach))? {
        say(&format!("  {line}"));
    }
    let address = &node.address;
    println!(
        "\nSee it move in a second terminal:\n\n    boxoffice watch {SESSION} --address {address}\n    boxoffice watch \
         product/{} --address {address}\n    boxoffice admin history session/{SESSION} --address {address}\n",
        buyers::PRODUCT
    );
    let alone = args.yes || !std::io::stdin().is_terminal();
    let best = alone.then_some(2);
    book::run(&Book { session: SESSION.into(), seats: Vec::new(), best, yes: alone, reach })
}

/// The theatre, the shop and the room, a line each.
async fn offer(reach: &Reach) -> Result<Vec<String>, Failure> {
    let client = reach.connect().await?;
    let failure = |error| reach.failure(error);
    let mut lines = Vec::new();
    for session in [SESSION, buyers::AREA_SESSION] {
        let view = client.session_get(&id(session)).await.map_err(failure)?.value;
        lines.push(format!("theatre  {session}: {}", counts(&view.counts)));
        lines.extend(view.area_counts.iter().map(|area| {
            format!("         {session}, {}: {} free, {} held, {} sold", area.area, area.free, area.held, area.sold)
        }));
    }
    lines.push(shop(&client).await.map_err(failure)?);
    let room = client.resource_get(&id(buyers::RESOURCE)).await.map_err(failure)?.value;
    lines.push(format!("room     {}: {}", room.details.name, counted(room.bookings, "booking")));
    Ok(lines)
}

async fn shop(client: &Client) -> Result<String, boxoffice_client::Error> {
    let product = client.product_get(&id(buyers::PRODUCT)).await?.value;
    let stock = product.counts;
    Ok(format!("shop     {}: {} free, {} held, {} sold", product.details.name, stock.free, stock.held, stock.sold))
}

fn id(text: &str) -> Id {
    Id::new(text).expect("ids of the demo are ids")
}
