//! The cluster's keys as this node knows them from its copy of the directory, and how fresh that copy is.

use std::sync::{Arc, atomic::Ordering};

use boxoffice_core::{
    access::{AccessKey, Role},
    directory::Directory,
    id::{Entity, Id},
    state_map::State,
};
use boxoffice_shard::DIRECTORY;

use crate::node::NodeHandle;

/// The keys as one copy of the directory has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRing {
    /// The version of the directory with its last change of a key. A key that was looked up at another version must be looked up
    /// again.
    pub version: u64,
    /// The version of this copy of the directory. A key that the directory's leader has told at a later version may be missing here.
    pub copy_version: u64,
    /// Whether some key has the role admin.
    pub has_admin: bool,
    /// Milliseconds since the last message of the directory's leader. 0 on the leader itself.
    pub silent_ms: u64,
}

impl NodeHandle {
    /// The key with this name, if there is one.
    pub fn key(&self, name: &Id) -> Option<Arc<AccessKey>> {
        self.with_directory(|directory| directory?.key(name).cloned())
    }

    /// The state of the keys.
    pub fn key_ring(&self) -> KeyRing {
        let silent_ms = self.directory_silent_ms();
        self.with_directory(|directory| match directory {
            Some(directory) => {
                let is_admin = |(_, key): (&Id, &Arc<AccessKey>)| key.terms.roles.has(Role::Admin);
                let (version, copy_version) = (directory.keys_version(), directory.version());
                KeyRing { version, copy_version, has_admin: directory.keys().any(is_admin), silent_ms }
            }
            None => KeyRing { version: 0, copy_version: 0, has_admin: false, silent_ms },
        })
    }

    fn directory_silent_ms(&self) -> u64 {
        let shared = &self.shared;
        if shared.shards[usize::from(DIRECTORY)].leads() {
            return 0;
        }
        shared.world.clock.monotonic_ms().saturating_sub(shared.replication.directory_heard_ms.load(Ordering::Relaxed))
    }

    fn with_directory<T>(&self, read: impl FnOnce(Option<&Directory>) -> T) -> T {
        let state = self.shared.shards[usize::from(DIRECTORY)].state.replica.lock().kept.get(&Entity::Directory);
        match state.as_deref() {
            Some(State::Directory(directory)) => read(Some(directory)),
            Some(other) => panic!("the directory is kept as something else: {other:?}"),
            None => read(None),
        }
    }
}
