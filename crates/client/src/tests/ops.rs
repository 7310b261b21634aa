//! The methods of the ops.

use boxoffice_wire::Op;

/// The sources with a method for each op, whose doc comment begins with the op's name.
const SOURCES: [&str; 4] = [
    include_str!("../cart.rs"),
    include_str!("../catalog.rs"),
    include_str!("../client.rs"),
    include_str!("../cluster.rs"),
];

/// Ops that the client sends by itself.
const BY_ITSELF: [Op; 3] = [Op::Hello, Op::Shards, Op::Unwatch];

#[test]
fn every_op_has_a_method() {
    let has_method = |op: &Op| SOURCES.iter().any(|source| source.contains(&format!("/// `{}`", op.name())));
    let without: Vec<Op> = Op::ALL.into_iter().filter(|op| !has_method(op)).collect();
    assert_eq!(without, BY_ITSELF);
}
