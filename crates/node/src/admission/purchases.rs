//! How long purchases have needed lately, from the arrival of the command that opens a cart, a hold in most cases, until its
//! checkout is answered.
//!
//! What the buyer does between two requests is not the node's: a longer pause than [`PAUSE_MAX_MS`] counts as that much. So a purchase
//! of a person who thinks for a minute is as short as that of a program.

use std::collections::VecDeque;

use boxoffice_core::{command::CartCommand, id::CartId};
use boxoffice_wire::needed::NeededTime;
use rustc_hash::FxHashMap;

/// One cart in this many is measured. Tokens are random, so these are a fair sample.
const SAMPLED: u8 = 8;

/// Carts that are measured at the same time.
const CARTS_MAX: usize = 4_096;

/// A purchase that takes longer is not measured to its end, in milliseconds.
const LIFE_MS: u64 = 60_000;

/// The most that one pause between an answer and the next request of a cart counts, in milliseconds. A program on another
/// continent needs less.
const PAUSE_MAX_MS: u64 = 250;

/// The part that a client's command has in the purchase of its cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurchaseStep {
    cart: CartId,
    buys: bool,
}

/// The purchases that are measured.
#[derive(Default)]
pub(super) struct Purchases {
    carts: FxHashMap<CartId, Purchase>,
    /// The same carts in the order in which they began. Some are over.
    begun: VecDeque<(u64, CartId)>,
    needed: NeededTime,
}

struct Purchase {
    begun_ms: u64,
    /// Requests of the cart that are not answered.
    under_way: u32,
    /// When the last one was answered.
    answered_ms: u64,
    /// What the buyer has needed beyond the pauses that count.
    paused_ms: u64,
}

impl PurchaseStep {
    /// The step of this command, if its cart is measured.
    pub(super) fn of(cart: CartId, command: &CartCommand) -> Option<PurchaseStep> {
        let is_step =
            matches!(command, CartCommand::Open { .. } | CartCommand::Hold { .. } | CartCommand::Checkout { .. });
        let buys = matches!(command, CartCommand::Checkout { .. });
        (is_step && is_sampled(cart)).then_some(PurchaseStep { cart, buys })
    }

    /// A step of a measured cart.
    #[cfg(test)]
    pub(super) fn sample(number: u128, buys: bool) -> PurchaseStep {
        PurchaseStep { cart: CartId(number * u128::from(SAMPLED)), buys }
    }
}

impl Purchases {
    /// A command was admitted.
    pub(super) fn begin(&mut self, step: PurchaseStep, now_ms: u64) {
        match self.carts.get_mut(&step.cart) {
            Some(purchase) => {
                if purchase.under_way == 0 {
                    purchase.paused_ms += now_ms.saturating_sub(purchase.answered_ms).saturating_sub(PAUSE_MAX_MS);
                }
                purchase.under_way += 1;
            }
            // The hold came before this node led, or too long ago.
            None if step.buys => {}
            None => {
                self.make_room(now_ms);
                let purchase = Purchase { begun_ms: now_ms, under_way: 1, answered_ms: now_ms, paused_ms: 0 };
                self.carts.insert(step.cart, purchase);
                self.begun.push_back((now_ms, step.cart));
            }
        }
    }

    /// Forgets the oldest carts, so that there is room for another one.
    fn make_room(&mut self, now_ms: u64) {
        while let Some((begun_ms, cart)) = self.begun.front().copied()
            && (now_ms.saturating_sub(begun_ms) > LIFE_MS || self.begun.len() >= CARTS_MAX)
        {
            self.begun.pop_front();
            // The cart may have begun another purchase since.
            if self.carts.get(&cart).is_some_and(|purchase| purchase.begun_ms == begun_ms) {
                self.carts.remove(&cart);
            }
        }
    }

    /// It was answered, or given up.
    pub(super) fn end(&mut self, step: PurchaseStep, is_granted: bool, now_ms: u64) {
        let Some(purchase) = self.carts.get_mut(&step.cart) else { return };
        purchase.under_way = purchase.under_way.saturating_sub(1);
        purchase.answered_ms = now_ms;
        if step.buys && is_granted {
            let took_ms = now_ms.saturating_sub(purchase.begun_ms).saturating_sub(purchase.paused_ms);
            self.needed.note(took_ms, now_ms);
            self.carts.remove(&step.cart);
        }
    }

    /// How long a purchase needs, in milliseconds. 0 if that is not known.
    pub(super) fn needed_ms(&mut self, now_ms: u64) -> u64 {
        self.needed.ms(now_ms)
    }
}

fn is_sampled(cart: CartId) -> bool {
    cart.0.to_le_bytes()[0].is_multiple_of(SAMPLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Purchases of two steps of 10 ms, with this pause in between. Returns how long they need.
    fn needed_with_pause(purchases: &mut Purchases, pause_ms: u64, from_ms: u64) -> u64 {
        for number in 0..100 {
            let (hold, checkout) = (PurchaseStep::sample(number, false), PurchaseStep::sample(number, true));
            purchases.begin(hold, from_ms);
            purchases.end(hold, true, from_ms + 10);
            purchases.begin(checkout, from_ms + 10 + pause_ms);
            purchases.end(checkout, true, from_ms + 20 + pause_ms);
        }
        purchases.needed_ms(from_ms + 20 + pause_ms)
    }

    #[test]
    fn a_pause_of_the_buyer_counts_up_to_a_bound() {
        assert_eq!(needed_with_pause(&mut Purchases::default(), 0, 1_000), 23);
        assert_eq!(needed_with_pause(&mut Purchases::default(), 200, 1_000), 223);
        let longest = 20 + PAUSE_MAX_MS;
        for pause_ms in [250, 5_000, 50_000] {
            let needed_ms = needed_with_pause(&mut Purchases::default(), pause_ms, 1_000);
            assert!((longest..longest * 5 / 4).contains(&needed_ms), "{pause_ms}: {needed_ms}");
        }
    }

    #[test]
    fn requests_beside_each_other_and_refused_checkouts_belong_to_one_purchase() {
        let mut purchases = Purchases::default();
        for number in 0..100 {
            let (hold, checkout) = (PurchaseStep::sample(number, false), PurchaseStep::sample(number, true));
            purchases.begin(hold, 1_000);
            purchases.begin(hold, 1_100);
            purchases.end(hold, true, 1_200);
            purchases.end(hold, false, 1_500);
            purchases.begin(checkout, 1_500);
            purchases.end(checkout, false, 1_600);
            purchases.begin(checkout, 1_600);
            purchases.end(checkout, true, 1_700);
        }
        assert_eq!(purchases.needed_ms(1_700), 767);
        assert!(purchases.carts.is_empty());
    }

    #[test]
    fn what_is_measured_is_bounded() {
        let mut purchases = Purchases::default();
        (0..3 * CARTS_MAX as u128).for_each(|number| purchases.begin(PurchaseStep::sample(number, false), 1_000));
        assert_eq!((purchases.carts.len(), purchases.begun.len()), (CARTS_MAX, CARTS_MAX));
        // A checkout of a cart that is not known begins nothing.
        purchases.begin(PurchaseStep::sample(0, true), 1_000);
        assert_eq!(purchases.carts.len(), CARTS_MAX);
        purchases.begin(PurchaseStep::sample(0, false), 1_001 + LIFE_MS);
        assert_eq!((purchases.carts.len(), purchases.begun.len()), (1, 1));
        let carts = (0..80).filter(|number| is_sampled(CartId(*number))).count();
        assert_eq!(carts, 10);
    }
}
