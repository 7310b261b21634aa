//! Goods: the products, areas and resources of a run, as numbers, and their ids on the server.

use boxoffice_core::{
    id::{Entity, Id},
    portion::Portion,
    time::Timestamp,
};
use boxoffice_wire::view::LineView;
use serde::{Deserialize, Serialize};

/// A time of a resource, `[begin, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct Slot {
    pub begin: Timestamp,
    pub end: Timestamp,
}

impl From<(u64, u64)> for Slot {
    fn from((begin, end): (u64, u64)) -> Slot {
        Slot { begin: Timestamp(begin), end: Timestamp(end) }
    }
}

impl From<Slot> for (u64, u64) {
    fn from(slot: Slot) -> (u64, u64) {
        (slot.begin.0, slot.end.0)
    }
}

impl Slot {
    /// Whether the two slots have an instant in common.
    pub fn overlaps(&self, other: &Slot) -> bool {
        self.begin < other.end && other.begin < self.end
    }
}

/// A product or area, which is sold by quantity, or a slot of a resource. All by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Good {
    Product(u32),
    /// An area of an arena.
    Area {
        arena: u32,
        area: u32,
    },
    /// A slot of a resource.
    Slot {
        resource: u32,
        slot: Slot,
    },
}

/// All goods of a run. Each run has its own prefix, so runs on one server do not conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goods {
    /// The prefix of every id.
    pub prefix: String,
    pub products: u32,
    /// The number of units of each product.
    pub stock: u64,
    /// The price of one unit, in minor units of the currency.
    pub unit_price: i64,
    /// The number of arenas: sessions with areas and no seats.
    pub arenas: u32,
    /// The number of areas of each arena.
    pub areas: u32,
    /// The number of places of each area.
    pub capacity: u32,
    /// The price of one place, in minor units of the currency.
    pub place_price: i64,
    /// The number of resources, each with a capacity of 1.
    pub resources: u32,
    /// The price of one slot of any length, in minor units of the currency.
    pub slot_price: i64,
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
        Id::new(&format!("area{area}")).expect("a short word is a valid id")
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

    /// The price of one of these, in minor units of the currency.
    pub fn price(&self, good: Good) -> i64 {
        match good {
            Good::Product(_) => self.unit_price,
            Good::Area { .. } => self.place_price,
            Good::Slot { .. } => self.slot_price,
        }
    }

    /// The total quantity of a good.
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

    /// The good in a line of a cart. `None` if the line has seats or does not belong to this run.
    pub fn of_line(&self, line: &LineView) -> Option<Good> {
        let portion = line.content.portion();
        match &line.entity {
            Entity::Product(id) => good_of_portion(&portion, Owner::Product(self.number(id, 'p')?)),
            Entity::Session(id) => good_of_portion(&portion, Owner::Arena(self.number(id, 'a')?)),
            Entity::Resource(id) => good_of_portion(&portion, Owner::Resource(self.number(id, 'r')?)),
            Entity::Venue(_) | Entity::Cart(_) | Entity::Customer(_) | Entity::Code(_) => None,
            Entity::Directory | Entity::Cluster => None,
        }
    }

    /// The number in an id of this kind. `None` if the id does not belong to this run.
    fn number(&self, id: &Id, kind: char) -> Option<u32> {
        id.as_str().strip_prefix(self.prefix.as_str())?.strip_prefix('-')?.strip_prefix(kind)?.parse().ok()
    }

    /// The number in a booking's id. `None` if the id does not belong to this run.
    pub fn booking_number(&self, booking: &str) -> Option<u32> {
        self.number(&Id::new(booking)?, 'b')
    }

    fn id(&self, kind: char, number: u32) -> Id {
        let text = format!("{}-{kind}{number}", self.prefix);
        Id::new(&text).unwrap_or_else(|| panic!("the prefix {:?} does not make valid ids", self.prefix))
    }
}

/// The owner of a portion, by number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    Product(u32),
    Arena(u32),
    Resource(u32),
}

/// The good that a portion is part of. `None` for seats, quotas and areas that do not belong to this run.
pub(crate) fn good_of_portion(portion: &Portion, owner: Owner) -> Option<Good> {
    match (portion, owner) {
        (Portion::Units(_), Owner::Product(product)) => Some(Good::Product(product)),
        (Portion::Places { area, .. }, Owner::Arena(arena)) => {
            Some(Good::Area { arena, area: area.as_str().strip_prefix("area")?.parse().ok()? })
        }
        (Portion::Slot { begin, end }, Owner::Resource(resource)) => {
            Some(Good::Slot { resource, slot: Slot { begin: *begin, end: *end } })
        }
        (
            Portion::Seats(_)
            | Portion::Places { .. }
            | Portion::Units(_)
            | Portion::Slot { .. }
            | Portion::Quota { .. }
            | Portion::Uses(_),
            _,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use boxoffice_core::portion::Content;

    use super::*;

    #[test]
    fn the_good_of_a_line_follows_from_its_ids() {
        let goods = Goods { prefix: "r1".into(), products: 9, ..Goods::default() };
        let content = Content::Units { quantity: 2, price: 1, name: "mug".into(), tax: None };
        let line = |entity| LineView::new(1, entity, content.clone(), false);
        assert_eq!(goods.of_line(&line(Entity::Product(goods.product_id(7)))), Some(Good::Product(7)));
        let other = Goods { prefix: "r2".into(), ..Goods::default() };
        assert_eq!(goods.of_line(&line(Entity::Product(other.product_id(7)))), None);
        assert_eq!(goods.booking_number(goods.booking_id(12).as_str()), Some(12));
    }

    #[test]
    fn slots_that_touch_do_not_overlap() {
        let slot = |begin, end| Slot { begin: Timestamp(begin), end: Timestamp(end) };
        assert!(slot(0, 10).overlaps(&slot(9, 11)) && !slot(0, 10).overlaps(&slot(10, 11)));
    }
}
