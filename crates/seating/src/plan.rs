//! A plan as a file tells it, and the layout that it becomes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use boxoffice_core::{
    id::Id,
    layout::{Layout, LayoutNames, POINT_MAX, Point, Row},
    names::Names,
    runs::{self, SingleSeat},
};
use smol_str::SmolStr;
use unicode_normalization::UnicodeNormalization;

/// The category of seats without one.
const CATEGORY: &str = "standard";

/// The longest id, in bytes.
const ID_BYTES_MAX: usize = 64;

/// A place in the units of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub x: f64,
    pub y: f64,
}

/// A seat as the file tells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanSeat {
    pub label: String,
    /// The name of its category, or the usual one.
    pub category: Option<String>,
    pub accessible: bool,
    pub place: Option<Place>,
}

/// A row as the file tells it. `None` is a gap one seat wide.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlanRow {
    pub section: Option<String>,
    pub label: String,
    pub seats: Vec<Option<PlanSeat>>,
    /// Whether its seats are around a table, so that their distances say nothing of a seat's width.
    pub is_table: bool,
}

/// Places without seats. They belong to a session and not to a hall.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanArea {
    pub name: String,
    pub capacity: u32,
    pub category: Option<String>,
}

/// The unit of the places of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Hundredths of a seat's width, with the stage at 0, 0.
    #[default]
    Hundredths,
    /// Any other, with y growing away from the stage.
    Any,
}

/// A plan as a file tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub rows: Vec<PlanRow>,
    pub areas: Vec<PlanArea>,
    pub unit: Unit,
    /// The middle of the stage's edge, if the file tells it.
    pub stage: Option<Place>,
    /// Names of categories that ids name, as in `(key, name)`.
    pub category_names: Vec<(String, String)>,
    /// The locale of its names.
    pub locale: Option<&'static str>,
    /// What was understood, and what was left out.
    pub notes: Vec<String>,
    /// What may not be meant.
    pub warnings: Vec<String>,
}

/// A hall as a file tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seating {
    pub layout: Arc<Layout>,
    /// Areas for a session, with the category that prices each.
    pub areas: Vec<SeatingArea>,
    /// The id of each category by its name in the file.
    pub categories: BTreeMap<String, Id>,
    /// What was understood, and what was left out.
    pub notes: Vec<String>,
    /// What may not be meant.
    pub warnings: Vec<String>,
}

/// Places without seats, for a session in the hall.
#[derive(Clone, Debug, PartialEq)]
pub struct SeatingArea {
    pub id: Id,
    pub name: String,
    pub capacity: u32,
    pub category: Option<Id>,
}

/// Ids for the names of one kind of thing.
struct Ids {
    kind: &'static str,
    locale: &'static str,
    by_name: BTreeMap<String, Id>,
    taken: BTreeSet<Id>,
    names: Vec<(Id, Names)>,
}

impl Ids {
    fn new(kind: &'static str, locale: &'static str) -> Ids {
        Ids { kind, locale, by_name: BTreeMap::new(), taken: BTreeSet::new(), names: Vec::new() }
    }

    /// The id of a name. A name that is an id is its own.
    fn id(&mut self, name: &str) -> Result<Id, String> {
        if let Some(known) = self.by_name.get(name) {
            return Ok(known.clone());
        }
        let own = Id::new(name).filter(|id| !self.taken.contains(id));
        let id = match own.clone() {
            Some(own) => own,
            None => self.free(&spelled(name)),
        };
        if own.is_none() {
            let named = Names::new([(SmolStr::new(self.locale), SmolStr::new(name))]);
            self.names.push((id.clone(), named.map_err(|why| format!("the {} {name:?}: {why}", self.kind))?));
        }
        self.taken.insert(id.clone());
        self.by_name.insert(name.to_owned(), id.clone());
        Ok(id)
    }

    /// Says how a thing with this id is called.
    fn call(&mut self, id: &Id, name: &str) -> Result<(), String> {
        if id.as_str() == name || self.names.iter().any(|(known, _)| known == id) {
            return Ok(());
        }
        let named = Names::new([(SmolStr::new(self.locale), SmolStr::new(name))]);
        self.names.push((id.clone(), named.map_err(|why| format!("the {} {name:?}: {why}", self.kind))?));
        Ok(())
    }

    /// The ids that are not the names, in a sentence.
    fn note(&self) -> Option<String> {
        /// The rest is only counted.
        const SHOWN: usize = 6;
        let shown = |(id, names): &(Id, Names)| format!("{} is {id}", names.iter().next().map_or("", |(_, name)| name));
        let more =
            if self.names.len() > SHOWN { format!(", and {} more", self.names.len() - SHOWN) } else { String::new() };
        let named: Vec<String> = self.names.iter().take(SHOWN).map(shown).collect();
        let kind = self.kind;
        (!named.is_empty()).then(|| format!("ids for each {kind}: {}{more}", named.join(", ")))
    }

    fn free(&self, wanted: &str) -> Id {
        let wanted =
            if wanted.is_empty() { format!("{}-{}", self.kind, self.taken.len() + 1) } else { wanted.to_owned() };
        let numbered = (2..).map(|number| {
            let kept = wanted.len().min(ID_BYTES_MAX - 8);
            format!("{}-{number}", &wanted[..kept])
        });
        let short = wanted[..wanted.len().min(ID_BYTES_MAX)].to_owned();
        let mut ids = std::iter::once(short).chain(numbered).filter_map(|text| Id::new(&text));
        ids.find(|id| !self.taken.contains(id)).expect("one of the numbers is free")
    }
}

/// An id as it is, or in the letters of ids.
pub(crate) fn spelled_id(id: &str) -> String {
    if Id::new(id).is_some() { id.to_owned() } else { spelled(id) }
}

/// A name in the letters of ids.
pub(crate) fn spelled(name: &str) -> String {
    let mut text = String::new();
    for letter in name.nfkd() {
        match letter {
            'ß' => text.push_str("ss"),
            'æ' | 'Æ' => text.push_str("ae"),
            'œ' | 'Œ' => text.push_str("oe"),
            'ø' | 'Ø' => text.push('o'),
            'ł' | 'Ł' => text.push('l'),
            'đ' | 'Đ' => text.push('d'),
            '\u{300}'..='\u{36f}' => {}
            letter if letter.is_ascii_alphanumeric() => text.push(letter.to_ascii_lowercase()),
            '.' | '_' => text.push(letter),
            _ if text.is_empty() || text.ends_with('-') => {}
            _ => text.push('-'),
        }
    }
    text.trim_matches('-').to_owned()
}

impl Plan {
    /// The hall of this plan.
    ///
    /// # Errors
    /// There are no seats, or the rows form no layout.
    pub(crate) fn seating(mut self) -> Result<Seating, String> {
        self.rows.retain(|row| row.seats.iter().any(Option::is_some));
        if self.rows.is_empty() && self.areas.is_empty() {
            return Err("there are no seats in this file".into());
        }
        if self.unit == Unit::Any {
            self.face_stage();
        }
        self.part_rows();
        let scale = self.scale();
        let locale = self.locale.unwrap_or("en");
        let (mut sections, mut categories) = (Ids::new("section", locale), Ids::new("category", locale));
        let mut rows = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            rows.push(core_row(row, scale, &mut sections, &mut categories)?);
        }
        let mut area_ids = Ids::new("area", locale);
        let mut areas = Vec::with_capacity(self.areas.len());
        for area in &self.areas {
            let category = area.category.as_deref().map(|category| categories.id(category)).transpose()?;
            let (id, name) = (area_ids.id(&area.name)?, area.name.clone());
            areas.push(SeatingArea { id, name, capacity: area.capacity, category });
        }
        for (key, name) in &self.category_names {
            if let Some(id) = categories.by_name.get(key).cloned() {
                categories.call(&id, name)?;
            }
        }
        let layout = Layout::new(rows, None).map_err(|error| self.named(&error))?;
        // A category that only areas have is none of the layout.
        categories.names.retain(|(id, _)| layout.category_ordinal(id).is_some());
        self.notes.extend([&sections, &categories].into_iter().filter_map(Ids::note));
        let names = LayoutNames { sections: sections.names, categories: categories.names, ..LayoutNames::default() };
        let layout = layout.named(names).map_err(|error| error.to_string())?;
        Ok(Seating {
            layout: Arc::new(layout),
            areas,
            categories: categories.by_name,
            notes: self.notes,
            warnings: self.warnings,
        })
    }

    /// An error of a layout with the label of the row.
    fn named(&self, error: &boxoffice_core::layout::LayoutError) -> String {
        use boxoffice_core::layout::LayoutError::{
            BadLabel, EmptyRun, RowLabelTwice, SeatLabelTwice, TooFar, TooLong, Uneven,
        };
        match error {
            BadLabel { row }
            | EmptyRun { row }
            | RowLabelTwice { row, .. }
            | SeatLabelTwice { row, .. }
            | TooFar { row }
            | TooLong { row }
            | Uneven { row } => {
                let words = error.to_string();
                let rest = words.strip_prefix(&format!("row {row} ")).unwrap_or(&words);
                match self.rows.get(*row) {
                    Some(PlanRow { label, section: Some(section), .. }) => format!("row {label} of {section} {rest}"),
                    Some(PlanRow { label, section: None, .. }) => format!("row {label} {rest}"),
                    None => words,
                }
            }
            _ => error.to_string(),
        }
    }

    /// Rows of one section with the same label. Those whose seats have other labels go on with the row, behind a gap, and the
    /// others get a section of their own.
    fn part_rows(&mut self) {
        let mut rows: Vec<PlanRow> = Vec::with_capacity(self.rows.len());
        let mut known: BTreeMap<(Option<String>, String), Vec<usize>> = BTreeMap::new();
        let (mut joined, mut parted) = (0, BTreeSet::new());
        for mut row in std::mem::take(&mut self.rows) {
            let places = known.entry((row.section.clone(), row.label.clone())).or_default();
            let labels: BTreeSet<&str> = row.seats.iter().flatten().map(|seat| seat.label.as_str()).collect();
            let is_free = |place: &&usize| {
                let other: &PlanRow = &rows[**place];
                other.seats.iter().flatten().all(|seat| !labels.contains(seat.label.as_str()))
            };
            if let Some(place) = places.iter().find(is_free) {
                let known = &mut rows[*place];
                // The left one first.
                if middle(&row).zip(middle(known)).is_some_and(|(new, known)| new.x < known.x) {
                    std::mem::swap(&mut known.seats, &mut row.seats);
                }
                known.seats.push(None);
                known.seats.append(&mut row.seats);
                joined += 1;
                continue;
            }
            if !places.is_empty() {
                let section = row.section.as_deref().unwrap_or("part");
                let name = format!("{section} ({})", places.len() + 1);
                parted.insert(name.clone());
                row.section = Some(name);
            }
            places.push(rows.len());
            rows.push(row);
        }
        self.rows = rows;
        if joined > 0 {
            let times = if joined == 1 { "once".into() } else { format!("{joined} times") };
            self.notes.push(format!(
                "{times} a row has the label of another row of its section and goes on with its numbers; it is joined to \
                 it, behind a gap"
            ));
        }
        if !parted.is_empty() {
            self.notes.push(format!(
                "rows of one section have the same label and the same seats; they are in sections of their own: {}",
                parted.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
    }

    /// Turns a drawing whose stage is below its seats, and puts seats from left to right and rows from the stage backwards.
    fn face_stage(&mut self) {
        let lowest =
            self.rows.iter().flat_map(|row| &row.seats).flatten().filter_map(|seat| seat.place).map(|place| place.y);
        let lowest = lowest.fold(f64::NEG_INFINITY, f64::max);
        if let Some(stage) = &mut self.stage
            && stage.y > lowest
        {
            let turned = |place: Place| Place { x: -place.x, y: -place.y };
            *stage = turned(*stage);
            let places =
                self.rows.iter_mut().flat_map(|row| &mut row.seats).flatten().filter_map(|seat| seat.place.as_mut());
            places.for_each(|place| *place = turned(*place));
            self.notes.push("the stage is below the seats, so the drawing is turned".into());
        }
        for row in &mut self.rows {
            let ends = |row: &PlanRow| {
                let mut places = row.seats.iter().flatten().filter_map(|seat| seat.place);
                let first = places.next()?;
                Some((first, places.next_back()?))
            };
            if ends(row).is_some_and(|(first, last)| first.x - last.x > (first.y - last.y).abs()) {
                row.seats.reverse();
            }
        }
        let mut sections: BTreeMap<Option<String>, usize> = BTreeMap::new();
        let place = |row: PlanRow| {
            let next = sections.len();
            let section = *sections.entry(row.section.clone()).or_insert(next);
            (section, middle(&row).map_or(0.0, |middle| middle.y), row)
        };
        let mut placed: Vec<(usize, f64, PlanRow)> = std::mem::take(&mut self.rows).into_iter().map(place).collect();
        placed.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        self.rows = placed.into_iter().map(|(_, _, row)| row).collect();
    }

    /// The origin and the factor that make places hundredths of a seat.
    fn scale(&mut self) -> Scale {
        if self.unit == Unit::Hundredths {
            return Scale { origin: Place { x: 0.0, y: 0.0 }, factor: 1.0 };
        }
        let places: Vec<Place> =
            self.rows.iter().flat_map(|row| &row.seats).flatten().filter_map(|seat| seat.place).collect();
        if places.is_empty() {
            return Scale { origin: Place { x: 0.0, y: 0.0 }, factor: 1.0 };
        }
        let pitch = self.pitch().unwrap_or(1.0);
        let (left, right) = bounds(places.iter().map(|place| place.x));
        let (top, _) = bounds(places.iter().map(|place| place.y));
        let origin = self.stage.unwrap_or(Place { x: (left + right) / 2.0, y: top - 2.0 * pitch });
        self.notes.push(format!("one seat is {} of the file's units wide, the median of its rows", shown(pitch)));
        if self.stage.is_none() {
            self.notes.push("the stage is at the middle of the upper edge; --stage X,Y says another place".into());
        }
        Scale { origin, factor: 100.0 / pitch }
    }

    /// The median distance of consecutive seats without a gap between them.
    fn pitch(&self) -> Option<f64> {
        let mut distances = Vec::new();
        let has_rows = self.rows.iter().any(|row| !row.is_table && row.seats.len() > 1);
        for row in self.rows.iter().filter(|row| !(has_rows && row.is_table)) {
            for pair in row.seats.windows(2) {
                if let [Some(PlanSeat { place: Some(one), .. }), Some(PlanSeat { place: Some(other), .. })] = pair {
                    distances.push((one.x - other.x).hypot(one.y - other.y));
                }
            }
        }
        distances.retain(|distance| distance.is_finite() && *distance > 0.0);
        distances.sort_by(f64::total_cmp);
        distances.get(distances.len() / 2).copied()
    }
}

/// The middle of the seats of a row, if they have places.
pub(crate) fn middle(row: &PlanRow) -> Option<Place> {
    let places: Vec<Place> = row.seats.iter().flatten().filter_map(|seat| seat.place).collect();
    let all = places.len() as f64;
    let sum = places.iter().fold((0.0, 0.0), |(x, y), place| (x + place.x, y + place.y));
    (all > 0.0).then(|| Place { x: sum.0 / all, y: sum.1 / all })
}

/// How places become points.
#[derive(Clone, Copy)]
struct Scale {
    origin: Place,
    factor: f64,
}

impl Scale {
    fn point(self, place: Place) -> Result<Point, String> {
        let scaled = |value: f64, origin: f64| {
            let value = ((value - origin) * self.factor).round();
            let is_in_reach = value.abs() <= f64::from(POINT_MAX);
            is_in_reach
                .then_some(value as i32)
                .ok_or_else(|| format!("a seat is at {}, {}, too far out", place.x, place.y))
        };
        Ok(Point { x: scaled(place.x, self.origin.x)?, y: scaled(place.y, self.origin.y)? })
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

fn shown(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn core_row(row: &PlanRow, scale: Scale, sections: &mut Ids, categories: &mut Ids) -> Result<Row, String> {
    let mut seats = Vec::with_capacity(row.seats.len());
    for seat in &row.seats {
        let Some(seat) = seat else {
            seats.push(None);
            continue;
        };
        seats.push(Some(SingleSeat {
            label: SmolStr::new(&seat.label),
            category: categories.id(seat.category.as_deref().unwrap_or(CATEGORY))?,
            accessible: seat.accessible,
            point: seat.place.map(|place| scale.point(place)).transpose()?,
        }));
    }
    let runs = runs::of_seats(seats).map_err(|why| format!("row {}: {why}", row.label))?;
    let section = row.section.as_deref().map(|section| sections.id(section)).transpose()?;
    Ok(Row { label: SmolStr::new(&row.label), section, runs })
}
