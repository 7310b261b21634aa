//! Boxoffice bench.

fn main() {}
