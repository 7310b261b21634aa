use std::{collections::BTreeSet, sync::Arc, time::Duration};

use boxoffice_client::{Currency, Id, Layout, Money, NewSession, SeatCounts, SeatState, SessionView, Timestamp};
use boxoffice_core::layout::{Labels, Row, Run};
use expect_test::expect;

use super::{Watched, changes, in_words};

fn id(text: &str) -> Id {
    Id::new(text).expect("an id")
}

fn session() -> SessionView {
    let row = |label: &str| Row {
        label: label.into(),
        section: None,
        runs: vec![Run {
            gap: 0,
            count: 4,
            labels: Labels::Numbers { first: 1, step: 1 },
            category: id("standard"),
            accessible: false,
            points: Vec::new(),
        }],
    };
    SessionView {
        venue: id("royal"),
        session: NewSession {
            id: id("hamlet-tonight"),
            hall: id("main"),
            title: id("hamlet"),
            starts_at: Timestamp(1_798_140_600_000),
            ends_at: Timestamp(1_798_150_600_000),
            prices: vec![(id("standard"), Money { amount: 1000, currency: Currency::new("EUR").expect("a currency") })],
            extras: Default::default(),
        },
        canceled: None,
        area_counts: Vec::new(),
        counts: SeatCounts { free: 8, held: 0, sold: 0, blocked: 0 },
        layout: Arc::new(Layout::new(vec![row("A"), row("B")], None).expect("a layout")),
        zone: None,
        sale: None,
    }
}

#[test]
fn changes_name_their_seats() {
    use SeatState::{Blocked, Free, Held, Sold};
    let names = crate::draw::Names::of(&session().layout);
    let before = [Free, Free, Free, Free, Held, Held, Held, Blocked];
    let text = |now: [SeatState; 8]| in_words(&changes(&before, &now), &names);
    expect!["A1, A2 held; B1–B3 sold; B4 free"].assert_eq(&text([Held, Held, Free, Free, Sold, Sold, Sold, Free]));
    expect!["A4 held; B1 free; A1 blocked"].assert_eq(&text([Blocked, Free, Free, Held, Free, Held, Held, Blocked]));
    assert_eq!(text(before), "");
    assert_eq!(changes(&[], &before).len(), 8, "without an earlier map everything is new");
}

#[test]
fn the_page_shows_the_state_of_the_connection() {
    let mut watched = Watched::new(session());
    expect![[r#"
        Page {
            head: [
                "hamlet-tonight: hamlet, royal / main, 2026-12-24 19:30 UTC",
                "waiting for the map …",
            ],
            body: [],
            foot: [],
            cursor: false,
        }
    "#]]
    .assert_eq(&format!("{:#?}\n", watched.page(true, None)));
    watched.plan.states = vec![SeatState::Free; 8];
    watched.plan.own = BTreeSet::new();
    watched.version = Some(391);
    watched.last.push_back("version 391  19:30:00.000  A1 free".into());
    expect![[r#"
        Page {
            head: [
                "hamlet-tonight: hamlet, royal / main, 2026-12-24 19:30 UTC",
                "version 391: 8 free, 0 held, 0 sold, 0 blocked   reconnecting …",
                "",
            ],
            body: [
                "       stage",
                "A   1  2  3  4",
                "B   1  2  3  4",
            ],
            foot: [
                "",
                "▒ held   █ sold   × blocked",
                "standard 10.00 EUR: 8 free",
                "",
                "version 391  19:30:00.000  A1 free",
                "q leaves",
            ],
            cursor: false,
        }
    "#]]
    .assert_eq(&format!("{:#?}\n", watched.page(false, None)));
    let cut_off = watched.page(true, Some(Duration::from_millis(2_300))).head[1].clone();
    assert!(cut_off.ends_with("the node is cut off: this may be 2 s old"), "{cut_off}");
}
