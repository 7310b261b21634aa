//! The folder of each release: forms and data that nothing writes to any more. Tests of several packages read it.
#![allow(dead_code, reason = "each test uses a part of this")]
#![allow(clippy::disallowed_methods, reason = "the files stand in the repository")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The name of the folder with the forms of this program, which are no release's yet.
pub(crate) const NEXT: &str = "next";

/// The folder of a release.
pub(crate) fn folder(release: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/releases").join(release)
}

/// The releases whose forms are kept.
pub(crate) fn releases() -> Vec<String> {
    let folders = fs::read_dir(folder("")).expect("the folder of releases");
    let names = folders.map(|entry| entry.expect("a folder").file_name().into_string().expect("a name"));
    names.filter(|name| name != NEXT).collect()
}

/// Bytes as digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes with these digits.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("two digits"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect()
}
