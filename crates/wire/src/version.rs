//! The minor version of the protocol, and the fields of requests that are newer than 1.0.
//!
//! A node refuses unknown fields in requests that change something. So a client sends a newer field only to a node whose
//! `hello` says that it knows the field.

use std::sync::LazyLock;

pub use crate::newer::Added;
use boxoffice_core::version::{ClusterVersion, NEXT, OFFERS, OLDEST_READ, newest as newest_read};

use crate::{
    Encoding, Op, Rejection,
    limits::PROTOCOL_VERSION,
    newer::Newer,
    raw::{self, Malformed},
};

/// The minor version of this program. A node without one in its hello has 0.
pub const PROTOCOL_MINOR: u32 = 6;

/// The first minor version whose envelope has `patience_ms`. The field may be left out of every request, so a client sends it only
/// to a node of this version, and refuses nothing otherwise.
pub const PATIENCE_MINOR: u32 = 4;

/// The last minor version of each version of the cluster: what came later waits until the cluster's version is raised, because a node
/// with an older program could not read the command.
const MINORS: &[(ClusterVersion, u32)] = &[(OLDEST_READ, 5), (OFFERS, PROTOCOL_MINOR)];

/// The minor version that all nodes of a cluster of this version speak.
pub fn minor_of(cluster: ClusterVersion) -> u32 {
    if cfg!(debug_assertions) && newest_read() == NEXT && cluster < NEXT {
        // In a rehearsal the fields of the last minor version are taken for those of the next one.
        return PROTOCOL_MINOR - 1;
    }
    let reached = MINORS.iter().filter(|(version, _)| cluster.has(*version));
    reached.map(|(_, minor)| *minor).max().unwrap_or(0)
}

/// Refuses what is newer than the minor version that all nodes of the cluster speak.
///
/// # Errors
/// The refusal, which names the field or the op.
pub fn check(minor: u32, encoding: Encoding, op: Op, body: &[u8]) -> Result<(), Rejection> {
    if minor >= PROTOCOL_MINOR {
        return Ok(());
    }
    let waits = |what: &str, since: u32| {
        Err(Rejection::bad_request(format!(
            "{what} comes with protocol {PROTOCOL_VERSION}.{since}, and the cluster speaks {PROTOCOL_VERSION}.{minor} until its \
             upgrade is finished"
        )))
    };
    let since = op.facts().since;
    // The op that ends the wait does not wait.
    if since > minor && op != Op::AdminFinishUpgrade {
        return waits(&format!("`{}`", op.name()), since);
    }
    match newest(encoding, op, body).filter(|added| added.minor > minor && op != Op::AdminFinishUpgrade) {
        Some(added) => waits(&format!("`{}` of `{}`", added.field, added.op.name()), added.minor),
        None => Ok(()),
    }
}

/// Every field of a request that is newer than 1.0, in the order of the ops. The fields of the ops' structs say it.
pub fn added() -> &'static [Added] {
    static ADDED: LazyLock<Vec<Added>> = LazyLock::new(|| {
        let of_op = |op: Op| Newer::of(op, op.facts().since, op.facts().newer);
        Op::ALL.into_iter().flat_map(of_op).collect()
    });
    &ADDED
}

/// The newest field in the body of a request, if any is newer than 1.0.
pub fn newest(encoding: Encoding, op: Op, body: &[u8]) -> Option<Added> {
    newest_of(added(), encoding, op, body)
}

fn newest_of(added: &[Added], encoding: Encoding, op: Op, body: &[u8]) -> Option<Added> {
    if op == Op::Batch {
        return newest_of_batch(added, encoding, body);
    }
    let of_op = added.iter().filter(|added| added.op == op);
    of_op.filter(|added| has(encoding, body, added.field).unwrap_or(false)).max_by_key(|added| added.minor).copied()
}

fn newest_of_batch(added: &[Added], encoding: Encoding, body: &[u8]) -> Option<Added> {
    let mut newest: Option<Added> = None;
    // An unreadable body needs no version. The node will say what is wrong with it.
    let _ = each(encoding, body, "items", &mut |item| {
        let (mut op, mut body) = (None, None);
        raw::fields(encoding, item, |name, value| {
            match name {
                "op" => op = raw::text(encoding, value).and_then(|name| Op::from_name(&name)),
                "body" => body = Some(value),
                _ => {}
            }
            Ok(())
        })?;
        if let (Some(op), Some(body)) = (op.filter(|op| *op != Op::Batch), body) {
            let found = newest_of(added, encoding, op, body);
            newest = newest.into_iter().chain(found).max_by_key(|added| added.minor);
        }
        Ok(())
    });
    newest
}

/// Whether there is a value at the end of a path.
fn has(encoding: Encoding, map: &[u8], path: &str) -> Result<bool, Malformed> {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let mut found = false;
    let mut look = |value: &[u8]| {
        found |= match rest {
            Some(rest) => has(encoding, value, rest)?,
            None => !raw::is_nothing(encoding, value),
        };
        Ok(())
    };
    match name.strip_suffix("[]") {
        Some(name) => each(encoding, map, name, &mut look)?,
        None => raw::fields(encoding, map, |field, value| if field == name { look(value) } else { Ok(()) })?,
    }
    Ok(found)
}

/// Calls `look` with the elements of the list that is this field of a map.
fn each(
    encoding: Encoding,
    map: &[u8],
    name: &str,
    look: &mut dyn FnMut(&[u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let elements = |field: &str, value| if field == name { raw::elements(encoding, value, &mut *look) } else { Ok(()) };
    raw::fields(encoding, map, elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWER: &[Added] = &[
        Added { op: Op::CartCheckout, field: "payment.recorded.amount", minor: 1 },
        Added { op: Op::CartCheckout, field: "expect", minor: 2 },
        Added { op: Op::CartHoldAll, field: "lines[].details", minor: 3 },
    ];

    #[track_caller]
    fn check(op: Op, body: &str, minor: Option<u32>) {
        let msgpack = rmp_serde::to_vec_named(&serde_json::from_str::<serde_json::Value>(body).expect("JSON"));
        for (encoding, body) in [(Encoding::Json, body.as_bytes()), (Encoding::MsgPack, &msgpack.expect("MessagePack"))]
        {
            let found = newest_of(NEWER, encoding, op, body);
            assert_eq!(found.map(|added| added.minor), minor, "{encoding:?}: {found:?}");
        }
    }

    #[test]
    fn what_the_cluster_does_not_speak_yet_is_refused_by_name() {
        let refused = |minor, op, body: &str| {
            super::check(minor, Encoding::Json, op, body.as_bytes()).err().map(|refusal| refusal.to_string())
        };
        let field = r#"{"token":"t","session":"hamlet","seats":[[0,1]],"note":"x"}"#;
        assert_eq!(refused(PROTOCOL_MINOR, Op::CartHoldSeats, field), None);
        assert_eq!(refused(4, Op::CartHoldSeats, &field.replace("note", "other")), None);
        assert_eq!(
            refused(4, Op::CartHoldSeats, field).as_deref(),
            Some(
                "bad request: `note` of `cart.hold_seats` comes with protocol 1.5, and the cluster speaks 1.4 until its upgrade is \
                 finished"
            )
        );
        assert!(
            refused(2, Op::AdminInvite, "{}").is_some_and(|why| why.contains("`admin.invite` comes with protocol 1.3"))
        );
        assert_eq!(refused(0, Op::AdminFinishUpgrade, "{}"), None);
        let items =
            r#"{"items":[{"op":"session.create","body":{"note":1}},{"op":"cart.hold_seats","body":{"note":"x"}}]}"#;
        assert!(refused(4, Op::Batch, items).is_some_and(|why| why.contains("`note` of `cart.hold_seats`")));
        assert_eq!((minor_of(OLDEST_READ), minor_of(newest_read())), (5, PROTOCOL_MINOR), "each version has its row");
        let typed = r#"{"seats":[],"types":["adult"]}"#;
        assert!(refused(5, Op::CartHoldSeats, typed).is_some_and(|why| why.contains("comes with protocol 1.6")));
        assert!(refused(5, Op::SessionChange, "{}").is_some_and(|why| why.contains("comes with protocol 1.6")));
    }

    #[test]
    fn the_newest_field_determines_the_required_version() {
        check(Op::CartCheckout, r#"{"payment":{"recorded":{"method":"card"}}}"#, None);
        check(Op::CartCheckout, r#"{"payment":{"recorded":{"amount":7}}}"#, Some(1));
        check(Op::CartCheckout, r#"{"payment":{"recorded":{"amount":7}},"expect":{}}"#, Some(2));
        check(Op::CartCheckout, r#"{"payment":{"gateway":{}},"expect":null}"#, None);
        check(Op::CartOpen, r#"{"expect":{}}"#, None);
        check(Op::CartHoldAll, r#"{"lines":[{"product":"a"},{"resource":"b","details":"c"}]}"#, Some(3));
        check(Op::CartHoldAll, r#"{"lines":7}"#, None);
        let items =
            r#"{"op":"cart.checkout","body":{"expect":1}},{"op":"cart.hold_all","body":{"lines":[{"details":"c"}]}}"#;
        check(Op::Batch, &format!(r#"{{"items":[{items}]}}"#), Some(3));
        check(Op::Batch, r#"{"items":[{"op":"cart.get"},{"op":"batch","body":{"items":[]}}]}"#, None);
        check(Op::Batch, r#"{"items":[7]}"#, None);
    }
}
