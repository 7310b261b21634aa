//! `boxoffice admin code`: puts a code, and shows how often it was used.

use boxoffice_client::{CodeView, Id};
use boxoffice_core::command::CodeDetails;
use serde_json::json;

use super::{as_json, print};
use crate::{
    args::{CodeAction, NodeArgs},
    failure::Outcome,
    ids, node_client,
    words::counted,
};

/// Carries out the action, and shows the code afterwards.
pub(super) fn run(node_args: &NodeArgs, action: &CodeAction) -> Outcome {
    let code_of = |code: &str| ids::id_of("code", code);
    node_client::block_on(async {
        let client = node_args.connect().await?;
        let (found, json) = match action {
            CodeAction::Put { code, group, uses, ended, by_order } => {
                let (group, uses) = (ids::id_of("group", group)?, *uses);
                let details = CodeDetails { group, uses, ended: *ended, by_order: *by_order };
                (client.code_put(&code_of(code)?, details).await, false)
            }
            CodeAction::Get { code, json } => (client.code_get(&code_of(code)?).await, *json),
        };
        let view = found.map_err(|error| node_args.failure(error))?.value;
        print(&[if json { as_json(&object(&view)) } else { line(&view) }]);
        Ok(())
    })
}

fn line(CodeView { group, uses, ended, by_order, held, sold }: &CodeView) -> String {
    let ended = if *ended { ", ended" } else { "" };
    let of = if *by_order { "order" } else { "use" };
    format!("a code of {group}: {}, {held} in carts, {sold} bought with{ended}", counted(u64::from(*uses), of))
}

fn object(view: &CodeView) -> serde_json::Value {
    let CodeView { group, uses, ended, by_order, held, sold } = view;
    let group: &Id = group;
    json!({ "group": group.as_str(), "uses": uses, "ended": ended, "by_order": by_order, "held": held, "sold": sold })
}
