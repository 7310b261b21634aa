use boxoffice_client::{
    AreaCounts, AsOf, CartAudit, CartId, CartState, CartView, Claim, Content, HistoryEntry, HistoryPage, HoldView, Id,
    Layout, LineView, MapView, NodeAudit, NodeStatus, OrderId, ResourceAudit, SaleView, Seat, SeatCounts, SessionAudit,
    Timestamp,
};
use boxoffice_core::{
    id::{Entity, HoldId, RequestHash},
    layout::{Labels, Row, Run},
    portion::Portion,
    seat::SeatSet,
};
use boxoffice_wire::{
    hello::Durability,
    status::{CartTotals, CurrencyTotal, PaymentTotals, Rates, SeatTotals, ShardStatus, UnitTotals},
};
use expect_test::expect;

use super::{audit, history, map, seat_by_place, status, with_names};
use crate::{
    draw::Names,
    ids,
    local_time::{parse_instant, zone_or_utc},
};

fn id(text: &str) -> Id {
    Id::new(text).expect("an id")
}

fn names() -> Names {
    Names::of(&layout())
}

fn layout() -> Layout {
    let labels = Labels::Numbers { first: 1, step: 1 };
    let run = Run { gap: 0, count: 4, labels, category: id("standard"), accessible: false, points: Vec::new() };
    let rows = vec![Row { label: "A".into(), section: None, runs: vec![run] }];
    Layout::new(rows, None).expect("a layout")
}

fn shard(number: u32, role: &str) -> ShardStatus {
    let (leader, committed, followers) = (Some(1), 391, Vec::new());
    ShardStatus {
        shard: number,
        role: role.into(),
        term: 2,
        applied: 391,
        entities: 12,
        leader,
        committed,
        distance_ms: 0,
        unconfirmed: false,
        followers,
        chain: None,
    }
}

/// A node with shards in these roles.
pub(super) fn node_status(node: &str, roles: &[&str]) -> NodeStatus {
    NodeStatus {
        node: node.into(),
        cluster: "c0ffee".into(),
        version: "0.1.0".into(),
        uptime_ms: 11_525_000,
        durability: Durability { replicas: 1, fsync: "always".into() },
        state: "ready".into(),
        disk_is_slow: false,
        damage: "".into(),
        cluster_version: 17,
        upgrade: "".into(),
        linked: Vec::new(),
        shards: (0..).zip(roles).map(|(number, role)| shard(number, role)).collect(),
        connections: 3,
        watchers: 2,
        under_way: 0,
        actors: 7,
        carts_archived: 5,
        tombstones: 0,
        payments_pending: 1,
        payments_failed: 2,
        rates: Rates { requests: 120.25, ok: 118.0, no: 2.25, ..Rates::default() },
    }
}

#[test]
fn a_status_is_a_table() {
    let status = node_status("1", &["leader", "leader", "follower"]);
    expect![[r#"
        node 1 of cluster c0ffee: ready, boxoffice 0.1.0, up 3 h 12 min
        durability    1 replica, fsync always
        now           3 connections, 2 watchers, 0 requests under way, 7 actors
        a second      120.2 requests (118.0 ok, 2.2 no, 0.0 fail), 0.0 events, 0.0 fsyncs, 0.0 feed frames
        kept          5 ended carts on disk only
        payments      1 not settled yet; 2 failed for good and to be seen to
        shards        3 (2 leader, 1 follower), 36 entities

        shard  role         term     applied  entities      distance
            0  leader          2         391        12          0 ms
            1  leader          2         391        12          0 ms
            2  follower        2         391        12          0 ms
    "#]]
    .assert_eq(&(status::lines(&status).join("\n") + "\n"));
}

#[test]
fn a_map_of_the_past_has_a_row_for_each_seat_that_was_not_free() {
    let hold = HoldId { cart: CartId(0xabc), request: RequestHash(1), part: 0, attempt: 0 };
    let portion = |seats: &[u16]| {
        Portion::Seats(SeatSet::new(seats.iter().map(|seat| Seat { row: 0, seat: *seat })).expect("seats"))
    };
    let hold_of = |portion: Portion| HoldView {
        hold,
        revision: 3,
        deadline: Timestamp(1_798_140_600_123),
        portion,
        customer: None,
        since: None,
    };
    let at = Timestamp(1_798_140_600_000);
    let counts = SeatCounts { free: 0, held: 2, sold: 1, blocked: 1 };
    let areas = vec![AreaCounts { area: id("floor"), free: 7, held: 3, sold: 0 }];
    let audit = SessionAudit {
        session: id("hamlet"),
        counts,
        areas: areas.clone(),
        holds: vec![hold_of(portion(&[0, 1])), hold_of(Portion::Places { area: id("floor"), quantity: 3 })],
        sales: vec![SaleView { order: OrderId(0xdef), hold, portion: portion(&[3]), at, customer: None }],
        violations: Vec::new(),
        holders: Vec::new(),
    };
    let map =
        MapView { session: id("hamlet"), epoch: 0, version: 9, counts, areas, seats: vec![0b10_11_01_01], sale: None };
    let then = AsOf {
        entity: Entity::Session(id("hamlet")),
        at,
        since: at,
        until: None,
        floor: Some(Timestamp(1_798_000_000_000)),
        position: 812,
        version: 9,
        map: None,
        session: None,
        product: None,
        resource: None,
    };
    let mut lines = map::heading(&then);
    lines.extend(map::seats(&layout(), &map, &audit, None));
    expect![[r#"
        session/hamlet at 2026-12-24T19:30:00.000Z
        so from 2026-12-24T19:30:00.000Z (version 9, entry 812) until now
        may be asked for since 2026-12-23T04:26:40.000Z
        0 free, 2 held, 1 sold, 1 blocked
        SEAT  STATE    BY
        A1    held     cart 00000000000000000000000000000abc until 2026-12-24T19:30:00.123Z
        A2    held     cart 00000000000000000000000000000abc until 2026-12-24T19:30:00.123Z
        A3    blocked
        A4    sold     order 00000000000000000000000000000def at 2026-12-24T19:30:00.000Z
        area floor: 7 free, 3 held, 0 sold
        3 places in floor  held     cart 00000000000000000000000000000abc until 2026-12-24T19:30:00.123Z
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
    let one = map::seats(&layout(), &map, &audit, Some(Seat { row: 0, seat: 3 }));
    expect![[r#"
        SEAT  STATE    BY
        A4    sold     order 00000000000000000000000000000def at 2026-12-24T19:30:00.000Z
    "#]]
    .assert_eq(&(one.join("\n") + "\n"));
    assert!(parse_instant("2026-11-29T20:00:00").is_err_and(|why| why.contains("with its zone")));
    assert_eq!(parse_instant("2026-12-24T20:30:00+01:00"), Ok(at));
}

#[test]
fn audits_show_violations_first() {
    let seats = |seats: &[u16]| {
        let seats = seats.iter().map(|seat| Seat { row: 0, seat: *seat });
        Portion::Seats(SeatSet::new(seats).expect("seats"))
    };
    let hold = HoldId { cart: CartId(0xabc), request: RequestHash(1), part: 0, attempt: 0 };
    let mut session = SessionAudit {
        session: id("hamlet"),
        counts: SeatCounts { free: 1, held: 2, sold: 1, blocked: 0 },
        areas: vec![AreaCounts { area: id("floor"), free: 7, held: 1, sold: 2 }],
        holds: vec![HoldView {
            hold,
            revision: 3,
            deadline: Timestamp(1_798_140_600_000),
            portion: seats(&[0, 1]),
            customer: Some(id("ada")),
            since: Some(Timestamp(1_798_140_000_000)),
        }],
        sales: vec![SaleView {
            order: OrderId(0xdef),
            hold,
            portion: seats(&[3]),
            at: Timestamp(1_798_140_600_000),
            customer: Some(id("bob")),
        }],
        violations: Vec::new(),
        holders: Vec::new(),
    };
    expect![[r#"
        every promise holds
        session hamlet: 1 free, 2 held, 1 sold, 0 blocked
        area floor: 7 free, 1 held, 2 sold
        held  by cart  00000000000000000000000000000abc of ada since 2026-12-24 19:20 UTC until 2026-12-24 19:30 UTC: A1, A2
        sold  by order 00000000000000000000000000000def of bob at 2026-12-24 19:30 UTC: A4
    "#]]
    .assert_eq(&(audit::session(&session, Some(&names())).join("\n") + "\n"));
    session.violations.push("seat [0, 3] is sold twice".into());
    session.holds[0].portion = seats(&[9]);
    (session.holds[0].customer, session.holds[0].since) = (None, None);
    expect![[r#"
        BROKEN: seat [0, 3] is sold twice
        session hamlet: 1 free, 2 held, 1 sold, 0 blocked
        area floor: 7 free, 1 held, 2 sold
        held  by cart  00000000000000000000000000000abc until 2026-12-24 19:30 UTC: [0, 9]
        sold  by order 00000000000000000000000000000def of bob at 2026-12-24 19:30 UTC: A4
    "#]]
    .assert_eq(&(audit::session(&session, Some(&names())).join("\n") + "\n"));
    let node = NodeAudit {
        venues: 1,
        sessions: 3,
        seats: SeatTotals { free: 80, held: 3, sold: 5, blocked: 1 },
        areas: UnitTotals { free: 7, held: 1, sold: 2 },
        titles: 1,
        products: 2,
        stock: UnitTotals { free: 90, held: 4, sold: 6 },
        resources: 1,
        bookings: 3,
        customers: 2,
        purchases: 4,
        holds: 2,
        held_seats: 3,
        cart_seats: 3,
        sold_seats: 5,
        carts: CartTotals { active: 2, done: 4, ..CartTotals::default() },
        carts_archived: 3,
        tombstones: 0,
        orders: 4,
        order_seats: 5,
        payments: PaymentTotals { recorded: 3, captured: 1, ..PaymentTotals::default() },
        payments_pending: 2,
        payments_failed: 1,
        failed_keys: vec!["00000000000000000000000000000abc-1-void".into()],
        refunds: 0,
        order_totals: vec![CurrencyTotal {
            currency: boxoffice_client::Currency::new("EUR").expect("a currency"),
            orders: 4,
            amount: 5_000,
        }],
        ..NodeAudit::default()
    };
    expect![[r#"
        every promise holds
        venues        1, and 1 title
        sessions      3: 80 free, 3 held, 5 sold, 1 blocked
          in areas    7 free, 1 held, 2 sold
        products      2: 90 free, 4 held, 6 sold
        resources     1 with 3 bookings
        customers     2 with 4 purchases
        holds         2 with 3 seats; carts have 3 seats in lines
        carts         2 active, 0 checking out, 4 done, 0 canceled, 0 expired; they owe 0 messages
          on disk     3 of them are kept on disk only
        orders        4 with 5 seats; sessions have sold 5
                      4 orders, 50.00 EUR
        payments      3 recorded, 0 authorized, 1 captured, 0 failed
                      2 not settled yet, 1 failed for good and to be seen to
                      FAILED 00000000000000000000000000000abc-1-void
        refunds       0
    "#]]
    .assert_eq(&(audit::node(&node).join("\n") + "\n"));
}

#[test]
fn audits_tell_slots_by_the_clocks_of_the_place() {
    let hold = HoldId { cart: CartId(0xabc), request: RequestHash(1), part: 0, attempt: 0 };
    let at = Timestamp(1_798_140_600_000);
    let slot = Portion::Slot { begin: at, end: at.after(3_600_000) };
    let room = ResourceAudit {
        resource: id("court"),
        bookings: 2,
        holds: vec![HoldView {
            hold,
            revision: 1,
            deadline: at,
            portion: slot.clone(),
            customer: None,
            since: Some(at),
        }],
        sales: vec![SaleView { order: OrderId(0xdef), hold, portion: slot.clone(), at, customer: None }],
        holders: Vec::new(),
        violations: Vec::new(),
    };
    let told = |zone: &str| audit::resource(&room, &zone_or_utc(Some(zone))).join("\n") + "\n";
    expect![[r#"
        every promise holds
        resource court: 2 bookings
        held  by cart  00000000000000000000000000000abc since 2026-12-24 19:30 UTC until 2026-12-24 19:30 UTC: 2026-12-25 01:15 Asia/Kathmandu to 2026-12-25 02:15 Asia/Kathmandu
        sold  by order 00000000000000000000000000000def at 2026-12-24 19:30 UTC: 2026-12-25 01:15 Asia/Kathmandu to 2026-12-25 02:15 Asia/Kathmandu
    "#]]
    .assert_eq(&told("Asia/Kathmandu"));
    assert!(
        told("Nowhere/Atall").contains(": 2026-12-24 19:30 UTC to 2026-12-24 20:30 UTC"),
        "{}",
        told("Nowhere/Atall")
    );
    // A cart has lines of several places, each with its own zone.
    let resource = |name: &str| Entity::Resource(id(name));
    let content = Content::Slot { begin: at, end: at.after(3_600_000), price: 2_000, details: "".into() };
    let line = |number: u32, name: &str, zone: Option<&str>| LineView {
        zone: zone.map(Into::into),
        ..LineView::new(number, resource(name), content.clone(), false)
    };
    let claim = |number: u32, name: &str| Claim {
        line: number,
        since: at,
        entity: resource(name),
        hold,
        revision: 1,
        portion: Some(slot.clone()),
    };
    let cart = CartView {
        id: CartId(0xabc),
        state: CartState::Active,
        customer: None,
        opened_at: at,
        modified_at: at,
        deadline: at,
        lines: vec![line(1, "court", Some("Asia/Kathmandu")), line(2, "hut", None)],
        lines_version: 1,
        taken: Vec::new(),
        total: None,
        order: None,
        ended: None,
    };
    let whole = CartAudit {
        cart,
        holds: vec![claim(1, "court"), claim(2, "hut")],
        payment: None,
        refunds: Vec::new(),
        voids: Vec::new(),
        attempt: None,
        owed: 0,
        violations: Vec::new(),
    };
    expect![[r#"
        every promise holds
        cart 00000000000000000000000000000abc: active, opened 2026-12-24 19:30 UTC, deadline 2026-12-24 19:30 UTC, owes 0 messages
        line 1 of resource/court: 2026-12-25 01:15 Asia/Kathmandu to 2026-12-25 02:15 Asia/Kathmandu
        line 2 of resource/hut: 2026-12-24 19:30 UTC to 2026-12-24 20:30 UTC
        hold in resource/court since 2026-12-24 19:30 UTC, revision 1: 2026-12-25 01:15 Asia/Kathmandu to 2026-12-25 02:15 Asia/Kathmandu
        hold in resource/hut since 2026-12-24 19:30 UTC, revision 1: 2026-12-24 19:30 UTC to 2026-12-24 20:30 UTC
    "#]]
    .assert_eq(&(audit::cart(&whole).join("\n") + "\n"));
}

#[test]
fn a_history_has_a_hint_to_read_on() {
    let entry = |version: u64, event: &str, details: &str| HistoryEntry {
        position: 100 + version,
        version,
        at: Timestamp(1_798_140_600_000),
        event: event.into(),
        details: details.into(),
        by: if version == 12 { "till-3".into() } else { "".into() },
    };
    let mut page = HistoryPage {
        entity: Entity::Session(id("hamlet")),
        entries: vec![entry(7, "held", "seat [1, 11] by cart 0abc"), entry(12, "forgotten", "")],
        cursor: Some(7),
        complete: false,
    };
    expect![[r#"
              7  2026-12-24T19:30:00.000Z  held            seat [1, 11] by cart 0abc
             12  2026-12-24T19:30:00.000Z  forgotten         (by till-3)
        There is more: --before 7
    "#]]
    .assert_eq(&(history(&page).join("\n") + "\n"));
    page.cursor = None;
    assert_eq!(history(&page)[2], "What is older is no longer kept.");
    page.complete = true;
    assert_eq!(history(&page)[2], "That is all since it began.");
    assert_eq!(seat_by_place("1, 11"), Some(Seat { row: 1, seat: 11 }));
    assert_eq!(seat_by_place("B-12"), None);
}

#[test]
fn a_history_calls_seats_by_their_names() {
    let name =
        |session: &Id, Seat { row, seat }: Seat| (session.as_str() == "hamlet").then(|| format!("{row}-{seat}!"));
    let named = |entity: &str, details: &str| with_names(&ids::entity(entity).expect("an entity"), details, name);
    assert_eq!(named("session/hamlet", "seats [1, 4], [0, 12] by cart 0abc"), "seats 1-4!, 0-12! by cart 0abc");
    let cart = format!("cart/{:032x}", 0xabc);
    let of_two = "seat [1, 4] of session/hamlet, seat [2, 2] of session/macbeth; until 20:00";
    assert_eq!(named(&cart, of_two), "seat 1-4! of session/hamlet, seat [2, 2] of session/macbeth; until 20:00");
    assert_eq!(named(&cart, "2 units of product/[1]"), "2 units of product/[1]");
}
