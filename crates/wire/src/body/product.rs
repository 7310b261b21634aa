//! The ops on products.

use std::sync::Arc;

use boxoffice_core::{
    command::{Command, HoldPolicy, ProductCommand, ProductDetails},
    id::Id,
    money::Money,
    portion::Tax,
    text::Name,
};
use boxoffice_declare::op;
use smol_str::SmolStr;

use super::{Get, LimitsBody, offer::TaxBody};
use crate::{
    convert::{Converted, bytes_at_most, price, properties},
    limits::{BLOB_BYTES_MAX, STOCK_MAX},
    quantity::Quantity,
    repr::{Base64, Price, shape::WHOLE_MAX},
    view::ProductView,
};

/// Create or change a product.
#[op("product.put", desk, venues(Refused), frame(Import), weight(15), answers(ProductView))]
#[example(r#"{"blob": "AAH+/w==", "id": "programme", "limits": {"per_order": 8}, "name": "Programme", "price": {"amount": 350, "currency": "EUR"}, "properties": {"pages": "40"}, "stock": 100}"#)]
#[example(r#"{"hold": "at_checkout", "id": "poster", "name": "Poster", "price": {"amount": 1200, "currency": "EUR"}, "stock": 10}"#)]
#[derive(Eq)]
pub struct ProductPut {
    pub id: Id,
    pub name: Name,
    #[optional]
    pub properties: Vec<(SmolStr, SmolStr)>,
    /// Opaque data.
    #[optional]
    #[with("crate::repr::bytes")]
    #[narrow(Base64(Some(BLOB_BYTES_MAX)))]
    pub blob: Vec<u8>,
    #[narrow(Price)]
    pub price: Money,
    /// The units that are free, held and sold together.
    #[within(0..=STOCK_MAX)]
    pub stock: Quantity,
    /// When a cart holds units. `at_add` if absent.
    #[optional]
    pub hold: HoldPolicy,
    /// The time to live of carts with units of it, instead of the default.
    #[narrow(1..=WHOLE_MAX)]
    pub hold_ttl_ms: Option<u64>,
    #[optional]
    pub limits: LimitsBody,
    /// The tax that the price contains.
    #[since(1, 6)]
    pub tax: Option<TaxBody>,
}

impl ProductPut {
    fn command(self) -> Converted<Command> {
        bytes_at_most("blob", self.blob.len(), BLOB_BYTES_MAX)?;
        price(self.price.amount)?;
        let details = ProductDetails {
            name: self.name.into_plain(),
            properties: properties(self.properties)?,
            blob: self.blob,
            price: self.price,
            stock: self.stock.checked(),
            hold: self.hold,
            hold_ttl_ms: self.hold_ttl_ms,
            limits: self.limits.try_into()?,
            tax: self.tax.map(|tax| Arc::new(Tax::from(tax))),
        };
        Ok(Command::Product(self.id, ProductCommand::Put(Box::new(details))))
    }
}

/// Read a product with its counts.
#[op("product.get", read, weight(1), answers(ProductView))]
#[example(r#"{"id": "programme"}"#)]
pub struct ProductGet(pub Get);

impl ProductGet {
    fn command(self) -> Converted<Command> {
        Ok(Command::Product(self.0.id, ProductCommand::Get))
    }
}

impl ProductPut {
    /// The body with these details.
    pub fn new(id: Id, details: ProductDetails) -> ProductPut {
        let ProductDetails { name, properties, blob, price, stock, hold, hold_ttl_ms, limits, tax } = details;
        let (name, stock, limits) = (Name::as_said(name), Quantity::Whole(stock), LimitsBody::from(limits));
        let tax = tax.map(|tax| TaxBody::from(Arc::unwrap_or_clone(tax)));
        ProductPut { id, name, properties, blob, price, stock, hold, hold_ttl_ms, limits, tax }
    }
}
