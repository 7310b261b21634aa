//! Lists of pairs that are a map on the wire.

use std::{fmt, marker::PhantomData};

use boxoffice_core::{
    id::Id,
    money::{Money, PRICE_MAX},
};
use serde::de::{MapAccess, Visitor};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{
    FromWire, Price, WireRepr,
    shape::{Narrow, Shapes},
};
use crate::limits::{AREAS_MAX, CATEGORIES_MAX, PROPERTIES_MAX, PROPERTY_NAME_BYTES_MAX, PROPERTY_VALUE_BYTES_MAX};

/// Represents a list of pairs as a map, in the order of the list.
macro_rules! map_repr {
    ($key:ty, $value:ty: $schema:expr) => {
        impl $crate::repr::WireWrite for Vec<($key, $value)> {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(
                    self.iter().map(|(key, value)| ($crate::repr::ToWire(key), $crate::repr::ToWire(value))),
                )
            }
        }

        impl $crate::repr::WireRepr for Vec<($key, $value)> {
            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map($crate::repr::Pairs(std::marker::PhantomData))
            }

            fn schema(shapes: &mut $crate::repr::shape::Shapes) -> serde_json::Value {
                $schema(shapes)
            }
        }
    };
}
pub(crate) use map_repr;

/// Reads a map as pairs.
pub(crate) struct Pairs<K, V>(pub(crate) PhantomData<(K, V)>);

impl<'de, K: WireRepr, V: WireRepr> Visitor<'de> for Pairs<K, V> {
    type Value = Vec<(K, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some((FromWire(key), FromWire(value))) = map.next_entry()? {
            pairs.push((key, value));
        }
        Ok(pairs)
    }
}

map_repr!(Id, Money: |shapes: &mut Shapes| {
    let (category, price) = (Id::schema(shapes), Price.narrow(Value::Null, shapes));
    shapes.named::<Vec<(Id, Money)>>("Prices", |_| json!({
        "type": "object", "propertyNames": category, "additionalProperties": price,
        "maxProperties": CATEGORIES_MAX, "description": "A price for each category, all in one currency.",
    }))
});

map_repr!(Id, i64: |shapes: &mut Shapes| {
    let zone = Id::schema(shapes);
    shapes.named::<Vec<(Id, i64)>>("Amounts", |_| json!({
        "type": "object", "propertyNames": zone,
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": PRICE_MAX},
        "maxProperties": AREAS_MAX, "description": "Prices in minor units, by category or area.",
    }))
});

map_repr!(SmolStr, SmolStr: |shapes: &mut Shapes| {
    shapes.named::<Vec<(SmolStr, SmolStr)>>("Properties", |_| json!({
        "type": "object", "propertyNames": {"type": "string", "minLength": 1, "maxLength": PROPERTY_NAME_BYTES_MAX},
        "additionalProperties": {"type": "string", "maxLength": PROPERTY_VALUE_BYTES_MAX},
        "maxProperties": PROPERTIES_MAX, "description": "Whatever else is said of it, by name.",
    }))
});
