//! The tables of `docs/reference/access.md`, generated from the permission table, and the table against the requests.

use std::fmt::Write as _;

use boxoffice_core::command::{CartCommand, Command};
use serde_json::json;

use super::page_tables;
use crate::{
    Call, Encoding, Op, Request,
    feed_kind::FeedKind,
    path::Path,
    permission::{BatchRule, OwnerRule, Permission, VenueRule},
    schema,
};

const BEGIN: &str = "<!-- The tables from here on are made of the permission table in crates/wire. -->\n";
const END: &str = "<!-- The tables end here. -->\n";

fn roles(permission: Permission) -> String {
    let roles = permission.roles.iter().map(|role| format!("`{}`", role.name()));
    let or = permission.or.iter().map(|exception| exception.words().to_owned());
    let all: Vec<String> = roles.chain(or).collect();
    if all.is_empty() { "none".into() } else { all.join(" or ") }
}

/// The expected tables.
fn drawn() -> String {
    let mut text = String::from(BEGIN);
    text.push_str(
        "\n## Ops\n\n| op | role | belongs to | limited keys | in a batch | weight |\n|---|---|---|---|---|---|\n",
    );
    for op in Op::ALL {
        let row = op.permission();
        let (roles, owner, venues) = (roles(row), row.owner.words(), row.venues.words());
        let (batch, weight) = (row.batch.words(), op.weight());
        writeln!(text, "| `{}` | {roles} | {owner} | {venues} | {batch} | {weight} |", op.name()).expect("text");
    }
    text.push_str("\n## Feeds\n\n| `watch` of | as | role | belongs to | limited keys |\n|---|---|---|---|---|\n");
    for kind in FeedKind::ALL {
        let row = kind.permission();
        let (roles, owner, venues) = (roles(row), row.owner.words(), row.venues.words());
        writeln!(text, "| {} | `{}` | {roles} | {owner} | {venues} |", kind.name(), kind.read().name()).expect("text");
    }
    text.push_str("\n## Paths\n\n| path | clients' port | operators' port | price |\n|---|---|---|---|\n");
    for path in Path::ALL {
        let (clients, operators) = (path.at_clients_port().words(), path.at_operators_port().words());
        let price = path.price().words();
        writeln!(text, "| `{}` | {clients} | {operators} | {price} |", path.route()).expect("text");
    }
    text.push('\n');
    text.push_str(END);
    text
}

#[test]
fn the_access_page_has_a_row_for_every_op_feed_and_path() {
    page_tables::check("access.md", (BEGIN, END), &drawn());
}

/// The calls of an op's examples.
fn calls(op: Op) -> Vec<Call> {
    let rid = op.changes().then_some("r");
    let call = |body: &serde_json::Value| {
        let body = body.to_string();
        let request = Request::from_parts(Encoding::Json, 1, op, rid, None, Some(body.as_bytes()));
        request.unwrap_or_else(|why| panic!("{} {body}: {why}", op.name())).call
    };
    schema::of(op).examples.iter().map(call).collect()
}

#[test]
fn an_item_of_a_batch_is_what_the_table_allows() {
    for op in Op::ALL {
        let body = schema::of(op).examples.first().expect("an example");
        let rid = if op.changes() { json!("r") } else { json!(null) };
        let batch = json!({"items": [{"op": op.name(), "rid": rid, "body": body}]}).to_string();
        let read = Request::from_parts(Encoding::Json, 1, Op::Batch, None, None, Some(batch.as_bytes()));
        let Ok(Request { call: Call::Batch(items), .. }) = read else { panic!("{}: {read:?}", op.name()) };
        let expected = match op.permission().batch {
            BatchRule::Item => None,
            BatchRule::Alone => Some(101),
        };
        assert_eq!(items[0].as_ref().err().map(|why| why.code()), expected, "{}: {items:?}", op.name());
    }
}

/// A rule about the lines or the owner of a cart needs a command of a cart, and so on. Otherwise the edge would refuse it to
/// everyone, or have nothing to check.
#[test]
fn the_rules_fit_the_commands_of_their_ops() {
    for op in Op::ALL {
        let row = op.permission();
        for call in calls(op) {
            let command = if let Call::Command(command) = &call { Some(command) } else { None };
            let is_cart = matches!(command, Some(Command::Cart(..)));
            let is_purchases = matches!(command, Some(Command::Customer(..)));
            let is_hold = matches!(command, Some(Command::Cart(_, CartCommand::Hold { .. })));
            let is_by_id = matches!(
                command,
                Some(Command::Cart(
                    _,
                    CartCommand::Order
                        | CartCommand::Refund { .. }
                        | CartCommand::Revoke { .. }
                        | CartCommand::CancelCheckout { by_operator: true }
                        | CartCommand::Settle { .. }
                        | CartCommand::Audit
                ))
            );
            let fits = match row.owner {
                OwnerRule::Unowned => (!is_cart || is_by_id) && (!is_purchases || op == Op::AdminAudit),
                OwnerRule::OfItsItems => matches!(call, Call::Batch(_)),
                OwnerRule::CartToken | OwnerRule::CartTokenAndCustomer => is_cart && !is_by_id,
                OwnerRule::Customer => is_purchases,
                OwnerRule::OrdersCustomer => {
                    matches!(call, Call::NamedOrder(_)) || matches!(command, Some(Command::Cart(_, CartCommand::Order)))
                }
            };
            assert!(fits, "{}: {:?} and {call:?}", op.name(), row.owner);
            let fits = match row.venues {
                VenueRule::Unlimited | VenueRule::Refused => true,
                VenueRule::OfEntity => {
                    command.is_some()
                        || matches!(
                            call,
                            Call::History { .. } | Call::AsOf { .. } | Call::AuditNode | Call::AuditWithCarts(_)
                        )
                }
                VenueRule::OfLinesAsked => is_hold,
                VenueRule::OfCartLines => (is_cart && !is_hold) || matches!(call, Call::NamedOrder(_)),
            };
            assert!(fits, "{}: {:?} and {call:?}", op.name(), row.venues);
        }
    }
}

#[test]
fn every_example_of_a_feed_is_of_the_kind_of_its_entity() {
    for call in calls(Op::Watch) {
        match call {
            Call::Watch { kind, entity, .. } => assert_eq!(FeedKind::of(&entity), Some(kind), "{entity}"),
            Call::WatchCounts { .. } => {}
            other => panic!("no watch: {other:?}"),
        }
    }
}
