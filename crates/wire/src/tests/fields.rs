//! The op table of `docs/reference/ops.md`: each field with its type and unit, generated from the schemas.
//!
//! `UPDATE_EXPECT=1 cargo test -p boxoffice-wire --lib fields` writes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use serde_json::Value;

use super::page_tables;
use crate::{
    Op,
    schema::{self, components},
};

const BEGIN: &str =
    "<!-- The tables up to the end mark are made of the schemas by crates/wire/src/tests/fields.rs. -->\n";
const END: &str = "<!-- end -->\n";

/// Shapes that are one value, with their description.
const VALUES: &[(&str, &str)] = &[
    ("Id", "id"),
    ("Token", "token"),
    ("CartId", "cart id"),
    ("OrderId", "order id"),
    ("Entity", "entity"),
    ("Time", "time"),
    ("Day", "day"),
    ("WallTime", "local time"),
    ("Currency", "currency"),
    ("Money", "money"),
    ("Price", "money"),
    ("Seat", "seat"),
    ("SeatState", "state"),
    ("Node", "node"),
    ("Address", "address"),
    ("Replica", "replica"),
];

/// A schema in a few words. Adds shapes with rows of their own to `used`.
fn kind(schema: &Value, used: &mut Vec<String>) -> String {
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().expect("a path has an end");
        if let Some((_, words)) = VALUES.iter().find(|(value, _)| *value == name) {
            return (*words).to_owned();
        }
        if components()[name]["properties"].is_object() || components()[name]["anyOf"].is_array() {
            used.push(name.to_owned());
            return format!("[{name}](#{})", name.to_lowercase());
        }
        return kind(&components()[name], used);
    }
    for any in ["anyOf", "oneOf"] {
        if let Some(shapes) = schema[any].as_array() {
            let shapes: Vec<String> = shapes.iter().map(|shape| kind(shape, used)).collect();
            return shapes.join(" or ");
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{}`", word.as_str().unwrap_or("?"))).collect();
        return words.join(" or ");
    }
    let bounds = |least: &str, most: &str, unit: &str| match (schema[least].as_i64(), schema[most].as_i64()) {
        (Some(0) | None, None) => String::new(),
        (Some(0) | None, Some(most)) => format!(" ≤ {}{unit}", number(most)),
        (Some(least), None) => format!(" ≥ {}{unit}", number(least)),
        (Some(least), Some(most)) if least == most => format!(" {}{unit}", number(least)),
        (Some(least), Some(most)) => format!(" {}–{}{unit}", number(least), number(most)),
    };
    match schema["type"].as_str() {
        Some("null") => "`null`".into(),
        Some("boolean") => "boolean".into(),
        Some("number") => "number".into(),
        Some("integer") => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(least), Some(most)) if least < -1_000_000 && most > 1_000_000 => "whole number, also negative".into(),
            (Some(least), Some(most)) => format!("{}–{}", number(least), number(most)),
            (Some(0), None) => "number ≥ 0".into(),
            _ => "whole number".into(),
        },
        Some("string") if schema["contentEncoding"] == "base64" => "bytes".into(),
        Some("string") if schema["format"] == "date" => "day".into(),
        Some("string") if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("{32}")) => {
            "32 hexadecimal digits".into()
        }
        Some("string") if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("{64}")) => {
            "64 hexadecimal digits".into()
        }
        Some("string") => format!("text{}", bounds("minLength", "maxLength", " bytes")),
        Some("array") => {
            let pair = schema["minItems"] == 2 && schema["maxItems"] == 2;
            let item = kind(&schema["items"], used);
            if pair {
                return format!("[{item}, {item}]");
            }
            let few = bounds("minItems", "maxItems", "");
            if few.is_empty() { format!("list of {item}") } else { format!("list ({}) of {item}", few.trim()) }
        }
        Some("object") if schema["additionalProperties"].is_object() => {
            let (name, value) = (kind(&schema["propertyNames"], used), kind(&schema["additionalProperties"], used));
            format!("map {{{name}: {value}}}")
        }
        Some("object") if schema["properties"].is_object() => format!("{{{}}}", fields(schema, used)),
        Some("object") => "map".into(),
        _ => "any value".into(),
    }
}

/// A number with thousands separators.
fn number(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    if number < 0 { format!("−{text}") } else { text }
}

/// The unit in the name of a field.
fn unit(name: &str, schema: &Value) -> &'static str {
    if !matches!(schema["type"].as_str(), Some("integer" | "number" | "array")) {
        return "";
    }
    match name {
        "lon" | "lat" => " degrees",
        "amount" | "price" | "prices" | "asked" | "got" => " minor units",
        "x" | "y" | "points" | "focal" => " hundredths of a seat's width",
        "gap" => " seat widths",
        _ if name.ends_with("_ms") => " ms",
        _ if name.ends_with("_m") => " metres",
        _ => "",
    }
}

/// The fields of a map. Required ones are bold.
fn fields(schema: &Value, used: &mut Vec<String>) -> String {
    let needed: BTreeSet<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let fields = schema["properties"].as_object().into_iter().flatten().map(|(name, field)| {
        let shown = if needed.contains(name.as_str()) { format!("**{name}**") } else { name.clone() };
        let words =
            field["description"].as_str().filter(|_| field["$ref"].is_null() || field["description"].is_string());
        let words = words.map(|words| format!(" ({})", words.trim_end_matches('.'))).unwrap_or_default();
        format!("{shown} {}{}{words}", kind(field, used), unit(name, field))
    });
    fields.collect::<Vec<_>>().join("; ")
}

/// The sets of fields, exactly one of which is present.
fn sets(schema: &Value) -> String {
    let set = |set: &Value| {
        let names = set["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" with ")
    };
    match schema["then"]["oneOf"].as_array() {
        Some(sets) => format!(". One of: {}", sets.iter().map(set).collect::<Vec<_>>().join("; ")),
        None => String::new(),
    }
}

fn cell(text: String) -> String {
    if text.is_empty() { "–".into() } else { text.replace('|', "\\|") }
}

/// The expected tables.
fn drawn() -> String {
    let mut text = String::from(BEGIN);
    let mut used = Vec::new();
    text.push_str("\n| op | body | ok |\n|---|---|---|\n");
    for op in Op::ALL {
        let schema = schema::of(op);
        let star = if op.changes() { "*" } else { "" };
        let body = format!("{}{}", fields(&schema.request, &mut used), sets(&schema.request));
        let ok = if schema.answer["$ref"].as_str().is_some_and(|path| path.ends_with("/Done")) {
            String::new()
        } else {
            kind(&schema.answer, &mut used)
        };
        writeln!(text, "| `{}`{star} {} | {} | {} |", op.name(), schema.summary, cell(body), cell(ok)).expect("text");
    }
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    while let Some(name) = used.pop() {
        if rows.contains_key(&name) {
            continue;
        }
        let shape = &components()[&name];
        let what = if shape["properties"].is_object() { fields(shape, &mut used) } else { kind(shape, &mut used) };
        let words = shape["description"].as_str().map(|words| format!(" {words}")).unwrap_or_default();
        let row = format!("| <a id=\"{}\"></a>{name}{words} | {}{} |", name.to_lowercase(), cell(what), sets(shape));
        rows.insert(name, row);
    }
    text.push_str("\n| shape | fields |\n|---|---|\n");
    rows.values().for_each(|row| writeln!(text, "{row}").expect("text"));
    text.push('\n');
    text.push_str(END);
    text
}

#[test]
fn the_op_table_has_each_field_with_its_type_and_unit() {
    page_tables::check("ops.md", (BEGIN, END), &drawn());
}

#[test]
fn every_number_that_needs_a_unit_has_one() {
    // The ends of names determine units. A new name with another end would have none.
    let drawn = drawn();
    for name in ["hold_ttl_ms", "notice_ms", "per_ms", "deadline_ms", "length_ms", "duration_ms", "stale_ms"] {
        let Some(at) = drawn.find(&format!("{name} ")).or_else(|| drawn.find(&format!("{name}** "))) else { continue };
        let field = drawn[at..].split([';', '|', '}']).next().expect("a field");
        assert!(field.contains(" ms"), "{field}");
    }
    assert!(drawn.contains("**lon** number degrees") && drawn.contains("distance_m number ≥ 0 metres"));
}
