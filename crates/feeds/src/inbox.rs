//! What was committed and is not published yet, a short list an entity.

use std::collections::{BTreeMap, VecDeque};

use boxoffice_core::id::Entity;

use super::{Commit, FeedUpdate};

/// Commits of one entity that wait one by one; beyond this they are conflated into the last one, as a hub that coalesces
/// does with all of them.
const COMMITS_WAITING_MAX: usize = 64;

/// Entries of one waiting commit before they are first reduced to one a seat and an area.
const ENTRIES_WAITING: usize = 4_096;

/// Commits waiting for the hub, by entity.
#[derive(Default)]
pub(super) struct Inbox {
    entities: BTreeMap<Entity, VecDeque<Waiting>>,
}

/// One commit, or several conflated.
struct Waiting {
    commit: Commit,
    /// When it has so many entries they are reduced.
    reduce_at: usize,
}

impl Inbox {
    /// Takes a commit in; `coalesce` if it may become one with the commit before it.
    pub(super) fn push(&mut self, commit: Commit, coalesce: bool) {
        if let Some(waiting) = self.entities.get_mut(&commit.entity) {
            let full = coalesce || waiting.len() >= COMMITS_WAITING_MAX;
            match waiting.back_mut() {
                // The feed is to begin anew, and begins with this one as well.
                Some(last) if matches!(last.commit.update, FeedUpdate::Lost) => {}
                Some(last) if last.commit.to == commit.from => {
                    if full {
                        last.extend(commit);
                    } else {
                        waiting.push_back(Waiting::new(commit));
                    }
                }
                // What waits is from before the feed began anew; what it began with has it all.
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

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }

    /// Whether commits of this entity wait.
    pub(super) fn waits(&self, entity: &Entity) -> bool {
        self.entities.contains_key(entity)
    }

    /// Everything that waits, in the order of entities and then of commits; entries are one a seat and an area.
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
            // At most twice the seats of a layout wait, however long the hub is away.
            self.reduce_at = (2 * self.commit.entries()).max(ENTRIES_WAITING);
        }
    }
}
