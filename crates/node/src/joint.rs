//! Joint turns: a cart and an inventory of one shard decide together, and their events are one proposal.
//!
//! Without them a hold takes two turns, one after the other (the grant, then the line), and a checkout three (the order, the
//! sale, its acknowledgement). Within a shard nothing has to wait in between, because one entry of the log has the turns of both,
//! or of neither.
//!
//! If no message waits for the inventory, the cart's actor takes the inventory's state as well ([`crate::state_slot`]), and
//! decides the ask and the reply at the same instant. Otherwise it sends its host to the inventory's actor together with the ask
//! ([`JointAsk`](crate::shard_lead::JointAsk)). That actor decides for both when it comes to the ask, and sends the host back.
//! Messages for the cart wait meanwhile.
//!
//! An inventory waits for no longer than one decision takes, so there is no circle of waiting. An ask that cannot be decided
//! together goes on with messages. If the term ends, both actors end with it. A host on its way between them is dropped, and its
//! decisions were never proposed.
//!
//! All effects of the cart in a joint turn wait for its commit, even those that could be carried out at once, because they depend
//! on a grant that is not committed.

use boxoffice_core::{
    ask::{Ask, Reply},
    host::{Effect, Turn},
    id::Entity,
};

use crate::caller::Caller;

/// Takes the ask out of a cart's turn if it can be decided together with the inventory: a hold of one line, which is in `now`, or
/// the sale of an order of one line, which is in `committed`. The inventory must be one for which `is_here` is true. A turn that waits
/// for a read cannot be decided so, nor one with anything else in `now`, because all effects of a joint turn wait for its commit.
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

/// The inventory's reply to the cart, if the inventory's turn has events and nothing else to say. Without events the reply waits in
/// `read` and goes to the cart as a message.
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

/// Moves `more` to the end of `list`, which takes no more memory than that needs.
pub(crate) fn append<T>(list: &mut Vec<T>, more: &mut Vec<T>) {
    if list.is_empty() {
        std::mem::swap(list, more);
    } else {
        list.reserve_exact(more.len());
        list.append(more);
    }
}
