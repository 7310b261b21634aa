//! CSV lists whose columns have names of our own, in any order: the codes of a house and the prices of its sessions.

use std::collections::BTreeMap;

use boxoffice_seating::{self as seating, Named, Record, Sheet};

/// What a list has.
pub struct Form {
    /// What a line of it is, for messages.
    pub line_is: &'static str,
    pub required: &'static [&'static str],
    pub optional: &'static [&'static str],
    /// A file with this column and one of the others is such a list, and no other file has them.
    pub told_by: (&'static str, &'static [&'static str]),
}

/// A list, and where its columns stand.
#[derive(Debug)]
pub struct List {
    columns: BTreeMap<&'static str, usize>,
    sheet: Sheet,
    encoding: &'static str,
}

/// A line of a list.
#[derive(Clone, Copy)]
pub struct ListLine<'a> {
    list: &'a List,
    record: &'a Record,
}

/// Reads a list. `None` if the first line of the file does not name the columns of one.
///
/// # Errors
/// What is wrong with the file, with the line and the column.
pub fn read(bytes: &[u8], form: &Form) -> Result<Option<List>, String> {
    let text = seating::decode(bytes)?;
    let is_header = |fields: &[String]| {
        let fields: Vec<String> = fields.iter().map(|field| spelled(field)).collect();
        let (column, others) = form.told_by;
        let has = |name: &str| fields.contains(&spelled(name));
        has(column) && others.iter().any(|other| has(other))
    };
    // A file that cannot be parted into columns is told by the reader of seats, which takes more kinds of files.
    let Ok(mut sheet) = seating::read_table(&text.text, is_header) else { return Ok(None) };
    if sheet.records.first().is_none_or(|first| !is_header(&first.fields)) {
        return Ok(None);
    }
    let first = sheet.records.remove(0);
    let columns = columns(&first, form)?;
    let list = List { columns, sheet, encoding: text.encoding };
    for record in &list.sheet.records {
        list.check_width(record, &first, form)?;
    }
    if list.sheet.records.is_empty() {
        return Err(format!("there is nothing below the names of the columns; a line is {}", form.line_is));
    }
    Ok(Some(list))
}

/// A name of a column as people may write it.
fn spelled(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, ' ' | '_' | '-')).flat_map(char::to_lowercase).collect()
}

fn columns(first: &Record, form: &Form) -> Result<BTreeMap<&'static str, usize>, String> {
    let known: Vec<&'static str> = form.required.iter().chain(form.optional).copied().collect();
    let mut columns = BTreeMap::new();
    for (place, field) in first.fields.iter().enumerate() {
        // People keep notes in columns of their own.
        if field.starts_with('#') {
            continue;
        }
        let at = format!("line {}, column {}", first.line, place + 1);
        let Some(name) = known.iter().find(|name| spelled(name) == spelled(field)) else {
            return Err(format!(
                "{at}: {field:?} is no column of such a list, which has {}; a column that is to be left out has a name that begins with #",
                known.join(", ")
            ));
        };
        if columns.insert(*name, place).is_some() {
            return Err(format!("{at}: there are two columns {name}"));
        }
    }
    match form.required.iter().find(|name| !columns.contains_key(*name)) {
        Some(missing) => Err(format!("line {} names no column {missing}; a line is {}", first.line, form.line_is)),
        None => Ok(columns),
    }
}

impl List {
    /// Its lines, in their order.
    pub fn lines(&self) -> impl Iterator<Item = ListLine<'_>> {
        self.sheet.records.iter().map(|record| ListLine { list: self, record })
    }

    /// Whether a column is there.
    pub fn has(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    /// What was understood of the file.
    pub fn note(&self, what: &str) -> String {
        let columns: Vec<&str> = self.columns.keys().copied().collect();
        format!(
            "{what} with {}; {} between the columns, {}",
            columns.join(", "),
            Named(self.sheet.separator),
            self.encoding
        )
    }

    /// A line with fewer columns than its names would say something by leaving it out.
    fn check_width(&self, record: &Record, first: &Record, form: &Form) -> Result<(), String> {
        let (line, most) = (record.line, first.fields.len());
        if record.fields.len() > most {
            let hint = match self.sheet.separator {
                ',' => " (an amount with a decimal comma needs quotes)",
                _ => "",
            };
            let (column, all) = (most + 1, record.fields.len());
            return Err(format!(
                "line {line}, column {column}: there are {all} columns, the first line names {most}{hint}"
            ));
        }
        let required = form.required.iter().filter_map(|name| self.columns.get(name));
        let least = required.max().map_or(0, |place| place + 1);
        if record.width < least {
            return Err(format!(
                "line {line} has {} where {least} are needed; are there {} between them, as in the first line?",
                crate::words::counted(record.width as u64, "column"),
                Named(self.sheet.separator)
            ));
        }
        Ok(())
    }
}

impl<'a> ListLine<'a> {
    /// Its number in the file.
    pub fn number(self) -> u64 {
        self.record.line
    }

    /// What stands in a column, or nothing.
    pub fn field(self, column: &str) -> &'a str {
        self.list.columns.get(column).map_or("", |place| self.record.field(*place))
    }

    /// Its place in words, for messages.
    pub fn at(self, column: &str) -> String {
        match self.list.columns.get(column) {
            Some(place) => format!("line {}, column {} ({column})", self.record.line, place + 1),
            None => format!("line {}", self.record.line),
        }
    }
}
