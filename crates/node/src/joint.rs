//! Joint turns: a cart and an inventory of one shard decide together, and what happened to both is one proposal.
//!
//! Without them a hold takes two turns, one after the other (the grant, then the line), and a checkout three (the order, the
//! sale, its acknowledgement). Within a shard nothing has to be waited for in between: one entry of the log has the turns of
//! both, or of neither.
//!
//! If no message waits for the inventory, the cart's actor takes up the inventory's state as well ([`crate::desk`]), and decides
//! the ask and the reply at the same instant. Otherwise it **lends** its host to the inventory's actor together with the ask: that
//! one decides for both when it comes to it, and sends the host back. What comes for the cart meanwhile waits. An inventory waits
//! for no longer than one decision takes, so nobody waits in a circle. What cannot be decided together goes on with messages. If
//! the term ends, both actors end with it, and a host on its way between them is dropped: what it had decided was never proposed.
//!
//! Whatever the cart says in a joint turn waits for its commit, also what it could have said at once: it rests on a grant that
//! is not committed.

use std::sync::Arc;

use boxoffice_core::{
    ask::{Ask, Reply},
    host::{Effect, Host, Turn},
    id::Entity,
    planted,
};
use smol_str::SmolStr;

use crate::{
    actor::AtWork,
    cell::{Caller, Served},
};

/// A cart's host on its way to the inventory that it asks.
pub(crate) struct Loan {
    /// The cart.
    pub(crate) cart: Entity,
    pub(crate) host: Host<Caller>,
    pub(crate) served: Arc<Served>,
    /// What the cart has decided already, without the ask: an order, or nothing yet.
    pub(crate) turn: Turn<Caller>,
    /// The name of the key or the operator that sent the command.
    pub(crate) by: Option<SmolStr>,
    /// What it asks.
    pub(crate) ask: Ask,
    /// Whom.
    pub(crate) inventory: Entity,
}

/// What becomes of a loan.
pub(crate) enum Lent {
    /// The inventory is at rest: it is decided here and now.
    Beside(Box<Loan>, AtWork),
    /// The inventory's actor decides when its turn has come, and gives the host back.
    Sent,
    /// This node does not lead any more.
    Not(Box<Loan>),
}

/// A cart's host on its way back.
pub(crate) enum Returned {
    /// The turn was proposed, or the cart is told of the inventory's answer by a message.
    Asked(Host<Caller>),
    /// Nothing was decided: the cart goes on by itself.
    AsItCame(Box<Loan>),
    /// The cart panicked as it decided the reply.
    Lost,
}

impl Loan {
    /// Whether it asks for a hold; otherwise it asks to sell.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.ask, Ask::Hold { .. })
    }

    /// What the cart gets back when nothing was decided together. It hears of a hold by a message. What has happened to the cart, an
    /// order or the beginning of a checkout, it proposes by itself, and asks again.
    pub(crate) fn undecided(self: Box<Self>) -> Returned {
        let has_changed = !self.turn.events.is_empty() && !planted::is("a beginning forgotten with its hold");
        if self.holds() && !has_changed { Returned::Asked(self.host) } else { Returned::AsItCame(self) }
    }

    /// Puts the ask back to where the cart had it.
    pub(crate) fn undo(self) -> (Host<Caller>, Turn<Caller>, Option<SmolStr>) {
        let Loan { host, mut turn, by, ask, inventory, .. } = self;
        let effect = Effect::Ask { to: inventory, ask };
        if turn.events.is_empty() {
            turn.now.push(effect)
        } else {
            turn.committed.insert(0, effect)
        }
        (host, turn, by)
    }
}

/// Takes the ask out of a cart's turn if it can be decided together with the inventory: a hold of one line, or the sale of an
/// order of one line, of an inventory for which `is_here` says yes. A turn that reads, or that tells anybody at once, cannot.
pub(crate) fn take_ask(turn: &mut Turn<Caller>, is_here: impl Fn(&Entity) -> bool) -> Option<(Entity, Ask)> {
    if !turn.read.is_empty() {
        return None;
    }
    let is_inventory = |to: &Entity| matches!(to, Entity::Session(_) | Entity::Product(_) | Entity::Resource(_));
    let asks = |effect: &Effect<Caller>| match effect {
        Effect::Ask { to, ask: Ask::Hold { .. } | Ask::Sell { .. } } => is_inventory(to),
        _ => false,
    };
    let effects = match (turn.events.is_empty(), turn.now.len()) {
        (true, 1) if turn.committed.is_empty() => &mut turn.now,
        (false, 0) => &mut turn.committed,
        _ => return None,
    };
    let place = effects.iter().position(asks)?;
    if effects.iter().filter(|effect| asks(effect)).count() > 1 {
        return None;
    }
    match &effects[place] {
        Effect::Ask { to, .. } if is_here(to) => {}
        _ => return None,
    }
    match effects.remove(place) {
        Effect::Ask { to, ask } => Some((to, ask)),
        Effect::Answer { .. } | Effect::Reply { .. } | Effect::Pay(_) => panic!("an ask was found here"),
    }
}

/// The inventory's reply to the cart, if the inventory's turn has nothing else to say.
pub(crate) fn take_reply(turn: &mut Turn<Caller>, cart: &Entity) -> Option<Reply> {
    if turn.events.is_empty() || !turn.read.is_empty() || !turn.now.is_empty() || turn.committed.len() != 1 {
        return None;
    }
    match turn.committed.pop() {
        Some(Effect::Reply { to, reply }) if to == *cart => Some(reply),
        other => {
            turn.committed.extend(other);
            None
        }
    }
}

/// Puts what is in `more` behind `list`, which takes no more memory than that needs.
pub(crate) fn append<T>(list: &mut Vec<T>, more: &mut Vec<T>) {
    if list.is_empty() {
        std::mem::swap(list, more);
    } else {
        list.reserve_exact(more.len());
        list.append(more);
    }
}
