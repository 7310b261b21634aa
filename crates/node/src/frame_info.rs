//! What a message between nodes says, for the simulation of the links between them: to end a node at a chosen word, and to
//! judge words that must never be taken back.

use boxoffice_core::{
    ask::{Ask, Reply},
    id::{Entity, HoldId},
};

use crate::message::Message;

/// A message on [`Lane::Calls`](boxoffice_env::Lane::Calls).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// What kind of message it is.
    pub kind: &'static str,
    /// The inventory and the hold of which a cart says that it is not its own: it can never become a line.
    pub disowned: Option<(Entity, HoldId)>,
}

/// Understands a message; `None` if it is none.
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
