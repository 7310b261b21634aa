//! Watchers that are behind catch up with short frames.

use boxoffice_core::seat::SeatState;
use boxoffice_wire::Encoding;

use super::{Reader, Replica, commit, hub, story, wait};

/// The longest frame of a watcher that is behind, in bytes.
const BYTES_MAX: usize = 4_096;

/// Seats of a hall whose snapshot is longer than many deltas.
const LARGE: usize = 100_000;

#[test]
fn waiting_deltas_become_one() {
    story(async {
        for encoding in [Encoding::Json, Encoding::MsgPack] {
            let replica = Replica::with(&[("arena", LARGE)]);
            let feeds = hub(&replica, 0);
            let mut reader = Reader::new(&replica, &feeds, encoding);
            reader.watch("arena").expect("it is there");
            reader.settle();
            // Each seat changes twenty times, and only the last time counts.
            for version in 0..200_u32 {
                let state = if version % 2 == 0 { SeatState::Held } else { SeatState::Free };
                commit(&feeds, &replica, "arena", &[(version % 10, state), (version % 10 + 50_000, state)]);
                wait(1).await;
            }
            let deltas = reader.deltas;
            while reader.pull_behind(BYTES_MAX) {}
            assert_eq!(reader.maps["arena"].0, replica.latest("arena"));
            let frames = reader.deltas - deltas;
            assert!(frames <= 3, "{frames} frames for 200 versions of 20 seats");
            assert!(reader.longest <= BYTES_MAX && reader.snapshots == 1, "{}", reader.longest);
        }
    });
}

#[test]
fn many_seats_come_in_short_frames() {
    story(async {
        let replica = Replica::with(&[("arena", LARGE)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("arena").expect("it is there");
        reader.settle();
        for version in 0..20_u32 {
            let changes: Vec<_> = (0..100).map(|seat| (version * 1_000 + seat, SeatState::Sold)).collect();
            commit(&feeds, &replica, "arena", &changes);
            wait(1).await;
        }
        while reader.pull_behind(BYTES_MAX) {}
        assert_eq!(reader.maps["arena"].0, replica.latest("arena"));
        assert!(reader.longest <= BYTES_MAX && reader.snapshots == 1, "{} bytes", reader.longest);
        assert!(reader.deltas >= 8, "{} frames", reader.deltas);
    });
}

#[test]
fn a_shorter_snapshot_takes_the_place_of_deltas() {
    story(async {
        let replica = Replica::with(&[("studio", 400), ("arena", LARGE)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("studio").expect("it is there");
        reader.watch("arena").expect("it is there");
        reader.settle();
        for version in 0..10_u32 {
            let changes: Vec<_> = (0..10).map(|seat| (version * 10 + seat, SeatState::Sold)).collect();
            commit(&feeds, &replica, "studio", &changes);
            wait(1).await;
        }
        while reader.pull_behind(BYTES_MAX) {}
        assert_eq!((reader.snapshots, reader.deltas), (3, 0), "two of them are the first ones");
        // A delta that is too long alone is shorter than this snapshot.
        let changes: Vec<_> = (0..400).map(|seat| (seat, SeatState::Held)).collect();
        commit(&feeds, &replica, "arena", &changes);
        wait(1).await;
        while reader.pull_behind(BYTES_MAX) {}
        assert_eq!((reader.snapshots, reader.deltas), (3, 1));
        assert!(reader.longest > BYTES_MAX);
        for name in ["studio", "arena"] {
            assert_eq!(reader.maps[name].0, replica.latest(name));
        }
    });
}

/// A feed that always has more does not keep the others waiting, and is due once.
#[test]
fn feeds_take_turns() {
    story(async {
        let replica = Replica::with(&[("arena", LARGE), ("studio", 400)]);
        let feeds = hub(&replica, 0);
        let mut reader = Reader::new(&replica, &feeds, Encoding::Json);
        reader.watch("arena").expect("it is there");
        reader.watch("studio").expect("it is there");
        reader.settle();
        let (mut seat, mut has_more) = (0, 0);
        for round in 0..200_u32 {
            for _ in 0..8 {
                let changes: Vec<_> = (0..100).map(|next| ((seat + next) % LARGE as u32, SeatState::Sold)).collect();
                seat += 100;
                commit(&feeds, &replica, "arena", &changes);
                wait(1).await;
            }
            if round == 100 {
                commit(&feeds, &replica, "studio", &[(1, SeatState::Sold)]);
                wait(1).await;
            }
            has_more += usize::from(reader.pull_behind(BYTES_MAX));
            let studio = reader.maps["studio"].0;
            assert!(round < 102 || studio == replica.latest("studio"), "round {round}: the studio waits");
            assert!(reader.watcher.due_feeds() <= 2, "round {round}: {} feeds are due", reader.watcher.due_feeds());
        }
        assert!(has_more > 100, "the arena was behind {has_more} times");
    });
}

#[test]
fn a_single_delta_is_encoded_once_for_all() {
    story(async {
        let replica = Replica::with(&[("arena", LARGE)]);
        let feeds = hub(&replica, 0);
        let mut frames = Vec::new();
        let mut readers = [0, 1].map(|_| Reader::new(&replica, &feeds, Encoding::Json));
        for reader in &mut readers {
            reader.watch("arena").expect("it is there");
            reader.settle();
        }
        commit(&feeds, &replica, "arena", &[(7, SeatState::Held)]);
        wait(1).await;
        for (is_behind, reader) in [false, true].into_iter().zip(&mut readers) {
            let keep = |event| frames.push(super::frame_of(event));
            match is_behind {
                false => reader.watcher.pull(Encoding::Json, BYTES_MAX, keep),
                true => reader.watcher.pull_behind(Encoding::Json, BYTES_MAX, keep),
            };
        }
        assert_eq!(frames.len(), 2);
        assert_eq!(frames[0].as_ptr(), frames[1].as_ptr(), "one frame serves both");
    });
}
