//! Each optional field of each op, absent, `null` and with its default: one request, and one answer of a node.

use std::collections::BTreeSet;

use boxoffice_wire::{
    Encoding, Op,
    schema::{self, HttpMethods, components},
};
use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;

use crate::{api::test_node::TestNode, http_client::HttpClient, server::client::Client};

#[path = "../../../../wire/src/tests/common/optional.rs"]
mod optional;

use optional::{OptionalField, optional_fields};

/// Cases that run at the same time, each on a node of its own.
const NODES: usize = 4;

/// An optional field in an example of an op.
struct Case {
    op: Op,
    /// The number of the example.
    number: usize,
    field: OptionalField,
}

/// The fields of the examples of these ops, each field once.
fn cases(ops: impl Fn(Op) -> bool) -> Vec<Case> {
    let mut cases = Vec::new();
    // What a change of a session leaves out stays as it is, which is not the default.
    for op in Op::ALL.into_iter().filter(|op| ops(*op) && *op != Op::SessionChange) {
        let schema = schema::of(op);
        let mut seen = BTreeSet::new();
        for (number, example) in schema.examples.iter().enumerate() {
            let fields = optional_fields(components(), &schema.request, example);
            let fresh = fields.into_iter().filter(|field| seen.insert(field.place.clone()));
            cases.extend(fresh.map(|field| Case { op, number, field }));
        }
    }
    cases
}

/// Runs the examples that change something, in their order, up to this one.
async fn run_before(node: &TestNode, op: Op, number: usize) {
    let mut http_client = HttpClient::connect(node.address).await;
    for before in Op::ALL {
        let schema = schema::of(before);
        let count = if before == op { number } else { schema.examples.len() };
        for (number, example) in schema.examples.iter().take(count).enumerate() {
            if before.changes() && schema.methods != HttpMethods::None {
                http_client.command(before.name(), &format!("{} {number}", before.name()), example).await;
            }
        }
        if before == op {
            return;
        }
    }
}

/// The answer to a request over a connection of its own, without positions in the log, which a repeat does not have. An answer in
/// MessagePack that holds bytes, as maps do, is its frame.
async fn answer(node: &TestNode, encoding: Encoding, op: Op, body: &Value) -> Value {
    let mut client = Client::connect(node.address, encoding).await;
    let rid = op.changes().then_some("the only request");
    client.send_frame(&client.request(7, op, rid, None, body)).await;
    let frame = client.frame().await;
    let mut answer: Value = match encoding {
        Encoding::Json => serde_json::from_slice(&frame).expect("JSON"),
        Encoding::MsgPack => rmp_serde::from_slice(&frame).unwrap_or_else(|_| format!("{frame:?}").into()),
    };
    for at in answer.get_mut("at").and_then(Value::as_array_mut).into_iter().flatten() {
        at.as_object_mut().expect("an entity with its version").remove("position");
    }
    answer
}

/// Sends all variants of a field in both encodings. A change has one request id, so all but the first are repeats. Returns whether
/// the request was granted, and what is wrong.
async fn compare(node: &TestNode, Case { op, number: _, field }: &Case) -> (bool, Option<String>) {
    let mut granted = false;
    for encoding in [Encoding::Json, Encoding::MsgPack] {
        let variants = [("null", Some(&field.null)), ("its default", field.default.as_ref())];
        for (what, body) in variants {
            let Some(body) = body else { continue };
            // What orders owe to others comes a moment later, so a read may change between two requests.
            for left in (0..5).rev() {
                let expected = answer(node, encoding, *op, &field.absent).await;
                let found = answer(node, encoding, *op, body).await;
                granted = granted || expected.get("ok").is_some();
                if expected == found {
                    break;
                }
                if left == 0 || op.changes() {
                    let (op, place) = (op.name(), &field.place);
                    return (granted, Some(format!("{op} {place} = {what}: {found}, and absent: {expected}")));
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
    (granted, None)
}

/// The figures of all cases.
fn conclude(results: &[(String, bool, Option<String>)], granted_min: usize) {
    let wrong: Vec<&String> = results.iter().filter_map(|(_, _, wrong)| wrong.as_ref()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let granted = results.iter().filter(|(_, granted, _)| *granted).count();
    println!("{} fields, {granted} of them in requests that are granted", results.len());
    let refused: Vec<&String> = results.iter().filter(|(_, granted, _)| !granted).map(|(name, _, _)| name).collect();
    assert!(granted >= granted_min, "only {granted} of {} are granted; refused are {refused:?}", results.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_answered_alike_with_a_field_absent_null_and_its_default() {
    let results = stream::iter(cases(Op::changes)).map(|case| async move {
        let node = TestNode::open().await;
        run_before(&node, case.op, case.number).await;
        let (granted, wrong) = compare(&node, &case).await;
        node.close().await;
        (format!("{} {}", case.op.name(), case.field.place), granted, wrong)
    });
    conclude(&results.buffer_unordered(NODES).collect::<Vec<_>>().await, 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_is_answered_alike_with_a_field_absent_null_and_its_default() {
    let node = TestNode::open().await;
    let last = Op::ALL.into_iter().last().expect("there are ops");
    run_before(&node, last, usize::MAX).await;
    let mut results = Vec::new();
    for case in cases(|op| !op.changes()) {
        let (granted, wrong) = compare(&node, &case).await;
        results.push((format!("{} {}", case.op.name(), case.field.place), granted, wrong));
    }
    node.close().await;
    conclude(&results, 30);
}
