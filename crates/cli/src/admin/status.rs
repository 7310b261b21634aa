//! A node's status as a table.

use boxoffice_client::NodeStatus;

/// The table.
pub fn lines(status: &NodeStatus) -> Vec<String> {
    let NodeStatus { node, cluster, version, uptime_ms, durability, state, shards, .. } = status;
    let rates = &status.rates;
    let replicas =
        if durability.replicas == 1 { "1 replica".into() } else { format!("{} replicas", durability.replicas) };
    let mut lines = vec![
        format!("node {node} of cluster {cluster}: {state}, boxoffice {version}, up {}", span(*uptime_ms)),
        format!("durability    {replicas}, fsync {}", durability.fsync),
        format!(
            "now           {} connections, {} watchers, {} requests under way, {} actors",
            status.connections, status.watchers, status.under_way, status.actors
        ),
        format!(
            "a second      {:.1} requests ({:.1} ok, {:.1} no, {:.1} fail), {:.1} events, {:.1} fsyncs, {:.1} feed frames",
            rates.requests, rates.ok, rates.no, rates.fail, rates.events, rates.fsyncs, rates.feed_frames
        ),
        format!("kept          {} ended carts on disk only", status.carts_archived),
        format!(
            "payments      {} not settled yet; {} failed for good and to be seen to",
            status.payments_pending, status.payments_failed
        ),
        format!("shards        {}", roles(status)),
    ];
    if !status.upgrade.is_empty() {
        lines.push(format!("upgrade       {}", status.upgrade));
    }
    if !status.damage.is_empty() {
        lines.push(format!("damaged disk  {}; the node replaces it as soon as it may", status.damage));
    }
    if status.disk_is_slow {
        lines.push(
            "slow disk     it is clearly slower than those of the other nodes, so this node leads nothing".into(),
        );
    }
    if status.tombstones > 0 {
        lines.push(format!("unopened      {} carts that give back what refused guests held", status.tombstones));
    }
    if shards.is_empty() {
        return lines;
    }
    lines.push(String::new());
    lines.push(format!(
        "{:>5}  {:<9}  {:>6}  {:>10}  {:>8}  {:>12}",
        "shard", "role", "term", "applied", "entities", "distance"
    ));
    lines.extend(shards.iter().map(|shard| {
        format!(
            "{:>5}  {:<9}  {:>6}  {:>10}  {:>8}  {:>12}{}",
            shard.shard,
            shard.role,
            shard.term,
            shard.applied,
            shard.entities,
            format!("{} ms", shard.distance_ms),
            if shard.unconfirmed { "  time not confirmed" } else { "" }
        )
    }));
    lines
}

/// The number of shards by role: `32: 32 leader`.
fn roles(status: &NodeStatus) -> String {
    let mut roles: Vec<(&str, usize)> = Vec::new();
    for shard in &status.shards {
        match roles.iter_mut().find(|(role, _)| *role == shard.role) {
            Some((_, count)) => *count += 1,
            None => roles.push((&shard.role, 1)),
        }
    }
    let roles: Vec<String> = roles.into_iter().map(|(role, count)| format!("{count} {role}")).collect();
    let entities: u64 = status.shards.iter().map(|shard| shard.entities).sum();
    format!("{} ({}), {entities} entities", status.shards.len(), roles.join(", "))
}

/// A span for people: `3 d 4 h`, `3 h 12 min`, `12 min 5 s`, `5 s`.
fn span(span_ms: u64) -> String {
    let seconds = span_ms / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}
