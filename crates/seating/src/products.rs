//! Products as CSV: `name,price,stock[,id,currency]`. A line is a product.

use std::collections::BTreeMap;

use boxoffice_core::id::Id;

use crate::{
    columns::{self, Column, Columns, Header, PRODUCTS},
    number, plan,
    seats::{amount_words, table_of},
    table::Named,
};

const REQUIRED: [Column; 3] = [Column::Name, Column::Price, Column::Stock];

/// A product of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductLine {
    pub line: u64,
    pub id: Id,
    pub name: String,
    /// In minor units.
    pub amount: i64,
    /// The code of its currency.
    pub currency: String,
    pub stock: u64,
}

/// A list of products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductFile {
    pub products: Vec<ProductLine>,
    pub notes: Vec<String>,
}

/// Whether a file is a list of products.
pub fn is_list(bytes: &[u8]) -> bool {
    let Ok((_, table)) = table_of(bytes, &PRODUCTS, &REQUIRED) else { return false };
    let first = table.records.first();
    first.is_some_and(|first| matches!(columns::header(&PRODUCTS, &REQUIRED, &first.fields, 1), Header::Names(_)))
}

/// Reads a list of products. `currency` is that of lines without one, and `digits` says how many digits a currency has, or `None` if
/// there is none of this code.
///
/// # Errors
/// The message has the line and column.
pub fn read(bytes: &[u8], currency: &str, digits: impl Fn(&str) -> Option<u32>) -> Result<ProductFile, String> {
    let (text, table) = table_of(bytes, &PRODUCTS, &REQUIRED)?;
    let first = table.records.first().ok_or("there are no products; a line a product: name,price,stock")?;
    let columns = match columns::header(&PRODUCTS, &REQUIRED, &first.fields, first.line) {
        Header::Names(columns) => columns,
        Header::Unusable(why) => return Err(why),
        Header::None => return Err("a list of products begins with the names of its columns: name,price,stock".into()),
    };
    let lines = &table.records[1..];
    let place = |column| columns.place(column);
    let price = place(Column::Price).expect("it is required");
    let mark = number::decimal_mark(
        lines.iter().map(|line| (line.line, line.field(price))).filter(|(_, text)| !text.is_empty()),
    )?;
    let mut ids: BTreeMap<Id, u64> = BTreeMap::new();
    let mut products = Vec::with_capacity(lines.len());
    for line in lines {
        let field = |column| place(column).map_or("", |place| line.field(place));
        let at = |column: Column| {
            let place = place(column).map_or(line.width + 1, |place| place + 1);
            format!("line {}, column {place} ({})", line.line, column.name())
        };
        check_width(&columns, line, table.separator)?;
        let name = field(Column::Name);
        if name.is_empty() {
            return Err(format!("{}: a product needs a name", at(Column::Name)));
        }
        let id = match field(Column::Id) {
            "" => plan::spelled(name),
            id => plan::spelled_id(id),
        };
        let id = Id::new(&id).ok_or_else(|| format!("{}: {name:?} makes no id; add a column `id`", at(Column::Id)))?;
        if let Some(first) = ids.insert(id.clone(), line.line) {
            return Err(format!("{}: product {id} is in line {first} already", at(Column::Id)));
        }
        let code = match field(Column::Currency) {
            "" => currency.to_owned(),
            code => code.to_uppercase(),
        };
        let digits = digits(&code).ok_or_else(|| format!("{}: {code} is no currency", at(Column::Currency)))?;
        let text = field(Column::Price);
        let amount = number::minor_units(text, mark, digits)
            .map_err(|error| amount_words(&at(Column::Price), text, error, &code))?;
        let stock = field(Column::Stock);
        let stock = number::minor_units(stock, mark, 0)
            .ok()
            .and_then(|stock| u64::try_from(stock).ok())
            .ok_or_else(|| format!("{}: {stock:?} is no number of units", at(Column::Stock)))?;
        products.push(ProductLine { line: line.line, id, name: name.to_owned(), amount, currency: code, stock });
    }
    if products.is_empty() {
        return Err("there are no products; a line a product: name,price,stock".into());
    }
    let mark = mark.map_or(String::new(), |mark| format!(", {mark:?} before the decimals"));
    let note = format!("{}; {} between the columns, {}{mark}", columns.shown(), Named(table.separator), text.encoding);
    Ok(ProductFile { products, notes: vec![note] })
}

fn check_width(columns: &Columns, line: &crate::table::Record, separator: char) -> Result<(), String> {
    let most = columns.places.len();
    if line.fields.len() > most {
        let hint = if separator == ',' { " (an amount with a decimal comma needs quotes)" } else { "" };
        return Err(format!(
            "line {}, column {}: there are {} columns, the first line names {most}{hint}",
            line.line,
            most + 1,
            line.fields.len()
        ));
    }
    let least = REQUIRED.into_iter().filter_map(|column| columns.place(column)).max().map_or(0, |place| place + 1);
    if line.width < least {
        return Err(format!(
            "line {} has {} columns where {least} are needed; are there {} between them, as in the first line?",
            line.line,
            line.width,
            Named(separator)
        ));
    }
    Ok(())
}
