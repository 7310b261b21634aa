//! What the readers of JSON plans share.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value};

use crate::plan::Place;

/// The keys that no reader uses, counted by kind of object.
#[derive(Default)]
pub(crate) struct LeftOut(BTreeMap<(&'static str, String), usize>);

impl LeftOut {
    /// Counts the keys of an object beside these.
    pub(crate) fn keys(&mut self, kind: &'static str, object: &Map<String, Value>, known: &[&str]) {
        for (key, _) in object.iter().filter(|(key, value)| !value.is_null() && !known.contains(&key.as_str())) {
            let shown: String = key.chars().filter(|letter| !letter.is_control()).take(40).collect();
            *self.0.entry((kind, format!("`{shown}`"))).or_default() += 1;
        }
    }

    /// Counts a thing that is left out as a whole.
    pub(crate) fn thing(&mut self, kind: &'static str, what: &str) {
        *self.0.entry((kind, what.to_owned())).or_default() += 1;
    }

    /// The sentence, if anything was left out.
    pub(crate) fn note(&self) -> Option<String> {
        /// The rest is only counted.
        const SHOWN: usize = 12;
        if self.0.is_empty() {
            return None;
        }
        let part = |((kind, what), count): (&(&str, String), &usize)| match *count {
            1 if kind.starts_with(['a', 'o']) => format!("{what} of an {kind}"),
            1 => format!("{what} of a {kind}"),
            count => format!("{what} of {count} {kind}s"),
        };
        let mut parts: Vec<String> = self.0.iter().take(SHOWN).map(part).collect();
        if self.0.len() > SHOWN {
            parts.push(format!("{} more", self.0.len() - SHOWN));
        }
        Some(format!("left out: {}", parts.join(", ")))
    }
}

/// Where an object is, for messages: `zone 2, row 1`.
#[derive(Clone)]
pub(crate) struct At(String);

impl At {
    pub(crate) fn new(kind: &str, index: usize) -> At {
        At(format!("{kind} {}", index + 1))
    }

    pub(crate) fn below(&self, kind: &str, index: usize) -> At {
        At(format!("{}, {kind} {}", self.0, index + 1))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn object<'a>(value: &'a Value, at: &At) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{at} is no object"))
}

/// The objects of a list, or nothing if there is no such key.
pub(crate) fn list<'a>(object: &'a Map<String, Value>, key: &str, at: &str) -> Result<&'a [Value], String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("{at}: `{key}` is no list")),
    }
}

/// A text or a number as text. Nothing if it is empty or absent.
pub(crate) fn text(object: &Map<String, Value>, key: &str) -> Option<String> {
    let text = match object.get(key)? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

pub(crate) fn number(object: &Map<String, Value>, key: &str) -> Option<f64> {
    object.get(key)?.as_f64().filter(|number| number.is_finite())
}

/// A whole number of things, at most this many.
pub(crate) fn count(object: &Map<String, Value>, key: &str, most: usize, at: &At) -> Result<usize, String> {
    let number = number(object, key).ok_or_else(|| format!("{at}: `{key}` is no number"))?;
    let fits = number >= 0.0 && number <= most as f64;
    fits.then_some(number.round() as usize)
        .ok_or_else(|| format!("{at}: `{key}` is {number}, and at most {most} is allowed"))
}

pub(crate) fn place(object: &Map<String, Value>, key: &str) -> Option<Place> {
    place_of(object.get(key)?)
}

pub(crate) fn place_of(value: &Value) -> Option<Place> {
    let object = value.as_object()?;
    Some(Place { x: number(object, "x")?, y: number(object, "y")? })
}

pub(crate) fn flag(object: &Map<String, Value>, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Whether a text on a drawing says where the stage is.
pub(crate) fn is_stage(text: &str) -> bool {
    const WORDS: [&str; 11] = [
        "stage",
        "bühne",
        "buehne",
        "scène",
        "scene",
        "escenario",
        "palco",
        "palcoscenico",
        "podium",
        "toneel",
        "scena",
    ];
    let text = text.to_lowercase();
    text.split(|letter: char| !letter.is_alphanumeric()).any(|word| WORDS.contains(&word))
}
