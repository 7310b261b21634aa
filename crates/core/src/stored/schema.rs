//! The list of stored types: their names, and the numbers, names and shapes of variants and fields.

use alloc::{
    boxed::Box,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt::{self, Debug};

use super::{Decode, Encode, append, read};

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
    /// It looks like this.
    As(Shape),
    Struct(FieldShapes),
    /// Variants: number, name and fields.
    Enum(Vec<(u32, &'static str, FieldShapes)>),
}

/// Reads some bytes as a type. Gives the value as `Debug` writes it, and its bytes anew.
pub type Again = fn(&[u8]) -> Result<(String, Vec<u8>), String>;

#[derive(Clone, Debug)]
struct Type {
    /// Where it is declared.
    path: &'static str,
    /// `None` while it is defined.
    definition: Option<Definition>,
    again: Again,
}

/// The types that some values consist of.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    types: BTreeMap<String, Type>,
}

impl Schema {
    /// The type with this name, which is declared at this path. It is defined the first time.
    ///
    /// # Panics
    /// Two types have the name.
    pub fn define<T: Encode + Decode + Debug>(
        &mut self,
        name: &str,
        path: &'static str,
        definition: impl FnOnce(&mut Schema) -> Definition,
    ) -> Shape {
        match self.types.get(name) {
            Some(known) => {
                assert_eq!(known.path, path, "two types are stored as `{name}`: one has `#[stored(name = \"…\")]`");
            }
            None => {
                self.types.insert(name.to_string(), Type { path, definition: None, again: again::<T> });
                let made = definition(self);
                self.types.get_mut(name).expect("it was inserted").definition = Some(made);
            }
        }
        Shape::Named(name.to_string())
    }

    /// The parts of a type.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.types.get(name)?.definition.as_ref()
    }

    /// All types by name.
    pub fn types(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.types.iter().filter_map(|(name, known)| Some((name.as_str(), known.definition.as_ref()?)))
    }

    /// How the values of a type are read and written again.
    pub fn again(&self, name: &str) -> Option<Again> {
        self.types.get(name).map(|known| known.again)
    }
}

fn again<T: Encode + Decode + Debug>(bytes: &[u8]) -> Result<(String, Vec<u8>), String> {
    read::<T>(bytes).map(|value| (format!("{value:?}"), append(&value, Vec::new())))
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
            Shape::Set(shape) => write!(f, "{{{shape}}}"),
            Shape::Map(entry) => write!(f, "{{{}: {}}}", entry.0, entry.1),
            Shape::Result(both) => write!(f, "({} or {})", both.0, both.1),
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
            match definition {
                Definition::As(shape) => writeln!(f, "{name}: {shape}")?,
                Definition::Struct(fields) => {
                    writeln!(f, "{name}")?;
                    write(f, "  ", fields)?;
                }
                Definition::Enum(variants) => {
                    writeln!(f, "{name}")?;
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
