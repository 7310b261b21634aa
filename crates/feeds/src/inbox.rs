//! Commits that are not published yet, a short list for each entity.

use std::collections::{BTreeMap, VecDeque};

use boxoffice_core::id::Entity;

use super::{Commit, FeedUpdate};

/// Commits of one entity that wait separately. Further ones are merged into the last one, as a hub that coalesces does
/// with all of them.
const COMMITS_WAITING_MAX: usize = 64;

/// Entries of one waiting commit before they are first reduced to one for each seat and area.
const ENTRIES_WAITING: usize = 4_096;

/// Commits waiting for the hub, by entity.
#[derive(Default)]
pub(super) struct Inbox {
    entities: BTreeMap<Entity, VecDeque<Waiting>>,
}

/// One commit, or several conflated.
struct Waiting {
    commit: Commit,
    /// The number of entries at which they are reduced.
    reduce_at: usize,
}

impl Inbox {
    /// Adds a commit. `coalesce` merges it into the commit before it.
    pub(super) fn push(&mut self, commit: Commit, coalesce: bool) {
        if let Some(waiting) = self.entities.get_mut(&commit.entity) {
            let full = coalesce || waiting.len() >= COMMITS_WAITING_MAX;
            match waiting.back_mut() {
                // The feed restarts, and its initial state contains this commit.
                Some(last) if matches!(last.commit.update, FeedUpdate::Lost) => {}
                Some(last) if last.commit.to == commit.from => {
                    if full {
                        last.extend(commit);
                    } else {
                        waiting.push_back(Waiting::new(commit));
                    }
                }
                // Older commits are from before a restart, and the initial state contains them.
                Some(_) | None => {
                    waiting.clear();
                    waiting.push_back(Waiting::new(commit));
                }
            }
        } else {
            let entity = commit.entity.clone();
            self.entities.insert(entity, VecDeque::from([Waiting::new(commit)]));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }

    /// Whether commits of this entity wait.
    pub(super) fn waits(&self, entity: &Entity) -> bool {
        self.entities.contains_key(entity)
    }

    /// Removes all commits, ordered by entity and version, with one entry for each seat and area.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Commit> + use<> {
        std::mem::take(&mut self.entities).into_values().flatten().map(|mut waiting| {
            waiting.commit.reduce();
            waiting.commit
        })
    }
}

impl Waiting {
    fn new(commit: Commit) -> Waiting {
        Waiting { commit, reduce_at: ENTRIES_WAITING }
    }

    fn extend(&mut self, next: Commit) {
        self.commit.absorb(next);
        if self.commit.entries() >= self.reduce_at {
            self.commit.reduce();
            // So at most twice the seats of a layout wait.
            self.reduce_at = (2 * self.commit.entries()).max(ENTRIES_WAITING);
        }
    }
}
