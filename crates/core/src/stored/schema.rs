//! The list of stored types: their names, and the numbers, names and shapes of variants and fields.

use alloc::{
    boxed::Box,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

/// What a stored value looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A value without parts, by the name of its kind.
    Leaf(&'static str),
    /// A type of the schema.
    Named(String),
    Option(Box<Shape>),
    List(Box<Shape>),
    /// A list of so many.
    Array(Box<Shape>, usize),
    /// An ascending list.
    Set(Box<Shape>),
    Map(Box<(Shape, Shape)>),
    /// Variant 0 with a value, or variant 1 with an error.
    Result(Box<(Shape, Shape)>),
    Tuple(Vec<Shape>),
}

/// Fields: number, name and shape.
pub type FieldShapes = Vec<(u32, &'static str, Shape)>;

/// The parts of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    Struct(FieldShapes),
    /// Variants: number, name and fields.
    Enum(Vec<(u32, &'static str, FieldShapes)>),
}

/// The types that some values consist of.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    types: BTreeMap<String, Option<Definition>>,
}

impl Schema {
    /// The type with this name. It is defined the first time.
    ///
    /// # Panics
    /// Two types have the name.
    pub fn define(&mut self, name: &str, definition: impl FnOnce(&mut Schema) -> Definition) -> Shape {
        let shape = Shape::Named(name.to_string());
        if !self.types.contains_key(name) {
            self.types.insert(name.to_string(), None);
            let made = definition(self);
            self.types.insert(name.to_string(), Some(made));
        }
        shape
    }

    /// The parts of a type.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.types.get(name)?.as_ref()
    }

    /// All types by name.
    pub fn types(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.types.iter().filter_map(|(name, definition)| Some((name.as_str(), definition.as_ref()?)))
    }
}

/// The name of a type with these parameters.
pub fn name(name: &str, parameters: &[Shape]) -> String {
    match parameters {
        [] => name.to_string(),
        parameters => format!("{name}<{}>", joined(parameters)),
    }
}

/// Fields, in the order of their numbers.
pub fn fields<const N: usize>(fields: [(u32, &'static str, Shape); N]) -> FieldShapes {
    fields.into()
}

/// Variants, in the order of their numbers.
pub fn variants<const N: usize>(
    mut variants: [(u32, &'static str, FieldShapes); N],
) -> Vec<(u32, &'static str, FieldShapes)> {
    variants.sort_by_key(|(number, ..)| *number);
    variants.into()
}

fn joined(shapes: &[Shape]) -> String {
    shapes.iter().map(Shape::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Leaf(kind) => f.write_str(kind),
            Shape::Named(name) => f.write_str(name),
            Shape::Option(shape) => write!(f, "{shape}?"),
            Shape::List(shape) => write!(f, "[{shape}]"),
            Shape::Array(shape, length) => write!(f, "{shape} * {length}"),
            Shape::Set(shape) => write!(f, "set of {shape}"),
            Shape::Map(entry) => write!(f, "map of {} to {}", entry.0, entry.1),
            Shape::Result(both) => write!(f, "{} or {}", both.0, both.1),
            Shape::Tuple(shapes) => write!(f, "({})", joined(shapes)),
        }
    }
}

impl fmt::Display for Schema {
    /// A line for each type, variant and field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, indent: &str, fields: &FieldShapes| {
            fields.iter().try_for_each(|(number, name, shape)| writeln!(f, "{indent}{number} {name}: {shape}"))
        };
        for (name, definition) in self.types() {
            writeln!(f, "{name}")?;
            match definition {
                Definition::Struct(fields) => write(f, "  ", fields)?,
                Definition::Enum(variants) => {
                    for (number, name, fields) in variants {
                        writeln!(f, "  {number} {name}")?;
                        write(f, "    ", fields)?;
                    }
                }
            }
        }
        Ok(())
    }
}
