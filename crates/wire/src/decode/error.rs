//! The error of a body, in the words of JSON and MessagePack. A client does not know the types of this program.

use std::{borrow::Cow, fmt};

use serde::de::{Expected, Unexpected};

use crate::unknown::Path;

/// Why a body cannot be read, and where. Boxed, since it is moved through every level of a body.
#[derive(Debug)]
pub(super) struct Error(Box<Reason>);

#[derive(Debug)]
struct Reason {
    words: String,
    /// The path to the value. Empty for the body itself.
    place: String,
}

impl Error {
    /// Adds the place, if it is not known yet.
    #[cold]
    pub(super) fn at(mut self, path: &Path<'_>) -> Error {
        if self.0.place.is_empty() {
            self.0.place = path.to_string();
        }
        self
    }
}

impl serde::de::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(words: T) -> Error {
        Error(Box::new(Reason { words: words.to_string(), place: String::new() }))
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Error {
        Error::custom(format_args!("invalid type: {}, expected {}", name(found), name(expected)))
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Error {
        Error::custom(format_args!("invalid value: {}, expected {}", name(found), name(expected)))
    }

    #[cold]
    fn invalid_length(length: usize, expected: &dyn Expected) -> Error {
        Error::custom(format_args!("invalid length {length}, expected {}", name(expected)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason { words, place } = &*self.0;
        if place.is_empty() { f.write_str(words) } else { write!(f, "`{place}`: {words}") }
    }
}

impl std::error::Error for Error {}

/// The name of a type for clients. Serde's names are those of Rust.
fn name(serdes: impl fmt::Display) -> Cow<'static, str> {
    let serdes = serdes.to_string();
    Cow::Borrowed(match serdes.as_str() {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number, 0 or more",
        "i64" => "a whole number",
        "f64" => "a number",
        "sequence" | "a sequence" => "a list",
        "map" => "a map",
        "unit value" => "null",
        _ => match serdes.strip_prefix("a tuple of size ") {
            Some(size) => return Cow::Owned(format!("a list of {size} elements")),
            None => return Cow::Owned(serdes),
        },
    })
}
