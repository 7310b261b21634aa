//! Layouts on the wire. A request may have a short form, and answers always have the full form.
//!
//! A hall may be described as a grid (`{"rows":5,"seats":16}`), as rows with a count (`{"label":"A","count":16,"gaps":[8]}`),
//! seat by seat (`{"label":"A","seats":[{"label":"1"},null,{"label":"2"}]}`), or in the full form, run by run.

use std::mem::take;

use boxoffice_core::{
    id::Id,
    layout::{
        LABEL_BYTES_MAX, LAYOUT_SEATS_MAX, Labels, Layout, LayoutNames, POINT_MAX, Point, Row, Run,
        SEAT_NOTE_BYTES_MAX, SEAT_NOTES_MAX, SeatNote,
    },
    names::Names,
    runs::{self, SingleSeat},
    seat::Seat,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::{
    newer::Newer,
    repr::{
        WireRepr, WireWrite, same_fields,
        shape::{Each, Narrow, Shapes, shapes},
    },
};

/// The category of seats without one.
const CATEGORY: &str = "standard";

shapes! {
    /// A grid (`rows` and `seats` as numbers) or rows, each with one of `count`, `seats` and `runs`; at most 200 000 seats.
    struct LayoutBody as WrittenLayout {
        rows: RowsBody,
        /// Of each row of a grid.
        seats?: Option<u16> = 1..=u16::MAX,
        /// Of seats that name none.
        category?: Option<Id>,
        /// The place the best seats are near to.
        focal?: Option<(i32, i32)> = Each(-POINT_MAX..=POINT_MAX),
        /// Names for people of the sections.
        section_names?: Vec<(Id, Names)>,
        /// Names for people of the categories.
        category_names?: Vec<(Id, Names)>,
        /// Names for people of the stage, such as a screen or a pitch.
        stage_names?: Names,
        /// What buyers are told of seats. A seat has one note at most.
        seat_notes?: Vec<SeatNote> = 0..=SEAT_NOTES_MAX,
    }

    /// What buyers are told of some seats, such as that their view is restricted.
    struct NoteFields as SeatNote {
        text: SmolStr = 1..=SEAT_NOTE_BYTES_MAX,
        /// The same in other languages.
        names?: Names,
        seats: Vec<Seat>,
    }

    /// A row with one of `count`, `seats` and `runs`.
    struct RowBody as WrittenRow {
        label: SmolStr = 1..=LABEL_BYTES_MAX,
        section?: Option<Id>,
        category?: Option<Id>,
        count?: Option<u16> = 1..=u16::MAX,
        /// The number of the first seat; 1 if absent.
        first?: Option<i32> = i32::MIN..=i32::MAX,
        /// What the next number adds; 1 if absent.
        step?: Option<i32> = i32::MIN..=i32::MAX,
        /// After how many seats an aisle one seat wide follows.
        gaps?: Vec<u16> = Each(1..=u16::MAX),
        /// Seat by seat; `null` is a gap one seat wide.
        seats?: Option<Vec<Option<SeatBody>>> = Each(OrNull),
        runs?: Option<Vec<RunBody>>,
    }

    struct SeatBody as WrittenSeat {
        label: SmolStr = 1..=LABEL_BYTES_MAX,
        category?: Option<Id>,
        accessible?: bool,
        x?: Option<i32> = i32::MIN..=i32::MAX,
        y?: Option<i32> = i32::MIN..=i32::MAX,
    }

    struct RunBody as WrittenRun {
        gap?: u16 = 0..=u16::MAX,
        count: u16 = 1..=u16::MAX,
        first?: Option<i32> = i32::MIN..=i32::MAX,
        step?: Option<i32> = i32::MIN..=i32::MAX,
        names?: Option<Vec<SmolStr>> = Each(1..=LABEL_BYTES_MAX),
        category?: Option<Id>,
        accessible?: bool,
        points?: Vec<(i32, i32)> = Each(Each(-POINT_MAX..=POINT_MAX)),
    }

    /// The seats of a hall, in full.
    struct FullLayout as Layout {
        focal?: Option<(i32, i32)> = Each(-POINT_MAX..=POINT_MAX),
        rows: Vec<FullRow>,
        /// Names for people of the sections.
        section_names?: Vec<(Id, Names)>,
        /// Names for people of the categories.
        category_names?: Vec<(Id, Names)>,
        /// Names for people of the stage, such as a screen or a pitch.
        stage_names?: Names,
        /// What buyers are told of seats. A seat has one note at most.
        seat_notes?: Vec<SeatNote> = 0..=SEAT_NOTES_MAX,
    }

    struct FullRow as Row {
        label: SmolStr,
        section?: Option<Id>,
        runs: Vec<FullRun>,
    }

    /// Neighbours alike.
    struct FullRun as Run {
        gap: u16,
        count: u16,
        first?: Option<i32> = i32::MIN..=i32::MAX,
        step?: Option<i32> = i32::MIN..=i32::MAX,
        names?: Option<Vec<SmolStr>>,
        category: Id,
        accessible: bool,
        points?: Vec<(i32, i32)> = Each(Each(-POINT_MAX..=POINT_MAX)),
    }
}

same_fields! {
    SeatNote: [SeatNote { text, names, seats }] = NoteFields { text, names, seats },
}

impl WireWrite for Layout {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let focal = self.focal().map(|focal| (focal.x, focal.y));
        let rows = self.rows().iter().map(FullRow::from).collect();
        let LayoutNames { sections: section_names, categories: category_names, stage: stage_names, notes: seat_notes } =
            self.names().clone();
        FullLayout { focal, rows, section_names, category_names, stage_names, seat_notes }.serialize(serializer)
    }
}

impl WireRepr for Layout {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Layout, D::Error> {
        let mut body = LayoutBody::deserialize(deserializer)?;
        let focal = body.focal.map(|(x, y)| Point { x, y });
        let names = LayoutNames {
            sections: take(&mut body.section_names),
            categories: take(&mut body.category_names),
            stage: take(&mut body.stage_names),
            notes: take(&mut body.seat_notes),
        };
        let rows = body.rows().map_err(D::Error::custom)?;
        let layout = Layout::new(rows, focal).and_then(|layout| layout.named(names));
        layout.map_err(D::Error::custom)
    }

    fn newer(newer: &mut Newer) {
        newer.field("section_names", 5, |_| ());
        newer.field("category_names", 5, |_| ());
        newer.field("stage_names", 5, |_| ());
        newer.field("seat_notes", 6, |_| ());
    }

    fn schema(shapes: &mut Shapes) -> Value {
        FullLayout::schema(shapes)
    }
}

/// The schema of a layout in a request.
pub(crate) struct Written;

impl Narrow for Written {
    fn narrow(self, _: Value, shapes: &mut Shapes) -> Value {
        LayoutBody::schema(shapes)
    }
}

/// The schema of a value that may be `null`.
struct OrNull;

impl Narrow for OrNull {
    fn narrow(self, schema: Value, _: &mut Shapes) -> Value {
        json!({"anyOf": [schema, {"type": "null"}]})
    }
}

impl From<&Row> for FullRow {
    fn from(Row { label, section, runs }: &Row) -> FullRow {
        FullRow { label: label.clone(), section: section.clone(), runs: runs.iter().map(FullRun::from).collect() }
    }
}

impl From<&Run> for FullRun {
    fn from(run: &Run) -> FullRun {
        let (first, step, names) = match &run.labels {
            Labels::Numbers { first, step } => (Some(*first), Some(*step), None),
            Labels::Names(names) => (None, None, Some(names.clone())),
        };
        let points = run.points.iter().map(|point| (point.x, point.y)).collect();
        let (category, accessible) = (run.category.clone(), run.accessible);
        FullRun { gap: run.gap, count: run.count, first, step, names, category, accessible, points }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum RowsBody {
    /// The number of rows of a grid.
    Grid(u32),
    /// The rows one by one.
    Each(Vec<RowBody>),
}

impl WireWrite for RowsBody {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RowsBody::Grid(rows) => rows.write(serializer),
            RowsBody::Each(rows) => rows.write(serializer),
        }
    }
}

impl WireRepr for RowsBody {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RowsBody, D::Error> {
        deserializer.deserialize_any(RowsVisitor)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let rows = (1..=u16::MAX).narrow(Vec::<RowBody>::schema(shapes), shapes);
        json!({"anyOf": [{"type": "integer", "minimum": 1, "maximum": u16::MAX}, rows]})
    }
}

struct RowsVisitor;

impl<'de> Visitor<'de> for RowsVisitor {
    type Value = RowsBody;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of rows, or how many rows a grid has")
    }

    fn visit_u64<E: serde::de::Error>(self, rows: u64) -> Result<RowsBody, E> {
        u32::try_from(rows).map(RowsBody::Grid).map_err(|_| E::custom("more rows than any layout has"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, rows: A) -> Result<RowsBody, A::Error> {
        Vec::<RowBody>::deserialize(SeqAccessDeserializer::new(rows)).map(RowsBody::Each)
    }
}

impl LayoutBody {
    fn rows(self) -> Result<Vec<Row>, String> {
        let category = self.category.unwrap_or_else(|| Id::new(CATEGORY).expect("the usual category is an id"));
        match self.rows {
            RowsBody::Grid(rows) => {
                let seats = self.seats.ok_or("a grid needs `rows` and `seats`")?;
                if rows == 0 {
                    return Err("`rows` of a grid is at least 1".into());
                }
                let all = u64::from(rows) * u64::from(seats);
                // Counted before anything is allocated.
                if all > LAYOUT_SEATS_MAX as u64 || rows > u32::from(u16::MAX) {
                    return Err(format!("a layout has at most {LAYOUT_SEATS_MAX} seats"));
                }
                let runs = by_count(seats, 1, 1, &[], &category)?;
                Ok((0..rows).map(|index| Row { label: letters(index), section: None, runs: runs.clone() }).collect())
            }
            RowsBody::Each(_) if self.seats.is_some() => {
                Err("`seats` beside `rows` is for grids, where `rows` is a number".into())
            }
            RowsBody::Each(rows) => rows.into_iter().map(|row| row.row(&category)).collect(),
        }
    }
}

/// The default label of the row with this index: A … Z, AA, AB, …
fn letters(index: u32) -> SmolStr {
    let mut text = Vec::new();
    let mut rest = index + 1;
    while rest > 0 {
        rest -= 1;
        text.push(b'A' + (rest % 26) as u8);
        rest /= 26;
    }
    text.reverse();
    SmolStr::new(str::from_utf8(&text).expect("letters are ASCII"))
}

impl RowBody {
    fn row(self, category: &Id) -> Result<Row, String> {
        let label = label(self.label)?;
        let category = self.category.as_ref().unwrap_or(category);
        let runs = match (self.count, self.seats, self.runs) {
            (Some(count), None, None) => {
                by_count(count, self.first.unwrap_or(1), self.step.unwrap_or(1), &self.gaps, category)
            }
            (None, Some(seats), None) => seat_by_seat(seats, category),
            (None, None, Some(runs)) => runs.into_iter().map(|run| run.run(category)).collect(),
            _ => Err("a row has one of `count`, `seats` and `runs`".into()),
        };
        let runs = runs.map_err(|reason| format!("row {label}: {reason}"))?;
        Ok(Row { label, section: self.section, runs })
    }
}

fn label(text: SmolStr) -> Result<SmolStr, String> {
    let good = (1..=LABEL_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    if good { Ok(text) } else { Err(format!("a label has 1 to {LABEL_BYTES_MAX} bytes and no control characters")) }
}

/// The runs of a row of numbered seats, cut at its gaps.
fn by_count(count: u16, first: i32, step: i32, gaps: &[u16], category: &Id) -> Result<Vec<Run>, String> {
    let inside = gaps.iter().all(|gap| (1..count).contains(gap)) && gaps.windows(2).all(|pair| pair[0] < pair[1]);
    if !inside {
        return Err(format!("`gaps` ascend and lie between the seats, from 1 to {}", count.saturating_sub(1)));
    }
    let mut runs = Vec::with_capacity(gaps.len() + 1);
    let mut from = 0;
    for to in gaps.iter().copied().chain([count]) {
        let first = i64::from(first) + i64::from(step) * i64::from(from);
        let first = i32::try_from(first).map_err(|_| "the numbers of its seats are too large")?;
        runs.push(Run {
            gap: u16::from(from > 0),
            count: to - from,
            labels: Labels::Numbers { first, step },
            category: category.clone(),
            accessible: false,
            points: Vec::new(),
        });
        from = to;
    }
    Ok(runs)
}

/// The runs of a row that is written seat by seat.
fn seat_by_seat(seats: Vec<Option<SeatBody>>, row_category: &Id) -> Result<Vec<Run>, String> {
    let single = |seat: SeatBody| {
        let category = seat.category.unwrap_or_else(|| row_category.clone());
        let point = match (seat.x, seat.y) {
            (Some(x), Some(y)) => Some(Point { x, y }),
            (None, None) => None,
            _ => return Err("a seat has both `x` and `y`, or neither".to_owned()),
        };
        Ok(SingleSeat { label: label(seat.label)?, category, accessible: seat.accessible, point })
    };
    let seats = seats.into_iter().map(|seat| seat.map(single).transpose()).collect::<Result<Vec<_>, String>>()?;
    runs::of_seats(seats).map_err(|why| why.to_string())
}

impl RunBody {
    fn run(self, category: &Id) -> Result<Run, String> {
        let labels = match (self.names, self.first, self.step) {
            (Some(names), None, None) => Labels::Names(names.into_iter().map(label).collect::<Result<_, _>>()?),
            (None, first, step) => Labels::Numbers { first: first.unwrap_or(1), step: step.unwrap_or(1) },
            _ => return Err("a run has `names`, or `first` and `step`".into()),
        };
        let category = self.category.unwrap_or_else(|| category.clone());
        let points = self.points.into_iter().map(|(x, y)| Point { x, y }).collect();
        Ok(Run { gap: self.gap, count: self.count, labels, category, accessible: self.accessible, points })
    }
}
