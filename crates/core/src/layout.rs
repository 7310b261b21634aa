//! The layouts of halls, with the positions and labels of their seats. Rows may have any length, with gaps.

mod neighbours;

use alloc::{collections::BTreeSet, sync::Arc, vec, vec::Vec};
use core::{
    fmt,
    hash::{Hash, Hasher},
    ops::Range,
};

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

pub use self::neighbours::PITCH_USUAL;
use crate::{
    id::Id,
    names::Names,
    seat::Seat,
    stored::{self, Decode, Definition, Encode, Error, FieldReader, Reader, Schema, Shape, Writer},
};

/// The most seats of one layout.
pub const LAYOUT_SEATS_MAX: usize = 200_000;

/// The most categories of one layout. Their ordinals fit a byte, so stored layouts are read with it as well.
pub const LAYOUT_CATEGORIES_MAX: usize = 255;

/// The longest label of a row or a seat, in bytes.
pub const LABEL_BYTES_MAX: usize = 32;

/// The longest note of seats, in bytes.
pub const SEAT_NOTE_BYTES_MAX: usize = 200;

/// The most notes of one layout.
pub const SEAT_NOTES_MAX: usize = 255;

/// The highest coordinate of a seat, in hundredths of a seat's width. With it sums of distances stay exact, so stored layouts are read
/// with it as well, and it is never lowered.
pub const POINT_MAX: i32 = 100_000_000;

/// The default focal point of a layout without points, in the middle of the edge of the stage.
const FOCAL_DEFAULT: Point = Point { x: 0, y: 0 };

/// A place on the plan, in hundredths of a seat's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Stored)]
pub struct Point {
    /// To the right.
    #[n(0)]
    pub x: i32,
    /// Away from the stage.
    #[n(1)]
    pub y: i32,
}

/// The labels of the seats of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Stored)]
pub enum Labels {
    /// `first`, `first + step`, …
    #[n(0)]
    Numbers {
        /// The label of the first seat.
        #[n(0)]
        first: i32,
        /// The difference to the next label.
        #[n(1)]
        step: i32,
    },
    /// One text a seat.
    #[n(1)]
    Names(#[n(0)] Vec<SmolStr>),
}

/// Neighbouring seats of one category, the unit in which layouts are written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Stored)]
pub struct Run {
    /// Free seat widths before this run. With 0 its first seat is the neighbour of the last seat before it, unless both have points
    /// that are too far from each other.
    #[n(0)]
    pub gap: u16,
    /// At least 1.
    #[n(1)]
    pub count: u16,
    #[n(2)]
    pub labels: Labels,
    /// The category that prices them.
    #[n(3)]
    pub category: Id,
    /// Whether they are places for wheelchair users. Best available offers them only when asked for.
    #[n(5)]
    pub accessible: bool,
    /// The position of each seat. Empty means a straight row, centred on x = 0 at y = 100 × row.
    #[n(4)]
    pub points: Vec<Point>,
}

/// One row of seats.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Stored)]
pub struct Row {
    #[n(0)]
    pub label: SmolStr,
    /// The part of the house it is in (stalls, balcony), if the house has parts.
    #[n(2)]
    pub section: Option<Id>,
    /// Its seats, from left to right.
    #[n(1)]
    pub runs: Vec<Run>,
}

/// The checked seats of a hall. Rows go from the stage backwards, each from left to right.
///
/// A seat's *index* is its place in that order, from 0, and in seat maps. Only rows and focal point are serialized. Reading
/// computes the rest.
#[derive(Clone)]
pub struct Layout {
    rows: Vec<Row>,
    focal: Option<Point>,
    names: LayoutNames,
    /// Index of the first seat of each row, and the number of seats at the end.
    starts: Vec<u32>,
    /// The shortest distance of each row.
    nearest: Vec<u32>,
    categories: Vec<Id>,
    spots: Vec<Spot>,
    digest: u64,
}

/// Names for people of the parts of a layout, each list by id, with no id twice, and of what its seats look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Stored)]
pub struct LayoutNames {
    #[n(1)]
    pub sections: Vec<(Id, Names)>,
    #[n(2)]
    pub categories: Vec<(Id, Names)>,
    /// Of the stage, which may be a screen or a pitch. Without any it is called a stage.
    #[n(0)]
    pub stage: Names,
    /// What is said of seats. A seat is in one note at most.
    #[n(3)]
    pub notes: Vec<SeatNote>,
}

/// What buyers are told of some seats, such as that a pillar is in the way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Stored)]
pub struct SeatNote {
    /// 1 to [`SEAT_NOTE_BYTES_MAX`] bytes.
    #[n(0)]
    pub text: SmolStr,
    /// The same in other languages, by locale.
    #[n(1)]
    pub names: Names,
    /// Ascending.
    #[n(2)]
    pub seats: Vec<Seat>,
}

/// The computed properties of one seat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) point: Point,
    /// The distance to the focal point, in hundredths of a seat's width, rounded down.
    pub(crate) distance: u32,
    pub(crate) row: u16,
    pub(crate) category: u8,
    pub(crate) accessible: bool,
    /// Whether the seat before it in the row is its neighbour.
    pub(crate) joined: bool,
}

/// Why rows do not form a [`Layout`]. Rows count from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// More than [`LAYOUT_SEATS_MAX`] seats.
    #[error("the layout has more than {LAYOUT_SEATS_MAX} seats; split the hall")]
    TooManySeats,
    /// More than 65 535 rows, or seats in one row.
    #[error("row {row} is beyond what a seat number can say; there are at most 65 535 rows, and seats in a row")]
    TooLong { row: usize },
    /// A row without seats, or a run without seats.
    #[error("row {row} has a run without seats; leave the run out, or the row")]
    EmptyRun { row: usize },
    /// The labels or points are not one for each seat.
    #[error("row {row} has a run whose labels or points are not one a seat; give each seat one, or none at all")]
    Uneven { row: usize },
    /// A label that is empty, too long, or a number out of range.
    #[error("row {row} has a label that is empty, longer than {LABEL_BYTES_MAX} bytes or no 32-bit number; shorten it")]
    BadLabel { row: usize },
    /// Two rows of a section have the same label.
    #[error("row {row} is called {label} like another row of its section; call it something else")]
    RowLabelTwice { row: usize, label: SmolStr },
    /// Two seats of a row have the same label.
    #[error("row {row} has two seats called {label}; call one of them something else")]
    SeatLabelTwice { row: usize, label: SmolStr },
    /// More than [`LAYOUT_CATEGORIES_MAX`] categories.
    #[error("the layout has more than {LAYOUT_CATEGORIES_MAX} categories; use fewer")]
    TooManyCategories,
    /// Something is named that the layout does not have, or that is named twice.
    #[error("the layout has no {kind} {id}, or two names for it")]
    NamedWrongly {
        /// `section` or `category`.
        kind: &'static str,
        id: Id,
    },
    /// A note that is empty, too long or not text, one too many, or one of a seat that is not there or has another one.
    #[error("the note {text:?} of seats cannot be: {why}")]
    BadNote { text: SmolStr, why: SmolStr },
    /// A point beyond [`POINT_MAX`].
    #[error("a point of row {row}, or the focal point, is further out than {POINT_MAX}; move it closer")]
    TooFar {
        /// Which row, from 0. It is 0 for the focal point.
        row: usize,
    },
}

impl Layout {
    /// The layout of these rows. A hall that has only places has no rows. Best available prefers seats near `focal`, or near the
    /// middle of the stage's edge without one, which is the front edge of the points if there are any.
    ///
    /// Two consecutive seats of a row are neighbours if no gap stands between them and, if both have points, their distance is at
    /// most one and a half of the median distance of such seats of the row. A row with fewer than four seats takes the median of
    /// its section.
    ///
    /// # Errors
    /// [`LayoutError`] if there are too many seats, a run is empty, labels repeat or are missing, or a point is too far.
    pub fn new(rows: Vec<Row>, focal: Option<Point>) -> Result<Layout, LayoutError> {
        check_rows(&rows)?;
        Layout::decided(rows, focal)
    }

    /// The layout of rows whose number and labels were checked when they were put. What would break the indexes of seats is checked
    /// again, and nothing else, so that another bound makes nothing unreadable.
    fn decided(rows: Vec<Row>, focal: Option<Point>) -> Result<Layout, LayoutError> {
        let seats = check_indexes(&rows)?;
        let near = focal.unwrap_or_else(|| neighbours::stage(&rows));
        if !in_reach(near) {
            return Err(LayoutError::TooFar { row: 0 });
        }
        let mut layout = Layout {
            starts: Vec::with_capacity(rows.len() + 1),
            nearest: Vec::with_capacity(rows.len()),
            categories: Vec::new(),
            spots: Vec::with_capacity(seats),
            digest: 0,
            rows: Vec::new(),
            focal,
            names: LayoutNames::default(),
        };
        for (number, row) in rows.iter().enumerate() {
            layout.starts.push(layout.spots.len() as u32);
            layout.add_row(number, row, near)?;
            let first = layout.starts[number] as usize;
            let distances = layout.spots[first..].iter().map(|spot| spot.distance);
            layout.nearest.push(distances.min().expect("checked above: rows have seats"));
        }
        layout.starts.push(layout.spots.len() as u32);
        neighbours::part(&rows, &layout.starts, &mut layout.spots);
        let mut digest = Digest(0xcbf2_9ce4_8422_2325);
        (&rows, focal).hash(&mut digest);
        layout.digest = digest.finish();
        layout.rows = rows;
        Ok(layout)
    }

    /// The same layout with these names of its sections, categories and stage, and with these notes.
    ///
    /// # Errors
    /// [`LayoutError::NamedWrongly`] and [`LayoutError::BadNote`].
    pub fn named(self, names: LayoutNames) -> Result<Layout, LayoutError> {
        let LayoutNames { mut sections, mut categories, stage, mut notes } = names;
        for (kind, named) in [("section", &mut sections), ("category", &mut categories)] {
            named.retain(|(_, names)| !names.is_empty());
            named.sort_by(|one, other| one.0.cmp(&other.0));
            let wrong = |id: &Id| match kind {
                "section" => !self.rows.iter().any(|row| row.section.as_ref() == Some(id)),
                _ => self.category_ordinal(id).is_none(),
            };
            let unknown = named.iter().find(|(id, _)| wrong(id)).map(|(id, _)| id);
            let twice = named.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| &pair[0].0);
            if let Some(id) = unknown.or(twice) {
                return Err(LayoutError::NamedWrongly { kind, id: id.clone() });
            }
        }
        self.check_notes(&mut notes)?;
        Ok(self.with_names(LayoutNames { sections, categories, stage, notes }))
    }

    /// Checks notes, and puts their seats in order.
    fn check_notes(&self, notes: &mut [SeatNote]) -> Result<(), LayoutError> {
        let (many, mut noted) = (notes.len() > SEAT_NOTES_MAX, BTreeSet::new());
        for SeatNote { text, names: _, seats } in notes {
            let bad = |why: SmolStr| Err(LayoutError::BadNote { text: text.clone(), why });
            if many {
                return bad(format_smolstr!("there are more than {SEAT_NOTES_MAX}"));
            }
            if !(1..=SEAT_NOTE_BYTES_MAX).contains(&text.len()) || text.chars().any(char::is_control) {
                return bad(format_smolstr!("it has 1 to {SEAT_NOTE_BYTES_MAX} bytes and no control characters"));
            }
            if seats.is_empty() {
                return bad(SmolStr::new_static("it is of no seat"));
            }
            seats.sort_unstable();
            for &Seat { row, seat } in &*seats {
                if self.index(Seat { row, seat }).is_none() {
                    return bad(format_smolstr!("there is no seat {seat} in row {row}"));
                }
                if !noted.insert((row, seat)) {
                    return bad(format_smolstr!("seat {seat} of row {row} has two notes"));
                }
            }
        }
        Ok(())
    }

    /// What is said of a seat, if anything is.
    pub fn note(&self, index: u32) -> Option<&SeatNote> {
        let seat = (!self.names.notes.is_empty()).then(|| self.seat(index))?;
        self.names.notes.iter().find(|note| note.seats.binary_search(&seat).is_ok())
    }

    fn with_names(mut self, names: LayoutNames) -> Layout {
        self.names = names;
        if self.names != LayoutNames::default() {
            let mut digest = Digest(self.digest);
            let LayoutNames { sections, categories, stage, notes } = &self.names;
            (sections, categories, stage).hash(&mut digest);
            // Without notes a layout has the digest that it had before there were any.
            if !notes.is_empty() {
                notes.hash(&mut digest);
            }
            self.digest = digest.finish();
        }
        self
    }

    /// The names of its sections, categories and stage, and its notes.
    pub fn names(&self) -> &LayoutNames {
        &self.names
    }

    /// Its rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The focal point, if the layout has one.
    pub fn focal(&self) -> Option<Point> {
        self.focal
    }

    /// How many seats there are.
    pub fn seats(&self) -> u32 {
        self.spots.len() as u32
    }

    /// The index of a seat, or `None` if there is no such seat.
    pub fn index(&self, seat: Seat) -> Option<u32> {
        let first = *self.starts.get(usize::from(seat.row))?;
        let next = *self.starts.get(usize::from(seat.row) + 1)?;
        let index = first + u32::from(seat.seat);
        (index < next).then_some(index)
    }

    /// The seat with this index, which must be less than [`Layout::seats`].
    pub fn seat(&self, index: u32) -> Seat {
        let row = self.spot(index).row;
        Seat { row, seat: (index - self.starts[usize::from(row)]) as u16 }
    }

    /// The indexes of the seats of a row, which must be less than the number of rows.
    pub fn row_seats(&self, row: u16) -> Range<u32> {
        self.starts[usize::from(row)]..self.starts[usize::from(row) + 1]
    }

    /// The categories, in the order in which they first appear. Their ordinals count from 0.
    pub fn categories(&self) -> &[Id] {
        &self.categories
    }

    /// The ordinal of a category, or `None` if no seat has it.
    pub fn category_ordinal(&self, category: &Id) -> Option<u8> {
        self.categories.iter().position(|known| known == category).map(|ordinal| ordinal as u8)
    }

    /// The category of a seat, as an ordinal in [`Layout::categories`].
    pub fn category(&self, index: u32) -> u8 {
        self.spot(index).category
    }

    /// Whether a seat is for wheelchair users.
    pub fn accessible(&self, index: u32) -> bool {
        self.spot(index).accessible
    }

    /// The position of a seat on the plan.
    pub fn point(&self, index: u32) -> Point {
        self.spot(index).point
    }

    /// The distance of a seat from the focal point, in hundredths of a seat's width, rounded down.
    pub fn distance(&self, index: u32) -> u32 {
        self.spot(index).distance
    }

    /// The neighbour before a seat in its row, or `None` if there is a gap or an aisle, or the row begins.
    pub fn left_neighbour(&self, index: u32) -> Option<u32> {
        self.spot(index).joined.then(|| index - 1)
    }

    /// The neighbour after a seat in its row, or `None` if there is a gap or an aisle, or the row ends.
    pub fn right_neighbour(&self, index: u32) -> Option<u32> {
        let next = self.spots.get(index as usize + 1)?;
        next.joined.then_some(index + 1)
    }

    /// The label of a seat's row.
    pub fn row_label(&self, index: u32) -> &SmolStr {
        &self.rows[usize::from(self.spot(index).row)].label
    }

    /// The label of a seat in its row.
    pub fn seat_label(&self, index: u32) -> SmolStr {
        let seat = self.seat(index);
        let mut before = usize::from(seat.seat);
        for run in &self.rows[usize::from(seat.row)].runs {
            if before < usize::from(run.count) {
                return run.labels.label(before).expect("checked when the layout was made");
            }
            before -= usize::from(run.count);
        }
        unreachable!("seat {seat:?} has an index but is in no run");
    }

    /// A hash of the content. It may change with the program and is never stored.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// A placeholder while states are read and their layouts are not set yet.
    pub(crate) fn unset() -> Arc<Layout> {
        let nothing = Layout {
            rows: Vec::new(),
            focal: None,
            names: LayoutNames::default(),
            starts: vec![0],
            nearest: Vec::new(),
            categories: Vec::new(),
            spots: Vec::new(),
            digest: 0,
        };
        Arc::new(nothing)
    }

    /// The distance of the seat of a row that is nearest to the focal point.
    pub(crate) fn nearest(&self, row: u16) -> u32 {
        self.nearest[usize::from(row)]
    }

    /// The computed properties of the seats of a row.
    pub(crate) fn row_spots(&self, row: u16) -> &[Spot] {
        let Range { start, end } = self.row_seats(row);
        &self.spots[start as usize..end as usize]
    }

    /// The computed properties of a seat.
    pub(crate) fn spot(&self, index: u32) -> &Spot {
        &self.spots[index as usize]
    }

    fn add_row(&mut self, number: usize, row: &Row, near: Point) -> Result<(), LayoutError> {
        let wide: i64 = row.runs.iter().map(|run| i64::from(run.gap) + i64::from(run.count)).sum();
        let y = number as i32 * 100;
        let mut slot: i64 = 0;
        for (place, run) in row.runs.iter().enumerate() {
            let category = self.ordinal_of(&run.category)?;
            slot += i64::from(run.gap);
            for seat in 0..run.count {
                let straight = Point { x: i32::try_from(slot * 100 - (wide - 1) * 50).unwrap_or(i32::MAX), y };
                let point = run.points.get(usize::from(seat)).copied().unwrap_or(straight);
                if !in_reach(point) {
                    return Err(LayoutError::TooFar { row: number });
                }
                let joined = if seat == 0 { place > 0 && run.gap == 0 } else { true };
                let distance = distance(point, near);
                let spot = Spot { point, distance, row: number as u16, category, accessible: run.accessible, joined };
                self.spots.push(spot);
                slot += 1;
            }
        }
        Ok(())
    }

    fn ordinal_of(&mut self, category: &Id) -> Result<u8, LayoutError> {
        if let Some(ordinal) = self.category_ordinal(category) {
            return Ok(ordinal);
        }
        if self.categories.len() == LAYOUT_CATEGORIES_MAX {
            return Err(LayoutError::TooManyCategories);
        }
        self.categories.push(category.clone());
        Ok(self.categories.len() as u8 - 1)
    }
}

impl Labels {
    /// The label of the seat at `place` of its run, from 0, or `None` if there is none or it is out of range.
    pub fn label(&self, place: usize) -> Option<SmolStr> {
        match self {
            Labels::Numbers { first, step } => {
                let number = i32::try_from(place).ok()?.checked_mul(*step)?.checked_add(*first)?;
                Some(format_smolstr!("{number}"))
            }
            Labels::Names(names) => names.get(place).cloned(),
        }
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layout({} rows, {} seats, {:016x})", self.rows.len(), self.spots.len(), self.digest)
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        core::ptr::eq(self, other)
            || (self.digest == other.digest
                && (self.focal, &self.names) == (other.focal, &other.names)
                && self.rows == other.rows)
    }
}

impl Eq for Layout {}

impl Encode for Layout {
    fn encode(&self, out: &mut Writer) {
        out.list(3);
        self.rows.encode(out);
        self.focal.encode(out);
        self.names.encode(out);
    }
}

impl Decode for Layout {
    fn shape(schema: &mut Schema) -> Shape {
        let path = concat!(module_path!(), "::Layout");
        schema.define::<Layout>("Layout", path, |schema| {
            let (rows, focal) = (Vec::<Row>::shape(schema), Option::<Point>::shape(schema));
            let names = LayoutNames::shape(schema);
            Definition::Struct(stored::fields([(0, "rows", rows), (1, "focal", focal), (2, "names", names)]))
        })
    }

    fn decode(from: &mut Reader<'_>) -> Result<Layout, Error> {
        let mut fields = FieldReader::of_struct(from)?;
        let (rows, focal, names) = (fields.next(from)?, fields.next(from)?, fields.next(from)?);
        fields.end()?;
        Layout::decided(rows, focal).map(|layout| layout.with_names(names)).map_err(Error::message)
    }
}

/// Checks the rules of a layout that is put.
fn check_rows(rows: &[Row]) -> Result<(), LayoutError> {
    let mut names = BTreeSet::new();
    let mut seats = 0;
    for (number, row) in rows.iter().enumerate() {
        seats += check_row(number, row)?;
        if seats > LAYOUT_SEATS_MAX {
            return Err(LayoutError::TooManySeats);
        }
        if !good_label(&row.label) {
            return Err(LayoutError::BadLabel { row: number });
        }
        if !names.insert((&row.section, &row.label)) {
            return Err(LayoutError::RowLabelTwice { row: number, label: row.label.clone() });
        }
        check_labels(number, row)?;
    }
    Ok(())
}

/// Checks that each seat has a number and a label. Returns the number of seats.
fn check_indexes(rows: &[Row]) -> Result<usize, LayoutError> {
    let seats = rows.iter().enumerate().map(|(number, row)| check_row(number, row));
    seats.sum()
}

/// Checks that each seat of a row has a number and a label. Returns how many there are.
fn check_row(number: usize, row: &Row) -> Result<usize, LayoutError> {
    if number > usize::from(u16::MAX) {
        return Err(LayoutError::TooLong { row: number });
    }
    if row.runs.is_empty() || row.runs.iter().any(|run| run.count == 0) {
        return Err(LayoutError::EmptyRun { row: number });
    }
    let long: usize = row.runs.iter().map(|run| usize::from(run.count)).sum();
    if long > usize::from(u16::MAX) {
        return Err(LayoutError::TooLong { row: number });
    }
    for run in &row.runs {
        let count = usize::from(run.count);
        if !(run.points.is_empty() || run.points.len() == count) {
            return Err(LayoutError::Uneven { row: number });
        }
        match &run.labels {
            Labels::Names(names) if names.len() != count => return Err(LayoutError::Uneven { row: number }),
            Labels::Numbers { .. } if last_number(run).is_none() => return Err(LayoutError::BadLabel { row: number }),
            Labels::Names(_) | Labels::Numbers { .. } => {}
        }
    }
    Ok(long)
}

fn check_labels(number: usize, row: &Row) -> Result<(), LayoutError> {
    if let [run] = &row.runs[..]
        && counts_through(run)
    {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    for run in &row.runs {
        for place in 0..usize::from(run.count) {
            let label = run.labels.label(place).filter(good_label).ok_or(LayoutError::BadLabel { row: number })?;
            if !seen.insert(label.clone()) {
                return Err(LayoutError::SeatLabelTwice { row: number, label });
            }
        }
    }
    Ok(())
}

/// Whether the labels of a run are numbers that go up or down, so no two are equal. Most rows are one such run.
fn counts_through(run: &Run) -> bool {
    matches!(run.labels, Labels::Numbers { step, .. } if step != 0)
}

/// The label of the last seat of a run with numbers, if it is in range. Then the others are as well.
fn last_number(run: &Run) -> Option<i32> {
    let Labels::Numbers { first, step } = run.labels else { return None };
    i32::try_from(i64::from(first) + i64::from(step) * (i64::from(run.count) - 1)).ok()
}

fn good_label(label: &SmolStr) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&label.len())
}

fn in_reach(point: Point) -> bool {
    let reach = -POINT_MAX..=POINT_MAX;
    reach.contains(&point.x) && reach.contains(&point.y)
}

fn distance(from: Point, to: Point) -> u32 {
    let wide = u64::from(from.x.abs_diff(to.x));
    let deep = u64::from(from.y.abs_diff(to.y));
    (wide * wide + deep * deep).isqrt() as u32
}

/// FNV-1a, which is good enough to distinguish layouts before they are compared.
struct Digest(u64);

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
