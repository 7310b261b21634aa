//! A code, which lets carts hold seats and places under offers that need one, and how many of its uses each hold has.
//!
//! [`Code::apply`] writes, and `decide` decides. Uses are held as seats are: from the hold on and until the release or the refund, so
//! that no number of carts gets more than there are.

mod decide;

#[cfg(test)]
mod tests;

use alloc::{collections::BTreeSet, vec::Vec};

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    answer::{CodeAudit, CodeView},
    changes::Changes,
    command::CodeDetails,
    event::CodeEvent,
    fairness::Amount,
    holds::{Hold, HoldIndex, Holds},
    id::{CartId, Id, Request},
    portion::Portion,
    refusal::Refusal,
    taken::Taken,
};

/// The state of a code.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Code {
    /// A keyed hash of the code.
    #[n(0)]
    id: Id,
    #[n(1)]
    version: u64,
    #[n(2)]
    details: CodeDetails,
    #[n(3)]
    holds: Holds<CodeUses>,
    #[n(4)]
    puts: Changes<Taken>,
    /// Uses of seats and places. Follows from the holds.
    #[stored(skip)]
    taken: Taken,
    /// Carts with any use: those that bought with it, and the others. Follows from the holds.
    #[stored(skip)]
    carts: Taken,
}

/// What a cart has of a code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CartUse {
    Nothing,
    Held,
    Sold,
}

/// The uses that one hold has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
struct CodeUses {
    #[n(0)]
    count: u32,
}

/// A code is limited by its uses, and its holders have no share of it.
impl Amount for CodeUses {
    fn amount(&self) -> u32 {
        0
    }
}

impl CodeUses {
    fn portion(&self) -> Portion {
        Portion::Uses(self.count)
    }
}

impl Code {
    /// A code from its first event.
    ///
    /// # Panics
    /// If the event is no put.
    pub fn first(id: Id, event: &CodeEvent) -> Code {
        let CodeEvent::Put { details, request } = event else { panic!("code {id} begins with {event:?}") };
        let mut puts = Changes::default();
        puts.remember(*request, 1, Taken::default());
        let (taken, carts) = (Taken::default(), Taken::default());
        Code { id, version: 1, details: details.clone(), holds: Holds::default(), puts, taken, carts }
    }

    /// How many events it has had.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Writes what happened. It was decided before, so it cannot fail.
    ///
    /// # Panics
    /// If the event breaks a promise.
    pub fn apply(&mut self, event: &CodeEvent) {
        self.version += 1;
        let cart = match event {
            CodeEvent::UsesHeld { hold, .. }
            | CodeEvent::UsesReleased { hold, .. }
            | CodeEvent::UsesSold { hold, .. }
            | CodeEvent::UsesRefunded { hold } => Some(hold.cart),
            CodeEvent::Put { .. } | CodeEvent::Hold(_) => None,
        };
        let before = cart.map(|cart| self.use_of(cart));
        self.write(event);
        if let (Some(cart), Some(before)) = (cart, before) {
            count(&mut self.carts, before, -1);
            let after = self.use_of(cart);
            count(&mut self.carts, after, 1);
        }
    }

    fn write(&mut self, event: &CodeEvent) {
        match event {
            CodeEvent::Put { details, request } => {
                self.details = details.clone();
                let used = self.used();
                self.puts.remember(*request, self.version, used);
            }
            CodeEvent::UsesHeld { hold, revision, want_hash, count, deadline } => {
                assert!(*count > 0, "hold {hold:?} of nothing");
                let live = Hold::new(*revision, *want_hash, *deadline, self.version, CodeUses { count: *count });
                let before = self.holds.hold(*hold, live, None).map_or(0, |before| before.count);
                self.taken.hold(before, *count);
            }
            CodeEvent::UsesReleased { hold, revision, left, remember, expired: _ } => {
                let count = self.holds.released(*hold).count;
                assert!(*left <= count, "{hold:?} releases down to {left} and has {count}");
                let uses = (*left > 0).then_some(CodeUses { count: *left });
                self.holds.release(*hold, *revision, uses, (*remember, None));
                self.taken.hold(count, *left);
            }
            CodeEvent::UsesSold { hold, count, at } => {
                let sold = self.holds.sell(*hold, (*at, None), self.version);
                assert_eq!(sold.count, *count, "hold {hold:?} is sold with other uses than it has");
                self.taken.sell(*count);
            }
            CodeEvent::UsesRefunded { hold } => {
                self.taken.refund(self.holds.refund(*hold).map(|uses| uses.count));
            }
            CodeEvent::Hold(event) => self.holds.apply(event),
        }
    }

    /// Computes what is not serialized.
    pub(crate) fn rebuild(&mut self) {
        self.holds.rebuild();
        self.taken = self.counted();
        self.carts = self.counted_carts();
    }

    /// What a cart has of it.
    fn use_of(&self, cart: CartId) -> CartUse {
        if self.holds.has_bought(cart) {
            return CartUse::Sold;
        }
        if self.holds.of_cart(cart).next().is_some() { CartUse::Held } else { CartUse::Nothing }
    }

    /// The uses that are taken, as the house counts them.
    fn used(&self) -> Taken {
        if self.details.by_order { self.carts } else { self.taken }
    }

    /// Whether no cart holds a use, or may still send messages about a released hold.
    pub(crate) fn is_unused(&self) -> bool {
        self.holds.all_live().next().is_none() && self.holds.remembered() == 0
    }

    /// Its details and counts.
    pub fn view(&self) -> CodeView {
        view(&self.details, self.used())
    }

    /// The answer to a put that was granted before and its version, if it is remembered. Refused if its request id was used for
    /// something else. `details` are those of the repeat.
    pub(crate) fn answered(&self, request: Request, details: &CodeDetails) -> Option<Result<(CodeView, u64), Refusal>> {
        let known = self.puts.answered(request)?;
        Some(known.map(|known| (view(details, known.detail), known.version)))
    }

    /// Everything about it, counted anew from holds and sales.
    pub fn audit(&self) -> CodeAudit {
        let mut violations: Vec<SmolStr> = self.holds.violations();
        let counted = self.counted();
        let counted = (counted, self.counted_carts());
        if (self.taken, self.carts) != counted {
            let counters = (self.taken, self.carts);
            violations.push(format_smolstr!("counters say {counters:?}, holds and sales say {counted:?}"));
        }
        let used = if self.details.by_order { counted.1 } else { counted.0 };
        CodeAudit {
            code: self.id.clone(),
            counts: view(&self.details, used),
            holds: self.holds.hold_views(CodeUses::portion),
            sales: self.holds.sale_views(CodeUses::portion),
            violations,
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.id.heap_bytes() + self.details.group.heap_bytes() + self.holds.heap_bytes() + self.puts.heap_bytes()
    }

    fn counted_carts(&self) -> Taken {
        let bought: BTreeSet<CartId> = self.holds.all_sales().map(|(hold, _)| hold.cart).collect();
        let holding = self.holds.all_live().map(|(hold, _)| hold.cart).filter(|cart| !bought.contains(cart));
        Taken { held: holding.collect::<BTreeSet<_>>().len() as u64, sold: bought.len() as u64 }
    }

    fn counted(&self) -> Taken {
        Taken {
            held: self.holds.all_live().map(|(_, hold)| u64::from(hold.what.count)).sum(),
            sold: self.holds.all_sales().map(|(_, sale)| u64::from(sale.what.count)).sum(),
        }
    }
}

/// One cart more or less.
fn count(carts: &mut Taken, of: CartUse, by: i64) {
    let counter = match of {
        CartUse::Nothing => return,
        CartUse::Held => &mut carts.held,
        CartUse::Sold => &mut carts.sold,
    };
    *counter = counter.checked_add_signed(by).expect("a cart was counted before");
}

fn view(CodeDetails { group, uses, ended, by_order }: &CodeDetails, Taken { held, sold }: Taken) -> CodeView {
    CodeView { group: group.clone(), uses: *uses, ended: *ended, by_order: *by_order, held, sold }
}
