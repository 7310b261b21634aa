//! Seating files of others: spreadsheets in any language and plans of other systems, read into layouts.
//!
//! What a file says is understood as a whole or refused in words; nothing is taken by half. Each reader tells what it understood,
//! and what it left out.

// In reading order: from bytes to lines, from lines to seats, plans of other systems, the layout.
mod columns;
mod number;
mod order;
mod seats;
mod table;
mod text;

mod products;

mod geojson;
mod json;
mod pretix;
mod seatlayer;
mod seatsio;

mod difference;
mod plan;

use serde_json::Value;

pub use columns::LANGUAGES;
pub use difference::{PlanDifference, SeatName};
pub use number::{AmountError, decimal_mark, minor_units};
pub use plan::{Place, Seating, SeatingArea};
pub use products::{ProductFile, ProductLine, is_list as is_product_list, read as read_products};
pub use seats::{SeatFile, amount_words, read as read_seats};
pub use table::{Named, Record, Sheet, read as read_table};
pub use text::{Text, decode};

/// A plan of another system.
///
/// `Ok(None)` if it is none of those that are known. `stage` is the middle of the stage's edge in the units of the file, if somebody
/// says it.
///
/// # Errors
/// It is one of them, and something in it is not understood. The message says where.
pub fn read_plan(root: &Value, stage: Option<Place>) -> Result<Option<Seating>, String> {
    let Some(object) = root.as_object() else { return Ok(None) };
    let plan = if geojson::is_one(object) {
        geojson::read(object, stage)?
    } else if pretix::is_one(object) {
        pretix::read(object)?
    } else if seatlayer::is_one(object) {
        seatlayer::read(object)?
    } else if seatsio::is_one(object) {
        seatsio::read(object)?
    } else {
        return Ok(None);
    };
    // What somebody says counts more than the drawing. Points of GeoJSON have brought it into their own unit.
    let stage = if geojson::is_one(object) { plan.stage } else { stage.or(plan.stage) };
    plan::Plan { stage, ..plan }.seating().map(Some)
}
