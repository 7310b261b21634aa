//! A product, which is sold by quantity, and how many units each hold has.
//!
//! [`Product::apply`] writes, and `decide` decides.

mod decide;

#[cfg(test)]
mod tests;

use alloc::{sync::Arc, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    answer::{Answer, ProductAudit, ProductView, StockCounts},
    changes::Changes,
    command::ProductDetails,
    event::ProductEvent,
    fairness::Amount,
    holds::{Hold, Holds},
    id::{Id, Request},
    portion::{Portion, Tax},
    refusal::Refusal,
    taken::Taken,
};

/// The state of a product.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Product {
    #[n(0)]
    id: Id,
    #[n(1)]
    version: u64,
    #[n(2)]
    details: Arc<ProductDetails>,
    #[n(3)]
    holds: Holds<Units>,
    #[n(4)]
    puts: Changes<Taken>,
    /// Follows from the holds.
    #[stored(skip)]
    taken: Taken,
}

/// The content of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
struct Units {
    #[n(0)]
    quantity: u32,
    /// The price of one unit in minor units, captured when it was held first. Later changes of the product's price do not change
    /// it.
    #[n(1)]
    price: i64,
}

impl Amount for Units {
    fn amount(&self) -> u32 {
        self.quantity
    }
}

impl Units {
    fn portion(&self) -> Portion {
        Portion::Units(self.quantity)
    }
}

impl Product {
    /// A product from its first event.
    ///
    /// # Panics
    /// If the event is no put.
    pub fn first(id: Id, event: &ProductEvent) -> Product {
        let ProductEvent::Put { details, request } = event else { panic!("product {id} begins with {event:?}") };
        let details = Arc::new((**details).clone());
        let mut puts = Changes::default();
        puts.remember(*request, 1, Taken::default());
        Product { id, version: 1, details, holds: Holds::default(), puts, taken: Taken::default() }
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    ///
    /// # Panics
    /// If the event breaks a promise.
    pub fn apply(&mut self, event: &ProductEvent) {
        self.version += 1;
        match event {
            ProductEvent::Put { details, request } => {
                self.details = Arc::new((**details).clone());
                self.puts.remember(*request, self.version, self.taken);
            }
            ProductEvent::UnitsHeld { hold, revision, want_hash, quantity, price, deadline, charge } => {
                assert!(*quantity > 0, "hold {hold:?} of nothing");
                let units = Units { quantity: *quantity, price: *price };
                let live = Hold::new(*revision, *want_hash, *deadline, self.version, units);
                let before = self.holds.hold(*hold, live, charge.as_ref());
                assert!(before.is_none_or(|before| before.price == *price), "{hold:?} has another price than before");
                self.taken.hold(before.map_or(0, |before| before.quantity), *quantity);
            }
            ProductEvent::UnitsReleased { hold, revision, left, remember, freed_at, expired: _ } => {
                let Units { quantity, price } = *self.holds.released(*hold);
                assert!(*left <= quantity, "{hold:?} releases down to {left} and has {quantity}");
                let units = (*left > 0).then_some(Units { quantity: *left, price });
                self.holds.release(*hold, *revision, units, (*remember, *freed_at));
                self.taken.hold(quantity, *left);
            }
            ProductEvent::UnitsSold { hold, quantity, at, freed_at } => {
                let sold = self.holds.sell(*hold, (*at, *freed_at), self.version);
                assert_eq!(sold.quantity, *quantity, "hold {hold:?} is sold with other units than it has");
                self.taken.sell(*quantity);
            }
            ProductEvent::UnitsRefunded { hold } => {
                self.taken.refund(self.holds.refund(*hold).map(|units| units.quantity));
            }
            ProductEvent::Hold(event) => self.holds.apply(event),
        }
        let stock = self.details.stock;
        assert!(self.taken.all() <= stock, "product {} has {:?} of a stock of {stock}", self.id, self.taken);
    }

    /// Computes what is not serialized.
    pub(crate) fn rebuild(&mut self) {
        self.holds.rebuild();
        self.taken = self.counted();
    }

    /// Its details and counts.
    pub fn view(&self) -> Arc<ProductView> {
        Arc::new(ProductView { id: self.id.clone(), details: (*self.details).clone(), counts: self.counts() })
    }

    /// The answer to a put that was granted before and its version, if it is remembered. Refused if its request id was used for
    /// something else. `details` are those of the repeat.
    pub(crate) fn answered(
        &self,
        request: Request,
        details: &ProductDetails,
    ) -> Option<Result<(Answer, u64), Refusal>> {
        let known = self.puts.answered(request)?;
        Some(known.map(|known| {
            let Taken { held, sold } = known.detail;
            // The repeat has the same details, so its stock was enough.
            let counts = StockCounts { free: details.stock - held - sold, held, sold };
            let view = ProductView { id: self.id.clone(), details: details.clone(), counts };
            (Answer::Product(Arc::new(view)), known.version)
        }))
    }

    /// Units by state, from the counters.
    pub fn counts(&self) -> StockCounts {
        StockCounts { free: self.free(), held: self.taken.held, sold: self.taken.sold }
    }

    /// Everything about it, counted anew from holds and sales.
    pub fn audit(&self) -> ProductAudit {
        let mut violations: Vec<SmolStr> = self.holds.violations();
        let Taken { held, sold } = self.counted();
        if self.taken != (Taken { held, sold }) {
            violations.push(format_smolstr!("counters say {:?}, holds and sales say {held} and {sold}", self.taken));
        }
        let free = self.details.stock.checked_sub(held + sold);
        if free.is_none() {
            violations.push(format_smolstr!("{held} held and {sold} sold of {}", self.details.stock));
        }
        ProductAudit {
            product: self.id.clone(),
            counts: StockCounts { free: free.unwrap_or(0), held, sold },
            holds: self.holds.hold_views(Units::portion),
            sales: self.holds.sale_views(Units::portion),
            holders: self.holds.holder_views(),
            violations,
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let ProductDetails { properties, blob, tax, .. } = &*self.details;
        let tax = tax.as_ref().map_or(0, |_| size_of::<Tax>());
        let details = size_of::<ProductDetails>() + properties.capacity() * size_of::<(SmolStr, SmolStr)>() + tax;
        let puts = self.puts.heap_bytes();
        self.id.heap_bytes() + 2 * size_of::<usize>() + details + blob.capacity() + self.holds.heap_bytes() + puts
    }

    fn free(&self) -> u64 {
        self.details.stock - self.taken.all()
    }

    fn counted(&self) -> Taken {
        Taken {
            held: self.holds.all_live().map(|(_, hold)| u64::from(hold.what.quantity)).sum(),
            sold: self.holds.all_sales().map(|(_, sale)| u64::from(sale.what.quantity)).sum(),
        }
    }
}
