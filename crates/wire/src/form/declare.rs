//! Declares shapes: from one list of fields come serde, the schema and its words.

/// Declares shapes. Each field is read and written in its [`Form`](super::Form).
///
/// - `name: Type` is needed, `name?: Type` is absent where it has its default, `name??: Type` may be absent and is always written.
///   `name!: Type` is always written, and has its default where an older server leaves it out.
/// - `as "path"` names a module of serde functions to use instead of the type's form.
/// - `= …` narrows the schema of the type ([`Narrow`](crate::shape::Narrow)).
/// - `pub struct Name as Component` is a type of its own, `remote Type as Component` the form of a type of the core. The schema has the
///   name `Component`.
/// - `#[one_of([a, b] [c])]`: these optional fields come in exactly one of these sets. `[a without b]` is
///   one without `b`.
///
/// Doc comments are the descriptions in the schema.
macro_rules! shapes {
    () => {};
    (
        $(#[doc = $words:literal])*
        $(#[derive($($derive:ident),* $(,)?)])?
        $(#[one_of($([$($set:ident),+ $(without $absent:ident)?])+)])?
        $vis:vis struct $name:ident as $component:ident { $($fields:tt)* }
        $($rest:tt)*
    ) => {
        $crate::form::shapes! {
            @fields {
                own [$($words)*] [$($($derive),*)?] [$vis] [$name] [$component] [$($([$($set),+ $(without $absent)?])+)?]
            } [] $($fields)*
        }
        $crate::form::shapes! { $($rest)* }
    };
    (
        $(#[doc = $words:literal])*
        $(#[derive($($derive:ident),* $(,)?)])?
        $(#[one_of($([$($set:ident),+ $(without $absent:ident)?])+)])?
        $vis:vis struct $name:ident { $($fields:tt)* }
        $($rest:tt)*
    ) => {
        $crate::form::shapes! {
            @fields {
                own [$($words)*] [$($($derive),*)?] [$vis] [$name] [$name] [$($([$($set),+ $(without $absent)?])+)?]
            } [] $($fields)*
        }
        $crate::form::shapes! { $($rest)* }
    };
    (
        $(#[doc = $words:literal])*
        $(#[one_of($([$($set:ident),+ $(without $absent:ident)?])+)])?
        remote $name:ident as $component:ident { $($fields:tt)* }
        $($rest:tt)*
    ) => {
        $crate::form::shapes! {
            @fields { remote [$($words)*] [] [] [$name] [$component] [$($([$($set),+ $(without $absent)?])+)?] } [] $($fields)*
        }
        $crate::form::shapes! { $($rest)* }
    };
    (
        $(#[doc = $words:literal])*
        $(#[one_of($([$($set:ident),+ $(without $absent:ident)?])+)])?
        remote $name:ident { $($fields:tt)* }
        $($rest:tt)*
    ) => {
        $crate::form::shapes! {
            @fields { remote [$($words)*] [] [] [$name] [$name] [$($([$($set),+ $(without $absent)?])+)?] } [] $($fields)*
        }
        $crate::form::shapes! { $($rest)* }
    };

    // One field after the other becomes `(words visibility name type serde is_needed narrow)`.
    (
        @fields $head:tt [$($done:tt)*]
        $(#[doc = $words:literal])* $vis:vis $name:ident ?? : $type:ty $(as $with:literal)? $(= $narrow:expr)?, $($rest:tt)*
    ) => {
        $crate::form::shapes! {
            @fields $head
            [$($done)* ([$($words)*] [$vis] $name [$type] [$($with)? "crate::form"] [, default] [false] [$($narrow)?])]
            $($rest)*
        }
    };
    (
        @fields $head:tt [$($done:tt)*]
        $(#[doc = $words:literal])* $vis:vis $name:ident ? : $type:ty $(as $with:literal)? $(= $narrow:expr)?, $($rest:tt)*
    ) => {
        $crate::form::shapes! {
            @fields $head
            [
                $($done)*
                (
                    [$($words)*] [$vis] $name [$type] [$($with)? "crate::form"]
                    [, default, skip_serializing_if = "crate::form::is_default"] [false] [$($narrow)?]
                )
            ]
            $($rest)*
        }
    };
    (
        @fields $head:tt [$($done:tt)*]
        $(#[doc = $words:literal])* $vis:vis $name:ident ! : $type:ty $(as $with:literal)? $(= $narrow:expr)?, $($rest:tt)*
    ) => {
        $crate::form::shapes! {
            @fields $head
            [$($done)* ([$($words)*] [$vis] $name [$type] [$($with)? "crate::form"] [, default] [true] [$($narrow)?])]
            $($rest)*
        }
    };
    (
        @fields $head:tt [$($done:tt)*]
        $(#[doc = $words:literal])* $vis:vis $name:ident : $type:ty $(as $with:literal)? $(= $narrow:expr)?, $($rest:tt)*
    ) => {
        $crate::form::shapes! {
            @fields $head
            [$($done)* ([$($words)*] [$vis] $name [$type] [$($with)? "crate::form"] [] [true] [$($narrow)?])]
            $($rest)*
        }
    };
    (
        @fields { own [$($words:literal)*] [$($derive:ident),*] [$vis:vis] [$name:ident] [$component:ident] $sets:tt }
        [$((
            [$($field_words:literal)*] [$field_vis:vis] $field:ident [$type:ty] [$with:literal $($unused:literal)?]
            [$($presence:tt)*] [$is_needed:literal] [$($narrow:expr)?]
        ))*]
    ) => {
        $(#[doc = $words])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize $(, $derive)*)]
        #[allow(missing_docs, reason = "names of fields that say it all have no words")]
        $vis struct $name {
            $($(#[doc = $field_words])* #[serde(with = $with $($presence)*)] $field_vis $field: $type,)*
        }

        impl $crate::form::Form for $name {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            $crate::form::shapes! {
                @schema $component [$($words)*] $sets
                $(([$($field_words)*] $field [$type] [$is_needed] [$($narrow)?]))*
            }
        }
    };
    (
        @fields { remote [$($words:literal)*] [] [] [$name:ident] [$component:ident] $sets:tt }
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

            impl $crate::form::Form for $name {
                fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    Fields::serialize(self, serializer)
                }

                fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    Fields::deserialize(deserializer)
                }

                $crate::form::shapes! {
                    @schema $component [$($words)*] $sets
                    $(([$($field_words)*] $field [$type] [$is_needed] [$($narrow)?]))*
                }
            }
        };
    };

    (
        @schema $component:ident [$($words:literal)*] [$([$($set:ident),+ $(without $absent:ident)?])*]
        $(([$($field_words:literal)*] $field:ident [$type:ty] [$is_needed:literal] [$($narrow:expr)?]))*
    ) => {
        fn schema(shapes: &mut $crate::shape::Shapes) -> serde_json::Value {
            shapes.named::<Self>(stringify!($component), |shapes| {
                let _ = &shapes;
                let fields = [$($crate::shape::Field {
                    name: stringify!($field),
                    is_needed: $is_needed,
                    schema: $crate::form::shapes!(@narrow shapes [$type] $($narrow)?),
                    words: &[$($field_words),*],
                }),*];
                $crate::shape::map(fields, &[$($crate::shape::Set(&[$(stringify!($set)),+], &[$(stringify!($absent))?])),*], &[$($words),*])
            })
        }
    };
    (@narrow $shapes:ident [$type:ty]) => { <$type as $crate::form::Form>::schema($shapes) };
    (@narrow $shapes:ident [$type:ty] $narrow:expr) => {{
        let schema = <$type as $crate::form::Form>::schema($shapes);
        $crate::shape::Narrow::narrow($narrow, schema, $shapes)
    }};
}
pub(crate) use shapes;
