//! The client protocol in both encodings, credentials, and the messages of a payment gateway.

use std::fmt::Debug;

use boxoffice_core::{id::Id, layout::LAYOUT_SEATS_MAX, payment::PaymentStep, time::Timestamp};
use boxoffice_wire::{
    Encoding, Request,
    access::{KeyList, ShownKey},
    call::Call,
    city::CityPage,
    cluster::ClusterStatus,
    customer,
    feed::{
        CartSnapshot, CountsSnapshot, ProductSnapshot, PurchasesSnapshot, ResourceSnapshot, Snapshot, SnapshotBody,
    },
    joining,
    limits::{BATCH_SEATS_MAX, DEADLINE_MS_MAX, FRAME_BYTES_MAX},
    payment::GatewayAnswer,
    reply::{
        Available, BookingPage, CountsWatching, Event, FreeSlots, FromBody, RawEvent, RawVerdict, ServerFrame,
        SessionPage, ThreeStates, TitlePage, Watching,
    },
    status::{BackupPiece, BackupPlaces, HistoryPage, NodeAudit, NodeStatus},
    view::{
        CartAudit, CartView, CustomerAudit, HallView, Held, MapView, Order, ProductAudit, ProductView, PurchasesPage,
        RefundRecord, ResourceAudit, ResourceView, SessionAudit, SessionView, TitleView, VenueView, VenuesPage,
    },
    webhook::{self, WebhookRefusal},
};
use serde::Serialize;

use crate::property::{Bound, bounded, whole};

/// A frame of many short values takes many times its length: an empty field of a list element is one byte, and its place in
/// memory is up to 200.
const FRAME: Bound = Bound { base: 64 * 1024, per_byte: 256 };

/// The op whose layouts are written as runs of seats and have a place in memory for each seat.
const HALL: &[u8] = b"hall.put";

/// Memory for a frame with such an op: the seats of a batch, and the layout that is one too many.
const HALLS: Bound = Bound { base: (BATCH_SEATS_MAX as usize + LAYOUT_SEATS_MAX) * 32, per_byte: 256 };

/// The secret of credentials and webhooks.
const SECRET: &[u8] = b"a secret of thirty-two bytes, or more";

pub(crate) fn request_json(input: &[u8]) {
    request(Encoding::Json, input);
}

pub(crate) fn request_msgpack(input: &[u8]) {
    request(Encoding::MsgPack, input);
}

fn request(encoding: Encoding, input: &[u8]) {
    let bound = if input.windows(HALL.len()).any(|part| part == HALL) { HALLS } else { FRAME };
    let Ok(request) = bounded(input, bound, || Request::read(encoding, input)) else { return };
    assert!(request.deadline_ms <= DEADLINE_MS_MAX && request.patience_ms >= request.deadline_ms);
    match &request.call {
        Call::Command(_) => assert_eq!(request.key.is_some(), request.op.changes(), "a key is for what changes"),
        Call::Batch(items) => {
            for item in items.iter().flatten() {
                assert_eq!(item.key.is_some(), item.op.changes(), "a key is for what changes");
            }
        }
        _ => {}
    }
    complete(encoding, input, |bytes| Request::read(encoding, bytes).is_ok());
    // An item may be refused for a duplicate field. Sorting leaves one of the two.
    if let Call::Batch(items) = &request.call
        && items.iter().any(Result::is_err)
    {
        return;
    }
    // The order of fields and the way a value is written have no meaning.
    if let Some(sorted) = sorted(encoding, input).filter(|sorted| sorted.len() <= FRAME_BYTES_MAX) {
        assert_eq!(Request::read(encoding, &sorted), Ok(request), "with its fields sorted");
    }
}

/// Nothing may follow a frame, and its last byte may not be missing.
fn complete(encoding: Encoding, input: &[u8], accepts: impl Fn(&[u8]) -> bool) {
    match encoding {
        Encoding::Json => whole(input.trim_ascii_end(), b"}", accepts),
        Encoding::MsgPack => whole(input, &[0xc0], accepts),
    }
}

/// The same value with the fields of all maps in the order of their names.
fn sorted(encoding: Encoding, input: &[u8]) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Json => {
            let value: serde_json::Value = serde_json::from_slice(input).ok()?;
            serde_json::to_vec(&value).ok()
        }
        Encoding::MsgPack => {
            let value: serde_json::Value = rmp_serde::from_slice(input).ok()?;
            rmp_serde::to_vec(&value).ok()
        }
    }
}

pub(crate) fn server_frame_json(input: &[u8]) {
    server_frame(Encoding::Json, input);
}

pub(crate) fn server_frame_msgpack(input: &[u8]) {
    server_frame(Encoding::MsgPack, input);
}

fn server_frame(encoding: Encoding, input: &[u8]) {
    let Ok(frame) = bounded(input, FRAME, || ServerFrame::read(encoding, input)) else { return };
    complete(encoding, input, |bytes| ServerFrame::read(encoding, bytes).is_ok());
    match frame {
        ServerFrame::Answer(_, verdict, _) => answer(encoding, input, verdict),
        ServerFrame::Feed(_, event) => {
            feed::<Snapshot>(encoding, input, event);
            feed::<CountsSnapshot>(encoding, input, event);
            feed::<ProductSnapshot>(encoding, input, event);
            feed::<ResourceSnapshot>(encoding, input, event);
            feed::<CartSnapshot>(encoding, input, event);
            feed::<PurchasesSnapshot>(encoding, input, event);
        }
        ServerFrame::Notice(_) | ServerFrame::Hello(_) | ServerFrame::Other => {}
    }
}

/// Reads an answer as that of every op, because the server may answer anything.
fn answer(encoding: Encoding, input: &[u8], verdict: RawVerdict<'_>) {
    macro_rules! read {
        ($($answer:ty)+) => {$( read::<$answer>(encoding, input, verdict); )+};
    }
    read! {
        VenueView VenuesPage HallView TitleView SessionView MapView ProductView ResourceView CartView Held Order
        RefundRecord PurchasesPage SessionAudit CartAudit ProductAudit ResourceAudit CustomerAudit SessionPage CityPage
        TitlePage BookingPage Available FreeSlots ThreeStates NodeStatus NodeAudit HistoryPage BackupPlaces BackupPiece ClusterStatus KeyList
        Watching CountsWatching
    }
}

fn read<T: FromBody>(encoding: Encoding, input: &[u8], verdict: RawVerdict<'_>) {
    let _ = bounded(input, FRAME, || verdict.read::<T>(encoding));
}

/// The encoding of a feed's event decodes to the same event.
fn feed<S>(encoding: Encoding, input: &[u8], event: RawEvent<'_>)
where
    S: SnapshotBody + PartialEq + Debug,
    S::Delta: PartialEq + Debug,
{
    let Ok(said) = bounded(input, FRAME, || event.read::<S>(encoding)) else { return };
    let frame = match &said {
        Event::Snapshot(snapshot) => framed(encoding, "snapshot", snapshot),
        Event::Delta(delta) => framed(encoding, "delta", delta),
        Event::Ended(_) | Event::Stale(_) => return,
    };
    let again = match ServerFrame::read(encoding, &frame) {
        Ok(ServerFrame::Feed(1, event)) => event.read::<S>(encoding),
        other => panic!("an event was encoded as {other:?}"),
    };
    assert_eq!(again, Ok(said));
}

fn framed(encoding: Encoding, name: &'static str, body: &impl Serialize) -> Vec<u8> {
    let (name, body) = match encoding {
        Encoding::Json => (serde_json::to_vec(name).expect("a name"), serde_json::to_vec(body).expect("a body")),
        Encoding::MsgPack => (rmp_serde::to_vec(name).expect("a name"), rmp_serde::to_vec_named(body).expect("a body")),
    };
    match encoding {
        Encoding::Json => [b"{\"feed\":1,", &name[..], b":", &body, b"}"].concat(),
        Encoding::MsgPack => [&[0x82, 0xa4][..], b"feed", &[1], &name, &body].concat(),
    }
}

/// Keys, customers' tokens and joining nodes' proofs, as text.
pub(crate) fn credentials(input: &[u8]) {
    const BOUND: Bound = Bound { base: 1024, per_byte: 2 };
    let Ok(text) = str::from_utf8(input) else { return };
    if let Some(key) = bounded(input, BOUND, || ShownKey::read(text)) {
        assert_eq!(key.written(), text);
    }
    if let Some(proof) = bounded(input, BOUND, || joining::read(text)) {
        assert_eq!(joining::written(&proof), text);
    }
    // Only the text that the secret makes is a token.
    let customer = Id::new("ada").expect("an id");
    let is_token = bounded(input, BOUND, || customer::is_token(SECRET, &customer, text));
    assert_eq!(is_token, customer::token(SECRET, &customer) == text);
    let is_token = bounded(input, BOUND, || joining::is_token(SECRET, text));
    assert_eq!(is_token, joining::token(SECRET) == text);
}

/// A webhook: the signature header up to the first line end, then the body.
pub(crate) fn webhook(input: &[u8]) {
    const BOUND: Bound = Bound { base: 4096, per_byte: 64 };
    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    let (header, body) = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (&input[..0], input),
    };
    // Without the secret no body is read.
    if let Ok(header) = str::from_utf8(header) {
        let verified = bounded(input, BOUND, || webhook::verify(&[SECRET], Some(header), body, NOW));
        let unsigned = matches!(verified, Err(WebhookRefusal::Malformed | WebhookRefusal::BadSignature));
        assert!(unsigned, "{verified:?} for {header:?}");
    }
    // With the secret only the body counts. A changed body is not signed.
    let signature = webhook::sign(SECRET, NOW, body);
    let verified = bounded(input, BOUND, || webhook::verify(&[SECRET], Some(&signature), body, NOW));
    assert!(matches!(verified, Ok(_) | Err(WebhookRefusal::BadBody(_))), "{verified:?}");
    let changed = [body, b" "].concat();
    assert_eq!(webhook::verify(&[SECRET], Some(&signature), &changed, NOW), Err(WebhookRefusal::BadSignature));
}

/// The answers of a payment gateway.
pub(crate) fn gateway_answer(input: &[u8]) {
    const BOUND: Bound = Bound { base: 4096, per_byte: 16 };
    let Ok(answer) = bounded(input, BOUND, || GatewayAnswer::read(input)) else { return };
    let written = serde_json::to_vec(&answer).expect("an answer is JSON");
    assert_eq!(GatewayAnswer::read(&written).as_ref(), Ok(&answer));
    whole(input.trim_ascii_end(), b"}", |bytes| GatewayAnswer::read(bytes).is_ok());
    for step in [PaymentStep::Authorize, PaymentStep::Capture, PaymentStep::Void, PaymentStep::Refund(1)] {
        // The outcome of a step can be written again, because the gateway's texts were made fit to be kept.
        if let Ok(outcome) = answer.clone().outcome(step) {
            let said = GatewayAnswer::of(&outcome);
            assert_eq!(said.outcome(step), Ok(outcome));
        }
    }
}
