//! The stored form of values: in logs, snapshots, the store and messages between nodes.
//!
//! It is [CBOR](https://www.rfc-editor.org/rfc/rfc8949) with numbered fields. A struct is a list of its fields in the order of their
//! numbers, without absent ones at its end, so a field that a later version adds changes no byte of a value that does not use it.
//! A variant of an enum is its number if it has no fields, and otherwise a list of its number and the fields. Numbers of variants
//! and fields stand in the source (`#[n(3)]`), and each is used once and never again.
//!
//! A reader refuses what it does not know: a variant, or a field behind the last one that it knows. Every value has exactly one
//! form that is written, so hashes of bytes are hashes of values.

mod schema;
#[cfg(test)]
mod tests;

use alloc::{
    borrow::{Cow, ToOwned},
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    sync::Arc,
    vec,
    vec::Vec,
};
use core::convert::Infallible;

pub use boxoffice_declare::Stored;
use bytes::Bytes;
pub use minicbor::{Decoder as Reader, decode::Error};
use minicbor::{Encoder, data::Type, encode};
use smol_str::SmolStr;

use crate::version::{NEXT, newest};

pub use self::schema::{Again, Definition, FieldShapes, Schema, Shape, fields, name, variants};

/// Appends a value's bytes to `bytes`.
pub fn append(value: &(impl Encode + ?Sized), bytes: Vec<u8>) -> Vec<u8> {
    let mut out = Writer(Encoder::new(bytes));
    value.encode(&mut out);
    out.0.into_writer()
}

/// The value in these bytes, which must be all of them.
///
/// # Errors
/// Why the bytes are not exactly one value.
pub fn read<T: Decode>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = Reader::new(bytes);
    let value = T::decode(&mut reader).map_err(|error| error.to_string())?;
    match bytes.len() - reader.position() {
        0 => {
            #[cfg(debug_assertions)]
            own::check(&value, bytes);
            Ok(value)
        }
        left => Err(format!("{left} bytes are left over")),
    }
}

/// For tests in which only this program writes: whatever it reads must be what it would write.
#[cfg(debug_assertions)]
pub mod own {
    extern crate std;

    use core::cell::Cell;

    use super::{Encode, Vec, append};

    std::thread_local! {
        static ONLY: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether from now on this thread reads only what this program has written.
    pub fn only(is_so: bool) {
        ONLY.set(is_so);
    }

    /// Checks what was read.
    ///
    /// # Panics
    /// It is another value than was written, or another form of it.
    pub(super) fn check<T: Encode>(value: &T, bytes: &[u8]) {
        if ONLY.get() {
            let again = append(value, Vec::new());
            assert!(again == bytes, "{}: {bytes:x?} are read, and written as {again:x?}", core::any::type_name::<T>());
        }
    }
}

/// A value that can be stored.
pub trait Encode {
    /// Writes the value.
    fn encode(&self, out: &mut Writer);

    /// Whether a field with this value is left out at the end of its struct.
    fn is_absent(&self) -> bool {
        false
    }

    /// Writes a list of such values. Those that are many have a shorter form of their own.
    fn encode_list(list: &[Self], out: &mut Writer)
    where
        Self: Sized,
    {
        out.list(list.len());
        list.iter().for_each(|value| value.encode(out));
    }
}

/// A value that can be read from its stored form.
pub trait Decode: Encode + Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// The bytes are not a value of this type.
    fn decode(from: &mut Reader<'_>) -> Result<Self, Error>;

    /// What a value of this type looks like. Types that it consists of are added to the schema.
    fn shape(schema: &mut Schema) -> Shape;

    /// The shape of a list of such values.
    fn list_shape(schema: &mut Schema) -> Shape {
        Shape::List(Box::new(Self::shape(schema)))
    }

    /// The value of a field that is left out. `None` if it must be there.
    fn absent() -> Option<Self> {
        None
    }

    /// Reads a list of such values, in the form of [`Encode::encode_list`].
    ///
    /// # Errors
    /// The bytes are not such a list.
    fn decode_list(from: &mut Reader<'_>) -> Result<Vec<Self>, Error> {
        let length = list(from)?;
        // A damaged length must not reserve more memory than there are bytes.
        let mut values = Vec::with_capacity(length.min(from.input().len() - from.position()));
        for _ in 0..length {
            values.push(Self::decode(from)?);
        }
        Ok(values)
    }
}

/// Receives stored values.
pub struct Writer(Encoder<Vec<u8>>);

fn written(result: Result<&mut Encoder<Vec<u8>>, encode::Error<Infallible>>) {
    result.expect("memory takes every value");
}

impl Writer {
    /// Writes a number.
    pub fn number(&mut self, number: u64) {
        written(self.0.u64(number));
    }

    /// Writes bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        written(self.0.bytes(bytes));
    }

    /// Begins a list of so many values.
    pub fn list(&mut self, length: usize) {
        written(self.0.array(length as u64));
    }

    /// Begins a map of so many keys.
    pub fn map(&mut self, length: usize) {
        written(self.0.map(length as u64));
    }

    /// Writes the number of a variant, and begins its fields.
    pub fn variant(&mut self, number: u32, fields: usize) {
        if fields > 0 {
            self.list(1 + fields);
        }
        self.number(number.into());
    }

    /// Writes a value that is encoded already.
    pub fn raw(&mut self, value: &[u8]) {
        self.0.writer_mut().extend_from_slice(value);
    }

    /// In place of a field whose number is no longer used.
    pub fn gone(&mut self) {
        written(self.0.null());
    }
}

/// The number of values of the list that begins here.
///
/// # Errors
/// None begins here, or one that does not tell its length.
pub fn list(from: &mut Reader<'_>) -> Result<usize, Error> {
    if let Some(length) = short(from, LIST) {
        return Ok(length.into());
    }
    let start = from.position();
    let length = sized(from.array()?)?;
    check_head(start, from.position(), length as u64).map(|()| length)
}

fn sized(length: Option<u64>) -> Result<usize, Error> {
    length.and_then(|length| usize::try_from(length).ok()).ok_or_else(|| Error::message("a length is missing"))
}

/// The first bits of the heads of byte strings, texts, lists and maps. Those of a number are 0.
const BYTES: u8 = 0x40;
const TEXT: u8 = 0x60;
const LIST: u8 = 0x80;
const MAP: u8 = 0xa0;

/// Reads a head of one byte, if one of this kind begins here. Nearly all heads have one byte, and reading them here costs a purchase 2 %
/// less than asking the library and checking afterwards that the head is not longer than it has to be.
#[inline]
fn short(from: &mut Reader<'_>, kind: u8) -> Option<u8> {
    let number = from.input().get(from.position())? ^ kind;
    (number < 24).then(|| {
        from.set_position(from.position() + 1);
        number
    })
}

/// As [`short`], with that many bytes behind it.
#[inline]
fn short_bytes<'b>(from: &mut Reader<'b>, kind: u8) -> Option<&'b [u8]> {
    let start = from.position() + 1;
    let length = from.input().get(start - 1)? ^ kind;
    let bytes = (length < 24).then(|| from.input().get(start..start + usize::from(length)))??;
    from.set_position(start + bytes.len());
    Some(bytes)
}

/// Checks that the head of a value, from `start` up to `end`, is the shortest for its number.
#[inline]
fn check_head(start: usize, end: usize, number: u64) -> Result<(), Error> {
    let shortest = match number {
        0..24 => 1,
        24..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    };
    if end - start == shortest {
        Ok(())
    } else {
        Err(Error::message("a number or a length is longer than it has to be"))
    }
}

/// The bytes that begin here.
///
/// # Errors
/// None begin here.
pub fn bytes<'b>(from: &mut Reader<'b>) -> Result<&'b [u8], Error> {
    if let Some(bytes) = short_bytes(from, BYTES) {
        return Ok(bytes);
    }
    let start = from.position();
    let bytes = from.bytes()?;
    check_head(start, from.position() - bytes.len(), bytes.len() as u64).map(|()| bytes)
}

/// The text that begins here.
///
/// # Errors
/// None begins here.
pub fn text<'b>(from: &mut Reader<'b>) -> Result<&'b str, Error> {
    if let Some(bytes) = short_bytes(from, TEXT) {
        return str::from_utf8(bytes).map_err(|_| Error::message("a text is not UTF-8"));
    }
    let start = from.position();
    let text = from.str()?;
    check_head(start, from.position() - text.len(), text.len() as u64).map(|()| text)
}

/// The number of entries of the map that begins here.
///
/// # Errors
/// None begins here, or one that does not tell its length.
pub fn map(from: &mut Reader<'_>) -> Result<usize, Error> {
    if let Some(length) = short(from, MAP) {
        return Ok(length.into());
    }
    let start = from.position();
    let length = sized(from.map()?)?;
    check_head(start, from.position(), length as u64).map(|()| length)
}

/// The fields of a struct or a variant, as they are read.
pub struct FieldReader {
    left: usize,
}

impl FieldReader {
    /// Begins to read a struct.
    ///
    /// # Errors
    /// None begins here.
    pub fn of_struct(from: &mut Reader<'_>) -> Result<FieldReader, Error> {
        list(from).map(|left| FieldReader { left })
    }

    /// Begins to read a variant, and returns its number.
    ///
    /// # Errors
    /// None begins here.
    pub fn of_variant(from: &mut Reader<'_>) -> Result<(u32, FieldReader), Error> {
        let is_list = from.input().get(from.position()).is_some_and(|head| head & 0xe0 == LIST);
        let left = match is_list {
            true => list(from)?.checked_sub(1).ok_or_else(|| Error::message("a variant has no number"))?,
            false => 0,
        };
        let number = u32::decode(from)?;
        if is_list && left == 0 {
            return Err(Error::message("a variant without fields is its number"));
        }
        Ok((number, FieldReader { left }))
    }

    /// Reads the next field.
    ///
    /// # Errors
    /// It is no such value, or is left out and must be there.
    pub fn next<T: Decode + Encode>(&mut self, from: &mut Reader<'_>) -> Result<T, Error> {
        let is_last = self.left == 1;
        let value = self.next_with(from, T::decode, T::absent)?;
        if is_last && value.is_absent() {
            return Err(Error::message("the last field is absent, and is written"));
        }
        Ok(value)
    }

    /// Reads the next field with these functions.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn next_with<T>(
        &mut self,
        from: &mut Reader<'_>,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<T, Error>,
        absent: impl FnOnce() -> Option<T>,
    ) -> Result<T, Error> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                decode(from)
            }
            None => absent().ok_or_else(|| Error::message("a field is missing")),
        }
    }

    /// Skips a field whose number is no longer used.
    ///
    /// # Errors
    /// No value begins here.
    pub fn skip(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        self.next_with(from, |from| from.skip(), || Some(()))
    }

    /// Reads a field of the version that is rehearsed. A process without that version does not know it.
    ///
    /// # Errors
    /// As [`Self::next`] and [`Self::end`].
    pub fn next_rehearsed<T: Decode + Encode>(&mut self, from: &mut Reader<'_>) -> Result<T, Error> {
        if !reads_next() {
            FieldReader { left: self.left }.end()?;
        }
        self.next(from)
    }

    /// Ends reading.
    ///
    /// # Errors
    /// There are more fields than this program knows.
    pub fn end(self) -> Result<(), Error> {
        if self.left == 0 { Ok(()) } else { Err(Error::message("a field is unknown to this program")) }
    }

    /// Skips what is left, where a newer peer may say more.
    ///
    /// # Errors
    /// No value begins here.
    pub fn ignore_rest(mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        while self.left > 0 {
            self.skip(from)?;
        }
        Ok(())
    }
}

/// Whether this process knows what only the version after the newest release has.
pub fn reads_next() -> bool {
    newest() >= NEXT
}

/// The error for a number that no variant has.
pub fn unknown_variant(number: u32) -> Error {
    Error::message(format!("variant {number} is unknown to this program"))
}

/// Appends a number with seven bits a byte, the lowest first.
pub(crate) fn append_short(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number that [`append_short`] has written.
///
/// # Errors
/// There is none, or it is longer than it has to be.
pub(crate) fn take_short(bytes: &mut &[u8]) -> Result<u64, Error> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or_else(|| Error::message("a short number is cut off"))?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        number |= bits << shift;
        if *byte < 0x80 {
            let is_shortest = (bits > 0 || shift == 0) && number >> shift == bits;
            return if is_shortest { Ok(number) } else { Err(Error::message("a short number is too long")) };
        }
    }
    Err(Error::message("a short number is too long"))
}

macro_rules! numbers {
    ($($type:ident $wide:ident)*) => {$(
        impl Encode for $type {
            #[inline]
            fn encode(&self, out: &mut Writer) {
                written(out.0.$wide((*self).into()));
            }
        }

        impl Decode for $type {
            fn shape(_: &mut Schema) -> Shape {
                Shape::Leaf(stringify!($type))
            }

            #[inline]
            fn decode(from: &mut Reader<'_>) -> Result<$type, Error> {
                if let Some(number) = short(from, 0) {
                    return Ok(number.into());
                }
                let start = from.position();
                let number = from.$type()?;
                check_head(start, from.position(), number.head()).map(|()| number)
            }
        }
    )*};
}

/// A number as the head of its value has it.
trait Head {
    fn head(self) -> u64;
}

macro_rules! heads {
    ($($type:ident)*) => {$(
        impl Head for $type {
            #[inline]
            fn head(self) -> u64 {
                self.into()
            }
        }
    )*};
}

heads!(u8 u16 u32 u64);

macro_rules! signed_heads {
    ($($type:ident)*) => {$(
        impl Head for $type {
            #[inline]
            fn head(self) -> u64 {
                let number = i64::from(self);
                (if number < 0 { !number } else { number }).cast_unsigned()
            }
        }
    )*};
}

signed_heads!(i16 i32 i64);

numbers!(u16 u64 u32 u64 u64 u64 i16 i64 i32 i64 i64 i64);

impl Encode for f64 {
    fn encode(&self, out: &mut Writer) {
        written(out.0.f64(*self));
    }
}

impl Decode for f64 {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("f64")
    }

    fn decode(from: &mut Reader<'_>) -> Result<f64, Error> {
        match from.datatype()? {
            Type::F64 => from.f64(),
            _ => Err(Error::message("a number with a fraction has eight bytes")),
        }
    }
}

// Many of them are a byte string.
impl Encode for u8 {
    fn encode(&self, out: &mut Writer) {
        out.number((*self).into());
    }

    fn encode_list(list: &[u8], out: &mut Writer) {
        out.bytes(list);
    }
}

impl Decode for u8 {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("u8")
    }

    fn list_shape(_: &mut Schema) -> Shape {
        Shape::Leaf("bytes")
    }

    fn decode(from: &mut Reader<'_>) -> Result<u8, Error> {
        if let Some(number) = short(from, 0) {
            return Ok(number);
        }
        let start = from.position();
        let number = from.u8()?;
        check_head(start, from.position(), number.head()).map(|()| number)
    }

    fn decode_list(from: &mut Reader<'_>) -> Result<Vec<u8>, Error> {
        bytes(from).map(<[u8]>::to_vec)
    }
}

// A byte string. As a number it would need a tag.
impl Encode for u128 {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.to_be_bytes());
    }
}

impl Decode for u128 {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("u128")
    }

    fn decode(from: &mut Reader<'_>) -> Result<u128, Error> {
        let bytes = bytes(from)?.try_into().map_err(|_| Error::message("there are not 16 bytes"))?;
        Ok(u128::from_be_bytes(bytes))
    }
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    fn encode(&self, out: &mut Writer) {
        T::encode_list(self, out);
    }
}

impl<T: Decode, const N: usize> Decode for [T; N] {
    fn shape(schema: &mut Schema) -> Shape {
        Shape::Array(Box::new(T::list_shape(schema)), N)
    }

    fn decode(from: &mut Reader<'_>) -> Result<[T; N], Error> {
        T::decode_list(from)?.try_into().map_err(|_| Error::message(format!("there are not {N}")))
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Writer) {
        written(out.0.bool(*self));
    }

    fn is_absent(&self) -> bool {
        !self
    }
}

impl Decode for bool {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("bool")
    }

    fn decode(from: &mut Reader<'_>) -> Result<bool, Error> {
        from.bool()
    }

    fn absent() -> Option<bool> {
        Some(false)
    }
}

impl Encode for () {
    fn encode(&self, out: &mut Writer) {
        out.list(0);
    }
}

impl Decode for () {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("nothing")
    }

    fn decode(from: &mut Reader<'_>) -> Result<(), Error> {
        FieldReader::of_struct(from)?.end()
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Writer) {
        written(out.0.str(self));
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

macro_rules! texts {
    ($($type:ident)*) => {$(
        impl Encode for $type {
            fn encode(&self, out: &mut Writer) {
                self.as_str().encode(out);
            }

            fn is_absent(&self) -> bool {
                self.is_empty()
            }
        }

        impl Decode for $type {
            fn shape(_: &mut Schema) -> Shape {
                Shape::Leaf("text")
            }

            fn decode(from: &mut Reader<'_>) -> Result<$type, Error> {
                text(from).map($type::from)
            }

            fn absent() -> Option<$type> {
                Some($type::default())
            }
        }
    )*};
}

texts!(SmolStr String);

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, out: &mut Writer) {
        (**self).encode(out);
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

macro_rules! pointers {
    ($($type:ident)*) => {$(
        impl<T: Encode + ?Sized> Encode for $type<T> {
            fn encode(&self, out: &mut Writer) {
                (**self).encode(out);
            }

            fn is_absent(&self) -> bool {
                (**self).is_absent()
            }
        }

        impl<T: Decode> Decode for $type<T> {
            fn shape(schema: &mut Schema) -> Shape {
                T::shape(schema)
            }

    fn decode(from: &mut Reader<'_>) -> Result<$type<T>, Error> {
                T::decode(from).map($type::new)
            }

            fn absent() -> Option<$type<T>> {
                T::absent().map($type::new)
            }
        }

        impl<T: Decode> Decode for $type<[T]> {
            fn shape(schema: &mut Schema) -> Shape {
                T::list_shape(schema)
            }

    fn decode(from: &mut Reader<'_>) -> Result<$type<[T]>, Error> {
                T::decode_list(from).map($type::from)
            }

            fn absent() -> Option<$type<[T]>> {
                Some($type::from(Vec::new()))
            }
        }
    )*};
}

pointers!(Box Arc);

impl<T: Encode + ToOwned + ?Sized> Encode for Cow<'_, T> {
    fn encode(&self, out: &mut Writer) {
        (**self).encode(out);
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

impl<T: Encode + ToOwned<Owned: Decode> + ?Sized> Decode for Cow<'_, T> {
    fn shape(schema: &mut Schema) -> Shape {
        T::Owned::shape(schema)
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        T::Owned::decode(from).map(Cow::Owned)
    }

    fn absent() -> Option<Self> {
        T::Owned::absent().map(Cow::Owned)
    }
}

impl Encode for Bytes {
    fn encode(&self, out: &mut Writer) {
        out.bytes(self);
    }
}

impl Decode for Bytes {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("bytes")
    }

    fn decode(from: &mut Reader<'_>) -> Result<Bytes, Error> {
        bytes(from).map(Bytes::copy_from_slice)
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut Writer) {
        T::encode_list(self, out);
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Writer) {
        T::encode_list(self, out);
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn shape(schema: &mut Schema) -> Shape {
        T::list_shape(schema)
    }

    fn decode(from: &mut Reader<'_>) -> Result<Vec<T>, Error> {
        T::decode_list(from)
    }

    fn absent() -> Option<Vec<T>> {
        Some(Vec::new())
    }
}

// `T` is never written as null: no `Option` is in an `Option`.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Writer) {
        match self {
            Some(value) => value.encode(out),
            None => written(out.0.null()),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Decode> Decode for Option<T> {
    fn shape(schema: &mut Schema) -> Shape {
        Shape::Option(Box::new(T::shape(schema)))
    }

    fn decode(from: &mut Reader<'_>) -> Result<Option<T>, Error> {
        if from.datatype()? == Type::Null {
            return from.null().map(|()| None);
        }
        T::decode(from).map(Some)
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }
}

impl<T: Encode, E: Encode> Encode for Result<T, E> {
    fn encode(&self, out: &mut Writer) {
        match self {
            Ok(value) => {
                out.variant(0, 1);
                value.encode(out);
            }
            Err(error) => {
                out.variant(1, 1);
                error.encode(out);
            }
        }
    }
}

impl<T: Decode, E: Decode> Decode for Result<T, E> {
    fn shape(schema: &mut Schema) -> Shape {
        Shape::Result(Box::new((T::shape(schema), E::shape(schema))))
    }

    fn decode(from: &mut Reader<'_>) -> Result<Result<T, E>, Error> {
        let (number, mut fields) = FieldReader::of_variant(from)?;
        let result = match number {
            0 => Ok(fields.next_with(from, T::decode, || None)?),
            1 => Err(fields.next_with(from, E::decode, || None)?),
            number => return Err(unknown_variant(number)),
        };
        fields.end().map(|()| result)
    }
}

/// Reads the entries of a map, each key greater than the one before.
///
/// # Errors
/// The bytes are no such map.
pub(crate) fn entries<K: Decode + Ord + Clone, V: Decode>(
    from: &mut Reader<'_>,
    mut add: impl FnMut(K, V),
) -> Result<(), Error> {
    let mut last = None;
    for _ in 0..map(from)? {
        let key = ascending(K::decode(from)?, &mut last)?;
        add(key, V::decode(from)?);
    }
    Ok(())
}

/// This value, if it is greater than the last one.
pub(crate) fn ascending<K: Ord + Clone>(key: K, last: &mut Option<K>) -> Result<K, Error> {
    if last.as_ref().is_some_and(|last| *last >= key) {
        return Err(Error::message("keys are not in order"));
    }
    *last = Some(key.clone());
    Ok(key)
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, out: &mut Writer) {
        out.map(self.len());
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<K: Decode + Ord + Clone, V: Decode> Decode for BTreeMap<K, V> {
    fn shape(schema: &mut Schema) -> Shape {
        Shape::Map(Box::new((K::shape(schema), V::shape(schema))))
    }

    fn decode(from: &mut Reader<'_>) -> Result<BTreeMap<K, V>, Error> {
        let mut map = BTreeMap::new();
        entries(from, |key, value| _ = map.insert(key, value))?;
        Ok(map)
    }

    fn absent() -> Option<BTreeMap<K, V>> {
        Some(BTreeMap::new())
    }
}

impl<K: Encode> Encode for BTreeSet<K> {
    fn encode(&self, out: &mut Writer) {
        out.list(self.len());
        self.iter().for_each(|key| key.encode(out));
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<K: Decode + Ord + Clone> Decode for BTreeSet<K> {
    fn shape(schema: &mut Schema) -> Shape {
        Shape::Set(Box::new(K::shape(schema)))
    }

    fn decode(from: &mut Reader<'_>) -> Result<BTreeSet<K>, Error> {
        let (mut set, mut last) = (BTreeSet::new(), None);
        for _ in 0..list(from)? {
            set.insert(ascending(K::decode(from)?, &mut last)?);
        }
        Ok(set)
    }

    fn absent() -> Option<BTreeSet<K>> {
        Some(BTreeSet::new())
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        #[expect(non_snake_case, reason = "a value is called as its type")]
        impl<$($name: Encode),*> Encode for ($($name,)*) {
            fn encode(&self, out: &mut Writer) {
                let ($($name,)*) = self;
                out.list([$(stringify!($name)),*].len());
                $($name.encode(out);)*
            }
        }

        impl<$($name: Decode),*> Decode for ($($name,)*) {
            fn shape(schema: &mut Schema) -> Shape {
                Shape::Tuple(vec![$($name::shape(schema)),*])
            }

            fn decode(from: &mut Reader<'_>) -> Result<($($name,)*), Error> {
                if list(from)? != [$(stringify!($name)),*].len() {
                    return Err(Error::message("a tuple has other values"));
                }
                Ok(($($name::decode(from)?,)*))
            }
        }
    )*};
}

tuples!((A B) (A B C) (A B C D));
