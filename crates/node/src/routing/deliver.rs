//! Delivers asks and replies of other shards to their entities.

use std::{borrow::Cow, sync::Arc};

use boxoffice_core::{host::Input, id::Entity};
use boxoffice_env::Lane;
use boxoffice_shard::NodeId;

use crate::{actor::send, caller::Caller, message::Message, pending::asks, shard_lead::ShardLead, shared::Shared};

/// Delivers an ask or a reply from the node `from`.
pub(crate) fn deliver(shared: &Arc<Shared>, from: NodeId, message: Message<'_>) {
    match message {
        // An ask would have to be written. It is repeated, to another leader or when there is room.
        Message::Ask { .. } if shared.replication.is_read_only() => {}
        Message::Ask { to, from: asker, ask, mark: _ } => {
            let input = Input::Ask { from: asker.into_owned(), ask: ask.into_owned() };
            hand_in(shared, from, &to, input);
        }
        Message::Reply { to, from: replier, reply, mark: _ } => {
            shared.outbound.replied(&to, &replier, &reply);
            let input = Input::Reply { from: replier.into_owned(), reply: reply.into_owned() };
            hand_in(shared, from, &to, input);
        }
        other => panic!("only asks and replies wait for a leader: {other:?}"),
    }
}

/// Hands an input to its entity, or tells the node `from` which node leads. What the sender does not repeat is passed on.
fn hand_in(shared: &Arc<Shared>, from: NodeId, to: &Entity, input: Input<Caller>) {
    let Err(input) = send(shared, to, input) else { return };
    let lead: &Arc<ShardLead> = shared.lead_of(to);
    let message = Message::NotLeader { shard: lead.id, leader: lead.leader_info() };
    // It asks again in any case.
    let _ = shared.world.net.send(from, Lane::Calls, message.encode());
    // The sender does not repeat these.
    match input {
        Input::Reply { from: replier, reply } => {
            let (to, replied) = (Cow::Borrowed(to), Cow::Owned(reply));
            let message = Message::Reply { to, from: Cow::Borrowed(&replier), reply: replied, mark: shared.mark() };
            shared.outbound.pass_on(lead, (from, &replier), message.encode());
        }
        Input::Ask { from: asker, ask } if !ask.wants_reply() => {
            shared.outbound.pass_on(lead, (from, &asker), asks::encoded(to, &asker, &ask, shared.mark()));
        }
        _ => {}
    }
}
