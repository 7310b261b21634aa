//! Who may hold how much of one supply, which is the seats, an area, a product or a resource.
//!
//! Each holder is known by keyed hashes of a network or a customer, and of the wider network around it. A holder has a floor,
//! which is never refused. Above it, it may hold a part of what is free, all holders together may hold a part of the whole, and
//! each has an account of seat-seconds, from which its holds live. A sale gives back what the hold has used, and a bonus.
//!
//! Everything is counted in the inventory, in whole numbers and at the shard's running time. So another leader, another node and
//! a restart know the same.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use core::cmp::Reverse;

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    answer::HolderView,
    holder::Holder,
    id::{Entity, hash64},
    planted,
    refusal::Refusal,
    shared_map::SharedMap,
    stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer, append_short, take_short},
    time::Timestamp,
};

/// How many times as much as a holder its wider network may have.
const WIDER: u64 = 8;

/// The most accounts of holders in one inventory. New holders beyond it have one together.
const ACCOUNTS_MAX: usize = 65_536;

/// Accounts below this number are those of the holders of one supply that have none of their own.
const FIRST_OWN: u64 = 1 << 16;

/// The length of an account's number. Shorter ones would save bytes of the log, and let holders meet in one account.
const TAG_BITS: u32 = 48;

/// A holder of nothing is forgiven a tenth of a seat-second each second.
const FORGIVES_ONE_IN: u64 = 10;

/// In each second, all holders together are forgiven a second of one seat for this many seats of the whole.
const FORGIVES_WHOLE_ONE_IN: u64 = 100;

/// What a holder may have of a supply of unknown size, in floors.
const FLOORS_OF_UNKNOWN: u64 = 4;

/// The integral of an account counts in this part of a millisecond.
const PART: u64 = 1 << 10;

/// The most holders that an audit shows.
const SHOWN_MAX: usize = 10;

/// The terms of holders. A value of 0 turns its rule off.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Fairness {
    /// Seats, places, units or slots of one supply that a holder always may have. 0 turns all rules off. 6.
    #[n(0)]
    pub floor: u32,
    /// What is free divided by this is the most that one holder may have. 4.
    #[n(1)]
    pub free_part: u32,
    /// The whole divided by this is the most that all holders together may have above their floors. 4.
    #[n(2)]
    pub whole_part: u32,
    /// Seat-seconds above the floors that all holders together may use for each seat of the whole, as far as they buy nothing. 18.
    #[n(3)]
    pub whole_seconds: u32,
    /// Seat-seconds above the floor that a holder may use, as far as it buys nothing. 3 600.
    #[n(4)]
    pub seat_seconds: u32,
    /// Seat-seconds that each seat bought adds. 240, so that an office that pays slowly is not refused by chance.
    #[n(5)]
    pub bonus_seconds: u32,
    /// The shortest life of a hold above the floor, in milliseconds. 180 000.
    #[n(6)]
    pub life_min_ms: u64,
}

impl Fairness {
    /// The terms of a deployment that says nothing about them.
    pub const USUAL: Fairness = Fairness {
        floor: 6,
        free_part: 4,
        whole_part: 4,
        whole_seconds: 18,
        seat_seconds: 3_600,
        bonus_seconds: 240,
        life_min_ms: 180_000,
    };
}

impl Default for Fairness {
    fn default() -> Fairness {
        Fairness::USUAL
    }
}

/// The holder as one supply knows it. Nobody can tell that two supplies have the same holder.
fn tags(holder: Holder, entity: &Entity, supply: u16) -> Holder {
    let tag = |hash: u64| {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&hash.to_be_bytes());
        bytes.extend_from_slice(&supply.to_be_bytes());
        bytes.extend_from_slice(alloc::format!("{entity}").as_bytes());
        (hash64(&bytes) >> (64 - TAG_BITS)).max(FIRST_OWN)
    };
    Holder { own: tag(holder.own), wider: tag(holder.wider) }
}

/// The size of a supply before a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Supply {
    /// Its number within the inventory: 0, or the number of an area and one.
    pub(crate) number: u16,
    /// All that it has, and what is free. `None` if nobody knows, as of time.
    pub(crate) size: Option<(u64, u64)>,
}

/// The account that a hold is charged to, as the event has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The account of the holder.
    pub own: u64,
    /// The account of the wider network.
    pub wider: u64,
    /// How long before the deadline of the hold it was decided, in milliseconds.
    pub age_ms: u64,
    /// The floor then.
    pub floor: u32,
    /// The bonus of each seat bought, in seconds.
    pub bonus_seconds: u32,
    /// Seat-seconds that all holders together are forgiven each second.
    pub forgives: u32,
    /// How long the hold may live, in seconds. 0 if it is within the floor, and lives as long as its cart.
    pub life_seconds: u32,
}

// A byte string, because every hold of a buyer without a key has one: both tags in six bytes each, then the numbers, seven bits a byte.
// A later version adds numbers behind them.
impl Encode for Charge {
    fn encode(&self, out: &mut Writer) {
        let Charge { own, wider, age_ms, floor, bonus_seconds, forgives, life_seconds } = *self;
        let mut bytes = Vec::with_capacity(32);
        [own, wider].iter().for_each(|tag| bytes.extend_from_slice(&tag.to_be_bytes()[2..]));
        let numbers = [age_ms, floor.into(), bonus_seconds.into(), forgives.into(), life_seconds.into()];
        numbers.into_iter().for_each(|number| append_short(number, &mut bytes));
        out.bytes(&bytes);
    }
}

impl Decode for Charge {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("charge")
    }

    fn decode(from: &mut Reader<'_>) -> Result<Charge, Error> {
        let cut_off = || Error::message("a charge is cut off");
        let (tags, mut rest) = stored::bytes(from)?.split_at_checked(12).ok_or_else(cut_off)?;
        let tag = |bytes: &[u8]| bytes.iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte));
        let age_ms = take_short(&mut rest)?;
        let mut next = || u32::try_from(take_short(&mut rest)?).map_err(|_| Error::message("a charge is too high"));
        let (floor, bonus_seconds, forgives, life_seconds) = (next()?, next()?, next()?, next()?);
        if !rest.is_empty() {
            return Err(Error::message("a charge has numbers that are unknown to this program"));
        }
        let (own, wider) = (tag(&tags[..6]), tag(&tags[6..]));
        Ok(Charge { own, wider, age_ms, floor, bonus_seconds, forgives, life_seconds })
    }
}

/// The charge of a live hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(crate) struct Charged {
    #[n(0)]
    own: u64,
    #[n(1)]
    bonus_seconds: u32,
    /// Since when it is charged, in running time.
    #[n(2)]
    since: Timestamp,
    /// The integral of the account then.
    #[n(3)]
    mark: u64,
    /// Until when it may live, in running time. `None` within the floor.
    #[n(4)]
    pub(crate) until: Option<Timestamp>,
}

impl Charged {
    /// Since when the hold is charged, in running time.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }
}

/// What a holder has, and has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
struct Account {
    #[n(0)]
    held: u32,
    #[n(1)]
    floor: u32,
    /// The wider network that it counts in as long as it holds something. A customer may come from another one meanwhile.
    #[n(2)]
    wider: u64,
    /// Seat-milliseconds above the floor, less what sales gave back. Below 0 is a bonus.
    #[n(3)]
    used: i64,
    #[n(4)]
    at: Timestamp,
    /// The milliseconds for which one seat was charged since the beginning, in parts.
    #[n(5)]
    integral: u64,
}

impl Account {
    fn above(&self) -> u64 {
        u64::from(self.held.saturating_sub(self.floor))
    }

    fn within(&self) -> u64 {
        u64::from(self.held.min(self.floor))
    }

    fn advance(&mut self, at: Timestamp) {
        let passed = at.0.saturating_sub(self.at.0);
        self.at = self.at.max(at);
        if self.held == 0 {
            self.used = forgiven(self.used, passed / FORGIVES_ONE_IN);
            return;
        }
        let above = self.above();
        self.used = self.used.saturating_add_unsigned(above.saturating_mul(passed));
        let each = passed.saturating_mul(PART).saturating_mul(above) / u64::from(self.held);
        self.integral = self.integral.saturating_add(each);
    }

    fn is_over(&self) -> bool {
        self.held == 0 && self.used <= 0
    }
}

/// What the holders of a wider network have, and have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
struct Wider {
    /// Above the floors of the holders.
    #[n(0)]
    above: u64,
    /// Within them.
    #[n(1)]
    within: u64,
    #[n(2)]
    floor: u32,
    /// Seat-milliseconds above the floors, less what sales gave back.
    #[n(3)]
    used_above: i64,
    /// Seat-milliseconds within the floors, above those of eight holders, less what sales gave back.
    #[n(4)]
    used_within: i64,
    #[n(5)]
    at: Timestamp,
}

impl Wider {
    /// What is within the floors of holders beyond the first eight.
    fn beyond(within: u64, floor: u32) -> u64 {
        within.saturating_sub(WIDER * u64::from(floor))
    }

    fn advance(&mut self, at: Timestamp) {
        let passed = at.0.saturating_sub(self.at.0);
        self.at = self.at.max(at);
        if self.above == 0 && self.within == 0 {
            let forgives = passed.saturating_mul(WIDER) / FORGIVES_ONE_IN;
            self.used_above = forgiven(self.used_above, forgives);
            self.used_within = forgiven(self.used_within, forgives);
            return;
        }
        let beyond = Wider::beyond(self.within, self.floor);
        self.used_above = self.used_above.saturating_add_unsigned(self.above.saturating_mul(passed));
        self.used_within = self.used_within.saturating_add_unsigned(beyond.saturating_mul(passed));
    }

    fn is_over(&self) -> bool {
        self.above == 0 && self.within == 0 && self.used_above <= 0 && self.used_within <= 0
    }
}

/// What is left of a use after some of it was forgiven. A bonus stays.
fn forgiven(used: i64, forgives: u64) -> i64 {
    if used <= 0 { used } else { used.saturating_sub_unsigned(forgives).max(0) }
}

/// The accounts of the holders of one inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub(crate) struct Accounts {
    #[n(0)]
    own: SharedMap<u64, Account>,
    #[n(1)]
    wider: SharedMap<u64, Wider>,
    /// All holders together, by the number of the supply.
    #[n(2)]
    pools: Vec<Pool>,
}

/// What all holders of a supply have, and have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
struct Pool {
    /// Above their floors, and in wider networks beyond eight floors.
    #[n(0)]
    above: u64,
    /// Seat-milliseconds of that, less what sales gave back and what was forgiven.
    #[n(1)]
    used: i64,
    /// Seat-seconds that are forgiven each second.
    #[n(2)]
    forgives: u32,
    #[n(3)]
    at: Timestamp,
}

impl Pool {
    /// How many seats there may be above the floors, so that each can live for the shortest life.
    fn room(&self, whole: u64, terms: &Fairness) -> u64 {
        if terms.whole_seconds == 0 {
            return u64::MAX;
        }
        // Some floors fit into the smallest supply.
        let least = FLOORS_OF_UNKNOWN * u64::from(terms.floor) * terms.life_min_ms;
        let limit = whole.saturating_mul(u64::from(terms.whole_seconds) * 1_000).max(least);
        let left = i64::try_from(limit).unwrap_or(i64::MAX).saturating_sub(self.used);
        u64::try_from(left).unwrap_or(0) / terms.life_min_ms.max(1)
    }

    fn advance(&mut self, at: Timestamp) {
        let passed = at.0.saturating_sub(self.at.0);
        self.at = self.at.max(at);
        self.used = forgiven(self.used, passed.saturating_mul(u64::from(self.forgives)));
        self.used = self.used.saturating_add_unsigned(self.above.saturating_mul(passed));
    }
}

/// An ask for a hold, as the rules of holders see it.
pub(crate) struct FairAsk<'a> {
    pub(crate) terms: &'a Fairness,
    pub(crate) entity: &'a Entity,
    pub(crate) holder: Holder,
    pub(crate) at: Timestamp,
    /// When the inventory asks the cart about the hold.
    pub(crate) deadline: Timestamp,
    /// How long the cart will live, in milliseconds. A hold above the floor lives no longer, however often the cart is touched.
    pub(crate) life_ms: u64,
    pub(crate) supply: Supply,
    /// What the hold has before, and its charge.
    pub(crate) before: Option<(u32, Option<Charged>)>,
    /// What the hold is to have.
    pub(crate) wanted: u32,
}

impl Accounts {
    /// Whether there is nothing to be kept.
    pub(crate) fn is_blank(&self) -> bool {
        self.own.is_empty() && self.wider.is_empty()
    }

    /// Decides whether a holder may have this. `None` if no rule applies to it.
    ///
    /// # Errors
    /// [`Refusal::ShareReached`] if it is more than the holder may have now.
    pub(crate) fn decide(this: Option<&Accounts>, ask: &FairAsk<'_>) -> Result<Option<Charge>, Refusal> {
        let FairAsk { terms, at, deadline, supply, before, wanted, .. } = ask;
        let (floor, (had, charged)) = (u64::from(terms.floor), before.unwrap_or_default());
        if floor == 0 || supply.size.is_some_and(|(whole, _)| whole <= floor) {
            return Ok(None);
        }
        if planted::is("a share that only the edge counts") {
            return Ok(None);
        }
        let Holder { own, wider } = tags(ask.holder, ask.entity, supply.number);
        let own = known(this.map(|it| &it.own), own, supply.number);
        let wider = known(this.map(|it| &it.wider), wider, supply.number);
        let mut account = this.and_then(|it| it.own.get(&own)).copied().unwrap_or_default();
        let wider = if account.held > 0 { account.wider } else { wider };
        let mut network = this.and_then(|it| it.wider.get(&wider)).copied().unwrap_or_default();
        account.advance(*at);
        network.advance(*at);
        (account.floor, network.floor) = (terms.floor, terms.floor);

        let same = charged.is_some_and(|charged| charged.own == own);
        let mut had = if same { u64::from(had) } else { 0 };
        if planted::is("growth that no share counts") && same {
            had = u64::from(*wanted);
        }
        let held = u64::from(account.held).saturating_sub(had) + u64::from(*wanted);
        let (above, within) = (held.saturating_sub(floor), held.min(floor));
        let more_above = above.saturating_sub(account.above());
        let more_within = within.saturating_sub(account.within());
        let beyond = Wider::beyond(network.within + more_within, terms.floor);
        let more_beyond = beyond - Wider::beyond(network.within, terms.floor).min(beyond);
        let all_above = network.above + more_above;

        let limit = i64::from(terms.seat_seconds) * 1_000;
        let metered = terms.seat_seconds > 0;
        let refused = || {
            // A hold above the floor ends in this time, or what was used is forgiven.
            let forgiven =
                u64::try_from(account.used.saturating_sub(limit)).unwrap_or(0).saturating_mul(FORGIVES_ONE_IN);
            let retry_after_ms = terms.life_min_ms.max(if metered { forgiven } else { 0 });
            Err(Refusal::ShareReached { entity: ask.entity.clone(), held: account.held, retry_after_ms })
        };
        let left = |limit: i64, used: i64| u64::try_from(limit.saturating_sub(used)).unwrap_or(0);
        let (mine, above_left) = (left(limit, account.used), left(limit * WIDER as i64, network.used_above));
        let within_left = left(limit * WIDER as i64, network.used_within);
        let grows = u64::from(*wanted) > had;
        let part = |of: u64, part: u32| if part == 0 { u64::MAX } else { of / u64::from(part) };
        let mut pool = this.and_then(|it| it.pools.get(usize::from(supply.number))).copied().unwrap_or_default();
        pool.advance(*at);
        let together =
            supply.size.map_or(u64::MAX, |(whole, _)| part(whole, terms.whole_part).min(pool.room(whole, terms)));
        let too_many = pool.above + more_above + more_beyond > together;
        if grows && more_beyond > 0 && (too_many || (metered && within_left == 0)) {
            return refused();
        }
        if grows && above > 0 {
            let burst = match supply.size {
                Some((_, free)) => part(free, terms.free_part),
                None if terms.free_part == 0 => u64::MAX,
                None => FLOORS_OF_UNKNOWN * floor,
            };
            if held > burst.max(floor) || too_many || (metered && (mine == 0 || above_left == 0)) {
                return refused();
            }
        }
        let life_ms = |left: u64, of: u64| left.checked_div(of).unwrap_or(u64::MAX);
        let shortest = life_ms(mine, above).min(life_ms(above_left, if above > 0 { all_above } else { 0 }));
        let shortest = shortest.min(life_ms(within_left, beyond));
        let life_seconds = if metered && (above > 0 || beyond > 0) {
            u32::try_from(shortest.max(terms.life_min_ms).min(ask.life_ms) / 1_000).unwrap_or(u32::MAX).max(1)
        } else {
            0
        };
        let (floor, bonus_seconds) = (terms.floor, terms.bonus_seconds);
        let forgives =
            supply.size.map_or(0, |(whole, _)| u32::try_from(whole / FORGIVES_WHOLE_ONE_IN).unwrap_or(u32::MAX));
        Ok(Some(Charge {
            own,
            wider,
            age_ms: deadline.0.saturating_sub(at.0),
            floor,
            bonus_seconds,
            forgives,
            life_seconds,
        }))
    }

    /// Charges a hold that has `amount` from now on. `before` is what it had, with its charge.
    pub(crate) fn charge(
        &mut self,
        (charge, deadline): (&Charge, Timestamp),
        supply: u16,
        amount: u32,
        before: Option<(u32, Charged)>,
    ) -> Charged {
        let Charge { own, wider, age_ms, floor, bonus_seconds, forgives, life_seconds } = *charge;
        let since = Timestamp(deadline.0.saturating_sub(age_ms));
        let kept = before.filter(|(_, charged)| charged.own == own);
        if let Some((had, charged)) = before.filter(|_| kept.is_none()) {
            self.give_back(&charged, supply, (had, 0), since, false);
        }
        self.forget_some(own, since);
        let had = kept.map_or(0, |(had, _)| had);
        let (integral, _) = self.move_held((own, wider), supply, (had, amount), Some(floor), since);
        self.pools[usize::from(supply)].forgives = forgives;
        // What the hold has used so far is spread over what it has now.
        let used = kept.map_or(0, |(had, charged)| u64::from(had) * (integral - charged.mark));
        // What a hold of more has used may be more than each of the few that are left could have.
        let mark = integral.saturating_sub(used / u64::from(amount.max(1)));
        let since = kept.map_or(since, |(_, charged)| charged.since);
        let until = (life_seconds > 0)
            .then(|| Timestamp(deadline.0.saturating_sub(age_ms)).after(u64::from(life_seconds).saturating_mul(1_000)));
        Charged { own, bonus_seconds, since, mark: mark.min(integral), until }
    }

    /// A hold has less, or is over. What is `sold` gives back what it has used, and a bonus.
    pub(crate) fn give_back(
        &mut self,
        charged: &Charged,
        supply: u16,
        (had, has): (u32, u32),
        at: Timestamp,
        sold: bool,
    ) {
        let Charged { own, bonus_seconds, since, mark, until: _ } = *charged;
        let wider = self.own.get(&own).expect("a hold has an account").wider;
        let (integral, wider) = self.move_held((own, wider), supply, (had, has), None, at);
        if sold && !planted::is("a share that no sale credits") {
            let quantity = u64::from(had.saturating_sub(has));
            let bonus = quantity.saturating_mul(u64::from(bonus_seconds)).saturating_mul(1_000);
            let used = quantity.saturating_mul(integral - mark) / PART;
            let credit = bonus.saturating_add(used);
            let longest = bonus.saturating_add(quantity.saturating_mul(at.0.saturating_sub(since.0)));
            let account = self.own.get_mut(&own).expect("a hold has an account");
            account.used = account.used.saturating_sub_unsigned(credit);
            let network = self.wider.get_mut(&wider).expect("a hold has the account of a network");
            network.used_above = network.used_above.saturating_sub_unsigned(credit);
            network.used_within = network.used_within.saturating_sub_unsigned(longest);
            let pool = &mut self.pools[usize::from(supply)];
            // No bonus, or hoarders could wait until an office has bought.
            pool.used = pool.used.saturating_sub_unsigned(used).max(0);
        }
        if self.own.get(&own).is_some_and(Account::is_over) {
            self.own.remove(&own);
        }
        if self.wider.get(&wider).is_some_and(Wider::is_over) {
            self.wider.remove(&wider);
        }
    }

    /// A hold has another amount. Returns the integral of the account at that time, and the wider network that it counts in.
    fn move_held(
        &mut self,
        (own, wider): (u64, u64),
        supply: u16,
        (had, has): (u32, u32),
        floor: Option<u32>,
        at: Timestamp,
    ) -> (u64, u64) {
        let account = self.own.get_or_insert(&own, Account { at, ..Account::default() });
        account.advance(at);
        if account.held == 0 {
            account.wider = wider;
        }
        let wider = account.wider;
        let (above, within) = (account.above(), account.within());
        account.floor = floor.unwrap_or(account.floor);
        let held = (account.held + has).checked_sub(had);
        account.held = held.unwrap_or_else(|| panic!("an account has {} and is to give back {had}", account.held));
        let integral = account.integral;
        let (now_above, now_within) = (account.above(), account.within());
        let network = self.wider.get_or_insert(&wider, Wider { at, ..Wider::default() });
        network.advance(at);
        let before_floor = network.floor;
        network.floor = floor.unwrap_or(network.floor);
        let beyond = Wider::beyond(network.within, before_floor);
        network.above = moved(network.above, above, now_above);
        network.within = moved(network.within, within, now_within);
        let now_beyond = Wider::beyond(network.within, network.floor);
        let place = usize::from(supply);
        if self.pools.len() <= place {
            self.pools.resize(place + 1, Pool { at, ..Pool::default() });
        }
        let pool = &mut self.pools[place];
        pool.advance(at);
        pool.above = moved(pool.above, above + beyond, now_above + now_beyond);
        (integral, wider)
    }

    /// Forgets up to two accounts of holders of nothing that follow this one, which are as good as drawn.
    fn forget_some(&mut self, own: u64, at: Timestamp) {
        if self.own.contains_key(&own) {
            return;
        }
        let next: Vec<u64> = self.own.range(own..).take(2).map(|(tag, _)| *tag).collect();
        for tag in next {
            let account = self.own.get(&tag).filter(|account| account.held == 0).copied();
            if let Some(mut account) = account {
                account.advance(at);
                if account.is_over() {
                    self.own.remove(&tag);
                }
            }
        }
        let next: Vec<u64> = self.wider.range(own..).take(2).map(|(tag, _)| *tag).collect();
        for tag in next {
            let network = self.wider.get(&tag).filter(|network| network.above == 0 && network.within == 0).copied();
            if let Some(mut network) = network {
                network.advance(at);
                if network.is_over() {
                    self.wider.remove(&tag);
                }
            }
        }
    }

    /// The holders that have most, for an operator.
    pub(crate) fn views(&self) -> Vec<HolderView> {
        let mut most: Vec<(Reverse<u32>, u64)> =
            self.own.iter().map(|(tag, account)| (Reverse(account.held), *tag)).collect();
        most.sort_unstable();
        let view = |(_, tag): &(_, u64)| self.own.get(tag).map(|account| account.view(*tag));
        most.iter().take(SHOWN_MAX).filter_map(view).collect()
    }

    /// Violations in words, when these holds are all that is charged, each with its amount.
    pub(crate) fn violations(&self, charged: impl Iterator<Item = (Charged, u32)>) -> Vec<SmolStr> {
        let mut wrong = Vec::new();
        let mut held: BTreeMap<u64, u64> = BTreeMap::new();
        for (charge, amount) in charged {
            *held.entry(charge.own).or_default() += u64::from(amount);
        }
        for (tag, account) in self.own.iter() {
            let counted = held.get(tag).copied().unwrap_or_default();
            if u64::from(account.held) != counted {
                wrong.push(format_smolstr!("account {tag:x} has {} and its holds have {counted}", account.held));
            }
        }
        for tag in held.keys().filter(|tag| !self.own.contains_key(tag)) {
            wrong.push(format_smolstr!("holds of account {tag:x}, which there is not"));
        }
        let above: u64 = self.own.values().map(Account::above).sum();
        let beyond: u64 = self.wider.values().map(|it| Wider::beyond(it.within, it.floor)).sum();
        if above + beyond != self.pools.iter().map(|pool| pool.above).sum::<u64>()
            || above != self.wider.values().map(|it| it.above).sum::<u64>()
        {
            wrong.push(format_smolstr!("accounts have {above} above their floors, the sums differ"));
        }
        wrong
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.own.heap_bytes() + self.wider.heap_bytes() + self.pools.capacity() * size_of::<Pool>()
    }

    /// Forgets what was used, as a planted bug does.
    pub(crate) fn forget_uses(&mut self) {
        let all: Vec<u64> = self.own.keys().copied().collect();
        for tag in all {
            self.own.get_mut(&tag).expect("it is there").used = 0;
        }
        self.pools.iter_mut().for_each(|pool| pool.used = 0);
    }
}

impl Account {
    fn view(&self, holder: u64) -> HolderView {
        HolderView { holder: format_smolstr!("{holder:012x}"), held: self.held, used_seconds: self.used / 1_000 }
    }
}

/// The account of this number, or the one of all others of the supply if there are too many.
fn known<V>(accounts: Option<&SharedMap<u64, V>>, tag: u64, supply: u16) -> u64 {
    let full = |accounts: &SharedMap<u64, V>| accounts.len() >= ACCOUNTS_MAX && !accounts.contains_key(&tag);
    if accounts.is_some_and(full) { u64::from(supply) } else { tag }
}

fn moved(sum: u64, was: u64, is: u64) -> u64 {
    (sum + is).checked_sub(was).unwrap_or_else(|| panic!("a sum of {sum} is to give back {was}"))
}

/// The amount of a hold, and the supply that it is of.
pub(crate) trait Amount {
    /// Seats, places, units or slots.
    fn amount(&self) -> u32;

    /// The number of its supply within the inventory.
    fn supply(&self) -> u16 {
        0
    }
}

/// Accounts, if a holder of the inventory has a share.
pub(crate) type MaybeAccounts = Option<Box<Accounts>>;

#[cfg(test)]
mod tests {
    use super::*;

    /// A hold of five that has used its time, and is asked for again with fewer seats. What it has used is more than those left can
    /// have used each, and its sale gives back no more than that.
    #[test]
    fn a_hold_that_gets_less_gives_back_at_most_what_it_used() {
        for (had, has) in [(5, 1), (5, 4), (2, 1), (20, 1)] {
            let charge =
                |age_ms| Charge { own: 7, wider: 8, age_ms, floor: 1, bonus_seconds: 0, forgives: 0, life_seconds: 0 };
            let mut accounts = Accounts::default();
            let first = accounts.charge((&charge(0), Timestamp(1_000)), 0, had, None);
            let second = accounts.charge((&charge(0), Timestamp(61_000)), 0, has, Some((had, first)));
            let used = accounts.own.get(&7).expect("an account").used;
            assert!(used > 0, "{had} seats were above the floor for a minute");
            accounts.give_back(&second, 0, (has, 0), Timestamp(61_000), true);
            let left = accounts.own.get(&7).map_or(0, |account| account.used);
            assert!((0..=used).contains(&left), "{had} to {has}: {used} used, {left} left");
        }
    }
}
