//! Admission by delay: under overload the node refuses the newest first commands early, so that what it has admitted is
//! decided in time.
//!
//! Every command carries the time at which it came, as far as the edge knows it: commands of connections that watch may lie unread
//! until a thread has a processor, and count as commands under way. A command's **wait** ends when its entity decides on it. Its **stay** ends with its
//! answer, so it covers the queues of all actors and of the replication.
//!
//! The node sheds if, for `sustain_ms` on end, commands wait longer than the target, or stay that much longer than usual while
//! they queue for the processors. If they do not queue, the disk or another node is slow, and shedding would not help. While the
//! node sheds, it keeps as many commands under way as it can answer within the target ([`Control`]), and tells clients beyond
//! that when to try again.
//!
//! A short burst is never shed. 10 000 buyers who want one seat within a second only wait. Only first commands of clients are
//! shed ([`Class`]), never a repeat of an admitted one, and no message between entities.
//!
//! A flow that was admitted is admitted to its end: the checkout of a cart that holds something is not shed. For that the node
//! refuses to begin what could not end in time. While it sheds, it measures how long purchases have needed lately
//! ([`Purchases`]), and refuses a first hold whose buyer will be there for less.

mod class;
mod control;
mod fresh;
mod purchases;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use boxoffice_core::{command::CartCommand, id::CartId};
use tracing_mutex::parkinglot::Mutex;

pub use self::class::Class;
pub(crate) use self::purchases::PurchaseStep;
use self::{
    control::{Control, RETRY_MIN_MS, Seen},
    fresh::Fresh,
    purchases::Purchases,
};
use crate::{api::CallTimes, metrics_text::MetricsText};

/// The controller looks at what it has seen this often, in milliseconds.
const WINDOW_MS: u64 = 128;

/// A command that is under way for longer than this waits for something other than this node's processors, like a payment
/// gateway or a lost leader. It tells nothing about the queue.
const STAY_MAX_MS: u64 = 1_000;

/// Inputs are decided where they come while they wait for the selling thread for less than this part of the target.
const HERE_PART: u64 = 5;

/// The settings for overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverloadSettings {
    /// Commands may wait this long on average before the node is overloaded, in milliseconds.
    pub target_ms: u64,
    /// Commands wait longer than that for this many milliseconds before the first one is shed.
    pub sustain_ms: u64,
    /// Commands under way on the node, in all shards. Beyond this number first commands are shed at once. Checkouts are counted
    /// apart, with the same bound, so that a purchase that has begun can end while new ones fill the node.
    pub under_way_max: usize,
}

impl Default for OverloadSettings {
    fn default() -> OverloadSettings {
        OverloadSettings { target_ms: 50, sustain_ms: 500, under_way_max: 16_384 }
    }
}

/// The proof that a command was admitted, with the time at which it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    came_ms: u64,
    buys: bool,
    /// Its part in a purchase that is measured.
    pub(crate) purchase: Option<PurchaseStep>,
}

impl Pass {
    /// When the command came, in milliseconds of the monotonic clock.
    pub(crate) fn came_ms(self) -> u64 {
        self.came_ms
    }
}

/// The node's counts of its clients' commands, and whether it sheds.
pub(crate) struct Admission {
    settings: OverloadSettings,
    is_shedding: AtomicBool,
    /// New carts are begun while fewer commands than this are under way. The other classes have shares of it.
    limit: AtomicUsize,
    /// Since when the node sheds, in milliseconds. 0 while it does not. Commands that came before queue longer, which says
    /// nothing about the limit.
    shedding_since_ms: AtomicU64,
    retry_after_ms: AtomicU32,
    /// How long a purchase has needed lately, in milliseconds. 0 if that is not known.
    needed_ms: AtomicU64,
    under_way: AtomicUsize,
    /// Those of them that buy.
    buying: AtomicUsize,
    fresh: Fresh,
    /// Commands that the node has decided in a window lately.
    decided: AtomicU64,
    purchases: Mutex<Purchases>,
    /// Since when a batch of commits waits for the selling thread, in milliseconds. 0 if none does.
    batch_since_ms: AtomicU64,
    /// How long the last one has waited, and until when.
    batch_wait_ms: AtomicU64,
    batch_at_ms: AtomicU64,
    window: Window,
    window_ends_ms: AtomicU64,
    control: Mutex<Control>,
    shed: [AtomicU64; Class::ALL.len()],
    too_late: AtomicU64,
}

/// The measurements since the window began.
#[derive(Default)]
struct Window {
    decided: AtomicU64,
    waited_ms: AtomicU64,
    /// How long all commands that were admitted had lain unread.
    unread_ms: AtomicU64,
    answered: AtomicU64,
    stayed_ms: AtomicU64,
    shed: AtomicU64,
}

impl Admission {
    /// Nothing is under way yet.
    pub(crate) fn new(settings: OverloadSettings, now_ms: u64) -> Admission {
        Admission {
            settings,
            is_shedding: AtomicBool::new(false),
            limit: AtomicUsize::new(usize::MAX),
            shedding_since_ms: AtomicU64::new(0),
            retry_after_ms: AtomicU32::new(RETRY_MIN_MS),
            needed_ms: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            buying: AtomicUsize::new(0),
            fresh: Fresh::default(),
            decided: AtomicU64::new(0),
            purchases: Mutex::default(),
            batch_since_ms: AtomicU64::new(0),
            batch_wait_ms: AtomicU64::new(0),
            batch_at_ms: AtomicU64::new(0),
            window: Window::default(),
            window_ends_ms: AtomicU64::new(now_ms + WINDOW_MS),
            control: Mutex::new(Control::new(&settings, now_ms)),
            shed: Default::default(),
            too_late: AtomicU64::new(0),
        }
    }

    /// Admits a command that was read now, and buys or does not. `class` is asked for only if it may have to be shed.
    ///
    /// # Errors
    /// After how many milliseconds the client should try again.
    pub(crate) fn admit(
        &self,
        buys: bool,
        class: impl FnOnce() -> Option<Class>,
        times: CallTimes,
        now_ms: u64,
    ) -> Result<Pass, u32> {
        if let Some(retry_after_ms) = self.sheds(class, times, now_ms) {
            return Err(retry_after_ms);
        }
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let came_ms = now_ms.saturating_sub(times.unread_ms);
        self.fresh.add(came_ms);
        if times.unread_ms > 0 {
            self.window.unread_ms.fetch_add(times.unread_ms, Ordering::Relaxed);
        }
        if buys {
            self.buying.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Pass { came_ms, buys, purchase: None })
    }

    /// Notes that a cart's command was admitted. Returns its part in the cart's purchase, if that is measured.
    pub(crate) fn purchase_of(&self, cart: CartId, command: &CartCommand, now_ms: u64) -> Option<PurchaseStep> {
        let step = PurchaseStep::of(cart, command)?;
        self.purchases.lock().begin(step, now_ms);
        Some(step)
    }

    /// A batch of commits waits for the selling thread.
    pub(crate) fn batch_waits(&self, now_ms: u64) {
        let _ = self.batch_since_ms.compare_exchange(0, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The selling thread has taken a batch of commits. `more` says whether another one waits, which came later.
    pub(crate) fn batch_taken(&self, more: bool, now_ms: u64) {
        let since_ms = self.batch_since_ms.swap(if more { now_ms.max(1) } else { 0 }, Ordering::Relaxed);
        let wait_ms = if since_ms == 0 { 0 } else { now_ms.saturating_sub(since_ms) };
        self.batch_wait_ms.store(wait_ms, Ordering::Relaxed);
        self.batch_at_ms.store(now_ms, Ordering::Relaxed);
    }

    /// How long a new input waits for the selling thread, as batches of commits did last or do now.
    fn thread_wait_ms(&self, now_ms: u64) -> u64 {
        let waits_ms = match self.batch_since_ms.load(Ordering::Relaxed) {
            0 => 0,
            since_ms => now_ms.saturating_sub(since_ms),
        };
        let is_recent = now_ms.saturating_sub(self.batch_at_ms.load(Ordering::Relaxed)) <= WINDOW_MS;
        waits_ms.max(if is_recent { self.batch_wait_ms.load(Ordering::Relaxed) } else { 0 })
    }

    /// Whether the selling thread has so little to do that it may decide where an input comes. If it has more, a connection would
    /// read too slowly. Commands would wait in sockets, where no limit and no measure of overload reaches them.
    pub(crate) fn may_decide_here(&self, now_ms: u64) -> bool {
        !self.is_shedding() && self.thread_wait_ms(now_ms) < self.settings.target_ms.div_ceil(HERE_PART)
    }

    /// Whether a command that comes now is shed, and then after how many milliseconds its client should try again. A command
    /// that is shed is counted.
    pub(crate) fn sheds(&self, class: impl FnOnce() -> Option<Class>, times: CallTimes, now_ms: u64) -> Option<u32> {
        self.look(now_ms);
        let under_way = self.under_way.load(Ordering::Relaxed);
        let is_full = under_way >= self.settings.under_way_max;
        if !is_full && !self.is_shedding.load(Ordering::Relaxed) {
            return None;
        }
        let class = class()?;
        let is_shed = match class {
            // Its purchase was admitted, so only the node's memory bounds it.
            Class::Checkout => self.buying.load(Ordering::Relaxed) >= self.settings.under_way_max,
            Class::Read | Class::Begin | Class::Hold => {
                let limit = (self.limit.load(Ordering::Relaxed) / 2).saturating_mul(class.halves());
                let queued = self.fresh.count(now_ms) + self.unread(times.unread_ms);
                is_full || queued >= limit || (class == Class::Begin && self.is_vain(times.patience_ms))
            }
        };
        if !is_shed {
            return None;
        }
        self.shed[class as usize].fetch_add(1, Ordering::Relaxed);
        self.window.shed.fetch_add(1, Ordering::Relaxed);
        Some(self.retry_after_ms.load(Ordering::Relaxed))
    }

    /// How many commands lie unread, if one that is read now has waited for so long: as many as are decided in that time (Little's
    /// law).
    fn unread(&self, unread_ms: u64) -> usize {
        usize::try_from(unread_ms * self.decided.load(Ordering::Relaxed) / WINDOW_MS).unwrap_or(usize::MAX)
    }

    /// Whether the buyer of a purchase that begins now would be gone before its end.
    fn is_vain(&self, patience_ms: u64) -> bool {
        self.is_shedding() && patience_ms < self.needed_ms.load(Ordering::Relaxed)
    }

    /// A command is about to be decided.
    pub(crate) fn taken(&self, pass: Pass, now_ms: u64) {
        self.window.decided.fetch_add(1, Ordering::Relaxed);
        self.window.waited_ms.fetch_add(now_ms.saturating_sub(pass.came_ms), Ordering::Relaxed);
        self.look(now_ms);
    }

    /// A command is answered, or given up. `is_granted` says whether the answer was `ok`.
    pub(crate) fn over(&self, pass: Pass, is_granted: bool, now_ms: u64) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.fresh.remove(pass.came_ms);
        if pass.buys {
            self.buying.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(step) = pass.purchase {
            self.purchases.lock().end(step, is_granted, now_ms);
        }
        let stayed_ms = now_ms.saturating_sub(pass.came_ms);
        if stayed_ms <= STAY_MAX_MS && pass.came_ms >= self.shedding_since_ms.load(Ordering::Relaxed) {
            self.window.answered.fetch_add(1, Ordering::Relaxed);
            self.window.stayed_ms.fetch_add(stayed_ms, Ordering::Relaxed);
        }
        self.look(now_ms);
    }

    /// A command was dropped undecided, because its client's deadline had passed.
    pub(crate) fn is_too_late(&self) {
        self.too_late.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a command may be shed now. If not, nothing about the command needs to be known.
    pub(crate) fn may_shed(&self) -> bool {
        self.is_shedding() || self.under_way.load(Ordering::Relaxed) >= self.settings.under_way_max
    }

    /// Commands under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Whether the node sheds.
    pub(crate) fn is_shedding(&self) -> bool {
        self.is_shedding.load(Ordering::Relaxed)
    }

    /// Commands that were shed, of one class.
    fn shed_of(&self, class: Class) -> u64 {
        self.shed[class as usize].load(Ordering::Relaxed)
    }

    /// Writes the counters.
    pub(crate) fn write(&self, text: &mut MetricsText) {
        let shed = "boxoffice_shed_total";
        text.describe(shed, "counter", "First commands refused because of overload.");
        text.samples(shed, "class", Class::ALL.map(|class| (class.name(), self.shed_of(class))));
        text.counter("boxoffice_too_late_total", "Commands dropped undecided after their deadline.", &self.too_late);
        let is_shedding = u8::from(self.is_shedding());
        text.gauge("boxoffice_shedding", "Whether the node sheds first commands.", is_shedding);
        text.gauge("boxoffice_under_way", "Commands under way.", self.under_way.load(Ordering::Relaxed));
    }

    /// Ends the window if its time is over, and sets the terms of the next one.
    fn look(&self, now_ms: u64) {
        if now_ms < self.window_ends_ms.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut control) = self.control.try_lock() else { return };
        if now_ms < self.window_ends_ms.load(Ordering::Relaxed) {
            return;
        }
        self.window_ends_ms.store(now_ms + WINDOW_MS, Ordering::Relaxed);
        let unread = (self.window.unread_ms.swap(0, Ordering::Relaxed) / WINDOW_MS) as usize;
        let seen = self.window.take(self.fresh.count(now_ms) + unread);
        // Few are decided in a window where most are shed, and what the node can do is not forgotten for that.
        let before = self.decided.load(Ordering::Relaxed);
        self.decided.store(seen.decided.max(before - before / 8), Ordering::Relaxed);
        let terms = control.turn(&seen, now_ms);
        self.limit.store(terms.limit, Ordering::Relaxed);
        self.retry_after_ms.store(terms.retry_after_ms, Ordering::Relaxed);
        self.needed_ms.store(self.purchases.lock().needed_ms(now_ms), Ordering::Relaxed);
        tracing::debug!(?seen, ?terms, "admission");
        let was_shedding = self.is_shedding.swap(terms.is_shedding, Ordering::Relaxed);
        if terms.is_shedding && !was_shedding {
            self.shedding_since_ms.store(now_ms, Ordering::Relaxed);
            let (wait_ms, stay_ms) = (seen.wait_ms().unwrap_or(0.0) as u64, seen.stay_ms().unwrap_or(0.0) as u64);
            tracing::warn!(
                limit = terms.limit,
                wait_ms,
                stay_ms,
                "overload: commands wait too long, so new ones are shed"
            );
        } else if was_shedding && !terms.is_shedding {
            self.shedding_since_ms.store(0, Ordering::Relaxed);
            tracing::warn!("the overload is over: every command is admitted again");
        }
    }
}

impl Window {
    fn take(&self, under_way: usize) -> Seen {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Seen {
            decided: take(&self.decided),
            waited_ms: take(&self.waited_ms),
            answered: take(&self.answered),
            stayed_ms: take(&self.stayed_ms),
            shed: take(&self.shed),
            under_way,
        }
    }
}

#[cfg(test)]
mod obeying_tests;
#[cfg(test)]
mod tests;
