//! The holds of an inventory. They are live, or were released, sold or refunded.
//!
//! The inventory counts what is free. This module knows the content of each hold, and which of two messages about a hold is
//! newer. Everything is in shared maps, so a copy of an inventory with many sales is cheap, and so is the next hold after it.

use alloc::{boxed::Box, vec::Vec};
use core::{
    fmt::Debug,
    ops::Bound::{Excluded, Included, Unbounded},
};

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    answer::{HoldView, HolderView, SaleView},
    ask::Reply,
    command::{ShownCode, Want},
    event::HoldEvent,
    fairness::{Accounts, Amount, Charge, Charged, FairAsk, Fairness, MaybeAccounts, Supply},
    holder::Holder,
    id::{CartId, Entity, HoldId, Id, OrderId},
    planted,
    portion::Portion,
    refusal::Refusal,
    shared_map::{SharedMap, SharedSet},
    stored::{Decode, Encode},
    time::Timestamp,
};

/// Holds and sales. `W` is the content of one hold, as the inventory keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
#[stored(bounds(W: Encode + Decode + Clone + Debug))]
pub(crate) struct Holds<W> {
    #[n(1)]
    live: SharedMap<HoldId, Hold<W>>,
    /// Revisions of released holds about which their carts may still send messages.
    #[n(2)]
    released: SharedMap<HoldId, u64>,
    #[n(3)]
    sales: SharedMap<HoldId, Sale<W>>,
    /// Holds whose sale was refunded. They stay, because the message that sold one may come a second time, at any later time.
    #[n(4)]
    refunded: SharedSet<HoldId>,
    /// What the networks and customers hold that have a share. `None` until one holds something.
    #[n(0)]
    accounts: MaybeAccounts,
    /// Deadlines of the live holds. Follows from the rest.
    #[stored(skip)]
    due: SharedSet<(Timestamp, HoldId)>,
}

/// A live hold.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
#[stored(bounds(W: Encode + Decode + Debug))]
pub(crate) struct Hold<W> {
    /// The highest revision seen.
    #[n(0)]
    pub(crate) revision: u64,
    /// Hash of the ask.
    #[n(1)]
    pub(crate) want_hash: u64,
    /// When the cart is asked about it.
    #[n(2)]
    pub(crate) deadline: Timestamp,
    /// The inventory's version when the hold got its content. A repeat is answered with it.
    #[n(3)]
    pub(crate) version: u64,
    /// The account that it is charged to, if its holder has a share.
    #[n(5)]
    pub(crate) charged: Option<Box<Charged>>,
    #[n(4)]
    pub(crate) what: W,
}

/// A hold that was sold.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
#[stored(bounds(W: Encode + Decode + Debug))]
pub(crate) struct Sale<W> {
    /// When the order was decided.
    #[n(0)]
    pub(crate) at: Timestamp,
    /// The inventory's version with the sale.
    #[n(1)]
    pub(crate) version: u64,
    #[n(2)]
    pub(crate) what: W,
}

/// Everything about a live hold but its content.
pub(crate) type LiveHold = Hold<()>;

/// A cart's ask for a hold.
pub(crate) struct HoldAsk<'a> {
    pub(crate) hold: HoldId,
    pub(crate) revision: u64,
    pub(crate) want: &'a Want,
    /// When the inventory asks the cart about the hold, the grace included.
    pub(crate) deadline: Timestamp,
    /// The shard's running time.
    pub(crate) at: Timestamp,
    /// The holder and the terms of its share, if it has one, and how long the cart will live, in milliseconds.
    pub(crate) holder: Option<(Holder, &'a Fairness, u64)>,
    /// Whether the desk asks.
    pub(crate) desk: bool,
    /// The code of which the cart holds uses for it.
    pub(crate) code: Option<&'a ShownCode>,
    /// The attributes of the customer whose token the buyer has shown.
    pub(crate) attributes: &'a [Id],
    /// The customer of the cart, if it is known.
    pub(crate) customer: Option<&'a Id>,
}

impl HoldAsk<'_> {
    /// The reply that refuses it.
    pub(crate) fn refused(&self, refusal: Refusal) -> Reply {
        Reply::Refused { hold: self.hold, revision: self.revision, refusal }
    }
}

/// Cases of an ask for a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldCase {
    /// The hold is new.
    New,
    /// The live hold is to have more or less.
    Change,
    /// The live hold was granted for the same ask. It is granted again without an event.
    Repeat,
    /// The request id of the live hold was used for something else.
    Reused,
    /// The ask is older than this revision of the hold, or the hold is over.
    Stale { revision: u64, live: bool },
}

/// Cases of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseCase {
    /// The release changes nothing.
    Noop,
    /// The hold is unknown. The release is remembered, because the ask may still be on its way.
    Unknown,
    /// The hold is live, and the release is newer than everything that it has seen.
    Live,
}

/// The content that a refund took back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refunded<W> {
    Sale(W),
    /// A hold whose sale had not come yet. The sale will find that it is refunded.
    Hold(W),
}

impl<W> Refunded<W> {
    /// The same with another content.
    pub(crate) fn map<U>(self, map: impl FnOnce(W) -> U) -> Refunded<U> {
        match self {
            Refunded::Sale(what) => Refunded::Sale(map(what)),
            Refunded::Hold(what) => Refunded::Hold(map(what)),
        }
    }
}

impl<W> Hold<W> {
    /// A hold that the inventory gets with this version.
    pub(crate) fn new(revision: u64, want_hash: u64, deadline: Timestamp, version: u64, what: W) -> Hold<W> {
        Hold { revision, want_hash, deadline, version, charged: None, what }
    }
}

/// Operations on holds that do not depend on their content.
pub(crate) trait HoldIndex {
    /// The live hold with this id.
    fn live_hold(&self, hold: HoldId) -> Option<LiveHold>;

    /// Classifies an ask for a hold. A higher revision may change a `counted` hold.
    fn classify_hold(&self, ask: &HoldAsk<'_>, want_hash: u64, counted: bool) -> HoldCase;

    /// Classifies a release. With `last` the cart will send no more messages about the hold.
    fn classify_release(&self, hold: HoldId, revision: u64, last: bool) -> ReleaseCase;

    /// Whether the hold is live and is to be sold. It is not if it is sold already, or was sold and is refunded.
    ///
    /// # Panics
    /// If the hold is neither, or has a later revision, because a hold covers its line at every instant.
    fn is_for_sale(&self, hold: HoldId, revision: u64, order: OrderId) -> bool;

    /// The version with the sale of this hold, if it is sold and was not refunded.
    fn sale_version(&self, hold: HoldId) -> Option<u64>;

    /// Whether the hold is live and charged to an account.
    fn is_charged(&self, hold: HoldId) -> bool;

    /// Whether the hold is live, or was.
    fn knows(&self, hold: HoldId) -> bool;

    /// The cart keeps the hold until `deadline`. `None` if there is no such hold, or the deadline is not later.
    fn decide_extend(&self, hold: HoldId, deadline: Timestamp) -> Option<HoldEvent>;

    /// The cart is terminal. `None` if none of its released holds is remembered.
    fn decide_forget(&self, cart: CartId) -> Option<HoldEvent>;

    /// How many released holds are remembered, because their carts may still send messages about them.
    fn remembered(&self) -> usize;

    /// When the first cart is to be asked about its hold.
    fn deadline(&self) -> Option<Timestamp>;

    /// Up to `max` holds whose cart is to be asked, after `after` and up to `now`, in the order of their deadlines.
    fn overdue(&self, after: (Timestamp, HoldId), now: Timestamp, max: usize) -> Vec<(Timestamp, HoldId)>;
}

impl<W> Default for Holds<W> {
    fn default() -> Holds<W> {
        Holds {
            live: SharedMap::new(),
            released: SharedMap::new(),
            sales: SharedMap::new(),
            refunded: SharedSet::new(),
            accounts: None,
            due: SharedSet::new(),
        }
    }
}

impl<W> Holds<W> {
    /// Whether there is nothing to be kept.
    pub(crate) fn is_blank(&self) -> bool {
        let accounts = self.accounts.as_ref().is_none_or(|accounts| accounts.is_blank());
        self.live.is_empty()
            && self.released.is_empty()
            && self.sales.is_empty()
            && self.refunded.is_empty()
            && accounts
    }

    /// The live hold with this id.
    pub(crate) fn live(&self, hold: HoldId) -> Option<&Hold<W>> {
        self.live.get(&hold)
    }

    /// The content of the live hold that a release is about.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn released(&self, hold: HoldId) -> &W {
        let live = self.live.get(&hold).unwrap_or_else(|| panic!("released without a hold: {hold:?}"));
        &live.what
    }

    /// All live holds, by id.
    pub(crate) fn all_live(&self) -> impl Iterator<Item = (HoldId, &Hold<W>)> {
        self.live.iter().map(|(id, hold)| (*id, hold))
    }

    /// What a cart holds and has bought.
    pub(crate) fn of_cart(&self, cart: CartId) -> impl Iterator<Item = &W> {
        let sold = self.sales.range(HoldId::all_of(cart)).map(|(_, sale)| &sale.what);
        self.live.range(HoldId::all_of(cart)).map(|(_, hold)| &hold.what).chain(sold)
    }

    /// Whether a cart has bought anything that was not refunded.
    pub(crate) fn has_bought(&self, cart: CartId) -> bool {
        self.sales.range(HoldId::all_of(cart)).next().is_some()
    }

    /// Whether anything is sold that was not refunded.
    pub(crate) fn has_sales(&self) -> bool {
        !self.sales.is_empty()
    }

    /// The sale of this hold, if it is sold and was not refunded.
    pub(crate) fn sale(&self, hold: HoldId) -> Option<&Sale<W>> {
        self.sales.get(&hold)
    }

    /// All sales that were not refunded, by hold.
    pub(crate) fn all_sales(&self) -> impl Iterator<Item = (HoldId, &Sale<W>)> {
        self.sales.iter().map(|(id, sale)| (*id, sale))
    }

    /// Up to `max` live holds and sales after `after`, by id.
    pub(crate) fn taken(&self, after: Option<HoldId>, max: usize) -> Vec<HoldId> {
        let range = (after.map_or(Unbounded, Excluded), Unbounded);
        let live = self.live.range(range).map(|(id, _)| *id).take(max);
        let sold = self.sales.range(range).map(|(id, _)| *id).take(max);
        let mut taken: Vec<HoldId> = live.chain(sold).collect();
        taken.sort_unstable();
        taken.truncate(max);
        taken
    }

    /// Describes a hold that is neither live nor sold, and the other holds of its cart.
    fn fate(&self, hold: HoldId) -> SmolStr {
        let words = |of: &HoldId, revision: u64| {
            let HoldId { request, part, attempt, .. } = *of;
            format_smolstr!(" {:x}/{part}/{attempt} by {revision}", request.0)
        };
        let released: Vec<SmolStr> =
            self.released.range(HoldId::all_of(hold.cart)).map(|(of, revision)| words(of, *revision)).collect();
        let live: Vec<SmolStr> =
            self.live.range(HoldId::all_of(hold.cart)).map(|(of, live)| words(of, live.revision)).collect();
        let fate = match self.released.get(&hold) {
            Some(revision) => format_smolstr!("it was released by revision {revision}"),
            None => "it is not known".into(),
        };
        format_smolstr!("{fate}; of this cart were released{}; are live{}", released.concat(), live.concat())
    }

    /// The content that a refund of this hold takes back. It is the sale's, or the hold's while the sale is on its way.
    pub(crate) fn to_refund(&self, hold: HoldId) -> Option<&W> {
        let held = || self.live.get(&hold).map(|live| &live.what);
        self.sales.get(&hold).map(|sale| &sale.what).or_else(held)
    }

    /// The charge of a hold of so much, or `None` if no share is kept of it.
    ///
    /// # Errors
    /// [`Refusal::ShareReached`] if the holder has too much already.
    pub(crate) fn charge(
        &self,
        ask: &HoldAsk<'_>,
        entity: impl FnOnce() -> Entity,
        (supply, wanted): (Supply, u32),
    ) -> Result<Option<Charge>, Refusal>
    where
        W: Amount,
    {
        let Some((holder, terms, life_ms)) = ask.holder else { return Ok(None) };
        let before = self.live.get(&ask.hold);
        let before = before.map(|live| (live.what.amount(), live.charged.as_deref().copied()));
        let (at, deadline, entity) = (ask.at, ask.deadline, &entity());
        let ask = FairAsk { terms, entity, holder, at, deadline, life_ms, supply, before, wanted };
        Accounts::decide(self.accounts.as_deref(), &ask)
    }

    /// The holders that have most, for an operator.
    pub(crate) fn holder_views(&self) -> Vec<HolderView> {
        self.accounts.as_ref().map_or_else(Vec::new, |accounts| accounts.views())
    }

    /// Whether the hold was released, sold or refunded.
    fn is_over(&self, hold: HoldId) -> bool {
        self.released.contains_key(&hold) || self.sales.contains_key(&hold) || self.refunded.contains_key(&hold)
    }
}

impl<W> HoldIndex for Holds<W> {
    fn live_hold(&self, hold: HoldId) -> Option<LiveHold> {
        let Hold { revision, want_hash, deadline, version, charged, what: _ } = self.live.get(&hold)?;
        Some(Hold { charged: charged.clone(), ..Hold::new(*revision, *want_hash, *deadline, *version, ()) })
    }

    fn classify_hold(&self, ask: &HoldAsk<'_>, want_hash: u64, counted: bool) -> HoldCase {
        let HoldAsk { hold, revision, .. } = *ask;
        if let Some(live) = self.live.get(&hold) {
            return match (counted, live.want_hash == want_hash) {
                (false, true) => HoldCase::Repeat,
                (false, false) => HoldCase::Reused,
                (true, _) if revision > live.revision => HoldCase::Change,
                (true, true) if revision == live.revision => HoldCase::Repeat,
                // Two different first asks for one hold have the same request id.
                (true, false) if revision == 1 && live.revision == 1 => HoldCase::Reused,
                (true, _) => HoldCase::Stale { revision: live.revision, live: true },
            };
        }
        if let Some(&released) = self.released.get(&hold) {
            return HoldCase::Stale { revision: released, live: false };
        }
        if self.sales.contains_key(&hold) || self.refunded.contains_key(&hold) {
            return HoldCase::Stale { revision, live: false };
        }
        HoldCase::New
    }

    fn classify_release(&self, hold: HoldId, revision: u64, last: bool) -> ReleaseCase {
        match self.live.get(&hold) {
            Some(live) if revision > live.revision => ReleaseCase::Live,
            Some(_) => ReleaseCase::Noop,
            None if last || self.is_over(hold) => ReleaseCase::Noop,
            None => ReleaseCase::Unknown,
        }
    }

    fn is_for_sale(&self, hold: HoldId, revision: u64, order: OrderId) -> bool {
        assert_eq!(order.cart(), hold.cart, "{hold:?} is sold to another cart's order");
        let Some(live) = self.live.get(&hold) else {
            let sold = self.sales.contains_key(&hold) || self.refunded.contains_key(&hold);
            assert!(sold, "a cart sells {hold:?} by revision {revision}, which is not held: {}", self.fate(hold));
            return false;
        };
        assert!(revision > live.revision, "{hold:?} is sold by an old revision: {revision}");
        true
    }

    fn sale_version(&self, hold: HoldId) -> Option<u64> {
        self.sales.get(&hold).map(|sale| sale.version)
    }

    fn is_charged(&self, hold: HoldId) -> bool {
        self.accounts.is_some() && self.live.get(&hold).is_some_and(|live| live.charged.is_some())
    }

    fn knows(&self, hold: HoldId) -> bool {
        self.live.contains_key(&hold) || self.is_over(hold)
    }

    fn decide_extend(&self, hold: HoldId, deadline: Timestamp) -> Option<HoldEvent> {
        let live = self.live.get(&hold)?;
        let shortens = planted::is("a `still mine` that shortens");
        (deadline > live.deadline || shortens).then_some(HoldEvent::Extended { hold, deadline })
    }

    fn decide_forget(&self, cart: CartId) -> Option<HoldEvent> {
        let mut released = self.released.range(HoldId::all_of(cart));
        released.next().map(|_| HoldEvent::Forgotten(cart))
    }

    fn remembered(&self) -> usize {
        self.released.len()
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|((deadline, _), ())| *deadline)
    }

    fn overdue(&self, after: (Timestamp, HoldId), now: Timestamp, max: usize) -> Vec<(Timestamp, HoldId)> {
        let due = self.due.range((Excluded(after), Included((now, HoldId::LAST))));
        due.map(|(due, ())| *due).take(max).collect()
    }
}

impl<W: Clone + Amount> Holds<W> {
    /// Writes the content of a hold that is charged so, and returns the content before.
    pub(crate) fn hold(&mut self, id: HoldId, mut hold: Hold<W>, charge: Option<&Charge>) -> Option<W> {
        let (revision, deadline) = (hold.revision, hold.deadline);
        // Without accounts nothing is charged.
        let charged = self.accounts.as_ref().and_then(|_| self.live.get(&id));
        let before = charged.and_then(|before| Some((before.what.amount(), **before.charged.as_ref()?)));
        let (supply, amount) = (hold.what.supply(), hold.what.amount());
        hold.charged = match (charge, before) {
            (None, None) => None,
            (Some(charge), before) => {
                let accounts = self.accounts.get_or_insert_default();
                Some(Box::new(accounts.charge((charge, deadline), supply, amount, before)))
            }
            (None, Some((had, charged))) => {
                let accounts = self.accounts.as_mut().expect("a charged hold has an account");
                accounts.give_back(&charged, supply, (had, 0), charged.since(), false);
                None
            }
        };
        let before = self.live.insert(id, hold);
        assert!(before.is_some() || !self.is_over(id), "{id:?} was released or sold before");
        if let Some(before) = &before {
            assert!(revision > before.revision, "{id:?} is held twice by revision {revision}");
            self.due.remove(&(before.deadline, id));
        }
        self.due.insert((deadline, id), ());
        before.map(|before| before.what)
    }

    /// Writes the rest of a hold, and returns the content before. The hold is over if nothing is left.
    pub(crate) fn release(
        &mut self,
        id: HoldId,
        revision: u64,
        left: Option<W>,
        (remember, freed_at): (bool, Option<Timestamp>),
    ) -> W {
        self.give_back(id, left.as_ref().map_or(0, Amount::amount), freed_at, false);
        let hold = self.live.get_mut(&id).unwrap_or_else(|| panic!("released without a hold: {id:?}"));
        assert!(revision > hold.revision, "{id:?} is released by an old revision: {revision}");
        if let Some(left) = left {
            hold.revision = revision;
            return core::mem::replace(&mut hold.what, left);
        }
        let hold = self.live.remove(&id).expect("it was there above");
        self.due.remove(&(hold.deadline, id));
        if remember {
            self.released.insert(id, revision);
        }
        hold.what
    }

    /// Writes that the whole content of a hold is sold, and returns it.
    pub(crate) fn sell(&mut self, id: HoldId, (at, freed_at): (Timestamp, Option<Timestamp>), version: u64) -> W {
        self.give_back(id, 0, freed_at, true);
        let hold = self.live.remove(&id).unwrap_or_else(|| panic!("sold without a hold: {id:?}"));
        self.due.remove(&(hold.deadline, id));
        let what = hold.what.clone();
        let before = self.sales.insert(id, Sale { at, version, what: hold.what });
        assert!(before.is_none(), "{id:?} is sold twice");
        what
    }

    /// Takes a hold that has `has` from now on out of its account, if it has one.
    fn give_back(&mut self, id: HoldId, has: u32, at: Option<Timestamp>, sold: bool) {
        if self.accounts.is_none() {
            return;
        }
        let Some(hold) = self.live.get(&id) else { return };
        let Some(charged) = hold.charged.as_deref().copied() else { return };
        let at = at.expect("an event about a charged hold says when it happened");
        let accounts = self.accounts.as_mut().expect("a charged hold has an account");
        accounts.give_back(&charged, hold.what.supply(), (hold.what.amount(), has), at, sold);
    }

    /// Writes that the sale of a hold is over, and returns its content.
    pub(crate) fn refund(&mut self, id: HoldId) -> Refunded<W> {
        let before = self.refunded.insert(id, ());
        assert!(before.is_none(), "{id:?} is refunded twice");
        if let Some(sale) = self.sales.remove(&id) {
            return Refunded::Sale(sale.what);
        }
        // The hold was bought, and its sale is on its way.
        let since = self.live.get(&id).and_then(|hold| hold.charged.as_ref()).map(|charged| charged.since());
        self.give_back(id, 0, since, true);
        let hold = self.live.remove(&id).unwrap_or_else(|| panic!("refunded without a sale: {id:?}"));
        self.due.remove(&(hold.deadline, id));
        Refunded::Hold(hold.what)
    }

    /// Writes an event that does not depend on the content of holds.
    pub(crate) fn apply(&mut self, event: &HoldEvent) {
        match event {
            HoldEvent::Extended { hold: id, deadline } => {
                let hold = self.live.get_mut(id).unwrap_or_else(|| panic!("extended without a hold: {id:?}"));
                self.due.remove(&(hold.deadline, *id));
                hold.deadline = *deadline;
                self.due.insert((*deadline, *id), ());
            }
            HoldEvent::Remembered { hold, revision } => {
                assert!(!self.live.contains_key(hold), "{hold:?} is remembered as released, and is live");
                let kept = self.released.get_or_insert(hold, *revision);
                *kept = (*kept).max(*revision);
            }
            HoldEvent::Forgotten(cart) => {
                let all: Vec<HoldId> = self.released.range(HoldId::all_of(*cart)).map(|(hold, _)| *hold).collect();
                for hold in all {
                    self.released.remove(&hold);
                }
            }
        }
    }

    /// Computes what is not serialized.
    pub(crate) fn rebuild(&mut self) {
        self.due = self.live.iter().map(|(id, hold)| ((hold.deadline, *id), ())).collect();
        if let Some(accounts) = &mut self.accounts
            && planted::is("a share that a new leader forgets")
        {
            accounts.forget_uses();
        }
    }
}

impl<W: Amount> Holds<W> {
    /// Live holds for audits, by id.
    pub(crate) fn hold_views(&self, portion: impl Fn(&W) -> Portion) -> Vec<HoldView> {
        let view = |(hold, live): (HoldId, &Hold<W>)| HoldView {
            hold,
            revision: live.revision,
            deadline: live.deadline,
            portion: portion(&live.what),
            customer: None,
            since: None,
        };
        self.all_live().map(view).collect()
    }

    /// Sales for audits, by hold.
    pub(crate) fn sale_views(&self, portion: impl Fn(&W) -> Portion) -> Vec<SaleView> {
        let view = |(hold, sale): (HoldId, &Sale<W>)| SaleView {
            order: hold.cart.order(),
            hold,
            portion: portion(&sale.what),
            at: sale.at,
            customer: None,
        };
        self.all_sales().map(view).collect()
    }

    /// Violations in words. Empty when every promise holds.
    pub(crate) fn violations(&self) -> Vec<SmolStr> {
        let mut wrong = Vec::new();
        for (hold, live) in self.all_live() {
            if !self.due.contains_key(&(live.deadline, hold)) {
                wrong.push(format_smolstr!("hold {hold:?} is in no index of deadlines"));
            }
            if self.is_over(hold) {
                wrong.push(format_smolstr!("hold {hold:?} is live and was released or sold"));
            }
        }
        let charged = self
            .all_live()
            .filter_map(|(_, live)| live.charged.as_deref().map(|charged| (*charged, live.what.amount())));
        if let Some(accounts) = &self.accounts {
            wrong.extend(accounts.violations(charged));
        }
        if self.due.len() != self.live.len() {
            wrong.push(format_smolstr!("{} holds but {} deadlines", self.live.len(), self.due.len()));
        }
        for hold in self.sales.keys() {
            if self.released.contains_key(hold) || self.refunded.contains_key(hold) {
                wrong.push(format_smolstr!("hold {hold:?} is sold and was released or refunded"));
            }
        }
        wrong
    }

    /// Bytes on the heap, without those that the contents of holds own.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.live.heap_bytes()
            + self.released.heap_bytes()
            + self.sales.heap_bytes()
            + self.refunded.heap_bytes()
            + self.due.heap_bytes()
            + self.accounts.as_ref().map_or(0, |accounts| {
                let charged = self.live.values().filter(|live| live.charged.is_some()).count();
                size_of::<Accounts>() + accounts.heap_bytes() + charged * size_of::<Charged>()
            })
    }
}
