//! The forms of products.

use boxoffice_core::{
    answer::{ProductView, StockCounts},
    command::{HoldPolicy, Limits, ProductDetails},
    id::Id,
    money::Money,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::{
    form::{self, Form, remote_form},
    form_answer::is_unlimited,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "StockCounts")]
struct StockCountsForm {
    free: u64,
    held: u64,
    sold: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HoldPolicy", rename_all = "snake_case")]
enum HoldPolicyForm {
    AtAdd,
    AtCheckout,
}

remote_form! {
    StockCounts => StockCountsForm,
    HoldPolicy => HoldPolicyForm,
}

/// What `product.put` says, and the counts.
#[derive(Serialize, Deserialize)]
struct ProductFields {
    #[serde(with = "form")]
    id: Id,
    name: SmolStr,
    #[serde(with = "form::properties", default, skip_serializing_if = "Vec::is_empty")]
    properties: Vec<(SmolStr, SmolStr)>,
    #[serde(with = "form::bytes", default, skip_serializing_if = "Vec::is_empty")]
    blob: Vec<u8>,
    #[serde(with = "form")]
    price: Money,
    stock: u64,
    #[serde(with = "form", default)]
    hold: HoldPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold_ttl_ms: Option<u64>,
    #[serde(with = "form", default, skip_serializing_if = "is_unlimited")]
    limits: Limits,
    #[serde(with = "form")]
    counts: StockCounts,
}

impl Form for ProductView {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ProductDetails { name, properties, blob, price, stock, hold, hold_ttl_ms, limits } = self.details.clone();
        let (id, counts) = (self.id.clone(), self.counts);
        let fields = ProductFields { id, name, properties, blob, price, stock, hold, hold_ttl_ms, limits, counts };
        fields.serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ProductView, D::Error> {
        let fields = ProductFields::deserialize(deserializer)?;
        let ProductFields { id, name, properties, blob, price, stock, hold, hold_ttl_ms, limits, counts } = fields;
        let details = ProductDetails { name, properties, blob, price, stock, hold, hold_ttl_ms, limits };
        Ok(ProductView { id, details, counts })
    }
}
