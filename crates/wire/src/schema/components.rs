//! The shapes that bodies and answers are made of, by name.

use boxoffice_core::{
    answer::{
        At, CartAudit, CartView, HallView, Held, HoldView, LineView, MapView, SaleView, SeatCounts, SessionAudit,
        SessionEntry, SessionView, VenueView,
    },
    id::{HoldId, ID_BYTES_MAX},
    layout::{LABEL_BYTES_MAX, LAYOUT_SEATS_MAX, Layout, POINT_MAX},
    money::{Money, PRICE_MAX},
};
use serde_json::{Map, Value, json};

use super::build::{
    about, component, count, either, flag, id, lines, list, map, name, needed, number, object, one_of, optional, pair,
    some, text, time, whole, words,
};
use crate::{
    FailKind,
    body::{PaymentBody, Position, RecordedPayment},
    form::Of,
    form_answer::HallEntryForm,
    form_order::OrderView,
    hello::Durability,
    layout::{RowBody, RunBody, SeatBody},
    limits::{CATEGORIES_MAX, PAYMENT_TEXT_BYTES_MAX},
    reply::{No, SessionPage, ThreeStates, Watching},
    status::{CartTotals, CurrencyTotal, NodeAudit, NodeStatus, Rates, SeatTotals, ShardStatus},
};

/// All of them.
pub(super) fn components() -> Value {
    let groups = [values(), layouts(), catalogue(), carts(), audits(), node(), endings()];
    Value::Object(groups.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema)).collect())
}

type Group = Vec<(&'static str, Value)>;

fn values() -> Group {
    let hexadecimal = |words| about(json!({"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}), words);
    let entity = format!("^((venue|session)/[A-Za-z0-9._:-]{{1,{ID_BYTES_MAX}}}|cart/[0-9a-fA-F]{{32}})$");
    let money =
        object::<Of<Money>>([needed("amount", whole(-(1 << 53), 1 << 53)), needed("currency", component("Currency"))]);
    let price = object::<Of<Money>>([needed("amount", whole(0, PRICE_MAX)), needed("currency", component("Currency"))]);
    let id_pattern = format!("^[A-Za-z0-9._:-]{{1,{ID_BYTES_MAX}}}$");
    let position = object::<Position>([
        needed("lon", json!({"type": "number", "minimum": -180, "maximum": 180})),
        needed("lat", json!({"type": "number", "minimum": -90, "maximum": 90})),
    ]);
    let at = object::<Of<At>>([needed("entity", words()), needed("version", count()), needed("position", count())]);
    vec![
        ("Id", about(json!({"type": "string", "pattern": id_pattern}), "An id that the client chooses.")),
        ("Token", hexadecimal("A cart's token: 128 random bits that the client makes and keeps secret.")),
        ("CartId", hexadecimal("A cart: the first 16 bytes of its token's BLAKE3 hash.")),
        ("OrderId", hexadecimal("An order: the cart it came from.")),
        ("Entity", about(json!({"type": "string", "pattern": entity}), "`venue/…`, `session/…` or `cart/…`.")),
        ("Time", about(json!({"type": "string", "format": "date-time"}), "RFC 3339, from 1970 to 9999.")),
        ("Currency", about(json!({"type": "string", "pattern": "^[A-Z]{3}$"}), "An ISO 4217 code.")),
        ("Money", about(money, "An amount in minor units.")),
        ("Price", about(price, "The price of one seat in minor units.")),
        (
            "Prices",
            json!({
                "type": "object", "propertyNames": id(), "additionalProperties": component("Price"),
                "maxProperties": CATEGORIES_MAX, "description": "A price for each category, all in one currency.",
            }),
        ),
        ("Seat", about(pair(whole(0, 65_535)), "`[row, seat]`, counted from 0 in layout order.")),
        ("SeatState", one_of(&["free", "held", "sold", "blocked"])),
        ("Position", about(position, "Degrees.")),
        ("At", about(at, "A version that the answer rests on, and its place in the log (0 where not known).")),
    ]
}

fn layouts() -> Group {
    let point = || pair(whole(-i64::from(POINT_MAX), i64::from(POINT_MAX)));
    let number = || whole(i64::from(i32::MIN), i64::from(i32::MAX));
    let label = || name(LABEL_BYTES_MAX);
    let written_run = object::<RunBody>([
        optional("gap", whole(0, 65_535)),
        needed("count", whole(1, 65_535)),
        optional("first", number()),
        optional("step", number()),
        optional("names", list(label())),
        optional("category", id()),
        optional("accessible", flag()),
        optional("points", list(point())),
    ]);
    let written_seat = object::<SeatBody>([
        needed("label", label()),
        optional("category", id()),
        optional("accessible", flag()),
        optional("x", number()),
        optional("y", number()),
    ]);
    let written_row = object::<RowBody>([
        needed("label", label()),
        optional("section", id()),
        optional("category", id()),
        optional("count", whole(1, 65_535)),
        optional("first", number()),
        optional("step", number()),
        optional("gaps", list(whole(1, 65_535))),
        optional("seats", list(either(&[component("WrittenSeat"), json!({"type": "null"})]))),
        optional("runs", list(component("WrittenRun"))),
    ]);
    let written = object::<Of<Layout>>([
        needed("rows", either(&[whole(1, 65_535), some(component("WrittenRow"), 65_535)])),
        optional("seats", whole(1, 65_535)),
        optional("category", id()),
        optional("focal", point()),
    ]);
    let run = map([
        needed("gap", count()),
        needed("count", count()),
        optional("first", number()),
        optional("step", number()),
        optional("names", list(words())),
        needed("category", id()),
        needed("accessible", flag()),
        optional("points", list(point())),
    ]);
    let row = map([needed("label", words()), optional("section", id()), needed("runs", list(component("Run")))]);
    let layout = map([optional("focal", point()), needed("rows", list(component("Row")))]);
    let forms = format!(
        "A grid (`rows` and `seats` as numbers) or rows, each with one of `count`, `seats` and `runs`; at most \
         {LAYOUT_SEATS_MAX} seats."
    );
    vec![
        ("WrittenRun", written_run),
        ("WrittenSeat", written_seat),
        ("WrittenRow", about(written_row, "A row with one of `count`, `seats` and `runs`.")),
        ("WrittenLayout", about(written, &forms)),
        ("Run", about(run, "Neighbours alike.")),
        ("Row", row),
        ("Layout", about(layout, "The seats of a hall, in full.")),
    ]
}

fn catalogue() -> Group {
    let counts = object::<Of<SeatCounts>>(["free", "held", "sold", "blocked"].map(|state| needed(state, count())));
    let hall_entry = object::<HallEntryForm>([needed("id", id()), needed("name", words()), needed("seats", count())]);
    let venue = object::<Of<VenueView>>([
        needed("id", id()),
        needed("name", words()),
        needed("city", words()),
        optional("position", component("Position")),
        needed("comments", words()),
        needed("halls", list(component("HallEntry"))),
    ]);
    let hall = object::<Of<HallView>>([
        needed("venue", id()),
        needed("id", id()),
        needed("name", words()),
        needed("layout", component("Layout")),
    ]);
    let session = object::<Of<SessionView>>([
        needed("id", id()),
        needed("venue", id()),
        needed("hall", id()),
        needed("title", id()),
        needed("starts_at", time()),
        needed("ends_at", time()),
        needed("prices", component("Prices")),
        optional("hold_ttl_ms", count()),
        needed("counts", component("Counts")),
        needed("layout", component("Layout")),
    ]);
    let entry = object::<Of<SessionEntry>>([
        needed("id", id()),
        needed("hall", id()),
        needed("title", id()),
        needed("starts_at", time()),
        needed("ends_at", time()),
        needed("open", flag()),
    ]);
    let page =
        object::<SessionPage>([needed("sessions", list(component("SessionEntry"))), optional("cursor", words())]);
    let packed = json!({"type": "string", "contentEncoding": "base64"});
    let seats = about(packed, "Two bits a seat in layout order: 0 free, 1 held, 2 sold, 3 blocked.");
    let seat_map = object::<Of<MapView>>([
        needed("session", id()),
        needed("epoch", count()),
        needed("version", count()),
        needed("counts", component("Counts")),
        needed("seats", seats),
    ]);
    let three = object::<ThreeStates>([
        needed("session", id()),
        needed("epoch", count()),
        needed("version", count()),
        needed("counts", component("Counts")),
        needed("states", about(list(whole(0, 2)), "2 on sale, 1 locked, 0 sold or blocked.")),
    ]);
    vec![
        ("Counts", about(counts, "Seats by state.")),
        ("HallEntry", hall_entry),
        ("Venue", venue),
        ("Hall", hall),
        ("Session", session),
        ("SessionEntry", entry),
        ("SessionPage", page),
        ("Map", seat_map),
        ("ThreeStates", three),
    ]
}

fn carts() -> Group {
    let line = object::<Of<LineView>>([
        needed("line", count()),
        needed("session", id()),
        needed("seats", list(component("Seat"))),
        needed("prices", about(list(whole(0, PRICE_MAX)), "One a seat, in minor units.")),
    ]);
    let states = one_of(&["active", "checking_out", "done", "canceled", "expired"]);
    let cart = object::<Of<CartView>>([
        needed("id", component("CartId")),
        needed("state", states),
        optional("customer", id()),
        needed("opened_at", time()),
        needed("deadline", time()),
        needed("lines", lines()),
        optional("total", component("Money")),
        optional("order", component("OrderId")),
    ]);
    let held = object::<Of<Held>>([
        needed("cart", component("CartId")),
        needed("lines", lines()),
        needed("currency", component("Currency")),
        needed("deadline", time()),
    ]);
    let recorded = object::<RecordedPayment>([
        needed("method", name(PAYMENT_TEXT_BYTES_MAX)),
        needed("transaction_id", text(PAYMENT_TEXT_BYTES_MAX)),
    ]);
    let payment = object::<PaymentBody>([optional("recorded", component("RecordedPayment"))]);
    let order = object::<Of<OrderView>>([
        needed("id", component("OrderId")),
        optional("customer", id()),
        needed("at", time()),
        needed("lines", lines()),
        needed("total", component("Money")),
        needed("payment", component("Payment")),
        needed("settling", about(flag(), "Sold for certain, but not every session has said so yet.")),
    ]);
    vec![
        ("Line", line),
        ("Cart", cart),
        ("Held", held),
        ("RecordedPayment", about(recorded, "Paid elsewhere.")),
        ("Payment", about(payment, "How it is paid, by kind.")),
        ("Order", order),
    ]
}

fn audits() -> Group {
    let hold_id = object::<Of<HoldId>>([
        needed("cart", component("CartId")),
        needed("request", json!({"type": "string", "pattern": "^[0-9a-f]{16}$"})),
        needed("part", count()),
        needed("attempt", count()),
    ]);
    let hold = object::<Of<HoldView>>([
        needed("hold", component("HoldId")),
        needed("revision", count()),
        needed("deadline", time()),
        needed("seats", list(component("Seat"))),
    ]);
    let sale = object::<Of<SaleView>>([
        needed("order", component("OrderId")),
        needed("seats", list(component("Seat"))),
        needed("at", time()),
    ]);
    let session = object::<Of<SessionAudit>>([
        needed("session", id()),
        needed("counts", component("Counts")),
        needed("holds", list(component("Hold"))),
        needed("sales", list(component("Sale"))),
        needed("violations", list(words())),
    ]);
    let cart_hold = map([
        needed("session", id()),
        needed("hold", component("HoldId")),
        needed("revision", count()),
        needed("seats", list(component("Seat"))),
    ]);
    let cart = object::<Of<CartAudit>>([
        needed("cart", component("Cart")),
        needed("holds", list(component("CartHold"))),
        needed("owed", count()),
        needed("violations", list(words())),
    ]);
    vec![
        ("HoldId", hold_id),
        ("Hold", hold),
        ("Sale", sale),
        ("SessionAudit", session),
        ("CartHold", cart_hold),
        ("CartAudit", cart),
    ]
}

fn node() -> Group {
    let durability = object::<Durability>([needed("replicas", count()), needed("fsync", words())]);
    let shard = object::<ShardStatus>([
        needed("shard", count()),
        needed("role", words()),
        needed("term", count()),
        needed("applied", count()),
        needed("entities", count()),
    ]);
    let kinds = ["requests", "ok", "no", "fail", "events", "fsyncs", "feed_frames"];
    let rates = object::<Rates>(kinds.map(|kind| needed(kind, number())));
    let status = object::<NodeStatus>([
        needed("node", words()),
        needed("cluster", words()),
        needed("version", words()),
        needed("uptime_ms", count()),
        needed("durability", component("Durability")),
        needed("state", words()),
        needed("shards", list(component("Shard"))),
        needed("connections", count()),
        needed("watchers", count()),
        needed("under_way", count()),
        needed("actors", count()),
        needed("rates", component("Rates")),
    ]);
    let totals = object::<SeatTotals>(["free", "held", "sold", "blocked"].map(|state| needed(state, count())));
    let states = ["active", "checking_out", "done", "canceled", "expired"];
    let cart_totals = object::<CartTotals>(states.map(|state| needed(state, count())));
    let currency = object::<CurrencyTotal>([
        needed("currency", component("Currency")),
        needed("orders", count()),
        needed("amount", json!({"type": "integer"})),
    ]);
    let audit = object::<NodeAudit>([
        needed("venues", count()),
        needed("sessions", count()),
        needed("seats", component("SeatTotals")),
        needed("holds", count()),
        needed("held_seats", count()),
        needed("sold_seats", count()),
        needed("carts", component("CartTotals")),
        needed("cart_seats", count()),
        needed("owed", count()),
        needed("orders", count()),
        needed("order_seats", count()),
        needed("order_totals", list(component("CurrencyTotal"))),
        needed("violations", about(list(words()), "Empty when every promise holds.")),
    ]);
    vec![
        ("Durability", durability),
        ("Shard", shard),
        ("Rates", about(rates, "Events a second, over the last seconds.")),
        ("NodeStatus", status),
        ("SeatTotals", totals),
        ("CartTotals", cart_totals),
        ("CurrencyTotal", currency),
        ("NodeAudit", audit),
    ]
}

/// How requests end besides ok, and the answers that are no view of anything.
fn endings() -> Group {
    let no = object::<No>([
        needed("code", about(count(), "For life.")),
        needed("name", about(words(), "For life.")),
        needed("message", about(words(), "For people.")),
        optional("seats", list(component("Seat"))),
        optional("states", list(component("SeatState"))),
        optional("count", count()),
        optional("free", count()),
        optional("session", id()),
        optional("line", count()),
        optional("limit", count()),
    ]);
    let codes: Vec<u16> = FailKind::ALL.into_iter().map(FailKind::code).collect();
    let names: Vec<&str> = FailKind::ALL.into_iter().map(FailKind::name).collect();
    let fail = map([
        needed("code", json!({"type": "integer", "enum": codes})),
        needed("name", one_of(&names)),
        needed("message", words()),
        optional("retry_after_ms", count()),
    ]);
    let item = either(&[
        map([needed("ok", json!({"type": "object"})), optional("at", list(component("At")))]),
        map([needed("no", component("No"))]),
        map([needed("fail", component("Fail"))]),
    ]);
    vec![
        ("Done", about(Value::Object(Map::from_iter([("type".to_owned(), json!("object"))])), "Done.")),
        ("Watching", object::<Watching>([needed("feed", count())])),
        ("No", about(no, "A refusal: nothing changed.")),
        ("Fail", about(fail, "A failure: nobody said no.")),
        ("Ended", about(item, "How one item of a batch ended.")),
    ]
}
