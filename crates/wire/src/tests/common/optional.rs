//! Bodies in which one optional field is absent, is `null` or has its default. The tests of the edge send them to a node.
#![allow(unreachable_pub, reason = "two crates use it")]

use serde_json::{Map, Value};

/// One optional field of a body, in all the ways in which it can be left out.
pub struct OptionalField {
    /// Its path in the body.
    pub place: String,
    pub absent: Value,
    pub null: Value,
    /// With the value that it has if it is absent, if there is one.
    pub default: Option<Value>,
}

/// The shape that a schema refers to, or the schema itself.
pub fn resolved<'a>(components: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => resolved(components, &components[path.rsplit('/').next().expect("a path has an end")]),
        None => schema,
    }
}

/// The object with another value of a field, or without the field.
pub fn with_field(object: &Map<String, Value>, name: &str, field: Option<Value>) -> Value {
    let mut other = object.clone();
    match field {
        Some(field) => other.insert(name.to_owned(), field),
        None => other.remove(name),
    };
    Value::Object(other)
}

/// The optional fields of a body, also those that it does not have. Lists and maps by id are followed into their first entry.
pub fn optional_fields(components: &Value, schema: &Value, body: &Value) -> Vec<OptionalField> {
    let mut found = Vec::new();
    walk((components, schema), "body", body, &|value| value, &mut found);
    found
}

/// `rebuild` puts another value in the place of `value`.
fn walk(
    (components, schema): (&Value, &Value),
    place: &str,
    value: &Value,
    rebuild: &dyn Fn(Value) -> Value,
    found: &mut Vec<OptionalField>,
) {
    let schema = resolved(components, schema);
    match value {
        Value::Object(map) if schema["properties"].is_object() => {
            let with = |name: &str, field: Option<Value>| rebuild(with_field(map, name, field));
            for (name, field) in schema["properties"].as_object().expect("fields") {
                let place = format!("{place}.{name}");
                let is_required = schema["required"].as_array().is_some_and(|all| all.contains(&name.as_str().into()));
                if !is_required {
                    found.push(OptionalField {
                        place: place.clone(),
                        absent: with(name, None),
                        null: with(name, Some(Value::Null)),
                        default: default_of(components, name, field).map(|default| with(name, Some(default))),
                    });
                }
                if let Some(inner) = map.get(name) {
                    walk((components, field), &place, inner, &|value| with(name, Some(value)), found);
                }
            }
        }
        Value::Object(map) if schema["additionalProperties"].is_object() => {
            let Some((name, inner)) = map.iter().next() else { return };
            let with = |value| rebuild(Value::Object([(name.clone(), value)].into_iter().collect()));
            walk((components, &schema["additionalProperties"]), &format!("{place}.*"), inner, &with, found);
        }
        Value::Array(list) if schema["items"].is_object() => {
            let Some(first) = list.first() else { return };
            let with = |value| {
                let mut other = list.clone();
                other[0] = value;
                rebuild(Value::Array(other))
            };
            walk((components, &schema["items"]), &format!("{place}[]"), first, &with, found);
        }
        _ => {}
    }
}

/// The value that an optional field has if it is absent, as its description says or because it is the only empty one. `None` if being
/// absent is a meaning of its own.
pub fn default_of(components: &Value, name: &str, field: &Value) -> Option<Value> {
    /// Numbers that are 0 if absent. Other numbers that are absent are no number.
    const ZERO: [&str; 5] = ["before_ms", "after_ms", "notice_ms", "align_ms", "accessible"];
    /// Texts and lists that are empty if absent.
    const EMPTY: [&str; 12] = [
        "comments",
        "city",
        "details",
        "director",
        "genre",
        "reason",
        "recipient",
        "address",
        "method",
        "cast",
        "exceptions",
        "weekdays",
    ];
    let said = field["description"].as_str().and_then(|text| {
        let before = text.split(" if absent").next().filter(|before| before.len() < text.len())?;
        let word = before.rsplit([' ', '(']).next()?;
        word.parse::<u64>().map(Value::from).ok().or_else(|| {
            let word = word.strip_prefix('`')?.strip_suffix('`')?;
            Some(word.into())
        })
    });
    said.or_else(|| match resolved(components, field)["type"].as_str() {
        // A session comes with its rows unless it is asked for without them.
        Some("boolean") => Some((name == "layout").into()),
        Some("integer") if ZERO.contains(&name) => Some(0.into()),
        Some("string") if EMPTY.contains(&name) && field["minLength"].as_u64().unwrap_or(0) == 0 => Some("".into()),
        Some("array") if EMPTY.contains(&name) => Some(Value::Array(Vec::new())),
        _ => None,
    })
}
