//! What hoarders were granted, as their answers say, and the network of each of their carts.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use boxoffice_client::{CartId, Timestamp};

/// A cart as its hoarder knows it.
#[derive(Clone, Copy, Debug)]
struct Known {
    network: u32,
    held: u32,
    until: Timestamp,
    /// Requests so far, and those under way. A cart is certain while there is none.
    requests: u64,
    under_way: u32,
    /// The outcome of a request is not known, or a payment is under way.
    is_unsure: bool,
}

/// What all hoarders know.
#[derive(Default)]
pub(super) struct Ledger {
    carts: Mutex<BTreeMap<CartId, Known>>,
    asks: Mutex<(u64, BTreeMap<String, u64>)>,
}

/// The number of requests of each cart that is certain.
pub(super) type Sure = BTreeMap<CartId, u64>;

impl Ledger {
    fn carts(&self) -> MutexGuard<'_, BTreeMap<CartId, Known>> {
        self.carts.lock().expect("no thread panics while it holds the lock")
    }

    /// A cart of this network.
    pub(super) fn open(&self, cart: CartId, network: u32) {
        let (held, until) = (0, Timestamp(0));
        self.carts().insert(cart, Known { network, held, until, requests: 0, under_way: 0, is_unsure: false });
    }

    /// A request of the cart is sent.
    pub(super) fn begin(&self, cart: CartId) {
        self.change(cart, |known| (known.requests, known.under_way) = (known.requests + 1, known.under_way + 1));
    }

    /// It was answered. Then the cart holds this, until then. Nothing has changed if that is absent.
    pub(super) fn end(&self, cart: CartId, has: Option<(u32, Timestamp)>) {
        self.change(cart, |known| {
            known.under_way -= 1;
            (known.held, known.until) = has.unwrap_or((known.held, known.until));
        });
    }

    /// What the cart has is not known any more.
    pub(super) fn doubt(&self, cart: CartId) {
        self.change(cart, |known| known.is_unsure = true);
    }

    fn change(&self, cart: CartId, change: impl FnOnce(&mut Known)) {
        change(self.carts().get_mut(&cart).expect("a hoarder opens its carts"));
    }

    /// The network of a cart. `None` if no hoarder has it.
    pub(super) fn network(&self, cart: CartId) -> Option<u32> {
        self.carts().get(&cart).map(|known| known.network)
    }

    /// Everything that hoarders believe to have at this time.
    pub(super) fn believed(&self, now_ms: u64) -> u32 {
        self.carts().values().filter(|known| known.until.0 > now_ms).map(|known| known.held).sum()
    }

    /// The certain carts.
    pub(super) fn sure(&self) -> Sure {
        let carts = self.carts();
        let sure = carts.iter().filter(|(_, known)| !known.is_unsure && known.under_way == 0);
        sure.map(|(cart, known)| (*cart, known.requests)).collect()
    }

    /// What carts hold that were certain then, have asked for nothing since, and live until then.
    pub(super) fn sure_since(&self, before: &Sure, lives: Timestamp) -> Vec<(CartId, u32)> {
        let carts = self.carts();
        let same = carts.iter().filter(|(cart, known)| {
            before.get(cart) == Some(&known.requests) && !known.is_unsure && known.until > lives
        });
        same.map(|(cart, known)| (*cart, known.held)).collect()
    }

    /// Counts an ask: granted, or why not.
    pub(super) fn count(&self, outcome: Result<(), &str>) {
        let mut asks = self.asks.lock().expect("no thread panics while it holds the lock");
        match outcome {
            Ok(()) => asks.0 += 1,
            Err(why) => *asks.1.entry(why.to_owned()).or_default() += 1,
        }
    }

    /// Asks that were granted, and the others by reason.
    pub(super) fn asks(&self) -> (u64, BTreeMap<String, u64>) {
        self.asks.lock().expect("no thread panics while it holds the lock").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cart_is_certain_while_nothing_is_asked_for() {
        let (ledger, cart) = (Ledger::default(), CartId(1));
        ledger.open(cart, 3);
        ledger.begin(cart);
        assert!(ledger.sure().is_empty());
        ledger.end(cart, Some((4, Timestamp(5_000))));
        let before = ledger.sure();
        assert_eq!(ledger.sure_since(&before, Timestamp(4_000)), [(cart, 4)]);
        assert_eq!(ledger.sure_since(&before, Timestamp(5_000)), [], "it may have ended");
        assert_eq!((ledger.believed(4_999), ledger.believed(5_000)), (4, 0));
        ledger.begin(cart);
        ledger.end(cart, None);
        assert_eq!(ledger.sure_since(&before, Timestamp(4_000)), [], "something was asked for meanwhile");
        ledger.doubt(cart);
        assert!(ledger.sure().is_empty());
        assert_eq!(ledger.network(cart), Some(3));
    }
}
