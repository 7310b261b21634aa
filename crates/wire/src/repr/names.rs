//! Names for people by locale, as a map.

use std::marker::PhantomData;

use boxoffice_core::{
    id::Id,
    names::{LOCALE_BYTES_MAX, LOCALES_MAX, Names},
};
use serde::{Deserializer, Serializer, de::Error as _};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{Pairs, WireRepr, WireWrite, map::map_repr, shape::Shapes};
use crate::limits::NAME_BYTES_MAX;

impl WireWrite for Names {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl WireRepr for Names {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
        let pairs = deserializer.deserialize_map(Pairs::<SmolStr, SmolStr>(PhantomData))?;
        Names::new(pairs).map_err(D::Error::custom)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        shapes.named::<Names>("Names", |_| json!({
            "type": "object",
            "propertyNames": {"type": "string", "minLength": 2, "maxLength": LOCALE_BYTES_MAX, "pattern": "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$"},
            "additionalProperties": {"type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX},
            "maxProperties": LOCALES_MAX, "description": "Names for people, by locale such as `da` or `zh-Hant`.",
        }))
    }
}

map_repr!(Id, Names: |shapes: &mut Shapes| {
    let (id, names) = (Id::schema(shapes), Names::schema(shapes));
    shapes.named::<Vec<(Id, Names)>>("NamesById", |_| json!({
        "type": "object", "propertyNames": id, "additionalProperties": names,
        "description": "Names for people of each of these, by its id.",
    }))
});
