//! `boxoffice inspect`: the contents of a data directory, without a node.

use boxoffice_env::World;
use boxoffice_replication::inspect::{self, InspectedShard, Inspection};
use boxoffice_storage::history::Totals;

use boxoffice_core::{answer::CartState, state_map::ShardAudit};
use boxoffice_wire::{
    event_text::{EventText, event_text},
    repr::rfc3339,
};

use crate::{
    args::Inspect,
    failure::{Failure, Outcome},
    node_client::say,
};

/// Prints the contents of a data directory and, with a flag, the turns in its log.
pub fn run(args: &Inspect) -> Outcome {
    let wanted = args.turns.as_deref();
    let inspection = inspect::inspect(&World::standalone(), &args.data_dir, |turn| {
        let entity = turn.entity.to_string();
        if wanted.is_some_and(|wanted| wanted.is_empty() || wanted == entity) {
            let at = rfc3339(turn.at).unwrap_or_else(|| turn.at.0.to_string());
            say(&format!("shard {} entry {} at {at} {entity}", turn.shard, turn.position.index));
            for event in &turn.events {
                let EventText { word, sentence } = event_text(event);
                say(&format!("    {word}: {sentence}"));
            }
        }
    })
    .map_err(|error| Failure::Node(error.to_string()))?;
    print(&inspection);
    let violations = inspection.shards.iter().flat_map(|shard| &shard.audit.violations);
    match violations.count() {
        0 => Ok(()),
        count => Err(Failure::Refused(format!("{count} promises are broken; see above"))),
    }
}

fn print(inspection: &Inspection) {
    let identity = &inspection.identity;
    say(&format!("cluster {}  node {}  shards {}", identity.cluster, identity.node, identity.shards));
    let recovery = &inspection.recovery;
    say(&format!(
        "log: {} segments, {} records, {} bytes, last record {}, {}",
        recovery.segments,
        recovery.records,
        recovery.bytes,
        recovery.last_seq,
        if recovery.clean_stop { "sealed: all of it was on the disk" } else { "its last record is not sealed" }
    ));
    if let Some(torn_end) = &recovery.torn_end {
        say(&format!(
            "     the last record ({}) was not written whole: {} bytes at {} of {} would be cut off; it was never acknowledged",
            torn_end.seq,
            torn_end.bytes,
            torn_end.offset,
            torn_end.file.display()
        ));
    }
    for warning in &inspection.warnings {
        say(&format!("warning: {warning}"));
    }
    say(&format!("{:>6} {:>9} {:>9}  entities", "shard", "snapshot", "last"));
    let used =
        |shard: &&InspectedShard| shard.last > 1 || shard.left.entities > 0 || !shard.audit.violations.is_empty();
    for shard in inspection.shards.iter().filter(used) {
        say(&format!("{:>6} {:>9} {:>9}  {}", shard.shard, shard.snapshot, shard.last, entities(&shard.audit)));
        if shard.left.entities > 0 {
            say(&format!("{:>27} {}", "", left(&shard.left)));
        }
        for violation in &shard.audit.violations {
            say(&format!("       VIOLATION {violation}"));
        }
    }
}

fn entities(audit: &ShardAudit) -> String {
    let [active, checking_out, done, canceled, expired] = audit.carts;
    let seats = audit.seats;
    format!(
        "{} venues, {} sessions ({} free, {} held, {} sold, {} blocked), {} products, {} resources, {} \
         customers, carts: {active} active, {checking_out} checking out, {done} done, {canceled} canceled, {expired} expired",
        audit.venues,
        audit.sessions,
        seats.free,
        seats.held,
        seats.sold,
        seats.blocked,
        audit.products,
        audit.resources,
        audit.customers
    )
}

fn left(totals: &Totals) -> String {
    let ended = [CartState::Done, CartState::Canceled, CartState::Expired];
    let [done, canceled, expired] = ended.map(|state| totals.carts(state));
    format!(
        "in the store: {} entities, carts: {done} done, {canceled} canceled, {expired} expired; {} seats in {} orders",
        totals.entities, totals.order_seats, totals.orders
    )
}
