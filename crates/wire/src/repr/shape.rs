//! Shapes: lists of fields from which both the serde implementations and the schemas are made.

use std::{collections::BTreeMap, ops::RangeInclusive};

use serde_json::{Map, Value, json};

/// The path of shapes in the document.
pub(crate) const SCHEMAS: &str = "#/components/schemas/";

/// The highest whole number that JSON has exactly in every language.
pub(crate) const WHOLE_MAX: u64 = 1 << 53;

/// The schemas collected so far, by name, with the names of their types.
#[derive(Debug, Default)]
pub struct Shapes(BTreeMap<&'static str, (&'static str, Value)>);

impl Shapes {
    /// The reference to the schema with this name. Makes the schema if it is new.
    ///
    /// # Panics
    /// Another type has the name.
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

/// Returns the schema of a type.
pub(crate) type Schema = fn(&mut Shapes) -> Value;

/// A field of a map.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) is_needed: bool,
    pub(crate) schema: Value,
    pub(crate) words: &'static [&'static str],
}

/// The schema of a map with these fields. With sets, exactly one set of the optional fields is present.
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
        // In a `then` that always applies, because client generators take a `oneOf` beside the fields for another type.
        schema["if"] = json!({});
        schema["then"] = json!({"oneOf": sets.iter().map(Set::schema).collect::<Value>()});
    }
    described(schema, words)
}

/// Optional fields that are present together, and fields that must be absent then.
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

/// Adds a doc comment to a schema as its description.
pub(crate) fn described(mut schema: Value, words: &[&str]) -> Value {
    if !words.is_empty() {
        let lines: Vec<&str> = words.iter().map(|line| line.trim()).collect();
        schema["description"] = json!(lines.join(" "));
    }
    schema
}

/// A restriction of the schema of a field's type.
pub(crate) trait Narrow {
    /// The narrower schema.
    fn narrow(self, schema: Value, shapes: &mut Shapes) -> Value;
}

/// The range of a number, or of the length of a text or list.
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

/// A keyword of JSON Schema with its value.
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

/// Replaces the schema.
impl Narrow for Value {
    fn narrow(self, _: Value, _: &mut Shapes) -> Value {
        self
    }
}

/// Declares narrower schemas with names. Their doc comments become descriptions.
macro_rules! named {
    ($(#[doc = $words:literal] $vis:vis struct $name:ident as $component:ident = $narrow:expr;)+) => {$(
        #[doc = $words]
        $vis struct $name;

        impl $crate::repr::shape::Narrow for $name {
            fn narrow(self, schema: serde_json::Value, shapes: &mut $crate::repr::shape::Shapes) -> serde_json::Value {
                shapes.named::<$name>(stringify!($component), |shapes| {
                    let schema = $crate::repr::shape::Narrow::narrow($narrow, schema, shapes);
                    $crate::repr::shape::described(schema, &[$words])
                })
            }
        }
    )+};
}
pub(crate) use named;

/// Declares shapes of answers, feeds and their lines. The struct, the server's writer, the client's reader and the schema come from the
/// one declaration. Each field is read and written with its [`WireRepr`](crate::repr::WireRepr). Bodies of requests have more facts,
/// such as bounds and versions, and are declared with `#[shape]`. Lines and orders are written by hand, because the core's values are
/// written without a copy, and their reader and schema come from here.
///
/// - `name: Type` is required. `name?: Type` is omitted if it has its default. `name??: Type` may be absent and is always written.
///   `name!: Type` is always written, and has its default if an older server omits it.
/// - `as "path"` names a module of serde functions to use instead of [`WireRepr`](crate::repr::WireRepr).
/// - `= …` narrows the schema of the type ([`Narrow`]).
/// - `pub struct Name as Component` declares a type, `remote Type as Component` represents a value of the core that clients use as
///   well, and `view Type as Component` declares a type that clients read and the server writes from the core's type of that name.
///   The schema is called `Component`, or `Name` without it.
/// - `#[one_of([a, b] [c])]` says that exactly one of these sets of optional fields is present. `[a without b]` is a set
///   without `b`.
///
/// Doc comments become descriptions in the schema.
macro_rules! shapes {
    () => {};
    (
        $(#[doc = $words:literal])*
        $(#[derive($($derive:ident),* $(,)?)])?
        $(#[one_of($([$($set:ident),+ $(without $absent:ident)?])+)])?
        $vis:vis struct $name:ident $(as $component:ident)? { $($fields:tt)* }
        $($rest:tt)*
    ) => {
        $crate::repr::shape::shapes! {
            @fields {
                own [$($words)*] [$($($derive),*)?] [$vis] [$name] [$($component)? $name]
                [$($([$($set),+ $(without $absent)?])+)?]
            } [] $($fields)*
        }
        $crate::repr::shape::shapes! { $($rest)* }
    };
    (
        $(#[doc = $words:literal])*
        $(#[one_of($([$($set:ident),+ $(without $absent:ident)?])+)])?
        $kind:ident $name:ident $(as $component:ident)? { $($fields:tt)* }
        $($rest:tt)*
    ) => {
        $crate::repr::shape::shapes! {
            @fields {
                $kind [$($words)*] [] [] [$name] [$($component)? $name]
                [$($([$($set),+ $(without $absent)?])+)?]
            } [] $($fields)*
        }
        $crate::repr::shape::shapes! { $($rest)* }
    };

    // Field after field becomes `(words visibility name type serde is_needed narrow)`.
    (
        @fields $head:tt [$($done:tt)*]
        $(#[doc = $words:literal])* $vis:vis $name:ident ?? : $type:ty $(as $with:literal)? $(= $narrow:expr)?, $($rest:tt)*
    ) => {
        $crate::repr::shape::shapes! {
            @fields $head
            [$($done)* ([$($words)*] [$vis] $name [$type] [$($with)? "crate::repr"] [, default] [false] [$($narrow)?])]
            $($rest)*
        }
    };
    (
        @fields $head:tt [$($done:tt)*]
        $(#[doc = $words:literal])* $vis:vis $name:ident ? : $type:ty $(as $with:literal)? $(= $narrow:expr)?, $($rest:tt)*
    ) => {
        $crate::repr::shape::shapes! {
            @fields $head
            [
                $($done)*
                (
                    [$($words)*] [$vis] $name [$type] [$($with)? "crate::repr"]
                    [, default, skip_serializing_if = "crate::repr::is_default"] [false] [$($narrow)?]
                )
            ]
            $($rest)*
        }
    };
    (
        @fields $head:tt [$($done:tt)*]
        $(#[doc = $words:literal])* $vis:vis $name:ident ! : $type:ty $(as $with:literal)? $(= $narrow:expr)?, $($rest:tt)*
    ) => {
        $crate::repr::shape::shapes! {
            @fields $head
            [$($done)* ([$($words)*] [$vis] $name [$type] [$($with)? "crate::repr"] [, default] [true] [$($narrow)?])]
            $($rest)*
        }
    };
    (
        @fields $head:tt [$($done:tt)*]
        $(#[doc = $words:literal])* $vis:vis $name:ident : $type:ty $(as $with:literal)? $(= $narrow:expr)?, $($rest:tt)*
    ) => {
        $crate::repr::shape::shapes! {
            @fields $head
            [$($done)* ([$($words)*] [$vis] $name [$type] [$($with)? "crate::repr"] [] [true] [$($narrow)?])]
            $($rest)*
        }
    };
    (
        @fields {
            own [$($words:literal)*] [$($derive:ident),*] [$vis:vis] [$name:ident]
            [$component:ident $($unnamed:ident)?] $sets:tt
        }
        [$((
            [$($field_words:literal)*] [$field_vis:vis] $field:ident [$type:ty] [$with:literal $($unused:literal)?]
            [$($presence:tt)*] [$is_needed:literal] [$($narrow:expr)?]
        ))*]
    ) => {
        $(#[doc = $words])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize $(, $derive)*)]
        $vis struct $name {
            $($(#[doc = $field_words])* #[serde(with = $with $($presence)*)] $field_vis $field: $type,)*
        }

        impl $crate::repr::WireWrite for $name {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }
        }

        impl $crate::repr::WireRepr for $name {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            $crate::repr::shape::shapes! {
                @schema $component [$($words)*] $sets
                $(([$($field_words)*] $field [$type] [$is_needed] [$($narrow)?]))*
            }

            fn check(&self) -> Result<(), $crate::bound::OutOfBounds> {
                $($crate::repr::WireRepr::check_field(&self.$field, stringify!($field))?;)*
                Ok(())
            }
        }
    };
    (
        @fields {
            remote [$($words:literal)*] [] [] [$name:ident] [$component:ident $($unnamed:ident)?] $sets:tt
        }
        [$((
            [$($field_words:literal)*] [$field_vis:vis] $field:ident [$type:ty] [$with:literal $($unused:literal)?]
            [$($presence:tt)*] [$is_needed:literal] [$($narrow:expr)?]
        ))*]
    ) => {
        const _: () = {
            type Remote = $name;

            #[derive(serde::Serialize, serde::Deserialize)]
            #[serde(remote = "Remote")]
            struct Fields {
                $(#[serde(with = $with $($presence)*)] $field: $type,)*
            }

            impl $crate::repr::WireWrite for $name {
                fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    Fields::serialize(self, serializer)
                }
            }

            impl $crate::repr::WireRepr for $name {
                fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    Fields::deserialize(deserializer)
                }

                $crate::repr::shape::shapes! {
                    @schema $component [$($words)*] $sets
                    $(([$($field_words)*] $field [$type] [$is_needed] [$($narrow)?]))*
                }
            }
        };
    };

    (
        @fields {
            view [$($words:literal)*] [] [] [$name:ident] [$component:ident $($unnamed:ident)?] $sets:tt
        }
        [$((
            [$($field_words:literal)*] [$field_vis:vis] $field:ident [$type:ty] [$with:literal $($unused:literal)?]
            [$($presence:tt)*] [$is_needed:literal] $narrow:tt
        ))*]
    ) => {
        $crate::repr::shape::shapes! {
            @fields { own [$($words)*] [Eq] [pub] [$name] [$component] $sets }
            [$(([$($field_words)*] [pub] $field [$type] [$with] [$($presence)*] [$is_needed] $narrow))*]
        }

        const _: () = {
            use $crate::repr::decided::*;

            type Decided = $name;

            #[derive(serde::Serialize)]
            #[serde(remote = "Decided")]
            struct Fields {
                $(#[serde(with = $with $($presence)*)] $field: $type,)*
            }

            impl $crate::repr::WireWrite for $name {
                fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    // A field of the core that is not told would be no mistake of serde's.
                    let $name { $($field: _,)* } = self;
                    Fields::serialize(self, serializer)
                }
            }
        };
    };

    (
        @schema $component:ident [$($words:literal)*] [$([$($set:ident),+ $(without $absent:ident)?])*]
        $(([$($field_words:literal)*] $field:ident [$type:ty] [$is_needed:literal] [$($narrow:expr)?]))*
    ) => {
        fn schema(shapes: &mut $crate::repr::shape::Shapes) -> serde_json::Value {
            shapes.named::<Self>(stringify!($component), |shapes| {
                let _ = &shapes;
                let fields = [$($crate::repr::shape::Field {
                    name: stringify!($field),
                    is_needed: $is_needed,
                    schema: $crate::repr::shape::shapes!(@narrow shapes [$type] $($narrow)?),
                    words: &[$($field_words),*],
                }),*];
                $crate::repr::shape::map(fields, &[$($crate::repr::shape::Set(&[$(stringify!($set)),+], &[$(stringify!($absent))?])),*], &[$($words),*])
            })
        }
    };
    (@narrow $shapes:ident [$type:ty]) => { <$type as $crate::repr::WireRepr>::schema($shapes) };
    (@narrow $shapes:ident [$type:ty] $narrow:expr) => {{
        let schema = <$type as $crate::repr::WireRepr>::schema($shapes);
        $crate::repr::shape::Narrow::narrow($narrow, schema, $shapes)
    }};
}
pub(crate) use shapes;
