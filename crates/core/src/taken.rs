//! Counters of held and sold places, units and parts of quotas.

use boxoffice_declare::Stored;

use crate::holds::Refunded;

/// Places, units or parts of a quota that are not free, by state (P1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub(crate) struct Taken {
    /// In carts.
    #[n(0)]
    pub(crate) held: u64,
    #[n(1)]
    pub(crate) sold: u64,
}

impl Taken {
    /// Held and sold together.
    pub(crate) fn all(self) -> u64 {
        self.held + self.sold
    }

    /// A hold that had `before` has `now`.
    pub(crate) fn hold(&mut self, before: u32, now: u32) {
        let held = (self.held + u64::from(now)).checked_sub(u64::from(before));
        self.held = held.unwrap_or_else(|| panic!("a hold had {before} and only {} are held", self.held));
    }

    /// A hold that had this is sold.
    pub(crate) fn sell(&mut self, quantity: u32) {
        self.hold(quantity, 0);
        self.sold += u64::from(quantity);
    }

    /// A sale is over, or a hold whose sale had not come yet.
    pub(crate) fn refund(&mut self, refunded: Refunded<u32>) {
        match refunded {
            Refunded::Sale(quantity) => {
                let sold = self.sold.checked_sub(u64::from(quantity));
                self.sold = sold.unwrap_or_else(|| panic!("{quantity} are refunded of {} that are sold", self.sold));
            }
            Refunded::Hold(quantity) => self.hold(quantity, 0),
        }
    }
}
