//! The forms of audits: holds, sales, claims, and what each entity counts afresh.

use boxoffice_core::{
    answer::{
        AreaCounts, CartAudit, CartView, Claim, CustomerAudit, HoldView, ProductAudit, ResourceAudit, SaleView,
        SeatCounts, SessionAudit, StockCounts,
    },
    id::{Entity, HoldId, Id, OrderId},
    payment::{PaymentStatus, RefundRecord, VoidRecord},
    seat::Seat,
    time::Timestamp,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeStruct};
use smol_str::SmolStr;

use crate::{
    form::{self, Form, On, remote_form},
    form_line::{PortionFields, portion_fields, write_inventory, write_portion},
};

impl Form for HoldView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Hold", 3 + portion_fields(&self.portion))?;
        map.serialize_field("hold", &On(&self.hold))?;
        map.serialize_field("revision", &self.revision)?;
        map.serialize_field("deadline", &On(&self.deadline))?;
        write_portion(&mut map, &self.portion)?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HoldView, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        Ok(HoldView {
            portion: needed(fields.portion().map_err(D::Error::custom)?, "what is held")?,
            hold: needed(fields.hold, "`hold`")?,
            revision: needed(fields.revision, "`revision`")?,
            deadline: needed(fields.deadline, "`deadline`")?,
        })
    }
}

impl Form for SaleView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Sale", 3 + portion_fields(&self.portion))?;
        map.serialize_field("order", &On(&self.order))?;
        map.serialize_field("hold", &On(&self.hold))?;
        write_portion(&mut map, &self.portion)?;
        map.serialize_field("at", &On(&self.at))?;
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SaleView, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        Ok(SaleView {
            portion: needed(fields.portion().map_err(D::Error::custom)?, "what was sold")?,
            order: needed(fields.order, "`order`")?,
            hold: needed(fields.hold, "`hold`")?,
            at: needed(fields.at, "`at`")?,
        })
    }
}

impl Form for Claim {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 4 + self.portion.as_ref().map_or(0, portion_fields);
        let mut map = serializer.serialize_struct("Claim", fields)?;
        map.serialize_field("line", &self.line)?;
        write_inventory(&mut map, &self.entity)?;
        map.serialize_field("hold", &On(&self.hold))?;
        map.serialize_field("revision", &self.revision)?;
        if let Some(portion) = &self.portion {
            write_portion(&mut map, portion)?;
        }
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Claim, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        let portion = fields.portion().map_err(D::Error::custom)?;
        let entity = match (fields.session, fields.product, fields.resource, fields.customer) {
            (Some(id), None, None, None) => Entity::Session(id),
            (None, Some(id), None, None) => Entity::Product(id),
            (None, None, Some(id), None) => Entity::Resource(id),
            (None, None, None, Some(id)) => Entity::Customer(id),
            _ => return Err(D::Error::custom("a claim is on one `session`, `product`, `resource` or `customer`")),
        };
        Ok(Claim {
            line: needed(fields.line, "`line`")?,
            entity,
            hold: needed(fields.hold, "`hold`")?,
            revision: needed(fields.revision, "`revision`")?,
            portion,
        })
    }
}

/// The fields of holds, sales and claims.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    line: Option<u32>,
    #[serde(with = "form", default)]
    session: Option<Id>,
    #[serde(with = "form", default)]
    product: Option<Id>,
    #[serde(with = "form", default)]
    resource: Option<Id>,
    #[serde(with = "form", default)]
    customer: Option<Id>,
    #[serde(with = "form", default)]
    order: Option<OrderId>,
    #[serde(with = "form", default)]
    hold: Option<HoldId>,
    #[serde(default)]
    revision: Option<u64>,
    #[serde(with = "form", default)]
    deadline: Option<Timestamp>,
    #[serde(with = "form", default)]
    at: Option<Timestamp>,
    #[serde(with = "form", default)]
    seats: Option<Vec<Seat>>,
    #[serde(with = "form", default)]
    area: Option<Id>,
    #[serde(default)]
    quantity: Option<u32>,
    #[serde(with = "form", default)]
    begin: Option<Timestamp>,
    #[serde(with = "form", default)]
    end: Option<Timestamp>,
    #[serde(with = "form", default)]
    quota: Option<Id>,
    #[serde(default)]
    count: Option<u32>,
}

impl Fields {
    fn portion(&mut self) -> Result<Option<boxoffice_core::portion::Portion>, &'static str> {
        let fields = PortionFields {
            seats: self.seats.take(),
            area: self.area.take(),
            quantity: self.quantity,
            begin: self.begin,
            end: self.end,
            quota: self.quota.take(),
            count: self.count,
        };
        fields.portion()
    }
}

fn needed<T, E: serde::de::Error>(value: Option<T>, what: &str) -> Result<T, E> {
    value.ok_or_else(|| E::custom(format_args!("{what} is missing")))
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SessionAudit")]
struct SessionAuditForm {
    #[serde(with = "form")]
    session: Id,
    #[serde(with = "form")]
    counts: SeatCounts,
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    areas: Vec<AreaCounts>,
    #[serde(with = "form")]
    holds: Vec<HoldView>,
    #[serde(with = "form")]
    sales: Vec<SaleView>,
    violations: Vec<SmolStr>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CartAudit")]
struct CartAuditForm {
    #[serde(with = "form")]
    cart: CartView,
    #[serde(with = "form")]
    holds: Vec<Claim>,
    #[serde(with = "form", default, skip_serializing_if = "Option::is_none")]
    payment: Option<PaymentStatus>,
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    refunds: Vec<RefundRecord>,
    #[serde(with = "form", default, skip_serializing_if = "Vec::is_empty")]
    voids: Vec<VoidRecord>,
    owed: u32,
    violations: Vec<SmolStr>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ProductAudit")]
struct ProductAuditForm {
    #[serde(with = "form")]
    product: Id,
    #[serde(with = "form")]
    counts: StockCounts,
    #[serde(with = "form")]
    holds: Vec<HoldView>,
    #[serde(with = "form")]
    sales: Vec<SaleView>,
    violations: Vec<SmolStr>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ResourceAudit")]
struct ResourceAuditForm {
    #[serde(with = "form")]
    resource: Id,
    bookings: u64,
    #[serde(with = "form")]
    holds: Vec<HoldView>,
    #[serde(with = "form")]
    sales: Vec<SaleView>,
    violations: Vec<SmolStr>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CustomerAudit")]
struct CustomerAuditForm {
    #[serde(with = "form")]
    customer: Id,
    #[serde(with = "quotas")]
    quotas: Vec<(Id, u64, u64)>,
    #[serde(with = "form")]
    holds: Vec<HoldView>,
    #[serde(with = "form")]
    sales: Vec<SaleView>,
    #[serde(with = "form")]
    purchases: Vec<OrderId>,
    violations: Vec<SmolStr>,
}

remote_form! {
    SessionAudit => SessionAuditForm,
    CartAudit => CartAuditForm,
    ProductAudit => ProductAuditForm,
    ResourceAudit => ResourceAuditForm,
    CustomerAudit => CustomerAuditForm,
}

/// Quotas with how many are in carts and how many were bought: maps, not triples.
mod quotas {
    use super::{Deserialize, Deserializer, Id, Serialize, Serializer, form};
    use crate::form_answer::Each;

    #[derive(Serialize, Deserialize)]
    struct Quota {
        #[serde(with = "form")]
        quota: Id,
        held: u64,
        sold: u64,
    }

    pub(super) fn serialize<S: Serializer>(quotas: &[(Id, u64, u64)], serializer: S) -> Result<S::Ok, S::Error> {
        let quota = |(quota, held, sold): &(Id, u64, u64)| Quota { quota: quota.clone(), held: *held, sold: *sold };
        Each(|| quotas.iter().map(quota)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Id, u64, u64)>, D::Error> {
        let quotas = Vec::<Quota>::deserialize(deserializer)?;
        Ok(quotas.into_iter().map(|Quota { quota, held, sold }| (quota, held, sold)).collect())
    }
}
