//! From any node to the one that decides: calls of clients, and asks between entities, across nodes.
//!
//! A node that does not lead an entity's shard sends what is for it to the node that does, in one hop. Who leads is learnt
//! from the shard's own replica here, or from the answers of nodes that were asked in vain; a wrong belief costs a hop and
//! never safety, for a leader answers only what its replicas have committed.

mod asked;
mod belief;
mod calls;
mod doubt;
mod histories;
mod inbox;
mod message;
mod parked;

pub(crate) use asked::{AGAIN_MS, Asked, encoded as encoded_ask, run as ask_again};
pub(crate) use belief::{Belief, Led};
pub(crate) use calls::{Calls, run};
pub(crate) use histories::{Histories, NoHistory, Wanted as WantedHistory};
pub(crate) use inbox::{PeerDoor, take};
pub(crate) use message::{Message, NoAnswer};
pub(crate) use parked::{Parked, Waiting};
