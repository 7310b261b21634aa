//! Routes calls of clients, and asks between entities, from any node to the one that decides.
//!
//! A node that does not lead an entity's shard sends its messages to the node that does, in one hop. It learns the leader from
//! the shard's own replica here, or from the answers of nodes that do not lead. A wrong hint costs a hop and never safety,
//! because a leader answers only what its replicas have committed.

mod again;
mod calls;
mod deliver;
mod submit;

pub(crate) use again::{leader_changed, run as ask_again};
pub(crate) use calls::{begin_call, call_answered, calls_lost, run};
pub(crate) use deliver::deliver;
pub(crate) use submit::{sheds, sheds_first, submit};
