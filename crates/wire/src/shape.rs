//! Shapes of the protocol: a list of fields from which serde reads and writes, and of which the schema is made.

use std::{collections::BTreeMap, ops::RangeInclusive};

use serde_json::{Map, Value, json};

/// Where the document has its shapes.
pub(crate) const SCHEMAS: &str = "#/components/schemas/";

/// The highest number that is whole in every language: beyond 2⁵³ those of JSON are not.
pub(crate) const WHOLE_MAX: u64 = 1 << 53;

/// Schemas by name, as far as they were met, with the types that they are of.
#[derive(Debug, Default)]
pub struct Shapes(BTreeMap<&'static str, (&'static str, Value)>);

impl Shapes {
    /// The reference to the schema of this name, which is made if it is not there.
    ///
    /// # Panics
    /// If another type has the name.
    pub(crate) fn named<T: ?Sized>(&mut self, name: &'static str, make: impl FnOnce(&mut Shapes) -> Value) -> Value {
        let owner = std::any::type_name::<T>();
        match self.0.get(name) {
            Some((other, _)) => assert_eq!(*other, owner, "two shapes are called {name}"),
            None => {
                // A shape may refer to itself.
                self.0.insert(name, (owner, Value::Null));
                let schema = make(self);
                self.0.insert(name, (owner, schema));
            }
        }
        json!({"$ref": format!("{SCHEMAS}{name}")})
    }

    /// The schema that a reference leads to.
    pub(crate) fn at(&self, reference: &Value) -> Option<(&'static str, &Value)> {
        let name = reference["$ref"].as_str()?.strip_prefix(SCHEMAS)?;
        self.0.get_key_value(name).map(|(name, (_, schema))| (*name, schema))
    }

    /// All schemas, by name.
    pub(crate) fn into_components(self) -> Map<String, Value> {
        self.0.into_iter().map(|(name, (_, schema))| (name.to_owned(), schema)).collect()
    }
}

/// A field of a map.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) is_needed: bool,
    pub(crate) schema: Value,
    pub(crate) words: &'static [&'static str],
}

/// A map with these fields, which come in exactly one of these sets if there are any.
pub(crate) fn map(fields: impl IntoIterator<Item = Field>, sets: &[Set], words: &[&str]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for Field { name, is_needed, schema, words } in fields {
        if is_needed {
            required.push(name);
        }
        properties.insert(name.to_owned(), described(schema, words));
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !sets.is_empty() {
        // Said in a `then` that always applies: generators of clients take a `oneOf` beside the fields for another type.
        schema["if"] = json!({});
        schema["then"] = json!({"oneOf": sets.iter().map(Set::schema).collect::<Value>()});
    }
    described(schema, words)
}

/// Optional fields that are there together, and those that are not there then.
pub(crate) struct Set(pub(crate) &'static [&'static str], pub(crate) &'static [&'static str]);

impl Set {
    fn schema(&self) -> Value {
        let mut schema = json!({"required": self.0});
        if !self.1.is_empty() {
            schema["not"] = json!({"required": self.1});
        }
        schema
    }
}

/// The schema with the words of a doc comment.
pub(crate) fn described(mut schema: Value, words: &[&str]) -> Value {
    if !words.is_empty() {
        let lines: Vec<&str> = words.iter().map(|line| line.trim()).collect();
        schema["description"] = json!(lines.join(" "));
    }
    schema
}

/// What is said of a field beside its type.
pub(crate) trait Narrow {
    /// The narrower schema.
    fn narrow(self, schema: Value, shapes: &mut Shapes) -> Value;
}

/// A number between two, a text of so many bytes, a list of so many entries.
impl<N: Copy + TryInto<i64>> Narrow for RangeInclusive<N> {
    fn narrow(self, mut schema: Value, _: &mut Shapes) -> Value {
        let [least, most] =
            [*self.start(), *self.end()].map(|bound| bound.try_into().ok().expect("it is a number of JSON"));
        let (lower, upper) = match schema["type"].as_str() {
            Some("string") => ("minLength", "maxLength"),
            Some("array") => ("minItems", "maxItems"),
            _ => ("minimum", "maximum"),
        };
        if least != 0 || lower == "minimum" {
            schema[lower] = json!(least);
        }
        schema[upper] = json!(most);
        schema
    }
}

/// One more keyword of JSON Schema, with its value.
pub(crate) struct With<V>(pub(crate) &'static str, pub(crate) V);

impl<V: Into<Value>> Narrow for With<V> {
    fn narrow(self, mut schema: Value, _: &mut Shapes) -> Value {
        schema[self.0] = self.1.into();
        schema
    }
}

/// One of these words.
impl<const N: usize> Narrow for [&str; N] {
    fn narrow(self, mut schema: Value, _: &mut Shapes) -> Value {
        schema["enum"] = json!(self.as_slice());
        schema
    }
}

/// A list whose entries are narrower.
pub(crate) struct Each<N>(pub(crate) N);

impl<N: Narrow> Narrow for Each<N> {
    fn narrow(self, mut schema: Value, shapes: &mut Shapes) -> Value {
        schema["items"] = self.0.narrow(schema["items"].take(), shapes);
        schema
    }
}

impl<N: Narrow, M: Narrow> Narrow for (N, M) {
    fn narrow(self, schema: Value, shapes: &mut Shapes) -> Value {
        let schema = self.0.narrow(schema, shapes);
        self.1.narrow(schema, shapes)
    }
}

/// Another schema altogether.
impl Narrow for Value {
    fn narrow(self, _: Value, _: &mut Shapes) -> Value {
        self
    }
}
