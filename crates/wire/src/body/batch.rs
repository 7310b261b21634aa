//! `batch`. Its items are read part by part ([`crate::request`]), so that an invalid one has a rejection of its own.

use boxoffice_declare::op;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::Empty;
use crate::{
    limits::{BATCH_ITEMS_MAX, REQUEST_ID_BYTES_MAX},
    rejection::FailRepr,
    reply::No,
    repr::{
        WireRepr,
        shape::{Each, Narrow, Shapes, described, named, shapes},
    },
    view::At,
};

/// Several commands at once, each with its own answer.
#[op(
    "batch",
    inside,
    roles(Desk),
    owner(OfItsItems),
    venues(Unlimited),
    batch(Alone),
    unknown(Refused),
    frame(Import),
    http(Post),
    weight(1),
    by_hand,
    answers(BatchAnswer)
)]
#[example(r#"{"items": [{"body": {"id": "rose", "name": "The Rose"}, "op": "venue.put", "rid": "i-1"}, {"body": {"id": "rose"}, "op": "venue.get"}]}"#)]
pub(crate) struct Batch {
    #[narrow(1..=BATCH_ITEMS_MAX)]
    items: Vec<BatchItem>,
}

shapes! {
    struct BatchItem {
        op: SmolStr,
        rid?: Option<SmolStr> = 1..=REQUEST_ID_BYTES_MAX,
        body?: Option<Empty> = Fields,
    }

    struct BatchAnswer {
        items: Vec<Empty> = (1..=BATCH_ITEMS_MAX, Each(BatchEnded)),
    }

    struct Granted {
        ok: Empty = Fields,
        at?: Vec<At>,
    }

    struct Refused {
        no: No,
    }

    struct Failed {
        fail: FailRepr,
    }
}

named! {
    /// The body of some op.
    struct Fields as Fields = json!({"type": "object"});
}

/// The schema of the verdict on an item of a batch.
struct BatchEnded;

impl Narrow for BatchEnded {
    fn narrow(self, _: Value, shapes: &mut Shapes) -> Value {
        shapes.named::<BatchEnded>("BatchEnded", |shapes| {
            let ended = [Granted::schema(shapes), Refused::schema(shapes), Failed::schema(shapes)];
            described(json!({"anyOf": ended}), &["How one item of a batch ended."])
        })
    }
}
