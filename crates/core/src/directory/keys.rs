//! The keys of the cluster. Operators create and revoke them, and every node has them in its copy of the directory.

use alloc::{boxed::Box, sync::Arc};

use smol_str::format_smolstr;

use super::Directory;
use crate::{
    access::{AccessKey, KEY_VENUES_MAX, KEYS_MAX, NewKey, Role},
    event::DirectoryEvent,
    id::{Id, Request},
    refusal::Refusal,
    time::Timestamp,
};

impl Directory {
    /// The key with this name.
    pub fn key(&self, name: &Id) -> Option<&Arc<AccessKey>> {
        self.entries.keys.get(name)
    }

    /// Every key, by name.
    pub fn keys(&self) -> impl Iterator<Item = (&Id, &Arc<AccessKey>)> {
        self.entries.keys.iter()
    }

    /// The version of the directory with the last change of a key. 0 if there was none.
    pub fn keys_version(&self) -> u64 {
        self.entries.key_changes.newest_version()
    }

    /// The version with a change of a key that was granted before, if it is remembered. Refused if its request id was used for
    /// something else.
    pub(crate) fn key_answered(&self, request: Request) -> Option<Result<u64, Refusal>> {
        let known = self.entries.key_changes.answered(request)?;
        Some(known.map(|known| known.version))
    }

    /// Decides a new key. `now` is true time.
    pub(crate) fn create_key(
        &self,
        now: Timestamp,
        name: Id,
        terms: NewKey,
        request: Request,
    ) -> Result<DirectoryEvent, Refusal> {
        if self.entries.keys.get(&name).is_some() {
            return Err(Refusal::AlreadyExistsDifferently(format_smolstr!(
                "key {name}, whose secret was shown when it was made"
            )));
        }
        let why = if terms.roles.is_empty() {
            format_smolstr!("a key has at least one role")
        } else if !terms.venues.is_empty() && terms.roles.has(Role::Admin) {
            format_smolstr!("a key with the role admin cannot be limited to venues")
        } else if terms.venues.len() > KEY_VENUES_MAX {
            format_smolstr!("a key is limited to at most {KEY_VENUES_MAX} venues")
        } else if self.entries.keys.len() >= KEYS_MAX {
            format_smolstr!("there are {KEYS_MAX} keys; revoke those that are not used")
        } else {
            let key = Box::new(AccessKey { terms, created_at: now });
            return Ok(DirectoryEvent::KeyCreated { name, key, request });
        };
        Err(Refusal::BadRequest(why))
    }

    /// Decides to revoke a key.
    pub(crate) fn revoke_key(&self, name: Id, request: Request) -> Result<DirectoryEvent, Refusal> {
        match self.entries.keys.get(&name) {
            Some(_) => Ok(DirectoryEvent::KeyRevoked { name, request }),
            None => Err(Refusal::NotFound(format_smolstr!("key {name}"))),
        }
    }

    /// Adds a key.
    pub(super) fn put_key(&mut self, name: &Id, key: AccessKey, request: Request) {
        self.entries.version += 1;
        self.entries.keys.insert(name.clone(), Arc::new(key));
        self.entries.key_changes.remember(request, self.entries.version, ());
    }

    /// Removes a key.
    pub(super) fn remove_key(&mut self, name: &Id, request: Request) {
        self.entries.version += 1;
        self.entries.keys.remove(name);
        self.entries.key_changes.remember(request, self.entries.version, ());
    }
}
