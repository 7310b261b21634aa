//! Audits.

use boxoffice_core::{
    answer::{AreaCounts, CodeView, SeatCounts, StockCounts},
    id::{Entity, HoldId, Id, OrderId},
    portion::Portion,
    seat::Seat,
    time::Timestamp,
};
use smol_str::SmolStr;

use crate::repr::{
    answer::{CartView, MapView},
    line::PortionFields,
    payment::{PaymentStatus, RefundRecord, VoidRecord},
    repr_of, same_fields,
    shape::shapes,
    views,
};

/// Shapes with the fields of a portion of an inventory between their own fields. `for` declares a view with the same fields,
/// whose portion is never missing.
macro_rules! with_portion {
    ($(
        $(#[doc = $words:literal])* #[one_of($($sets:tt)*)]
        $name:ident as $component:ident { $($before:tt)* } portion { $($after:tt)* }
        $(for $view:ident { $($field:ident),+ })?
    )+) => {
        $(with_portion! {
            @shape [$(#[doc = $words])* #[one_of($($sets)*)]] $name $component { $($before)* } { $($after)* }
        })+

        $(impl $name {
            /// The portion. `None` if it has no field.
            fn portion(&mut self) -> Result<Option<Portion>, &'static str> {
                let (seats, area, quota) = (self.seats.take(), self.area.take(), self.quota.take());
                let (quantity, begin, end, count) = (self.quantity, self.begin, self.end, self.count);
                PortionFields { seats, area, quantity, begin, end, quota, count }.portion()
            }
        }

        $(impl From<$view> for $name {
            fn from($view { portion, $($field),+ }: $view) -> $name {
                let PortionFields { seats, area, quantity, begin, end, quota, count } = portion.into();
                $name { $($field,)+ seats, area, quantity, begin, end, quota, count }
            }
        }

        impl TryFrom<$name> for $view {
            type Error = &'static str;

            fn try_from(mut fields: $name) -> Result<$view, &'static str> {
                let portion = fields.portion()?.ok_or("what is held or sold is missing")?;
                Ok($view { portion, $($field: fields.$field),+ })
            }
        })?)+
    };
    (@shape [$($attributes:tt)*] $name:ident $component:ident { $($before:tt)* } { $($after:tt)* }) => {
        shapes! {
            $($attributes)*
            struct $name as $component {
                $($before)*
                seats?: Option<Vec<Seat>>,
                area?: Option<Id>,
                quantity?: Option<u32>,
                begin?: Option<Timestamp>,
                end?: Option<Timestamp>,
                quota?: Option<Id>,
                count?: Option<u32>,
                $($after)*
            }
        }
    };
}

with_portion! {
    /// Seats, places, units, a slot or a part of a quota in a cart.
    #[one_of([seats] [area, quantity] [begin, end] [quota, count] [quantity without area] [count without quota])]
    HoldFields as Hold {
        hold: HoldId,
        revision: u64,
        /// When the inventory asks the cart about it.
        deadline: Timestamp,
    } portion {
        /// The customer of its cart, if `customers` is set and the cart has one.
        customer?: Option<Id>,
        /// When its cart got it, if `customers` is set. Absent while the cart does not know the hold.
        since?: Option<Timestamp>,
    } for HoldView { hold, revision, deadline, customer, since }
    /// Seats, places, units, a slot or a part of a quota that were bought.
    #[one_of([seats] [area, quantity] [begin, end] [quota, count] [quantity without area] [count without quota])]
    SaleFields as Sale {
        order: OrderId,
        hold: HoldId,
    } portion {
        at: Timestamp,
        /// The customer of the order, if `customers` is set and it has one.
        customer?: Option<Id>,
    } for SaleView { order, hold, at, customer }
    /// A hold that a line of a cart rests on. Its portion is empty if it was refunded.
    #[one_of([session] [product] [resource] [customer] [code])]
    ClaimFields as Claim {
        line: u32,
        /// When the cart got the line.
        since: Timestamp,
        session?: Option<Id>,
        product?: Option<Id>,
        resource?: Option<Id>,
        customer?: Option<Id>,
        /// The id of a code's entity, which is not the code.
        code?: Option<Id>,
        hold: HoldId,
        revision: u64,
    } portion {}
}

views! {
    /// A live hold of an inventory.
    HoldView by HoldFields {
        hold: HoldId,
        /// The highest revision seen.
        revision: u64,
        /// When the inventory asks the cart about it.
        deadline: Timestamp,
        portion: Portion,
        /// The customer of its cart, if the carts were asked and it has one.
        customer: Option<Id>,
        /// When its cart got it, if the carts were asked and it knows the hold.
        since: Option<Timestamp>,
    }
    /// A part of an inventory that was sold.
    SaleView by SaleFields {
        order: OrderId,
        /// The hold that was sold.
        hold: HoldId,
        portion: Portion,
        at: Timestamp,
        /// The customer of the order, if the carts were asked and it has one.
        customer: Option<Id>,
    }
    /// A hold that a line of a cart rests on.
    Claim by ClaimFields {
        line: u32,
        /// When the cart got the line.
        since: Timestamp,
        entity: Entity,
        hold: HoldId,
        /// The revision that the cart knows.
        revision: u64,
        /// The part of it that the line needs. Nothing if the line was refunded.
        portion: Option<Portion>,
    }
}

impl From<Claim> for ClaimFields {
    fn from(Claim { line, since, entity, hold, revision, portion }: Claim) -> ClaimFields {
        let mut code = None;
        let (session, product, resource, customer) = match entity {
            Entity::Session(id) => (Some(id), None, None, None),
            Entity::Product(id) => (None, Some(id), None, None),
            Entity::Resource(id) => (None, None, Some(id), None),
            Entity::Customer(id) => (None, None, None, Some(id)),
            Entity::Code(id) => {
                code = Some(id);
                (None, None, None, None)
            }
            Entity::Venue(_) | Entity::Cart(_) | Entity::Directory | Entity::Cluster => {
                unreachable!("only sessions, products, resources, customers and codes are held of")
            }
        };
        let portion = portion.map(PortionFields::from).unwrap_or_default();
        let PortionFields { seats, area, quantity, begin, end, quota, count } = portion;
        ClaimFields {
            line,
            since,
            session,
            product,
            resource,
            customer,
            code,
            hold,
            revision,
            seats,
            area,
            quantity,
            begin,
            end,
            quota,
            count,
        }
    }
}

impl TryFrom<ClaimFields> for Claim {
    type Error = &'static str;

    fn try_from(mut fields: ClaimFields) -> Result<Claim, &'static str> {
        let portion = fields.portion()?;
        let ClaimFields { line, since, hold, revision, session, product, resource, customer, code, .. } = fields;
        let entity = match (session, product, resource, customer, code) {
            (Some(id), None, None, None, None) => Entity::Session(id),
            (None, Some(id), None, None, None) => Entity::Product(id),
            (None, None, Some(id), None, None) => Entity::Resource(id),
            (None, None, None, Some(id), None) => Entity::Customer(id),
            (None, None, None, None, Some(id)) => Entity::Code(id),
            _ => return Err("a claim is on one `session`, `product`, `resource`, `customer` or `code`"),
        };
        Ok(Claim { line, since, entity, hold, revision, portion })
    }
}

shapes! {
    /// The audit of a session.
    view SessionAudit {
        session: Id,
        counts: SeatCounts,
        areas?: Vec<AreaCounts>,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
        /// The networks and customers that hold most.
        holders?: Vec<HolderView>,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    /// A session, product or resource as it was at an instant.
    view AsOf {
        entity: Entity,
        at: Timestamp,
        /// From then on it was as it is here.
        since: Timestamp,
        /// Its next change. Absent if it has not changed since.
        until?: Option<Timestamp>,
        /// The earliest instant that can be asked for at the node that has answered. Absent if there are all since it began.
        floor?: Option<Timestamp>,
        /// The shard's last entry that is known to be in it.
        position: u64,
        /// The entity's version then.
        version: u64,
        /// The seats of a session.
        map?: Option<MapView>,
        /// Holds and sales of a session, recounted.
        session?: Option<SessionAudit>,
        /// Holds and sales of a product, recounted.
        product?: Option<ProductAudit>,
        /// Holds and sales of a resource, recounted.
        resource?: Option<ResourceAudit>,
    }

    /// What a network or a customer holds, without a trace of its address.
    view HolderView {
        /// A hash in hexadecimal digits, another one in each session, product and resource.
        holder: SmolStr,
        held: u32,
        /// Seat-seconds that it has used above its floor, less what it got back for what it bought.
        used_seconds: i64 = -(1i64 << 53)..=1 << 53,
    }

    /// The audit of a cart.
    view CartAudit {
        cart: CartView,
        holds: Vec<Claim>,
        payment?: Option<PaymentStatus>,
        refunds?: Vec<RefundRecord>,
        /// Attempts whose authorization was voided, or will be.
        voids?: Vec<VoidRecord>,
        /// The newest attempt to pay that the gateway was asked for. An order that the gateway paid was paid by it. Absent from nodes of
        /// 0.2.0.
        attempt?: Option<u32>,
        /// Messages that it has not delivered yet.
        owed: u32,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    /// The audit of a product.
    view ProductAudit {
        product: Id,
        counts: StockCounts,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
        /// The networks and customers that hold most.
        holders?: Vec<HolderView>,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    /// The audit of a resource.
    view ResourceAudit {
        resource: Id,
        bookings: u64,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
        /// The networks and customers that hold most.
        holders?: Vec<HolderView>,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    /// The audit of a customer.
    view CustomerAudit {
        customer: Id,
        quotas: Vec<(Id, u64, u64)>,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
        purchases: Vec<OrderId>,
        /// The violations. Empty if every promise holds.
        violations: Vec<SmolStr>,
    }

    /// The audit of a code.
    view CodeAudit {
        /// The id of its entity, which is not the code.
        code: Id,
        /// Its uses, recounted.
        counts: CodeView,
        holds: Vec<HoldView>,
        sales: Vec<SaleView>,
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

repr_of! {
    HoldView: HoldFields,
    SaleView: SaleFields,
    Claim: ClaimFields,
}

same_fields! {
    (Id, u64, u64): [(quota, held, sold)] = Quota { quota, held, sold },
}
