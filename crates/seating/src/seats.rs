//! Halls as CSV. A line of the file is a seat: `row,seat,category[,section,accessible,x,y,price]`.
//!
//! Rows are in the order of their first seat, seats in the order of the file. An empty `seat` is a gap one seat wide.

use std::collections::BTreeMap;

use boxoffice_core::layout::{LABEL_BYTES_MAX, POINT_MAX};

use crate::{
    columns::{self, Column, Columns, Header, SEATS},
    number::{self, AmountError},
    order,
    plan::{Place, Plan, PlanRow, PlanSeat, Seating, Unit},
    table::{self, Named, Record, Sheet},
    text::{self, Text},
};

/// The columns of a file without names, in this order.
const ORDER: [Column; 8] = [
    Column::Row,
    Column::Seat,
    Column::Category,
    Column::Section,
    Column::Accessible,
    Column::X,
    Column::Y,
    Column::Price,
];

const REQUIRED: [Column; 2] = [Column::Row, Column::Seat];

/// Words for wheelchair places, in the languages of the columns.
const YES: [&str; 16] = ["yes", "y", "true", "1", "x", "✓", "ja", "j", "oui", "o", "si", "sí", "sì", "sim", "tak", "t"];
const NO: [&str; 12] = ["", "no", "n", "false", "0", "-", "nein", "non", "nee", "não", "nao", "nie"];

/// A file of seats.
#[derive(Clone, Debug, PartialEq)]
pub struct SeatFile {
    pub seating: Seating,
    /// The price of each category as the file tells it, by the category's name, with its line. Empty without a column for it.
    pub prices: BTreeMap<String, (u64, String)>,
    /// The decimal mark of the file, if its numbers show one.
    pub decimal_mark: Option<char>,
}

/// Reads a file of seats.
///
/// # Errors
/// The message has the line and column.
pub fn read(bytes: &[u8]) -> Result<SeatFile, String> {
    let (text, table) = table_of(bytes, &SEATS, &REQUIRED)?;
    from_table(&text, &table)
}

/// Text and table of a file whose names are these. What is not UTF-8 may be of western or of central Europe, which the names of the
/// columns tell.
pub(crate) fn table_of(
    bytes: &[u8],
    words: &columns::Vocabulary,
    required: &[Column],
) -> Result<(Text, Sheet), String> {
    let text = text::decode(bytes)?;
    let is_header = |fields: &[String]| columns::is_header(words, required, fields);
    let is_understood = |table: &Result<Sheet, String>| {
        let first = table.as_ref().ok().and_then(|table| table.records.first());
        first.is_some_and(|first| matches!(columns::header(words, required, &first.fields, 1), Header::Names(_)))
    };
    let table = table::read(&text.text, is_header);
    if text.encoding == "Windows-1252"
        && !is_understood(&table)
        && let Some(other) = text::decode_as_central_european(bytes)
    {
        let named = table::read(&other.text, is_header);
        if is_understood(&named) {
            return named.map(|table| (other, table));
        }
    }
    table.map(|table| (text, table))
}

fn from_table(text: &Text, table: &Sheet) -> Result<SeatFile, String> {
    let Some(first) = table.records.first() else {
        return Err("there are no seats; a line a seat: row,seat,category".into());
    };
    let (columns, lines) = match columns::header(&SEATS, &REQUIRED, &first.fields, first.line) {
        Header::Names(columns) => (columns, &table.records[1..]),
        Header::Unusable(why) => return Err(why),
        Header::None => {
            check_no_names(&table.records)?;
            (Columns::in_order(&ORDER), table.records.as_slice())
        }
    };
    if lines.is_empty() {
        return Err("there are no seats; a line a seat: row,seat,category".into());
    }
    let decimal_mark = mark_of(&columns, lines)?;
    let reader = Reader { columns: &columns, separator: table.separator, decimal_mark };
    let mut plan = Plan { unit: Unit::Hundredths, locale: columns.language, ..Plan::default() };
    plan.notes.push(read_note(text, table, &columns));
    let mut places: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    let mut labels: BTreeMap<(usize, String), u64> = BTreeMap::new();
    let mut prices: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for line in lines {
        let line = SeatLine { reader: &reader, record: line };
        line.check_width()?;
        let (section, label) = (line.section()?, line.row()?);
        let place = *places.entry((section.clone(), label.clone())).or_insert_with(|| {
            plan.rows.push(PlanRow { section, label, ..PlanRow::default() });
            plan.rows.len() - 1
        });
        let seat = line.seat()?;
        if let Some(seat) = &seat {
            if let Some(first) = labels.insert((place, seat.label.clone()), line.record.line) {
                let what = format!("seat {} of this row is in line {first} already", seat.label);
                return Err(line.wrong(Column::Seat, &what));
            }
            line.price(seat.category.as_deref(), &mut prices)?;
        }
        plan.rows[place].seats.push(seat);
    }
    if let Some(row) = plan.rows.iter().find(|row| row.seats.iter().all(Option::is_none)) {
        plan.warnings.push(format!("row {} has gaps and no seats; it is left out", row.label));
    }
    order::mend(&mut plan);
    Ok(SeatFile { seating: plan.seating()?, prices, decimal_mark })
}

fn read_note(text: &Text, table: &Sheet, columns: &Columns) -> String {
    let names = match columns.language {
        Some(_) => columns.shown(),
        None => {
            let widest = table.records.iter().map(|record| record.fields.len()).max().unwrap_or_default();
            let told = Columns::in_order(&ORDER[..widest.min(ORDER.len())]);
            format!("no names of columns, so {}", told.shown())
        }
    };
    format!("{names}; {} between the columns, {}", Named(table.separator), text.encoding)
}

/// The decimal mark that the numbers of these columns show.
fn mark_of(columns: &Columns, lines: &[Record]) -> Result<Option<char>, String> {
    let places: Vec<usize> =
        [Column::Price, Column::X, Column::Y].into_iter().filter_map(|column| columns.place(column)).collect();
    let numbers = lines.iter().flat_map(|line| {
        places
            .iter()
            .map(|place| (line.line, line.field(*place).trim_start_matches('-')))
            .filter(|(_, text)| !text.is_empty())
    });
    number::decimal_mark(numbers)
}

/// Refuses a first line without a digit over a column in which every other line has one: it names columns in words that are not
/// known, and would become a seat that is on sale.
fn check_no_names(records: &[Record]) -> Result<(), String> {
    let (first, rest) = records.split_first().expect("there are lines");
    let has_digit = |text: &str| text.chars().any(|letter| letter.is_ascii_digit());
    if rest.is_empty() || first.fields.iter().any(|field| has_digit(field)) {
        return Ok(());
    }
    for place in 0..first.fields.len() {
        let mut others = rest.iter().map(|record| record.field(place)).filter(|field| !field.is_empty()).peekable();
        if !first.field(place).is_empty() && others.peek().is_some() && others.all(has_digit) {
            let shown: Vec<String> = first.fields.iter().map(|field| format!("`{field}`")).collect();
            return Err(format!(
                "line {} looks like names of columns, {}, and none of them is known; call them row,seat,category,section, …",
                first.line,
                shown.join(", ")
            ));
        }
    }
    Ok(())
}

/// What is the same for all lines.
struct Reader<'a> {
    columns: &'a Columns,
    separator: char,
    decimal_mark: Option<char>,
}

/// A line of the file.
struct SeatLine<'a> {
    reader: &'a Reader<'a>,
    record: &'a Record,
}

impl SeatLine<'_> {
    fn field(&self, column: Column) -> &str {
        self.reader.columns.place(column).map_or("", |place| self.record.field(place))
    }

    fn wrong(&self, column: Column, what: &str) -> String {
        let place = self.reader.columns.place(column).map_or(self.record.width + 1, |place| place + 1);
        format!("line {}, column {place} ({}): {what}", self.record.line, column.name())
    }

    /// A line with other columns than the rest of the file.
    fn check_width(&self) -> Result<(), String> {
        let Record { line, fields, width } = self.record;
        let columns = self.reader.columns;
        let most = columns.places.len();
        if fields.len() > most {
            let hint = if self.reader.separator == ',' { " (an amount with a decimal comma needs quotes)" } else { "" };
            let known = match columns.language {
                Some(_) => format!("the first line names {most}"),
                None => format!("at most {most} have a meaning"),
            };
            return Err(format!("line {line}, column {}: there are {} columns, {known}{hint}", most + 1, fields.len()));
        }
        let unnamed =
            (0..fields.len()).find(|place| columns.places[*place].is_none() && columns.names[*place].is_empty());
        if let Some(place) = unnamed.filter(|place| !fields[*place].is_empty()) {
            return Err(format!(
                "line {line}, column {}: {:?} stands in a column without a name",
                place + 1,
                fields[place]
            ));
        }
        let least = REQUIRED.into_iter().filter_map(|column| columns.place(column)).max().map_or(0, |place| place + 1);
        if *width < least {
            return Err(format!(
                "line {line} has {width} columns where {least} are needed; are there {} between them, as in the first line?",
                Named(self.reader.separator)
            ));
        }
        Ok(())
    }

    fn row(&self) -> Result<String, String> {
        match self.label(Column::Row)? {
            label if label.is_empty() => Err(self.wrong(Column::Row, "a seat needs a row")),
            label => Ok(label),
        }
    }

    fn section(&self) -> Result<Option<String>, String> {
        self.name(Column::Section)
    }

    /// A name that people see, or nothing.
    fn name(&self, column: Column) -> Result<Option<String>, String> {
        match self.field(column) {
            "" => Ok(None),
            name if name.len() > boxoffice_core::names::NAME_BYTES_MAX || name.chars().any(char::is_control) => {
                Err(self.wrong(column, "a name has at most 200 bytes and no control characters"))
            }
            name => Ok(Some(name.to_owned())),
        }
    }

    fn label(&self, column: Column) -> Result<String, String> {
        let label = self.field(column);
        if label.len() > LABEL_BYTES_MAX || label.chars().any(char::is_control) {
            return Err(
                self.wrong(column, &format!("a label has at most {LABEL_BYTES_MAX} bytes and no control characters"))
            );
        }
        Ok(label.to_owned())
    }

    fn seat(&self) -> Result<Option<PlanSeat>, String> {
        let label = self.label(Column::Seat)?;
        if label.is_empty() {
            return Ok(None);
        }
        let place = match (self.coordinate(Column::X)?, self.coordinate(Column::Y)?) {
            (Some(x), Some(y)) => Some(Place { x, y }),
            (None, None) => None,
            (Some(_), None) => return Err(self.wrong(Column::Y, "a seat has both x and y, or neither")),
            (None, Some(_)) => return Err(self.wrong(Column::X, "a seat has both x and y, or neither")),
        };
        let category = match self.name(Column::Category)? {
            // Prices alone are categories, too.
            None if self.reader.columns.place(Column::Category).is_none() => match self.field(Column::Price) {
                "" => None,
                price => Some(price.to_owned()),
            },
            category => category,
        };
        Ok(Some(PlanSeat { label, category, accessible: self.accessible()?, place }))
    }

    fn accessible(&self) -> Result<bool, String> {
        let word = self.field(Column::Accessible).to_lowercase();
        match word.as_str() {
            no if NO.contains(&no) => Ok(false),
            yes if YES.contains(&yes) => Ok(true),
            _ => Err(self.wrong(Column::Accessible, "write yes or no, or leave it empty")),
        }
    }

    fn coordinate(&self, column: Column) -> Result<Option<f64>, String> {
        let text = self.field(column);
        if text.is_empty() {
            return Ok(None);
        }
        let (sign, number) = match text.strip_prefix(['-', '−']) {
            Some(number) => (-1.0, number),
            None => (1.0, text),
        };
        // Coordinates are whole, or have a decimal mark of whatever kind, and never groups.
        let plain = number.replacen(',', ".", 1);
        let is_number = plain.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        match plain.parse::<f64>() {
            Ok(number) if is_number && number <= f64::from(POINT_MAX) => Ok(Some(sign * number)),
            _ => {
                let what = format!("a number from -{POINT_MAX} to {POINT_MAX}, in hundredths of a seat's width");
                Err(self.wrong(column, &what))
            }
        }
    }

    /// An amount in thousandths, to compare it with others of the file.
    fn value(&self, price: &str) -> Option<i64> {
        number::minor_units(price, self.reader.decimal_mark, 3).ok()
    }

    /// Notes the price of the seat's category, which has one.
    fn price(&self, category: Option<&str>, prices: &mut BTreeMap<String, (u64, String)>) -> Result<(), String> {
        let price = self.field(Column::Price);
        if price.is_empty() {
            return Ok(());
        }
        // The currency is not known here. Three digits are the only ones that may be ambiguous.
        if let Err(AmountError::NoNumber) = number::minor_units(price, self.reader.decimal_mark, 3) {
            return Err(self.wrong(Column::Price, &format!("{price:?} is no price; write it like 12.50 or 12,50")));
        }
        let category = category.unwrap_or("standard").to_owned();
        match prices.get(&category) {
            None => {
                prices.insert(category, (self.record.line, price.to_owned()));
                Ok(())
            }
            Some((_, known))
                if known == price || self.value(known).is_some_and(|value| self.value(price) == Some(value)) =>
            {
                Ok(())
            }
            Some((line, known)) => {
                let what =
                    format!("category {category} costs {known} in line {line} and {price} here; give it one price");
                Err(self.wrong(Column::Price, &what))
            }
        }
    }
}

/// Why an amount of a file is none, in words. `at` is its line and column.
pub fn amount_words(at: &str, amount: &str, error: AmountError, currency: &str) -> String {
    match error {
        AmountError::NoNumber => format!("{at}: {amount:?} is no price; write it like 12.50 or 12,50"),
        AmountError::Ambiguous => {
            let plain: String = amount.chars().filter(char::is_ascii_digit).collect();
            format!(
                "{at}: {amount} may be {plain} or a thousandth of it, and no other number of the file shows its decimal mark; \
                 write {plain}, or two digits behind the mark"
            )
        }
        AmountError::TooPrecise => format!("{at}: {amount} has more digits than {currency} has"),
        AmountError::TooHigh => format!("{at}: {amount} is too high for a price"),
    }
}
