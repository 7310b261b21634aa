//! Reads bodies into types of serde, in both encodings.
//!
//! JSON is rewritten as MessagePack first. So every type is compiled for one format, and an error has the same words in both, with
//! its place in the body.
//!
//! Only requests are read strictly. Answers are read leniently, with the same types.

mod error;
mod json;
#[cfg(test)]
mod tests;

use rmp::Marker;
use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
        value::{BorrowedStrDeserializer, StrDeserializer},
    },
};

use self::error::Error;
use crate::{
    Encoding, raw,
    unknown::{Path, Unknown},
};

/// The value of these bytes, if every field in them is known.
///
/// # Errors
/// The names of unknown fields, and other errors, in words.
pub(crate) fn read_strict<T: DeserializeOwned>(encoding: Encoding, bytes: &[u8]) -> Result<T, String> {
    let mut unknown = Unknown::default();
    let read = read_with(encoding, bytes, Some(&mut unknown));
    match (unknown.words(), read) {
        (None, read) => read,
        (Some(words), Ok(_)) => Err(words),
        // A missing field has often been misspelt, so both errors are shown.
        (Some(words), Err(reason)) => Err(format!("{words}; {reason}")),
    }
}

/// The value of these bytes. Unknown fields are ignored.
///
/// # Errors
/// The reason why the bytes are not such a value, in words.
pub(crate) fn read<T: DeserializeOwned>(encoding: Encoding, bytes: &[u8]) -> Result<T, String> {
    read_with(encoding, bytes, None)
}

fn read_with<T: DeserializeOwned>(
    encoding: Encoding,
    bytes: &[u8],
    unknown: Option<&mut Unknown>,
) -> Result<T, String> {
    let rewritten;
    let rest = match encoding {
        Encoding::Json => {
            rewritten = json::to_msgpack(bytes).map_err(|error| error.to_string())?;
            rewritten.as_slice()
        }
        Encoding::MsgPack => bytes,
    };
    let mut input = Input { rest, encoding, unknown };
    let value = T::deserialize(Value { input: &mut input, path: &Path::Body }).map_err(|error| error.to_string())?;
    if input.rest.is_empty() { Ok(value) } else { Err("bytes follow the end of the value".to_owned()) }
}

/// The part of a body that has not been read.
struct Input<'de, 'u> {
    /// In MessagePack.
    rest: &'de [u8],
    /// The encoding in which the body came.
    encoding: Encoding,
    /// Collects unknown fields. `None` if they are ignored.
    unknown: Option<&'u mut Unknown>,
}

/// A scalar, or the head of a list or a map.
#[derive(Clone, Copy)]
enum Token<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'de str),
    Bytes(&'de [u8]),
    /// With the number of elements.
    List(u32),
    /// With the number of pairs.
    Map(u32),
}

impl<'de> Input<'de, '_> {
    fn token(&mut self) -> Result<Token<'de>, Error> {
        let [marker] = self.array()?;
        Ok(match Marker::from_u8(marker) {
            Marker::Null => Token::Nil,
            Marker::True => Token::Bool(true),
            Marker::False => Token::Bool(false),
            Marker::FixPos(number) => Token::Unsigned(number.into()),
            Marker::FixNeg(number) => Token::Signed(number.into()),
            Marker::U8 => Token::Unsigned(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Token::Unsigned(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Token::Unsigned(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => Token::Unsigned(u64::from_be_bytes(self.array()?)),
            Marker::I8 => Token::Signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Token::Signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Token::Signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Token::Signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Token::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Token::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(length) => self.text(length.into())?,
            Marker::Str8 => self.length8().and_then(|length| self.text(length))?,
            Marker::Str16 => self.length16().and_then(|length| self.text(length))?,
            Marker::Str32 => self.length32().and_then(|length| self.text(length))?,
            Marker::Bin8 => Token::Bytes(self.length8().and_then(|length| self.take(length))?),
            Marker::Bin16 => Token::Bytes(self.length16().and_then(|length| self.take(length))?),
            Marker::Bin32 => Token::Bytes(self.length32().and_then(|length| self.take(length))?),
            Marker::FixArray(elements) => Token::List(elements.into()),
            Marker::Array16 => Token::List(self.length16()?),
            Marker::Array32 => Token::List(self.length32()?),
            Marker::FixMap(pairs) => Token::Map(pairs.into()),
            Marker::Map16 => Token::Map(self.length16()?),
            Marker::Map32 => Token::Map(self.length32()?),
            Marker::FixExt1
            | Marker::FixExt2
            | Marker::FixExt4
            | Marker::FixExt8
            | Marker::FixExt16
            | Marker::Ext8
            | Marker::Ext16
            | Marker::Ext32
            | Marker::Reserved => return Err(Error::custom("extensions of MessagePack are not used")),
        })
    }

    fn take(&mut self, length: u32) -> Result<&'de [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length as usize).ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn length8(&mut self) -> Result<u32, Error> {
        self.array().map(u8::from_be_bytes).map(u32::from)
    }

    fn length16(&mut self) -> Result<u32, Error> {
        self.array().map(u16::from_be_bytes).map(u32::from)
    }

    fn length32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    fn text(&mut self, length: u32) -> Result<Token<'de>, Error> {
        let bytes = self.take(length)?;
        str::from_utf8(bytes).map(Token::Text).map_err(|_| Error::custom("a text is not UTF-8"))
    }

    /// Skips a value.
    fn skip(&mut self) -> Result<(), Error> {
        let skipped = raw::first(self.rest).map_err(|raw::Malformed(reason)| Error::custom(reason))?;
        self.rest = &self.rest[skipped.len()..];
        Ok(())
    }
}

#[cold]
fn cut_off() -> Error {
    Error::custom("it ends in the middle of a value")
}

impl Token<'_> {
    /// The error where another type was expected.
    #[cold]
    fn invalid_type(self, expected: &dyn Expected) -> Error {
        let unexpected = match self {
            Token::Nil => Unexpected::Unit,
            Token::Bool(value) => Unexpected::Bool(value),
            Token::Unsigned(number) => Unexpected::Unsigned(number),
            Token::Signed(number) => Unexpected::Signed(number),
            Token::Float(number) => Unexpected::Float(number),
            Token::Text(text) => Unexpected::Str(text),
            Token::Bytes(bytes) => Unexpected::Bytes(bytes),
            Token::List(_) => Unexpected::Seq,
            Token::Map(_) => Unexpected::Map,
        };
        Error::invalid_type(unexpected, expected)
    }
}

/// The next value of the input.
struct Value<'a, 'de, 'u> {
    input: &'a mut Input<'de, 'u>,
    path: &'a Path<'a>,
}

impl<'a, 'de, 'u> Value<'a, 'de, 'u> {
    fn list<V: Visitor<'de>>(self, elements: u32, visitor: V) -> Result<V::Value, Error> {
        let mut list = List { input: self.input, path: self.path, elements, index: 0 };
        let value = visitor.visit_seq(&mut list)?;
        list.end()?;
        Ok(value)
    }

    /// Reads a map. `fields` are its known names, or `None` if it may have any.
    fn map<V: Visitor<'de>>(
        self,
        pairs: u32,
        fields: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Map { input: self.input, path: self.path, pairs, fields, name: "" })
    }

    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Unsigned(number) => visitor.visit_u64(number),
            Token::Signed(number) => visitor.visit_i64(number),
            Token::Float(number) => visitor.visit_f64(number),
            token => Err(token.invalid_type(&visitor)),
        }
    }
}

/// Methods that read the same as another method.
macro_rules! same_as {
    ($($other:ident: $($method:ident)+;)+) => {$($(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.$other(visitor)
        }
    )+)+};
}

impl<'de> Deserializer<'de> for Value<'_, 'de, '_> {
    type Error = Error;

    // The visitor checks the range of a number.
    same_as! {
        number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
            deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64;
        deserialize_str: deserialize_string deserialize_char deserialize_identifier;
        deserialize_bytes: deserialize_byte_buf;
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(number) => visitor.visit_u64(number),
            Token::Signed(number) => visitor.visit_i64(number),
            Token::Float(number) => visitor.visit_f64(number),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::List(elements) => self.list(elements, visitor),
            Token::Map(pairs) => self.map(pairs, None, visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Bool(value) => visitor.visit_bool(value),
            token => Err(token.invalid_type(&visitor)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Text(text) => visitor.visit_borrowed_str(text),
            token => Err(token.invalid_type(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            token => Err(token.invalid_type(&visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.rest.strip_prefix(&[Marker::Null.to_u8()]) {
            Some(rest) => {
                self.input.rest = rest;
                visitor.visit_none()
            }
            None => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Nil => visitor.visit_unit(),
            token => Err(token.invalid_type(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::List(elements) => self.list(elements, visitor),
            token => Err(token.invalid_type(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Map(pairs) => self.map(pairs, None, visitor),
            token => Err(token.invalid_type(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Map(pairs) => self.map(pairs, Some(fields), visitor),
            // Serde would read a list as the fields in their order.
            token => Err(token.invalid_type(&"a map of fields")),
        }
    }

    /// No enum of the protocol has more than a word.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.input.token()? {
            Token::Text(word) => visitor.visit_enum(StrDeserializer::new(word)),
            token => Err(token.invalid_type(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.input.skip()?;
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        self.input.encoding == Encoding::Json
    }
}

/// The elements of a list that have not been read.
struct List<'a, 'de, 'u> {
    input: &'a mut Input<'de, 'u>,
    path: &'a Path<'a>,
    elements: u32,
    index: u32,
}

impl List<'_, '_, '_> {
    fn end(&self) -> Result<(), Error> {
        if self.index == self.elements {
            return Ok(());
        }
        Err(Error::custom(format_args!("{} elements are too many", self.elements)))
    }
}

impl<'de> SeqAccess<'de> for List<'_, 'de, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if self.index == self.elements {
            return Ok(None);
        }
        let path = Path::Element { of: self.path, index: self.index };
        self.index += 1;
        seed.deserialize(Value { input: self.input, path: &path }).map(Some).map_err(|error| error.at(&path))
    }

    fn size_hint(&self) -> Option<usize> {
        Some((self.elements - self.index) as usize)
    }
}

/// The pairs of a map that have not been read.
struct Map<'a, 'de, 'u> {
    input: &'a mut Input<'de, 'u>,
    path: &'a Path<'a>,
    pairs: u32,
    fields: Option<&'static [&'static str]>,
    /// The name of the next value.
    name: &'de str,
}

impl<'de> Map<'_, 'de, '_> {
    /// The next name that is known and has a value. Skips pairs whose name is unknown, and those whose value is `null`.
    fn next_name(&mut self) -> Result<Option<&'de str>, Error> {
        while self.pairs > 0 {
            self.pairs -= 1;
            // Serde would also read numbers and bytes as names.
            let name = match self.input.token()? {
                Token::Text(name) => name,
                token => return Err(token.invalid_type(&"the name of a field")),
            };
            self.name = name;
            // The names of other maps are data.
            let Some(fields) = self.fields else { return Ok(Some(name)) };
            // `null` is the same as absent.
            if let Some(rest) = self.input.rest.strip_prefix(&[Marker::Null.to_u8()]) {
                self.input.rest = rest;
                continue;
            }
            if fields.contains(&name) {
                return Ok(Some(name));
            }
            self.input.skip()?;
            if let Some(unknown) = &mut self.input.unknown {
                unknown.note(self.path, name, fields);
            }
        }
        Ok(None)
    }
}

impl<'de> MapAccess<'de> for Map<'_, 'de, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.next_name()? {
            Some(name) => seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let path = Path::Field { of: self.path, name: self.name };
        seed.deserialize(Value { input: self.input, path: &path }).map_err(|error| error.at(&path))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.pairs as usize)
    }
}
