//! Every watcher of a session rebuilds its map after any order of events.

use boxoffice_core::seat::SeatState;
use boxoffice_wire::Encoding;
use proptest::prelude::*;

use super::{PLACES, Reader, Replica, commit, hub, session_of, state, story, wait};

/// An event of the hub.
#[derive(Clone, Debug)]
enum Step {
    Change {
        session: usize,
        changes: Vec<(u32, u8)>,
        held: Vec<(usize, u32)>,
    },
    /// A commit that never reaches the hub.
    Lose {
        session: usize,
    },
    Wait {
        ms: u64,
    },
    Watch {
        reader: usize,
        session: usize,
    },
    Forget {
        reader: usize,
        session: usize,
    },
    Unwatch {
        reader: usize,
        session: usize,
    },
    Pull {
        reader: usize,
        bytes_max: usize,
        is_behind: bool,
    },
    Reconnect {
        reader: usize,
    },
}

const SESSIONS: [(&str, usize); 3] = [("hamlet", 9), ("lear", 64), ("macbeth", 1)];
const READERS: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let (session, reader) = (0..SESSIONS.len(), 0..READERS);
    let changes = prop::collection::vec((any::<u32>(), 0..4u8), 0..6);
    prop_oneof![
        12 => (session.clone(), changes, prop::collection::vec((0..2usize, 0..=PLACES), 0..3))
            .prop_map(|(session, changes, held)| Step::Change { session, changes, held }),
        1 => session.clone().prop_map(|session| Step::Lose { session }),
        5 => (0..50u64).prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Wait { ms: 1_500 }),
        4 => (reader.clone(), session.clone()).prop_map(|(reader, session)| Step::Watch { reader, session }),
        1 => (reader.clone(), session.clone()).prop_map(|(reader, session)| Step::Forget { reader, session }),
        2 => (reader.clone(), session).prop_map(|(reader, session)| Step::Unwatch { reader, session }),
        8 => (reader.clone(), 1..300usize, any::<bool>())
            .prop_map(|(reader, bytes_max, is_behind)| Step::Pull { reader, bytes_max, is_behind }),
        1 => reader.prop_map(|reader| Step::Reconnect { reader }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_watcher_rebuilds_the_map(
        coalesce_ms in prop_oneof![Just(0u64), Just(20)],
        steps in prop::collection::vec(step(), 1..200),
    ) {
        story(async {
            let replica = Replica::with(&SESSIONS);
            let feeds = hub(&replica, coalesce_ms);
            let encodings = [Encoding::Json, Encoding::MsgPack];
            let mut readers: Vec<Reader> =
                (0..READERS).map(|reader| Reader::new(&replica, &feeds, encodings[reader % 2])).collect();
            for step in steps {
                match step {
                    Step::Change { session, changes, held } => {
                        let (name, seats) = SESSIONS[session];
                        let changes: Vec<_> = changes
                            .into_iter()
                            .map(|(seat, number)| (seat % seats as u32, state(number)))
                            .collect();
                        feeds.commit(replica.change(name, &changes, &held).into_iter().collect());
                    }
                    Step::Lose { session } => {
                        replica.change(SESSIONS[session].0, &[(0, SeatState::Blocked)], &[(1, 49)]);
                    }
                    Step::Wait { ms } => wait(ms).await,
                    Step::Watch { reader, session } => {
                        readers[reader].watch(SESSIONS[session].0).expect("the entity exists");
                    }
                    Step::Forget { reader, session } => {
                        readers[reader].maps.remove(SESSIONS[session].0);
                        readers[reader].watch(SESSIONS[session].0).expect("the entity exists");
                    }
                    Step::Unwatch { reader, session } => {
                        let reader = &mut readers[reader];
                        let feed = reader.names.iter().find(|(_, name)| *name == SESSIONS[session].0);
                        if let Some(feed) = feed.map(|(feed, _)| *feed) {
                            reader.watcher.unwatch(feed);
                        }
                    }
                    Step::Pull { reader, bytes_max, is_behind: false } => {
                        readers[reader].pull(bytes_max);
                    }
                    Step::Pull { reader, bytes_max, is_behind: true } => {
                        readers[reader].pull_behind(bytes_max);
                    }
                    Step::Reconnect { reader } => {
                        let maps = std::mem::take(&mut readers[reader].maps);
                        readers[reader] = Reader::new(&replica, &feeds, encodings[reader % 2]);
                        readers[reader].maps = maps;
                    }
                }
            }
            // One more commit each reveals a loss before it. Then every watcher has the last version.
            for (name, _) in SESSIONS {
                commit(&feeds, &replica, name, &[(0, SeatState::Sold)]);
            }
            wait(100).await;
            for reader in &mut readers {
                let mut watched = Vec::new();
                for (name, _) in SESSIONS {
                    if reader.watcher.is_watching(&session_of(name)) {
                        watched.push(name);
                    }
                }
                reader.settle();
                for name in watched {
                    assert_eq!(reader.maps[name].0, replica.latest(name), "the last version of {name}");
                }
            }
        });
    }
}
