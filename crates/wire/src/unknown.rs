//! Unknown fields of a body, at every depth, and the known names that were probably meant.
//!
//! Otherwise a misspelt optional field would be dropped silently. With `limit` for `limits`, a session would have no limits.

use std::fmt;

use crate::{rejection::Rejection, repr::shortened};

/// The maximum of names in a refusal. The rest is only counted.
const SHOWN_MAX: usize = 5;

/// Unknown fields, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    shown: Vec<String>,
    more: usize,
}

impl Unknown {
    /// Adds a field in the map at `path`. `known` are the names of the map.
    pub(crate) fn note(&mut self, path: &Path<'_>, name: &str, known: &[&str]) {
        self.add(|| {
            let shown = match path {
                Path::Body => shortened(name).into_owned(),
                Path::Field { .. } | Path::Element { .. } => format!("{path}.{}", shortened(name)),
            };
            match closest(name, known) {
                Some(meant) => format!("`{shown}` (did you mean `{meant}`?)"),
                None => format!("`{shown}`"),
            }
        });
    }

    /// Adds a field of an envelope.
    pub(crate) fn note_field(&mut self, name: &str, known: &[&str]) {
        self.note(&Path::Body, name, known);
    }

    fn add(&mut self, shown: impl FnOnce() -> String) {
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(shown());
        } else {
            self.more += 1;
        }
    }

    /// Refuses a request with unknown fields, if its op is strict.
    pub(crate) fn refuse_if(&self, is_strict: bool) -> Result<(), Rejection> {
        match self.words() {
            Some(words) if is_strict => Err(Rejection::bad_request(words)),
            Some(_) | None => Ok(()),
        }
    }

    /// The fields in words. `None` if there are none.
    pub(crate) fn words(&self) -> Option<String> {
        if self.shown.is_empty() {
            return None;
        }
        let fields = if self.shown.len() + self.more == 1 { "field" } else { "fields" };
        let more = if self.more == 0 { String::new() } else { format!(" and {} more", self.more) };
        Some(format!("unknown {fields} {}{more}", self.shown.join(", ")))
    }
}

/// The known name that was probably meant.
fn closest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    // A longer name is not a misspelling, and the distance costs the product of both lengths.
    const NAME_BYTES_MAX: usize = 32;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let distances = known.iter().map(|known| (distance(lower.as_bytes(), known.as_bytes()), *known));
    let (distance, known) = distances.min()?;
    // A third of the letters may be wrong. So `seat` means `seats`, and `row` does not mean `rid`.
    (distance <= known.len() / 3).then_some(known)
}

/// The Levenshtein distance.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// The path to a value in a body.
#[derive(Clone, Copy)]
pub(crate) enum Path<'p> {
    Body,
    Field { of: &'p Path<'p>, name: &'p str },
    Element { of: &'p Path<'p>, index: u32 },
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Body => Ok(()),
            Path::Field { of: Path::Body, name } => f.write_str(&shortened(name)),
            Path::Field { of, name } => write!(f, "{of}.{}", shortened(name)),
            Path::Element { of, index } => write!(f, "{of}[{index}]"),
        }
    }
}
