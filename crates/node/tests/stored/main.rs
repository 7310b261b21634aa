//! The forms of everything that is stored or travels between nodes. Released forms never change, so each later program must read
//! them, understand the same, and write the same bytes.
//!
//! `tests/releases` at the top has a folder for each release, which nothing writes to any more, and `next` with the forms of this
//! program. `UPDATE_EXPECT=1` writes `next`.

#![allow(clippy::disallowed_methods, reason = "the files stand in the repository")]

#[path = "../../../../tests/common/released.rs"]
mod released;

mod bytes;
mod hostile;
mod schema;
mod text;
mod values;

/// All types that are stored or travel between nodes.
fn types() -> boxoffice_core::stored::Schema {
    let mut schema = boxoffice_node::decoders::schema();
    boxoffice_links::decoders::schema(&mut schema);
    schema
}
