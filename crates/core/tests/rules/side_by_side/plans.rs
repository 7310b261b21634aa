//! Random plans whose seats have points, and which of their seats are neighbours by what is drawn.

use std::sync::Arc;

use boxoffice_core::layout::{Labels, Layout, Point, Row, Run};

use crate::{random_runs::Rng, script::id};

/// A plan, and what a person sees who looks at it.
pub(crate) struct Plan {
    pub(crate) layout: Arc<Layout>,
    /// By index, whether the next seat is a neighbour.
    pub(crate) beside: Vec<bool>,
    /// By index, the distance to the stage.
    pub(crate) distances: Vec<u64>,
    pub(crate) categories: Vec<char>,
    pub(crate) accessible: Vec<bool>,
}

/// One seat as it is drawn.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) point: Option<(i32, i32)>,
    /// Gap lines before it.
    pub(crate) gap: u16,
    /// Whether an aisle that only the points show is before it.
    pub(crate) aisle: bool,
    pub(crate) category: char,
    pub(crate) accessible: bool,
}

/// A row as it is drawn.
pub(crate) struct Drawn {
    pub(crate) section: Option<&'static str>,
    pub(crate) places: Vec<Place>,
}

/// How the seats of a row lie.
#[derive(Clone, Copy)]
enum Line {
    Straight,
    /// Around the stage, at this distance.
    Arc(f64),
    /// Turned by this angle.
    Slanted(f64),
}

impl Line {
    fn random(rng: &mut Rng, row: usize) -> Line {
        match rng.below(3) {
            0 => Line::Straight,
            1 => Line::Arc(900.0 + 110.0 * row as f64),
            _ => Line::Slanted((rng.below(120) as f64 - 60.0) / 100.0),
        }
    }

    /// The point at this way along the row.
    fn at(self, along: f64, row: usize) -> (f64, f64) {
        let back = 110.0 * row as f64;
        match self {
            Line::Straight => (along, back),
            Line::Arc(radius) => (radius * (along / radius).sin(), radius * (along / radius).cos()),
            Line::Slanted(angle) => (along * angle.cos(), along * angle.sin() + back),
        }
    }
}

/// A plan of one to four short rows, with distances on both sides of what parts neighbours. Its neighbours are worked out from the
/// points.
pub(crate) fn small(rng: &mut Rng) -> Plan {
    let unit = [1.0, 1.0, 1.0, 0.1, 37.0][rng.below(5) as usize];
    let mut drawn = Vec::new();
    for row in 0..1 + rng.below(4) as usize {
        let line = Line::random(rng, row);
        let pitch = 80.0 + rng.below(60) as f64;
        let pointed = rng.below(6) > 0;
        let mut along = -400.0;
        let mut places = Vec::new();
        for seat in 0..1 + rng.below(10) {
            let gap = if seat > 0 && rng.below(8) == 0 { 1 + rng.below(2) as u16 } else { 0 };
            let hundredths = match rng.below(6) {
                0 => 160 + rng.below(500),
                1 => 130 + rng.below(41),
                _ => 90 + rng.below(21),
            };
            along += pitch * (f64::from(gap) + hundredths as f64 / 100.0);
            let (x, y) = line.at(along, row);
            let point = (pointed && rng.below(30) > 0).then_some(((x * unit) as i32, (y * unit) as i32));
            let (category, accessible) = (['a', 'a', 'b'][rng.below(3) as usize], rng.below(8) == 0);
            places.push(Place { point, gap, aisle: false, category, accessible });
        }
        let section = [None, Some("left"), Some("right")][rng.below(3) as usize];
        drawn.push(Drawn { section, places });
    }
    let focal = (rng.below(2) == 0).then(|| (rng.below(400) as i32 - 200, rng.below(300) as i32));
    let beside = neighbours_by_points(&drawn);
    plan(&drawn, focal, beside)
}

/// A house with these numbers of seats and aisles in each row. Only the points show the aisles. Its pitch is `unit` seat widths.
pub(crate) fn house(rng: &mut Rng, rows: &[(usize, usize)], unit: f64) -> Plan {
    let mut drawn = Vec::new();
    for (row, &(seats, aisles)) in rows.iter().enumerate() {
        let line = Line::random(rng, row);
        let pitch = 96.0 + rng.below(9) as f64;
        let mut before: Vec<usize> = Vec::new();
        while before.len() < aisles {
            let place = 1 + rng.below(seats as u64 - 1) as usize;
            if !before.contains(&place) {
                before.push(place);
            }
        }
        // The border of two categories is no aisle, unless it happens to be at one.
        let border = rng.below(2 * seats as u64) as usize;
        let mut along = -pitch * (seats + 2 * aisles) as f64 / 2.0;
        let mut places = Vec::new();
        for seat in 0..seats {
            let aisle = before.contains(&seat);
            let widths = if aisle { 190 + rng.below(911) } else { 95 + rng.below(11) };
            along += pitch * widths as f64 / 100.0;
            let (x, y) = line.at(along, row);
            places.push(Place {
                point: Some(((x * unit).round() as i32, (y * unit).round() as i32)),
                gap: 0,
                aisle,
                category: if seat < border { 'a' } else { 'b' },
                accessible: false,
            });
        }
        drawn.push(Drawn { section: [None, Some("stalls")][row % 2], places });
    }
    let beside = drawn.iter().flat_map(|row| {
        let next = row.places.iter().skip(1).map(|place| !place.aisle);
        next.chain([false])
    });
    let beside = beside.collect();
    plan(&drawn, None, beside)
}

/// Rows with seats and aisles for a random house. Most of the distances of a row are those of neighbours.
pub(crate) fn random_rows(rng: &mut Rng) -> Vec<(usize, usize)> {
    (0..4 + rng.below(8))
        .map(|_| {
            let seats = 8 + rng.below(20) as usize;
            (seats, rng.below(seats as u64 / 4 + 1) as usize)
        })
        .collect()
}

/// Which seats are neighbours of the next one, worked out from the points anew: no gap line between them, and at most one and a
/// half of the median distance of such seats in the row, or in the section if the row has fewer than three distances.
pub(crate) fn neighbours_by_points(rows: &[Drawn]) -> Vec<bool> {
    let squares = |row: &Drawn| -> Vec<Option<i128>> {
        let pair = |pair: &[Place]| {
            let (from, to) = (pair[0].point?, pair[1].point?);
            let (wide, deep) = (i128::from(to.0) - i128::from(from.0), i128::from(to.1) - i128::from(from.1));
            (pair[1].gap == 0).then_some(wide * wide + deep * deep)
        };
        row.places.windows(2).map(pair).collect()
    };
    let mut beside = Vec::new();
    for row in rows {
        let own = squares(row);
        let known = |squares: Vec<Option<i128>>| squares.into_iter().flatten().filter(|square| *square > 0);
        let mut usual: Vec<i128> = known(own.clone()).collect();
        if usual.len() < 3 {
            let section = rows.iter().filter(|other| other.section == row.section);
            usual = section.flat_map(|other| known(squares(other))).collect();
        }
        usual.sort_unstable();
        let median = usual.get(usual.len().saturating_sub(1) / 2).copied();
        for (place, square) in own.into_iter().enumerate() {
            let near = match (square, median) {
                (Some(square), Some(median)) => 4 * square <= 9 * median,
                _ => true,
            };
            beside.push(row.places[place + 1].gap == 0 && near);
        }
        beside.push(false);
    }
    beside
}

fn plan(drawn: &[Drawn], focal: Option<(i32, i32)>, beside: Vec<bool>) -> Plan {
    let rows = drawn.iter().enumerate().map(|(number, row)| row_of(number, row)).collect();
    let layout = Layout::new(rows, focal.map(|(x, y)| Point { x, y })).expect("a good plan");
    let places: Vec<Place> = drawn.iter().flat_map(|row| row.places.clone()).collect();
    let points: Vec<(i32, i32)> = places.iter().filter_map(|place| place.point).collect();
    let middle = |values: Vec<i32>| match (values.iter().min(), values.iter().max()) {
        (Some(min), Some(max)) => (min + max) / 2,
        _ => 0,
    };
    let front = points.iter().map(|(_, y)| *y).min().unwrap_or(0);
    let stage = focal.unwrap_or_else(|| (middle(points.iter().map(|(x, _)| *x).collect()), front));
    let distance = |(index, place): (usize, &Place)| {
        let drawn = layout.point(index as u32);
        let (x, y) = place.point.unwrap_or((drawn.x, drawn.y));
        let (wide, deep) = (f64::from(x) - f64::from(stage.0), f64::from(y) - f64::from(stage.1));
        (wide * wide + deep * deep).sqrt() as u64
    };
    Plan {
        beside,
        distances: places.iter().enumerate().map(distance).collect(),
        categories: places.iter().map(|place| place.category).collect(),
        accessible: places.iter().map(|place| place.accessible).collect(),
        layout: Arc::new(layout),
    }
}

fn row_of(number: usize, row: &Drawn) -> Row {
    let mut runs: Vec<Run> = Vec::new();
    let mut before: Option<Place> = None;
    for (seat, place) in row.places.iter().enumerate() {
        let kind = |place: &Place| (place.category, place.accessible, place.point.is_some());
        let goes_on = place.gap == 0 && before.is_some_and(|before| kind(&before) == kind(place));
        if !goes_on {
            runs.push(Run {
                gap: place.gap,
                count: 0,
                labels: Labels::Numbers { first: seat as i32 + 1, step: 1 },
                category: id(&place.category.to_string()),
                accessible: place.accessible,
                points: Vec::new(),
            });
        }
        let run = runs.last_mut().expect("a run was begun");
        run.count += 1;
        run.points.extend(place.point.map(|(x, y)| Point { x, y }));
        before = Some(*place);
    }
    Row { label: (number + 1).to_string().into(), section: row.section.map(id), runs }
}
