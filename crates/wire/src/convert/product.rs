//! Commands of products.

use boxoffice_core::command::{Command, ProductCommand, ProductDetails};
use smol_str::format_smolstr;

use super::{Converted, price, properties, text};
use crate::{
    body,
    limits::{BLOB_BYTES_MAX, NAME_BYTES_MAX, STOCK_MAX},
    rejection::Rejection,
};

pub(crate) fn product_put(body: body::ProductPut) -> Converted<Command> {
    if body.blob.len() > BLOB_BYTES_MAX {
        return Err(Rejection::TooLarge(format_smolstr!("`blob` has at most {BLOB_BYTES_MAX} bytes")));
    }
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
