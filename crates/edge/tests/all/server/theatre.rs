//! The feeds of the test's node: sessions and their maps, a cart, customers.

use std::collections::BTreeMap;

use boxoffice_core::{
    answer::{Answer, MapView, Purchase},
    id::{Entity, Id},
};
use boxoffice_feeds::{FeedSource, InitialState, NoFeed};
use tracing_mutex::parkinglot::Mutex;

use crate::server::common::{cart, opened};

/// Sessions and their maps.
#[derive(Default)]
pub(crate) struct Theatre {
    pub(crate) sessions: Mutex<BTreeMap<Id, MapView>>,
    /// The threads that began feeds.
    pub(crate) threads: Mutex<Vec<String>>,
}

impl FeedSource for Theatre {
    fn begin(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        self.threads.lock().push(std::thread::current().name().unwrap_or_default().to_owned());
        match entity {
            // Another node has it, and never answers.
            Entity::Session(session) if session.as_str() == "elsewhere" => Err(NoFeed::Pending),
            Entity::Session(session) => {
                self.sessions.lock().get(session).cloned().map(InitialState::Session).ok_or(NoFeed::NotFound)
            }
            Entity::Cart(id) if *id == cart(1) => {
                let Answer::Cart(view) = opened(*id).answer else { panic!("it is a cart") };
                Ok(InitialState::Cart { version: 1, cart: Box::new(view) })
            }
            Entity::Customer(_) => Ok(InitialState::Customer { newest: 0 }),
            _ => Err(NoFeed::NotFound),
        }
    }

    fn may_lag(&self, _entity: &Entity) -> bool {
        false
    }

    fn begin_elsewhere(&self, entity: &Entity) -> Result<InitialState, NoFeed> {
        self.begin(entity)
    }

    fn end(&self, _entity: &Entity) {}

    fn purchases(&self, _customer: &Id, _after: u64, _limit: u32) -> Option<Vec<Purchase>> {
        Some(Vec::new())
    }
}
