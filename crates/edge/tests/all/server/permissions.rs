//! The roles of every op, written down independently of the program.

use boxoffice_wire::Op;

/// Whether a caller with this role may use an op. `anonymous` is a caller without a role.
pub(crate) fn is_allowed(op: Op, role: &str) -> bool {
    may(op).split(' ').any(|word| word == role)
}

/// The roles that may use an op, as in docs/reference/protocol.md. `hello` needs no role.
fn may(op: Op) -> &'static str {
    match op.name() {
        "hello" => "anonymous watch sell desk report admin",
        "venue.get"
        | "venue.search"
        | "hall.get"
        | "title.get"
        | "title.search"
        | "session.get"
        | "session.search"
        | "session.map"
        | "product.get"
        | "resource.get"
        | "resource.is_available"
        | "resource.bookings"
        | "resource.free_slots"
        | "shards"
        | "watch"
        | "unwatch" => "watch sell desk report admin",
        of_carts if of_carts.starts_with("cart.") => "sell desk admin",
        "order.get" | "customer.purchases" => "sell desk report admin",
        "venue.put"
        | "hall.put"
        | "title.put"
        | "session.create"
        | "session.block"
        | "session.unblock"
        | "session.change"
        | "session.cancel"
        | "product.put"
        | "code.put"
        | "resource.put"
        | "resource.reserve"
        | "resource.cancel"
        | "resource.move"
        | "order.refund"
        | "batch"
        | "admin.release"
        | "admin.checkout_cancel"
        | "admin.settle" => "desk admin",
        "admin.audit" | "admin.history" | "code.get" => "desk report admin",
        "admin.status" | "admin.nodes" => "report admin",
        "admin.join"
        | "admin.invite"
        | "admin.drain"
        | "admin.undrain"
        | "admin.remove"
        | "admin.replace"
        | "admin.finish_upgrade"
        | "admin.map"
        | "admin.backup"
        | "admin.backup_read"
        | "admin.keys"
        | "admin.key_create"
        | "admin.key_revoke" => "admin",
        other => panic!("no roles are listed for {other}"),
    }
}
