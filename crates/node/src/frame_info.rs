//! The content of a message between nodes, for the simulation of links. The simulation ends a node at a chosen message, and
//! checks that statements are never taken back.

use boxoffice_core::{
    ask::{Ask, Reply},
    id::{Entity, HoldId},
};

use crate::message::Message;

/// A message on [`Lane::Calls`](boxoffice_env::Lane::Calls).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    pub kind: &'static str,
    /// The inventory and the hold that a cart disowns. It can never become a line.
    pub disowned: Option<(Entity, HoldId)>,
}

/// Decodes a message. `None` if it is none.
pub fn frame_info(frame: &[u8]) -> Option<FrameInfo> {
    let message = Message::decode(frame).ok()?;
    let disowned = match &message {
        Message::Reply { to, reply, .. } => match &**reply {
            Reply::NotMine { hold } => Some((Entity::clone(to), *hold)),
            _ => None,
        },
        _ => None,
    };
    let kind = match &message {
        Message::Call { .. } => "call",
        Message::Answer { .. } => "answer",
        Message::Ask { ask, .. } => match &**ask {
            Ask::Hold { .. } => "hold",
            Ask::Release { .. } => "release",
            Ask::Sell { .. } => "sell",
            Ask::Overdue { .. } => "overdue",
            _ => "another ask",
        },
        Message::Reply { reply, .. } => match &**reply {
            Reply::Granted(_) => "granted",
            Reply::Released { .. } => "released",
            Reply::Sold { .. } => "sold",
            Reply::MineFor { .. } => "mine",
            Reply::NotMine { .. } => "not mine",
            _ => "another reply",
        },
        _ => "of the nodes",
    };
    Some(FrameInfo { kind, disowned })
}
