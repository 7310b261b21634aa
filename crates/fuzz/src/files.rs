//! Files that people import: spreadsheets of seats and of products, and the plans of other systems.

use boxoffice_core::layout::LAYOUT_SEATS_MAX;
use boxoffice_seating::{decode, is_product_list, read_plan, read_products, read_seats};
use serde_json::Value;

use crate::property::{Bound, bounded};

/// Memory for a spreadsheet: every field is a text of its own, read once for each separator that may be meant.
const TABLE: Bound = Bound { base: 256 * 1024, per_byte: 2_048 };

/// Memory for a plan. A few bytes of a row make as many seats as a layout has, and one row more.
const PLAN: Bound = Bound { base: LAYOUT_SEATS_MAX * 1_024, per_byte: 2_048 };

pub(crate) fn seat_file(input: &[u8]) {
    let Ok(file) = bounded(input, TABLE, || read_seats(input)) else { return };
    let text = decode(input).map(|text| text.text).unwrap_or_default();
    let layout = &file.seating.layout;
    // A seat is a line, so nothing is on sale that the file does not have.
    let lines = text.split(['\n', '\r']).filter(|line| !line.trim().is_empty()).count();
    assert!(layout.seats() as usize <= lines, "{lines} lines have {} seats", layout.seats());
    assert!(!file.seating.notes.is_empty(), "it says what was understood");
    assert!(!text.contains('\u{fffd}'), "a letter that was lost is read");
}

pub(crate) fn product_file(input: &[u8]) {
    let digits = |code: &str| (code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase())).then_some(2);
    let is_list = bounded(input, TABLE, || is_product_list(input));
    let Ok(file) = bounded(input, TABLE, || read_products(input, "EUR", digits)) else { return };
    assert!(is_list, "what is read as a list is one");
    assert!(file.products.iter().all(|product| product.amount >= 0 && !product.name.is_empty()));
    assert!(file.products.windows(2).all(|pair| pair[0].line <= pair[1].line && pair[0].id != pair[1].id));
}

pub(crate) fn plan_file(input: &[u8]) {
    let Ok(root) = serde_json::from_slice::<Value>(input) else { return };
    let Ok(Some(seating)) = bounded(input, PLAN, || read_plan(&root, None)) else { return };
    assert!(seating.layout.seats() as usize <= LAYOUT_SEATS_MAX);
    assert!(!seating.notes.is_empty(), "it says what was understood");
}
