//! Commands of products.

use boxoffice_core::command::{Command, ProductCommand, ProductDetails};

use super::{Converted, bytes_at_most, price, properties, text};
use crate::{
    body,
    limits::{BLOB_BYTES_MAX, NAME_BYTES_MAX, STOCK_MAX},
};

pub(crate) fn product_put(body: body::ProductPut) -> Converted<Command> {
    bytes_at_most("blob", body.blob.len(), BLOB_BYTES_MAX)?;
    price(body.price.amount)?;
    let details = ProductDetails {
        name: text("name", body.name, 1, NAME_BYTES_MAX)?,
        properties: properties(body.properties)?,
        blob: body.blob,
        price: body.price,
        stock: body.stock.within("stock", 0, STOCK_MAX)?,
        hold: body.hold,
        hold_ttl_ms: body.hold_ttl_ms,
        limits: body.limits.try_into()?,
    };
    Ok(Command::Product(body.id, ProductCommand::Put(Box::new(details))))
}
