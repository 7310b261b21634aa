//! Asks of entities here that entities of other shards have not replied to yet. They are repeated at once when their shard has
//! another leader, or when the asked node does not lead it. Entities themselves ask again only after a second, and clients wait
//! for them. Asks to shards that this node leads are among them, because a leader's mailboxes are lost when its term ends.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use boxoffice_core::{
    ask::{Ask, Reply},
    id::{Entity, HoldId},
    planted,
};
use boxoffice_shard::ShardId;
use bytes::Bytes;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

use super::steps::Steps;
use crate::message::Message;

/// Asks that are remembered. Further ones are repeated by their entities only.
const ASKS_MAX: usize = 16_384;
/// How long an ask is remembered, in milliseconds. After that its entity asks again by itself.
const LIFE_MS: u64 = 1_000;
/// Milliseconds before a shard is asked again that could not be reached, or did not lead.
pub(crate) const AGAIN_MS: u64 = 40;

/// The entity that is asked, the one that asks, the hold.
type Key = (Entity, Entity, Option<HoldId>);

/// Asks to other shards without a reply.
#[derive(Default)]
pub(crate) struct PendingAsks {
    table: Mutex<AskTable>,
    pub(crate) some: Notify,
}

#[derive(Default)]
struct AskTable {
    /// By shard, the newest ask of each kind, and its number.
    asks: BTreeMap<ShardId, BTreeMap<Arc<Key>, (u64, Ask)>>,
    /// By number, which grows with time: when it was asked. So the oldest are found without a look at all.
    ages: BTreeMap<u64, (u64, ShardId, Arc<Key>)>,
    /// The number of the next ask.
    next: u64,
    /// Shards that are to be asked again, and when.
    due: BTreeMap<ShardId, u64>,
    steps: Steps,
}

impl AskTable {
    /// Forgets asks that their entities repeat by themselves.
    fn forget_old(&mut self, now_ms: u64) {
        while let Some(oldest) = self.ages.first_entry()
            && now_ms.saturating_sub(oldest.get().0) >= LIFE_MS
        {
            self.steps.step();
            let (_, shard, key) = oldest.remove();
            self.remove(shard, &key);
        }
    }

    fn insert(&mut self, shard: ShardId, key: Key, ask: Ask, now_ms: u64) {
        let key = Arc::new(key);
        let number = self.next;
        self.next += 1;
        let before = self.asks.entry(shard).or_default().insert(Arc::clone(&key), (number, ask));
        if let Some((before, _)) = before {
            self.ages.remove(&before);
        }
        self.ages.insert(number, (now_ms, shard, key));
    }

    fn remove(&mut self, shard: ShardId, key: &Key) {
        let Some(asks) = self.asks.get_mut(&shard) else { return };
        if let Some((number, _)) = asks.remove(key) {
            self.ages.remove(&number);
        }
        if asks.is_empty() {
            self.asks.remove(&shard);
        }
    }
}

impl PendingAsks {
    /// Remembers an ask until it is replied to.
    pub(crate) fn note(&self, shard: ShardId, (to, from): (&Entity, &Entity), ask: &Ask, now_ms: u64) {
        let mut table = self.table.lock();
        if table.ages.len() >= ASKS_MAX {
            if planted::is("every ask looked at") {
                table.ages.values().for_each(|_| table.steps.step());
            }
            table.forget_old(now_ms);
        }
        if table.ages.len() < ASKS_MAX {
            table.insert(shard, (to.clone(), from.clone(), ask.hold()), ask.clone(), now_ms);
        }
    }

    /// A reply has arrived. A repeated reply to an earlier ask about the same hold does not answer the newest ask.
    pub(crate) fn replied(&self, shard: ShardId, (replier, to): (&Entity, &Entity), reply: &Reply) {
        let key = (replier.clone(), to.clone(), reply.hold());
        let mut table = self.table.lock();
        let newest = table.asks.get(&shard).and_then(|asks| asks.get(&key));
        if newest.is_some_and(|(_, ask)| is_answered(ask, reply)) {
            table.remove(shard, &key);
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

    /// The asks to repeat now, with the entity that asks, by shard. They carry this mark.
    pub(crate) fn take(&self, now_ms: u64, mark: Option<u64>) -> Vec<(ShardId, Vec<(Entity, Bytes)>)> {
        let mut table = self.table.lock();
        let due = table.due.extract_if(.., |_, at_ms| *at_ms <= now_ms);
        let shards: Vec<ShardId> = due.map(|(shard, _)| shard).collect();
        if shards.is_empty() {
            return Vec::new();
        }
        table.forget_old(now_ms);
        let of = |shard: ShardId| {
            let asks = table.asks.get(&shard).into_iter().flatten().inspect(|_| table.steps.step());
            let encoded = asks.map(|(key, (_, ask))| {
                let (to, from, _) = &**key;
                (from.clone(), encoded(to, from, ask, mark))
            });
            (shard, encoded.collect())
        };
        shards.into_iter().map(of).collect()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.table.lock().due.is_empty()
    }
}

/// An ask as it is sent to another node.
pub(crate) fn encoded(to: &Entity, from: &Entity, ask: &Ask, mark: Option<u64>) -> Bytes {
    Message::Ask { to: Cow::Borrowed(to), from: Cow::Borrowed(from), ask: Cow::Borrowed(ask), mark }.encode()
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
        assert!(parts(asked.take(20, None)).is_empty(), "no news of another leader has come");
        asked.again(4, true, 20);
        assert!(parts(asked.take(20, None)).is_empty(), "another shard's");
        asked.again(3, false, 20);
        assert!(parts(asked.take(20 + AGAIN_MS - 1, None)).is_empty());
        asked.again(3, true, 25);
        assert_eq!(parts(asked.take(25, None)), [1, 3]);
        assert!(parts(asked.take(25 + AGAIN_MS, None)).is_empty(), "once");
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
        assert_eq!(parts(asked.take(20, None)), [1]);
    }

    #[test]
    fn old_asks_are_forgotten_and_their_number_is_bounded() {
        let asked = PendingAsks::default();
        noted(&asked, 1, 10);
        asked.again(3, true, 10 + LIFE_MS);
        assert!(parts(asked.take(10 + LIFE_MS, None)).is_empty());
        (0..=ASKS_MAX as u16).for_each(|part| noted(&asked, part, 2_000));
        asked.again(3, true, 2_000);
        assert_eq!(parts(asked.take(2_000, None)).len(), ASKS_MAX);
        asked.again(3, true, 2_000 + LIFE_MS);
        noted(&asked, 5, 2_000 + LIFE_MS);
        assert_eq!(parts(asked.take(2_000 + LIFE_MS, None)), [5], "old ones make room");
    }

    fn cart(number: u64) -> Entity {
        Entity::Cart(CartId(u128::from(number)))
    }

    fn steps(asked: &PendingAsks) -> u64 {
        asked.table.lock().steps.take()
    }

    /// The shard 3 is dead, and each of its asks comes again after a second. Another shard replies at once.
    fn steps_beside_a_dead_shard() -> u64 {
        let (asked, (session, _)) = (PendingAsks::default(), entities());
        let ask = Ask::Overdue { hold: hold(0) };
        (0..ASKS_MAX as u64).for_each(|number| asked.note(3, (&session, &cart(number)), &ask, 1_000));
        steps(&asked);
        let mut most = 0;
        for number in 0..1_000 {
            let now_ms = 1_000 + number;
            asked.note(3, (&session, &cart(1 << 32 | number)), &ask, now_ms);
            most = most.max(steps(&asked));
            asked.note(4, (&session, &cart(number)), &ask, now_ms);
            asked.replied(4, (&session, &cart(number)), &Reply::NotMine { hold: hold(0) });
            asked.again(4, true, now_ms);
            assert!(parts(asked.take(now_ms, None)).is_empty(), "everything of shard 4 is replied to");
            most = most.max(steps(&asked));
        }
        assert_eq!(asked.table.lock().ages.len(), ASKS_MAX);
        most
    }

    #[test]
    fn nothing_walks_over_the_asks_of_a_dead_shard() {
        let most = steps_beside_a_dead_shard();
        assert!(most <= 2, "{most} asks were looked at by one operation");
        #[cfg(debug_assertions)]
        {
            let most = crate::planting::with_planted("every ask looked at", steps_beside_a_dead_shard);
            assert_eq!(most, ASKS_MAX as u64);
        }
    }

    /// Random asks, replies and times, and a list that is walked.
    #[test]
    fn asks_match_a_plain_list() {
        use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
        let seed: u64 = SmallRng::from_os_rng().random();
        println!("seed {seed}");
        let mut rng = SmallRng::seed_from_u64(seed);
        let (session, _) = entities();
        for _ in 0..50 {
            let (asked, mut now_ms) = (PendingAsks::default(), 0);
            // Shard, cart, hold, time, in the order of the keys.
            let mut list: Vec<(ShardId, u64, u16, u64)> = Vec::new();
            for _ in 0..400 {
                now_ms += rng.random_range(0..20);
                let (shard, number, part) = (rng.random_range(1..4), rng.random_range(0..8), rng.random_range(0..3));
                let is_it = |known: &(ShardId, u64, u16, u64)| (known.0, known.1, known.2) == (shard, number, part);
                match rng.random_range(0..10) {
                    0..6 => {
                        asked.note(shard, (&session, &cart(number)), &Ask::Overdue { hold: hold(part) }, now_ms);
                        list.retain(|known| !is_it(known));
                        list.push((shard, number, part, now_ms));
                    }
                    6..8 => {
                        asked.replied(shard, (&session, &cart(number)), &Reply::NotMine { hold: hold(part) });
                        list.retain(|known| !is_it(known));
                    }
                    _ => {
                        asked.again(shard, true, now_ms);
                        list.retain(|(.., at_ms)| now_ms - at_ms < LIFE_MS);
                        list.sort_unstable();
                        let expected = list.iter().filter(|known| known.0 == shard).map(|known| known.2);
                        assert_eq!(parts(asked.take(now_ms, None)), expected.collect::<Vec<_>>());
                        assert_eq!(asked.table.lock().ages.len(), list.len());
                    }
                }
            }
        }
    }

    /// Prints the time of an ask while another shard is dead. `cargo test --release -p boxoffice-node --lib asks -- --ignored
    /// --nocapture`.
    #[test]
    #[ignore = "measures time"]
    #[expect(clippy::disallowed_methods, reason = "it measures time and tests nothing")]
    fn time_of_an_ask_beside_a_dead_shard() {
        let (asked, (session, _)) = (PendingAsks::default(), entities());
        let ask = Ask::Overdue { hold: hold(0) };
        (0..ASKS_MAX as u64).for_each(|number| asked.note(3, (&session, &cart(number)), &ask, 1_000));
        let begun = std::time::Instant::now();
        const ASKS: u64 = 1_000;
        for number in 0..ASKS {
            asked.note(4, (&session, &cart(number)), &ask, 1_001);
            asked.replied(4, (&session, &cart(number)), &Reply::NotMine { hold: hold(0) });
        }
        println!(
            "an ask beside {ASKS_MAX} of a dead shard: {:.2} µs",
            begun.elapsed().as_secs_f64() * 1e6 / ASKS as f64
        );
    }
}
