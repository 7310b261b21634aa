//! The number of cases of random tests.

extern crate std;

/// This count times `BOXOFFICE_RANDOM`, the factor of all random tests. It is 1 if not set.
pub(crate) fn cases(count: u32) -> u32 {
    count * std::env::var("BOXOFFICE_RANDOM").map_or(1, |text| text.parse().expect("a number"))
}
