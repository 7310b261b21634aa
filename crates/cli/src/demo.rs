//! `boxoffice demo`: a node of one's own with a theatre in it, and a purchase from it at this terminal.

use std::io::IsTerminal;

use crate::{
    args::{Book, Demo, FsyncWord, Reach},
    book,
    failure::Outcome,
    import,
    local_node::LocalNode,
};

/// The theatre of the demo.
const ROYAL: &str = include_str!("../../../config/examples/royal.json");
/// Its session.
const SESSION: &str = "hamlet-tonight";

/// Starts the node, fills it and sells from it; everything is gone afterwards.
pub fn run(args: &Demo) -> Outcome {
    let node = LocalNode::start(FsyncWord::Always)?;
    let reach = Reach { address: node.address.clone(), admin_token: None };
    import::text(ROYAL, &reach)?;
    println!(
        "\nSee every seat move in a second terminal:\n\n    boxoffice watch {SESSION} --address {}\n",
        node.address
    );
    let alone = args.yes || !std::io::stdin().is_terminal();
    let best = alone.then_some(2);
    book::run(&Book { session: SESSION.into(), seats: Vec::new(), best, yes: alone, reach })
}
