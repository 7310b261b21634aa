//! Files of others, as they are met, and what becomes of them.

mod python;
mod spreadsheets;
mod systems;

use boxoffice_core::layout::Layout;
use boxoffice_seating::Seating;

/// A line a row: labels with their categories, `_` for a gap, `♿` for wheelchair places, and the points of the first and the last seat.
fn shown(layout: &Layout) -> String {
    let mut text = String::new();
    let mut index = 0;
    for row in layout.rows() {
        if let Some(section) = &row.section {
            text += &format!("{section}/");
        }
        text += &format!("{}:", row.label);
        let first = index;
        let mut category = None;
        for run in &row.runs {
            text += &" _".repeat(run.gap.into());
            for _ in 0..run.count {
                text += &format!(" {}", layout.seat_label(index));
                text += if layout.accessible(index) { "♿" } else { "" };
                if category != Some(&run.category) {
                    text += &format!("({})", run.category);
                    category = Some(&run.category);
                }
                index += 1;
            }
        }
        if row.runs.iter().any(|run| !run.points.is_empty()) {
            let (one, other) = (layout.point(first), layout.point(index - 1));
            text += &format!("  at {},{} to {},{}", one.x, one.y, other.x, other.y);
        }
        text.push('\n');
    }
    text
}

/// A hall with what was said about it.
fn told(seating: &Seating) -> String {
    let mut text = shown(&seating.layout);
    for area in &seating.areas {
        let category = area.category.as_ref().map_or("-", |category| category.as_str());
        text += &format!("area {} {} {} {category}\n", area.id, area.name, area.capacity);
    }
    for (kind, names) in
        [("section", &seating.layout.names().sections), ("category", &seating.layout.names().categories)]
    {
        for (id, names) in names {
            let names: Vec<String> = names.iter().map(|(locale, name)| format!("{name} ({locale})")).collect();
            text += &format!("{kind} {id} is {}\n", names.join(", "));
        }
    }
    text += &seating.notes.iter().map(|note| format!("note: {note}\n")).collect::<String>();
    text += &seating.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect::<String>();
    text
}
