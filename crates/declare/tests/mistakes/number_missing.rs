//! A field of a stored type that was given no number.

use boxoffice_declare::Stored;

#[derive(Stored)]
struct Line {
    #[n(0)]
    number: u32,
    note: Option<String>,
}

fn main() {}
