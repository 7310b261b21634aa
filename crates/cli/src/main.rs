//! Boxoffice cli.

fn main() {}
