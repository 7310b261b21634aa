//! Asks of entities here that entities of other shards have not replied to yet. They are repeated at once when their shard has
//! another leader, or when the asked node does not lead it. Entities themselves ask again only after a second, and clients wait
//! for them. Asks to shards that this node leads are among them, because a leader's mailboxes are lost when its term ends.

use std::{borrow::Cow, collections::BTreeMap};

use boxoffice_core::{
    ask::{Ask, Reply},
    id::{Entity, HoldId},
};
use boxoffice_shard::ShardId;
use bytes::Bytes;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

use crate::message::Message;

/// Asks that are remembered. Further ones are repeated by their entities only.
const ASKS_MAX: usize = 16_384;
/// How long an ask is remembered, in milliseconds. After that its entity asks again by itself.
const LIFE_MS: u64 = 1_000;
/// Milliseconds before a shard is asked again that could not be reached, or did not lead.
pub(crate) const AGAIN_MS: u64 = 40;

/// The shard, the entity that is asked, the one that asks, the hold.
type Key = (ShardId, Entity, Entity, Option<HoldId>);

/// Asks to other shards without a reply.
#[derive(Default)]
pub(crate) struct PendingAsks {
    table: Mutex<Table>,
    pub(crate) some: Notify,
}

#[derive(Default)]
struct Table {
    /// The newest ask of each kind, and when it was asked.
    asks: BTreeMap<Key, (u64, Ask)>,
    /// Shards that are to be asked again, and when.
    due: BTreeMap<ShardId, u64>,
}

impl PendingAsks {
    /// Remembers an ask until it is replied to.
    pub(crate) fn note(&self, shard: ShardId, (to, from): (&Entity, &Entity), ask: &Ask, now_ms: u64) {
        let mut table = self.table.lock();
        if table.asks.len() >= ASKS_MAX {
            table.asks.retain(|_, (at_ms, _)| now_ms.saturating_sub(*at_ms) < LIFE_MS);
        }
        if table.asks.len() < ASKS_MAX {
            table.asks.insert((shard, to.clone(), from.clone(), ask.hold()), (now_ms, ask.clone()));
        }
    }

    /// A reply has arrived. A repeated reply to an earlier ask about the same hold does not answer the newest ask.
    pub(crate) fn replied(&self, shard: ShardId, (replier, to): (&Entity, &Entity), reply: &Reply) {
        let key = (shard, replier.clone(), to.clone(), reply.hold());
        let mut table = self.table.lock();
        if table.asks.get(&key).is_some_and(|(_, ask)| is_answered(ask, reply)) {
            table.asks.remove(&key);
        }
    }

    /// Schedules to ask a shard again: at once if its leader is new, else after a while.
    pub(crate) fn again(&self, shard: ShardId, is_news: bool, now_ms: u64) {
        let at_ms = if is_news { now_ms } else { now_ms + AGAIN_MS };
        let mut table = self.table.lock();
        let due = table.due.entry(shard).or_insert(at_ms);
        *due = at_ms.min(*due);
        drop(table);
        self.wake();
    }

    /// Something must be sent again.
    pub(crate) fn wake(&self) {
        self.some.notify_one();
    }

    /// The asks to repeat now, with the entity that asks, by shard.
    pub(crate) fn take(&self, now_ms: u64) -> Vec<(ShardId, Vec<(Entity, Bytes)>)> {
        let Table { asks, due } = &mut *self.table.lock();
        let shards: Vec<ShardId> = due.extract_if(.., |_, at_ms| *at_ms <= now_ms).map(|(shard, _)| shard).collect();
        if shards.is_empty() {
            return Vec::new();
        }
        asks.retain(|_, (at_ms, _)| now_ms.saturating_sub(*at_ms) < LIFE_MS);
        let of = |shard: ShardId| {
            let asks = asks.iter().filter(move |((of, ..), _)| *of == shard);
            (shard, asks.map(|((_, to, from, _), (_, ask))| (from.clone(), encoded(to, from, ask))).collect())
        };
        shards.into_iter().map(of).collect()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.table.lock().due.is_empty()
    }
}

/// An ask as it is sent to another node.
pub(crate) fn encoded(to: &Entity, from: &Entity, ask: &Ask) -> Bytes {
    Message::Ask { to: Cow::Borrowed(to), from: Cow::Borrowed(from), ask: Cow::Borrowed(ask) }.encode()
}

/// Whether a reply about the same hold is the one to this ask.
fn is_answered(ask: &Ask, reply: &Reply) -> bool {
    match (ask, reply) {
        (Ask::Hold { revision, .. }, Reply::Granted(granted)) => granted.revision >= *revision,
        (Ask::Hold { revision, .. }, Reply::Refused { revision: of, .. } | Reply::Stale { revision: of, .. })
        | (Ask::Release { revision, .. }, Reply::Released { revision: of, .. }) => of >= revision,
        (Ask::Sell { .. }, reply) => matches!(reply, Reply::Sold { .. }),
        (Ask::Refund { .. }, reply) => matches!(reply, Reply::Refunded { .. }),
        (Ask::Hold { .. } | Ask::Release { .. }, _) => false,
        (_, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::id::{CartId, Id, RequestHash};

    use super::*;

    fn hold(part: u16) -> HoldId {
        HoldId { cart: CartId(7), request: RequestHash(1), part, attempt: 0 }
    }

    fn entities() -> (Entity, Entity) {
        (Entity::Session(Id::new("hamlet").unwrap()), Entity::Cart(CartId(7)))
    }

    fn noted(asked: &PendingAsks, part: u16, now_ms: u64) {
        let (session, cart) = entities();
        let ask = Ask::Overdue { hold: hold(part) };
        asked.note(3, (&session, &cart), &ask, now_ms);
    }

    fn parts(taken: Vec<(ShardId, Vec<(Entity, Bytes)>)>) -> Vec<u16> {
        let all = taken.into_iter().flat_map(|(_, messages)| messages);
        let part = |(_, message): (Entity, Bytes)| match Message::decode(&message) {
            Ok(Message::Ask { ask, .. }) => ask.hold().expect("it is about a hold").part,
            other => panic!("{other:?}"),
        };
        all.map(part).collect()
    }

    #[test]
    fn unanswered_asks_are_asked_again_with_their_shard() {
        let asked = PendingAsks::default();
        (1..=3).for_each(|part| noted(&asked, part, 10));
        let (session, cart) = entities();
        asked.replied(3, (&session, &cart), &Reply::NotMine { hold: hold(2) });
        assert!(parts(asked.take(20)).is_empty(), "no news of another leader has come");
        asked.again(4, true, 20);
        assert!(parts(asked.take(20)).is_empty(), "another shard's");
        asked.again(3, false, 20);
        assert!(parts(asked.take(20 + AGAIN_MS - 1)).is_empty());
        asked.again(3, true, 25);
        assert_eq!(parts(asked.take(25)), [1, 3]);
        assert!(parts(asked.take(25 + AGAIN_MS)).is_empty(), "once");
    }

    #[test]
    fn a_late_reply_to_an_earlier_ask_of_the_same_hold_is_none_to_the_newest() {
        let asked = PendingAsks::default();
        let (session, cart) = entities();
        let (first, second) = (hold(1), hold(2));
        let release = |hold, revision| Ask::Release { hold, revision, left: None, last: false, expired: false };
        asked.note(3, (&session, &cart), &release(first, 2), 10);
        asked.note(3, (&session, &cart), &release(second, 2), 10);
        let late =
            [Reply::Stale { hold: first, revision: 1, live: true }, Reply::Released { hold: first, revision: 1 }];
        for reply in late {
            asked.replied(3, (&session, &cart), &reply);
        }
        asked.replied(3, (&session, &cart), &Reply::Released { hold: second, revision: 2 });
        asked.again(3, true, 20);
        assert_eq!(parts(asked.take(20)), [1]);
    }

    #[test]
    fn old_asks_are_forgotten_and_their_number_is_bounded() {
        let asked = PendingAsks::default();
        noted(&asked, 1, 10);
        asked.again(3, true, 10 + LIFE_MS);
        assert!(parts(asked.take(10 + LIFE_MS)).is_empty());
        (0..=ASKS_MAX as u16).for_each(|part| noted(&asked, part, 2_000));
        asked.again(3, true, 2_000);
        assert_eq!(parts(asked.take(2_000)).len(), ASKS_MAX);
        asked.again(3, true, 2_000 + LIFE_MS);
        noted(&asked, 5, 2_000 + LIFE_MS);
        assert_eq!(parts(asked.take(2_000 + LIFE_MS)), [5], "old ones make room");
    }
}
