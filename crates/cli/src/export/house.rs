//! What the ids in an order mean: names of titles and venues, and the sessions and resources that were sold.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use boxoffice_core::{
    answer::SessionView,
    directory::Directory,
    id::{Entity, Id},
    layout::Layout,
    state_map::State,
};
use boxoffice_replication::inspect::DirectoryContent;

use super::SHARD;
use crate::{draw::joined, failure::Failure};

/// Looks ids up.
pub struct House<'a> {
    content: &'a DirectoryContent,
    directory: Option<Arc<State>>,
    /// Sessions that were looked up. An order has what it needs of anything else.
    sessions: RefCell<BTreeMap<Id, Option<Arc<SessionView>>>>,
    resources: RefCell<BTreeMap<Id, Option<String>>>,
}

impl<'a> House<'a> {
    /// That of a restored directory.
    pub fn new(content: &'a DirectoryContent) -> House<'a> {
        let directory = content.shards.iter().find_map(|shard| shard.kept.get(&Entity::Directory));
        House { content, directory, sessions: RefCell::default(), resources: RefCell::default() }
    }

    fn directory(&self) -> Option<&Directory> {
        match self.directory.as_deref() {
            Some(State::Directory(directory)) => Some(directory),
            _ => None,
        }
    }

    /// The name of a title. `None` if the house has none of that id.
    pub fn title(&self, id: &Id) -> Option<String> {
        Some(self.directory()?.title(id)?.name.to_string())
    }

    /// The name of a venue.
    pub fn venue(&self, id: &Id) -> Option<String> {
        Some(self.directory()?.venue(id)?.name.to_string())
    }

    /// A session, in memory or ended.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn session(&self, id: &Id) -> Result<Option<Arc<SessionView>>, Failure> {
        if let Some(known) = self.sessions.borrow().get(id) {
            return Ok(known.clone());
        }
        let found = match self.state(&Entity::Session(id.clone()))?.as_deref() {
            Some(State::Session(session)) => Some(session.view()),
            _ => None,
        };
        self.sessions.borrow_mut().insert(id.clone(), found.clone());
        Ok(found)
    }

    /// The name of a resource.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn resource(&self, id: &Id) -> Result<Option<String>, Failure> {
        if let Some(known) = self.resources.borrow().get(id) {
            return Ok(known.clone());
        }
        let found = match self.state(&Entity::Resource(id.clone()))?.as_deref() {
            Some(State::Resource(resource)) => Some(resource.view().details.name.to_string()),
            _ => None,
        };
        self.resources.borrow_mut().insert(id.clone(), found.clone());
        Ok(found)
    }

    fn state(&self, entity: &Entity) -> Result<Option<Arc<State>>, Failure> {
        if let Some(state) = self.content.shards.iter().find_map(|shard| shard.kept.get(entity)) {
            return Ok(Some(state));
        }
        let Some(store) = &self.content.history else { return Ok(None) };
        let stored = store.get(SHARD, entity).map_err(|error| Failure::Node(error.to_string()))?;
        Ok(stored.map(|stored| stored.state))
    }
}

/// The name of a seat as on the ticket, with its section where the row has one.
pub fn seat_name(layout: &Layout, index: u32) -> String {
    let name = joined(layout.row_label(index), &layout.seat_label(index));
    match &layout.rows()[usize::from(layout.seat(index).row)].section {
        Some(section) => format!("{section}/{name}"),
        None => name,
    }
}
