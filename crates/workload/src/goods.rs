//! Goods: what a run sells besides seats, as numbers, and the ids those numbers have on the server.

use boxoffice_core::{
    answer::LineView,
    id::{Entity, Id},
    portion::Portion,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

/// Time of a resource, `[begin, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// From.
    pub begin: Timestamp,
    /// Up to, exclusive.
    pub end: Timestamp,
}

impl Span {
    /// Whether the two have an instant in common.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.begin < other.end && other.begin < self.end
    }
}

/// One thing that is sold by quantity, or one time of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Good {
    /// A product, by number.
    Product(u32),
    /// An area of an arena, both by number.
    Area {
        /// Which arena.
        arena: u32,
        /// Which of its areas.
        area: u32,
    },
    /// A time of a resource.
    Slot {
        /// Which resource.
        resource: u32,
        /// When.
        span: Span,
    },
}

/// All goods of a run. Its prefix is its own, so runs never meet on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goods {
    /// What every id starts with.
    pub prefix: String,
    /// Products.
    pub products: u32,
    /// Units of each product.
    pub stock: u64,
    /// For one unit, in minor units.
    pub unit_price: i64,
    /// Sessions with areas and no seats.
    pub arenas: u32,
    /// Areas of each of them.
    pub areas: u32,
    /// Places of each area.
    pub capacity: u32,
    /// For one place, in minor units.
    pub place_price: i64,
    /// Resources, each with a capacity of 1.
    pub resources: u32,
    /// For one slot, however long, in minor units.
    pub slot_price: i64,
    /// Customers.
    pub customers: u32,
}

impl Goods {
    /// The id of a product.
    pub fn product_id(&self, product: u32) -> Id {
        self.id('p', product)
    }

    /// The id of an arena: a session without seats.
    pub fn arena_id(&self, arena: u32) -> Id {
        self.id('a', arena)
    }

    /// The id of an area within its arena.
    pub fn area_id(&self, area: u32) -> Id {
        Id::new(&format!("area{area}")).expect("a short word is an id")
    }

    /// The id of a resource.
    pub fn resource_id(&self, resource: u32) -> Id {
        self.id('r', resource)
    }

    /// The id of a booking that is made without a cart.
    pub fn booking_id(&self, booking: u32) -> Id {
        self.id('b', booking)
    }

    /// The id of a customer.
    pub fn customer_id(&self, customer: u32) -> Id {
        self.id('u', customer)
    }

    /// What one of these costs, in minor units.
    pub fn price(&self, good: Good) -> i64 {
        match good {
            Good::Product(_) => self.unit_price,
            Good::Area { .. } => self.place_price,
            Good::Slot { .. } => self.slot_price,
        }
    }

    /// How many of it there are in all.
    pub fn capacity(&self, good: Good) -> u64 {
        match good {
            Good::Product(_) => self.stock,
            Good::Area { .. } => self.capacity.into(),
            Good::Slot { .. } => 1,
        }
    }

    /// The id of the entity that owns a good.
    pub fn entity(&self, good: Good) -> Entity {
        match good {
            Good::Product(product) => Entity::Product(self.product_id(product)),
            Good::Area { arena, .. } => Entity::Session(self.arena_id(arena)),
            Good::Slot { resource, .. } => Entity::Resource(self.resource_id(resource)),
        }
    }

    /// The good of a line of a cart; `None` if it has seats or is none of this run's.
    pub fn of_line(&self, line: &LineView) -> Option<Good> {
        let portion = line.content.portion();
        match &line.entity {
            Entity::Product(id) => portion_good(&portion, Owner::Product(self.number(id, 'p')?)),
            Entity::Session(id) => portion_good(&portion, Owner::Arena(self.number(id, 'a')?)),
            Entity::Resource(id) => portion_good(&portion, Owner::Resource(self.number(id, 'r')?)),
            Entity::Venue(_) | Entity::Cart(_) | Entity::Customer(_) | Entity::Directory | Entity::Cluster => None,
        }
    }

    /// The number in an id of one kind; `None` if it is another run's.
    fn number(&self, id: &Id, kind: char) -> Option<u32> {
        id.as_str().strip_prefix(self.prefix.as_str())?.strip_prefix('-')?.strip_prefix(kind)?.parse().ok()
    }

    /// The number of a booking's id; `None` if it is none of this run's.
    pub fn booking_number(&self, booking: &str) -> Option<u32> {
        self.number(&Id::new(booking)?, 'b')
    }

    fn id(&self, kind: char, number: u32) -> Id {
        let text = format!("{}-{kind}{number}", self.prefix);
        Id::new(&text).unwrap_or_else(|| panic!("the prefix {:?} makes no ids", self.prefix))
    }
}

/// Whose portion it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// A product's.
    Product(u32),
    /// An arena's.
    Arena(u32),
    /// A resource's.
    Resource(u32),
}

/// The good that a portion is of; `None` for seats, quotas and areas that are none of ours.
pub(crate) fn portion_good(portion: &Portion, owner: Owner) -> Option<Good> {
    match (portion, owner) {
        (Portion::Units(_), Owner::Product(product)) => Some(Good::Product(product)),
        (Portion::Places { area, .. }, Owner::Arena(arena)) => {
            Some(Good::Area { arena, area: area.as_str().strip_prefix("area")?.parse().ok()? })
        }
        (Portion::Slot { begin, end }, Owner::Resource(resource)) => {
            Some(Good::Slot { resource, span: Span { begin: *begin, end: *end } })
        }
        (
            Portion::Seats(_)
            | Portion::Places { .. }
            | Portion::Units(_)
            | Portion::Slot { .. }
            | Portion::Quota { .. },
            _,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::portion::Content;

    use super::*;

    #[test]
    fn a_line_is_found_by_its_ids() {
        let goods = Goods { prefix: "r1".into(), products: 9, ..Goods::default() };
        let content = Content::Units { quantity: 2, price: 1 };
        let line = |entity| LineView { line: 1, entity, content: content.clone(), late: false };
        assert_eq!(goods.of_line(&line(Entity::Product(goods.product_id(7)))), Some(Good::Product(7)));
        let other = Goods { prefix: "r2".into(), ..Goods::default() };
        assert_eq!(goods.of_line(&line(Entity::Product(other.product_id(7)))), None);
        assert_eq!(goods.booking_number(goods.booking_id(12).as_str()), Some(12));
    }

    #[test]
    fn spans_that_touch_have_nothing_in_common() {
        let span = |begin, end| Span { begin: Timestamp(begin), end: Timestamp(end) };
        assert!(span(0, 10).overlaps(&span(9, 11)) && !span(0, 10).overlaps(&span(10, 11)));
    }
}
