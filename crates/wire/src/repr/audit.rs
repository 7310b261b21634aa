//! Audits.

use boxoffice_core::{
    answer::{
        AreaCounts, CartAudit, CartView, Claim, CustomerAudit, HoldView, ProductAudit, ResourceAudit, SaleView,
        SeatCounts, SessionAudit, StockCounts,
    },
    id::{Entity, HoldId, Id, OrderId},
    payment::{PaymentStatus, RefundRecord, VoidRecord},
    portion::Portion,
    seat::Seat,
    time::Timestamp,
};
use serde::{Deserialize, Deserializer, Serializer, de::Error as _, ser::SerializeStruct};
use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    repr::line::{PortionFields, portion_fields, write_inventory, write_portion},
    repr::{
        ToWire, WireRepr, repr_of,
        shape::{Shapes, shapes},
    },
};

/// Shapes with a portion of an inventory, to be read, and their portions.
macro_rules! with_portion {
    ($($(#[doc = $words:literal])* #[one_of($($sets:tt)*)] $name:ident as $component:ident { $($fields:tt)* })+) => {
        $(with_portion! { @shape [$(#[doc = $words])* #[one_of($($sets)*)]] $name $component { $($fields)* } })+

        $(impl $name {
            /// The portion; none if there is no field of it.
            fn portion(&mut self) -> Result<Option<Portion>, &'static str> {
                let (seats, area, quota) = (self.seats.take(), self.area.take(), self.quota.take());
                let (quantity, begin, end, count) = (self.quantity, self.begin, self.end, self.count);
                PortionFields { seats, area, quantity, begin, end, quota, count }.portion()
            }
        })+
    };
    (@shape [$($attributes:tt)*] $name:ident $component:ident { $($fields:tt)* }) => {
        shapes! {
            $($attributes)*
            struct $name as $component {
                $($fields)*
                seats?: Option<Vec<Seat>>,
                area?: Option<Id>,
                quantity?: Option<u32>,
                begin?: Option<Timestamp>,
                end?: Option<Timestamp>,
                quota?: Option<Id>,
                count?: Option<u32>,
            }
        }
    };
}

with_portion! {
    /// Seats, places, units, a slot or a part of a quota in a cart.
    #[one_of([seats] [area, quantity] [begin, end] [quota, count] [quantity without area])]
    HoldFields as Hold {
        hold: HoldId,
        revision: u64,
        /// When the inventory asks the cart about it.
        deadline: Timestamp,
    }
    /// Seats, places, units, a slot or a part of a quota that were bought.
    #[one_of([seats] [area, quantity] [begin, end] [quota, count] [quantity without area])]
    SaleFields as Sale {
        order: OrderId,
        hold: HoldId,
        at: Timestamp,
    }
    /// A hold that a line of a cart rests on. Its portion is empty if it was refunded.
    #[one_of([session] [product] [resource] [customer])]
    ClaimFields as Claim {
        line: u32,
        session?: Option<Id>,
        product?: Option<Id>,
        resource?: Option<Id>,
        customer?: Option<Id>,
        hold: HoldId,
        revision: u64,
    }
}

impl WireRepr for HoldView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Hold", 3 + portion_fields(&self.portion))?;
        map.serialize_field("hold", &ToWire(&self.hold))?;
        map.serialize_field("revision", &self.revision)?;
        map.serialize_field("deadline", &ToWire(&self.deadline))?;
        write_portion(&mut map, &self.portion)?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HoldView, D::Error> {
        let mut fields = HoldFields::deserialize(deserializer)?;
        let portion = needed(fields.portion())?;
        Ok(HoldView { portion, hold: fields.hold, revision: fields.revision, deadline: fields.deadline })
    }

    fn schema(shapes: &mut Shapes) -> Value {
        HoldFields::schema(shapes)
    }
}

impl WireRepr for SaleView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Sale", 3 + portion_fields(&self.portion))?;
        map.serialize_field("order", &ToWire(&self.order))?;
        map.serialize_field("hold", &ToWire(&self.hold))?;
        write_portion(&mut map, &self.portion)?;
        map.serialize_field("at", &ToWire(&self.at))?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SaleView, D::Error> {
        let mut fields = SaleFields::deserialize(deserializer)?;
        let portion = needed(fields.portion())?;
        Ok(SaleView { portion, order: fields.order, hold: fields.hold, at: fields.at })
    }

    fn schema(shapes: &mut Shapes) -> Value {
        SaleFields::schema(shapes)
    }
}

fn needed<E: serde::de::Error>(portion: Result<Option<Portion>, &'static str>) -> Result<Portion, E> {
    portion.map_err(E::custom)?.ok_or_else(|| E::custom("what is held or sold is missing"))
}

impl WireRepr for Claim {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 4 + self.portion.as_ref().map_or(0, portion_fields);
        let mut map = serializer.serialize_struct("Claim", fields)?;
        map.serialize_field("line", &self.line)?;
        write_inventory(&mut map, &self.entity)?;
        map.serialize_field("hold", &ToWire(&self.hold))?;
        map.serialize_field("revision", &self.revision)?;
        if let Some(portion) = &self.portion {
            write_portion(&mut map, portion)?;
        }
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Claim, D::Error> {
        let mut fields = ClaimFields::deserialize(deserializer)?;
        let portion = fields.portion().map_err(D::Error::custom)?;
        let ClaimFields { line, hold, revision, session, product, resource, customer, .. } = fields;
        let entity = match (session, product, resource, customer) {
            (Some(id), None, None, None) => Entity::Session(id),
            (None, Some(id), None, None) => Entity::Product(id),
            (None, None, Some(id), None) => Entity::Resource(id),
            (None, None, None, Some(id)) => Entity::Customer(id),
            _ => return Err(D::Error::custom("a claim is on one `session`, `product`, `resource` or `customer`")),
        };
        Ok(Claim { line, entity, hold, revision, portion })
    }

    fn schema(shapes: &mut Shapes) -> Value {
        ClaimFields::schema(shapes)
    }
}

shapes! {
    remote SessionAudit {
        session: Id,
        counts: SeatCounts,
        areas?: Vec<AreaCounts>,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    remote CartAudit {
        cart: CartView,
        holds: Vec<Claim>,
        payment?: Option<PaymentStatus>,
        refunds?: Vec<RefundRecord>,
        /// Attempts whose authorization was voided, or will be.
        voids?: Vec<VoidRecord>,
        /// Messages that it has not delivered yet.
        owed: u32,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    remote ProductAudit {
        product: Id,
        counts: StockCounts,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    remote ResourceAudit {
        resource: Id,
        bookings: u64,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    remote CustomerAudit {
        customer: Id,
        quotas: Vec<(Id, u64, u64)>,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
        purchases: Vec<OrderId>,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    /// The numbers that a customer has in carts and has bought.
    struct Quota {
        quota: Id,
        held: u64,
        sold: u64,
    }
}

repr_of!((Id, u64, u64): Quota);

impl From<(Id, u64, u64)> for Quota {
    fn from((quota, held, sold): (Id, u64, u64)) -> Quota {
        Quota { quota, held, sold }
    }
}

impl From<Quota> for (Id, u64, u64) {
    fn from(Quota { quota, held, sold }: Quota) -> (Id, u64, u64) {
        (quota, held, sold)
    }
}
