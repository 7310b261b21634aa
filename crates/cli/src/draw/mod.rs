//! A seat map for the terminal, with a legend.

mod money;
mod names;
mod screen;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use boxoffice_core::{
    answer::SeatCounts,
    id::Id,
    layout::{Layout, SeatNote},
    money::Money,
    seat::SeatState,
};

pub use money::{amount, digits};
pub use names::{Names, joined};
pub use screen::{Key, Page, Screen};

/// A layout with the state of each seat.
#[derive(Clone, Debug)]
pub struct Plan {
    pub layout: Arc<Layout>,
    /// A price for each category.
    pub prices: Vec<(Id, Money)>,
    /// The state of each seat, by index.
    pub states: Vec<SeatState>,
    /// The viewer's own held seats, by index.
    pub own: BTreeSet<u32>,
}

/// Options for drawing.
#[derive(Clone, Copy, Debug)]
pub struct DrawOptions {
    pub colours: bool,
    /// The number of columns. A wider map is cut.
    pub columns: usize,
}

/// The width of one seat, in columns, from the widest to the narrowest way of drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// Free seats by their labels.
    Labels(usize),
    /// A sign a seat, and a column between seats.
    Signs,
    /// A sign a seat.
    Dense,
}

impl Cell {
    fn width(self) -> usize {
        match self {
            Cell::Labels(label) => label + 1,
            Cell::Signs => 2,
            Cell::Dense => 1,
        }
    }
}

/// A map with more columns has its points in another unit than hundredths of a seat's width.
const SPREAD_MAX: usize = 4;

/// Colours of categories, in the order of their appearance, repeated.
const CATEGORY_COLOURS: [&str; 6] = ["32", "36", "35", "34", "92", "96"];
const HELD_COLOUR: &str = "33";
const SOLD_COLOUR: &str = "31";
const BLOCKED_COLOUR: &str = "90";
const OWN_COLOUR: &str = "1;30;43";

/// The lines of the map and the legend.
pub fn draw(plan: &Plan, options: &DrawOptions) -> Vec<String> {
    let mut lines = house(plan, options);
    lines.push(String::new());
    lines.extend(legend(plan, options));
    lines
}

/// Rows from the stage backwards, without the legend.
pub fn house(plan: &Plan, options: &DrawOptions) -> Vec<String> {
    let layout = &plan.layout;
    assert_eq!(plan.states.len(), layout.seats() as usize, "a state a seat");
    let labels = row_labels_width(layout);
    let places = SeatPositions::of(layout);
    let room = options.columns.saturating_sub(labels + 2);
    let cell = cell(layout, &places, options);
    let wide = places.wide * cell.width() / 2;
    let mut lines = Vec::new();
    if wide >= "stage".len() {
        let centre = labels + 2 + wide.min(room) / 2;
        lines.push(format!("{:>width$}", "stage", width = centre + 3));
    }
    let mut section = None;
    for (number, row) in layout.rows().iter().enumerate() {
        if row.section.is_some() && row.section != section {
            lines.push(row.section.as_ref().map_or_else(String::new, |section| format!("— {section} —")));
        }
        section.clone_from(&row.section);
        let mut line = TextLine::new(options);
        line.put(0, &format!("{:>labels$}", row.label), None);
        for index in layout.row_seats(number as u16) {
            let at = labels + 2 + places.columns[index as usize] * cell.width() / 2;
            let (sign, colour) = seat(plan, index, cell);
            line.put(at, &sign, Some(colour));
        }
        let note = note(layout, number as u16);
        if !note.is_empty() {
            line.put(labels + 4 + wide, &note, Some("2"));
        }
        lines.push(line.text());
    }
    lines
}

fn row_labels_width(layout: &Layout) -> usize {
    layout.rows().iter().map(|row| row.label.chars().count()).max().unwrap_or(0)
}

/// The widest cell that fits, else the narrowest.
fn cell(layout: &Layout, places: &SeatPositions, options: &DrawOptions) -> Cell {
    // The row's label, two columns, the seats.
    let room = options.columns.saturating_sub(row_labels_width(layout) + 2);
    let label = (0..layout.seats()).map(|index| layout.seat_label(index).chars().count()).max().unwrap_or(1).max(2);
    [Cell::Labels(label), Cell::Signs, Cell::Dense]
        .into_iter()
        .find(|cell| places.wide * cell.width() / 2 <= room)
        .unwrap_or(Cell::Dense)
}

/// The position of each seat in its line, in half seats.
struct SeatPositions {
    columns: Vec<usize>,
    wide: usize,
}

impl SeatPositions {
    /// From the layout's points. If they are in another unit or overlap, from the order of the seats and gaps.
    fn of(layout: &Layout) -> SeatPositions {
        let left = (0..layout.seats()).map(|index| layout.point(index).x).min().unwrap_or(0);
        let columns: Vec<usize> = (0..layout.seats())
            .map(|index| ((i64::from(layout.point(index).x) - i64::from(left)) as usize + 25) / 50)
            .collect();
        let wide = columns.iter().max().map_or(0, |last| last + 2);
        let longest = (0..layout.rows().len()).map(|row| layout.row_seats(row as u16).len()).max().unwrap_or(0);
        let apart = (0..layout.rows().len()).all(|row| {
            let seats: Vec<u32> = layout.row_seats(row as u16).collect();
            seats.windows(2).all(|pair| columns[pair[0] as usize] + 2 <= columns[pair[1] as usize])
        });
        if apart && wide <= longest * 2 * SPREAD_MAX {
            SeatPositions { columns, wide }
        } else {
            SeatPositions::in_order(layout)
        }
    }

    fn in_order(layout: &Layout) -> SeatPositions {
        let mut columns = Vec::new();
        let mut wide = 0;
        for row in layout.rows() {
            let mut column = 0;
            for run in &row.runs {
                column += 2 * usize::from(run.gap);
                columns.extend((0..usize::from(run.count)).map(|seat| column + 2 * seat));
                column += 2 * usize::from(run.count);
            }
            wide = wide.max(column);
        }
        SeatPositions { columns, wide }
    }
}

/// The sign of a seat, and its colour.
fn seat(plan: &Plan, index: u32, cell: Cell) -> (String, &'static str) {
    let category = plan.layout.category(index);
    let own = plan.own.contains(&index);
    let (sign, colour) = match plan.states[index as usize] {
        SeatState::Free => (category_sign(category), category_colour(category)),
        SeatState::Held if own => ('●', OWN_COLOUR),
        SeatState::Held => ('▒', HELD_COLOUR),
        SeatState::Sold if own => ('●', OWN_COLOUR),
        SeatState::Sold => ('█', SOLD_COLOUR),
        SeatState::Blocked => ('×', BLOCKED_COLOUR),
    };
    let free = plan.states[index as usize] == SeatState::Free;
    let text = match cell {
        Cell::Labels(width) if free => format!("{:>width$}", plan.layout.seat_label(index)),
        Cell::Labels(width) => format!("{:>width$}", String::from_iter([sign, sign])),
        Cell::Signs | Cell::Dense => sign.to_string(),
    };
    (text, colour)
}

/// `a` for the first category, `b` for the second, and so on. `*` from the 27th on.
fn category_sign(category: u8) -> char {
    if category < 26 { char::from(b'a' + category) } else { '*' }
}

fn category_colour(category: u8) -> &'static str {
    CATEGORY_COLOURS[usize::from(category) % CATEGORY_COLOURS.len()]
}

/// The note beside a row: categories, if there are several, accessible seats, and what is said of seats.
fn note(layout: &Layout, row: u16) -> String {
    let seats: Vec<u32> = layout.row_seats(row).collect();
    let mut notes = Vec::new();
    if layout.categories().len() > 1 {
        let runs: Vec<&[u32]> = seats.chunk_by(|one, next| layout.category(*one) == layout.category(*next)).collect();
        for (ordinal, category) in layout.categories().iter().enumerate() {
            let own = runs.iter().filter(|run| usize::from(layout.category(run[0])) == ordinal);
            let spans: Vec<String> = own.map(|run| span(layout, run)).collect();
            match spans.as_slice() {
                [] => {}
                [_] if runs.len() == 1 => notes.push(category.to_string()),
                _ => notes.push(format!("{category} {}", spans.join(" "))),
            }
        }
    }
    let accessible: Vec<u32> = seats.iter().copied().filter(|index| layout.accessible(*index)).collect();
    if !accessible.is_empty() {
        let runs = accessible.chunk_by(|one, next| one + 1 == *next).map(|run| span(layout, run));
        notes.push(format!("accessible {}", runs.collect::<Vec<_>>().join(" ")));
    }
    for SeatNote { text, .. } in &layout.names().notes {
        let is_said = |index: &u32| layout.note(*index).is_some_and(|note| note.text == *text);
        let noted: Vec<u32> = seats.iter().copied().filter(is_said).collect();
        if !noted.is_empty() {
            let runs = noted.chunk_by(|one, next| one + 1 == *next).map(|run| span(layout, run));
            notes.push(format!("{text} {}", runs.collect::<Vec<_>>().join(" ")));
        }
    }
    notes.join(", ")
}

fn span(layout: &Layout, run: &[u32]) -> String {
    let (first, last) = (layout.seat_label(run[0]), layout.seat_label(run[run.len() - 1]));
    if run.len() == 1 { first.to_string() } else { format!("{first}–{last}") }
}

/// The legend: states, then categories with prices and free seats.
pub fn legend(plan: &Plan, options: &DrawOptions) -> Vec<String> {
    let painted = |text: &str, colour: &str| paint(text, colour, options.colours);
    let mut states = vec![
        format!("{} held", painted("▒", HELD_COLOUR)),
        format!("{} sold", painted("█", SOLD_COLOUR)),
        format!("{} blocked", painted("×", BLOCKED_COLOUR)),
    ];
    if !plan.own.is_empty() {
        states.push(format!("{} yours", painted("●", OWN_COLOUR)));
    }
    // Seats that are drawn by their labels show their category by colour and by the note beside the row.
    let by_label = matches!(cell(&plan.layout, &SeatPositions::of(&plan.layout), options), Cell::Labels(_));
    let mut lines = vec![states.join("   ")];
    for (ordinal, category) in plan.layout.categories().iter().enumerate() {
        let ordinal = ordinal as u8;
        let of_category = |state: SeatState| {
            (0..plan.layout.seats())
                .filter(|index| plan.layout.category(*index) == ordinal && plan.states[*index as usize] == state)
                .count()
        };
        let price = plan
            .prices
            .iter()
            .find(|(of, _)| of == category)
            .map_or_else(String::new, |(_, price)| format!(" {}", amount(*price)));
        let named = match category_sign(ordinal) {
            _ if by_label => painted(category.as_str(), category_colour(ordinal)),
            sign => format!("{} {category}", painted(&sign.to_string(), category_colour(ordinal))),
        };
        lines.push(format!("{named}{price}: {} free", of_category(SeatState::Free)));
    }
    lines
}

/// Counts in a line.
pub fn counts(counts: &SeatCounts) -> String {
    let SeatCounts { free, held, sold, blocked } = counts;
    format!("{free} free, {held} held, {sold} sold, {blocked} blocked")
}

/// Counts of these states.
pub fn count(states: &[SeatState]) -> SeatCounts {
    let mut counts = SeatCounts::default();
    for state in states {
        match state {
            SeatState::Free => counts.free += 1,
            SeatState::Held => counts.held += 1,
            SeatState::Sold => counts.sold += 1,
            SeatState::Blocked => counts.blocked += 1,
        }
    }
    counts
}

/// Text in a colour (an SGR code), if colours are wanted.
pub fn paint(text: &str, colour: &str, wanted: bool) -> String {
    if wanted { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
}

/// A line that is filled from left to right and cut at the terminal's width.
struct TextLine {
    text: String,
    column: usize,
    options: DrawOptions,
    cut: bool,
}

impl TextLine {
    fn new(options: &DrawOptions) -> TextLine {
        TextLine { text: String::new(), column: 0, options: *options, cut: false }
    }

    /// Writes at this column, or after the text so far if that is longer.
    fn put(&mut self, at: usize, text: &str, colour: Option<&str>) {
        let gap = at.saturating_sub(self.column);
        // One column is kept for the sign of a cut line.
        let room = self.options.columns.saturating_sub(self.column + gap + 1);
        self.cut |= room == 0;
        if self.cut {
            return;
        }
        let wide = text.chars().count();
        self.cut = wide > room;
        let shown: String = text.chars().take(room).collect();
        self.text.extend(std::iter::repeat_n(' ', gap));
        // Spaces before a label need no colour.
        let plain = shown.len() - shown.trim_start().len();
        self.text.push_str(&shown[..plain]);
        self.text.push_str(&paint(
            &shown[plain..],
            colour.unwrap_or_default(),
            self.options.colours && colour.is_some(),
        ));
        self.column += gap + wide.min(room);
    }

    fn text(mut self) -> String {
        if self.cut && self.options.columns > 0 {
            self.text.push('…');
        }
        self.text.trim_end().to_owned()
    }
}
