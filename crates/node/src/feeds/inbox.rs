//! What was committed and is not published yet, a short list a session.

use std::collections::{BTreeMap, VecDeque};

use boxoffice_core::{id::Id, seat::SeatState};

use super::Commit;

/// Commits of one session that wait one by one; beyond this they are conflated into the last one, as a hub that coalesces
/// does with all of them.
const COMMITS_WAITING_MAX: usize = 64;

/// Changes of one waiting commit before they are first reduced to one a seat.
const CHANGES_WAITING: usize = 4_096;

/// Commits waiting for the hub, by session.
#[derive(Default)]
pub(super) struct Inbox {
    sessions: BTreeMap<Id, VecDeque<Waiting>>,
}

/// One commit, or several conflated.
struct Waiting {
    commit: Commit,
    /// When there are so many changes they are reduced to one a seat.
    reduce_at: usize,
}

impl Inbox {
    /// Takes a commit in; `coalesce` if it may become one with the commit before it.
    pub(super) fn push(&mut self, commit: Commit, coalesce: bool) {
        if let Some(waiting) = self.sessions.get_mut(&commit.session) {
            let full = coalesce || waiting.len() >= COMMITS_WAITING_MAX;
            match waiting.back_mut() {
                Some(last) if last.commit.to == commit.from => {
                    if full {
                        last.extend(commit);
                    } else {
                        waiting.push_back(Waiting::new(commit));
                    }
                }
                // What waits is from before the feed began anew; the map it began with has it all.
                Some(_) | None => {
                    waiting.clear();
                    waiting.push_back(Waiting::new(commit));
                }
            }
        } else {
            let session = commit.session.clone();
            self.sessions.insert(session, VecDeque::from([Waiting::new(commit)]));
        }
    }

    /// Whether commits of this session wait.
    pub(super) fn waits(&self, session: &Id) -> bool {
        self.sessions.contains_key(session)
    }

    /// Everything that waits, in the order of sessions and then of commits; changes are one a seat.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Commit> + use<> {
        std::mem::take(&mut self.sessions).into_values().flatten().map(|mut waiting| {
            reduce(&mut waiting.commit.changes);
            waiting.commit
        })
    }
}

impl Waiting {
    fn new(commit: Commit) -> Waiting {
        Waiting { commit, reduce_at: CHANGES_WAITING }
    }

    fn extend(&mut self, next: Commit) {
        self.commit.to = next.to;
        self.commit.changes.extend(next.changes);
        if self.commit.changes.len() >= self.reduce_at {
            reduce(&mut self.commit.changes);
            // At most twice the seats of a layout wait, however long the hub is away.
            self.reduce_at = (2 * self.commit.changes.len()).max(CHANGES_WAITING);
        }
    }
}

/// Leaves one change a seat, the last one, in the order of seats.
fn reduce(changes: &mut Vec<(u32, SeatState)>) {
    changes.sort_by_key(|(seat, _)| *seat);
    changes.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = later.1;
        }
        same
    });
}
