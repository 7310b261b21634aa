//! Halls as CSV. A line of the file is a seat: `row,seat,category[,section,accessible,x,y]`.
//!
//! Rows are in the order of their first seat, seats in the order of the file. An empty `seat` is a gap one seat wide.

use std::{collections::BTreeMap, sync::Arc};

use boxoffice_core::layout::Layout;
use boxoffice_wire::repr::WireRepr;
use serde_json::{Value, json};

/// The columns, in their order in a file without a header line.
const COLUMNS: [&str; 7] = ["row", "seat", "category", "section", "accessible", "x", "y"];

/// The position of each column, from 0.
struct Columns([Option<usize>; COLUMNS.len()]);

/// A line of the file, with its number.
struct FileLine<'a> {
    number: u64,
    columns: &'a Columns,
    record: &'a csv::StringRecord,
}

/// A row of the hall, in the short form of layouts.
#[derive(Default)]
struct Row {
    seats: Vec<Value>,
    /// Labels of its seats, with the line they came from.
    labels: BTreeMap<String, u64>,
}

/// Reads the layout.
///
/// # Errors
/// The message has the line and column.
pub fn read(text: &str) -> Result<Arc<Layout>, String> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut columns = None;
    let mut order: Vec<(String, String)> = Vec::new();
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| format!("this is not CSV: {error}"))?;
        let number = record.position().map_or(0, csv::Position::line);
        if columns.is_none() {
            let (found, is_header) = Columns::of(&record, number)?;
            columns = Some(found);
            if is_header {
                continue;
            }
        }
        let columns = columns.as_ref().expect("the first line has just named them");
        let line = FileLine { number, columns, record: &record };
        let key = line.row()?;
        if !rows.contains_key(&key) {
            order.push(key.clone());
        }
        rows.entry(key).or_default().take(&line)?;
    }
    if order.is_empty() {
        return Err("there are no seats; a line a seat: row,seat,category".into());
    }
    layout(order, rows)
}

/// Makes the layout through the short form of requests, so that the same rule makes runs of seats.
fn layout(order: Vec<(String, String)>, mut rows: BTreeMap<(String, String), Row>) -> Result<Arc<Layout>, String> {
    let rows: Vec<Value> = order
        .into_iter()
        .map(|key| {
            let seats = rows.remove(&key).expect("a row that was seen").seats;
            let (section, label) = key;
            let section = if section.is_empty() { Value::Null } else { section.into() };
            json!({ "label": label, "section": section, "seats": seats })
        })
        .collect();
    Layout::read(json!({ "rows": rows })).map(Arc::new).map_err(|error| error.to_string())
}

impl Columns {
    /// The columns, from the header line or by default, and whether there is a header line.
    fn of(first: &csv::StringRecord, number: u64) -> Result<(Columns, bool), String> {
        let is_header = first.iter().any(|field| field.eq_ignore_ascii_case("row"))
            && first.iter().any(|field| field.eq_ignore_ascii_case("seat"));
        if !is_header {
            return Ok((Columns(std::array::from_fn(Some)), false));
        }
        let mut columns = [None; COLUMNS.len()];
        for (place, field) in first.iter().enumerate() {
            let known = COLUMNS.iter().position(|name| field.eq_ignore_ascii_case(name)).ok_or_else(|| {
                format!(
                    "line {number}, column {}: there is no column {field:?}; there may be {}",
                    place + 1,
                    COLUMNS.join(",")
                )
            })?;
            if columns[known].replace(place).is_some() {
                return Err(format!("line {number}, column {}: {field} is there twice", place + 1));
            }
        }
        Ok((Columns(columns), true))
    }
}

impl FileLine<'_> {
    fn field(&self, column: usize) -> &str {
        self.columns.0[column].and_then(|place| self.record.get(place)).unwrap_or_default()
    }

    fn wrong(&self, column: usize, what: &str) -> String {
        let place = self.columns.0[column].map_or(self.record.len() + 1, |place| place + 1);
        format!("line {}, column {place} ({}): {what}", self.number, COLUMNS[column])
    }

    /// Section and label of the row.
    fn row(&self) -> Result<(String, String), String> {
        let surplus = self.record.len() > COLUMNS.len();
        if surplus {
            let what = format!("there are {} columns, at most {} have a meaning", self.record.len(), COLUMNS.len());
            return Err(format!("line {}, column {}: {what}", self.number, COLUMNS.len() + 1));
        }
        let label = self.label(0)?;
        if label.is_empty() {
            return Err(self.wrong(0, "a seat needs a row"));
        }
        let section = self.field(3);
        if !section.is_empty() && boxoffice_core::id::Id::new(section).is_none() {
            return Err(self.wrong(3, "a section is 1 to 64 of A-Z a-z 0-9 . _ : -"));
        }
        Ok((section.to_owned(), label))
    }

    fn label(&self, column: usize) -> Result<String, String> {
        let label = self.field(column);
        let most = boxoffice_core::layout::LABEL_BYTES_MAX;
        if label.len() > most || label.chars().any(char::is_control) {
            return Err(self.wrong(column, &format!("a label has at most {most} bytes and no control characters")));
        }
        Ok(label.to_owned())
    }

    fn category(&self) -> Result<Option<&str>, String> {
        match self.field(2) {
            "" => Ok(None),
            category if boxoffice_core::id::Id::new(category).is_some() => Ok(Some(category)),
            _ => Err(self.wrong(2, "a category is 1 to 64 of A-Z a-z 0-9 . _ : -")),
        }
    }

    fn accessible(&self) -> Result<bool, String> {
        match self.field(4).to_lowercase().as_str() {
            "" | "no" | "false" | "0" => Ok(false),
            "yes" | "true" | "1" => Ok(true),
            _ => Err(self.wrong(4, "write yes or no, or leave it empty")),
        }
    }

    fn coordinate(&self, column: usize) -> Result<Option<i32>, String> {
        let most = boxoffice_core::layout::POINT_MAX;
        match self.field(column) {
            "" => Ok(None),
            number => match number.parse::<i32>() {
                Ok(number) if (-most..=most).contains(&number) => Ok(Some(number)),
                _ => Err(self
                    .wrong(column, &format!("a whole number from -{most} to {most}, in hundredths of a seat's width"))),
            },
        }
    }
}

impl Row {
    fn take(&mut self, line: &FileLine<'_>) -> Result<(), String> {
        let label = line.label(1)?;
        if label.is_empty() {
            self.seats.push(Value::Null);
            return Ok(());
        }
        if let Some(first) = self.labels.insert(label.clone(), line.number) {
            return Err(line.wrong(1, &format!("seat {label} of this row is in line {first} already")));
        }
        let (x, y) = (line.coordinate(5)?, line.coordinate(6)?);
        match (x, y) {
            (Some(_), None) => return Err(line.wrong(6, "a seat has both x and y, or neither")),
            (None, Some(_)) => return Err(line.wrong(5, "a seat has both x and y, or neither")),
            (Some(_), Some(_)) | (None, None) => {}
        }
        let (category, accessible) = (line.category()?, line.accessible()?);
        self.seats.push(json!({ "label": label, "category": category, "accessible": accessible, "x": x, "y": y }));
        Ok(())
    }
}
