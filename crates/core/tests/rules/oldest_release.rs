//! The forms of a release, as its `schema.txt` has them: whether its program can read what this one writes under its version.
//!
//! It refuses a field and a variant that it does not know, so a new one must wait until every node has the new program.

use std::{collections::BTreeMap, sync::LazyLock};

use boxoffice_core::stored::{self, Encode};
use minicbor::{Decoder, data::Type};

/// Numbered things of a type: its fields, or its variants with theirs.
#[derive(Default)]
struct Form {
    fields: BTreeMap<u64, String>,
    variants: BTreeMap<u64, BTreeMap<u64, String>>,
}

/// The types of the release, by name.
static RELEASE: LazyLock<BTreeMap<String, Form>> = LazyLock::new(|| {
    let mut all: BTreeMap<String, Form> = BTreeMap::new();
    let (mut name, mut variant) = (String::new(), 0);
    for line in include_str!("../../../../tests/releases/0.2.0/schema.txt").lines() {
        let indent = line.len() - line.trim_start().len();
        let (number, rest) = line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
        if indent == 0 {
            line.clone_into(&mut name);
            all.entry(name.clone()).or_default();
            continue;
        }
        let number: u64 = number.parse().expect("a numbered line");
        let form = all.get_mut(&name).expect("a type comes first");
        match (indent, rest.split_once(": ")) {
            (2, Some((_, of))) => _ = form.fields.insert(number, of.to_owned()),
            (2, None) => {
                variant = number;
                form.variants.entry(variant).or_default();
            }
            (_, of) => {
                _ = form
                    .variants
                    .get_mut(&variant)
                    .expect("a variant")
                    .insert(number, of.expect("a field").1.to_owned())
            }
        }
    }
    all
});

/// Checks that the release reads this value as the type with this name.
///
/// # Panics
/// If the value has a field or a variant that the release does not know.
pub(crate) fn reads(name: &str, value: &impl Encode) {
    let bytes = stored::append(value, Vec::new());
    let mut decoder = Decoder::new(&bytes);
    if let Err(why) = walk(name, &mut decoder) {
        panic!("release 0.2.0 cannot read this {name}: {why}");
    }
}

fn skip(decoder: &mut Decoder<'_>) -> Result<(), String> {
    decoder.skip().map_err(|error| error.to_string())
}

fn count(decoder: &mut Decoder<'_>) -> Result<u64, String> {
    decoder.array().map_err(|error| error.to_string())?.ok_or_else(|| "a list without a length".into())
}

fn walk(of: &str, decoder: &mut Decoder<'_>) -> Result<(), String> {
    let of = of.strip_suffix('?').unwrap_or(of);
    let kind = decoder.datatype().map_err(|error| error.to_string())?;
    if kind == Type::Null {
        return skip(decoder);
    }
    if let (Some(each), Type::Array) = (of.strip_prefix('[').and_then(|of| of.strip_suffix(']')), kind) {
        return (0..count(decoder)?).try_for_each(|_| walk(each, decoder));
    }
    let Some(form) = RELEASE.get(of) else { return skip(decoder) };
    if form.variants.is_empty() {
        return (0..count(decoder)?).try_for_each(|number| field(of, &form.fields, number, decoder));
    }
    let length = if kind == Type::Array { count(decoder)? } else { 1 };
    let number = decoder.u64().map_err(|error| error.to_string())?;
    let fields = form.variants.get(&number).ok_or_else(|| format!("{of} has no variant {number}"))?;
    (0..length - 1).try_for_each(|number| field(of, fields, number, decoder))
}

fn field(of: &str, fields: &BTreeMap<u64, String>, number: u64, decoder: &mut Decoder<'_>) -> Result<(), String> {
    match fields.get(&number) {
        Some(of) => walk(of, decoder),
        None if matches!(decoder.datatype(), Ok(Type::Null)) => skip(decoder),
        None => Err(format!("{of} has no field {number}")),
    }
}
