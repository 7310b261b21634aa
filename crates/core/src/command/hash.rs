//! The hash of a command. It distinguishes a repeat of a request from another body under the same request id (P9).
//!
//! These hashes are in logs, snapshots and the store, and nodes of several releases compare them. So they never change. The
//! hash is the BLAKE3 hash of the command in MessagePack, structs as lists, as `rmp-serde` writes it. Every change of state
//! needs one, so the bytes go into a block on the stack and take no allocation.

use core::fmt;

use blake3::Hasher;
use serde::{
    Serialize, Serializer,
    ser::{
        SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple, SerializeTupleStruct,
        SerializeTupleVariant,
    },
};

use super::Command;
use crate::id::{first64, hash64};

/// Enough bytes for most commands. Those of operators may have megabytes.
const BLOCK_BYTES: usize = 512;

impl Command {
    /// The hash of the whole command. It is equal for equal commands, and stable for ever.
    pub fn hash64(&self) -> u64 {
        let mut encoder = Encoder::new();
        self.serialize(&mut encoder).expect("a command consists of what the encoder can write");
        encoder.finish()
    }
}

/// Writes MessagePack and hashes it.
struct Encoder {
    /// The bytes that are not hashed yet.
    block: [u8; BLOCK_BYTES],
    filled: usize,
    /// The hash of the blocks before.
    hasher: Option<Hasher>,
}

impl Encoder {
    fn new() -> Encoder {
        Encoder { block: [0; BLOCK_BYTES], filled: 0, hasher: None }
    }

    fn finish(&mut self) -> u64 {
        let rest = &self.block[..self.filled];
        match &mut self.hasher {
            None => hash64(rest),
            Some(hasher) => first64(&hasher.update(rest).finalize()),
        }
    }

    #[cold]
    #[inline(never)]
    fn flush(&mut self) {
        self.hasher.get_or_insert_with(Hasher::new).update(&self.block[..self.filled]);
        self.filled = 0;
    }

    #[cold]
    #[inline(never)]
    fn put_long(&mut self, bytes: &[u8]) {
        self.flush();
        self.hasher.get_or_insert_with(Hasher::new).update(bytes);
    }

    // The compiler knows names of variants and lengths of structs, if it inlines these.

    /// Writes fewer bytes than a block has.
    #[inline(always)]
    fn put<const LENGTH: usize>(&mut self, bytes: [u8; LENGTH]) {
        if self.filled > BLOCK_BYTES - LENGTH {
            self.flush();
        }
        self.block[self.filled..self.filled + LENGTH].copy_from_slice(&bytes);
        self.filled += LENGTH;
    }

    #[inline(always)]
    fn put_slice(&mut self, bytes: &[u8]) {
        match self.block[self.filled..].get_mut(..bytes.len()) {
            Some(free) => {
                free.copy_from_slice(bytes);
                self.filled += bytes.len();
            }
            None => self.put_long(bytes),
        }
    }

    #[inline(always)]
    fn put_text(&mut self, text: &str) {
        match text.len() {
            length @ 0..32 => self.put([0xa0 | length as u8]),
            length => self.put_length(length, [Some(0xd9), Some(0xda), Some(0xdb)]),
        }
        self.put_slice(text.as_bytes());
    }

    #[inline(always)]
    fn put_list(&mut self, length: usize) {
        match length {
            0..16 => self.put([0x90 | length as u8]),
            _ => self.put_length(length, [None, Some(0xdc), Some(0xdd)]),
        }
    }

    /// Writes a map of one entry up to its key, which is the name of a variant with content.
    #[inline(always)]
    fn put_variant(&mut self, variant: &str) {
        self.put([0x81]);
        self.put_text(variant);
    }

    /// Writes a length of one, two or four bytes after its marker.
    #[inline(never)]
    fn put_length(&mut self, length: usize, markers: [Option<u8>; 3]) {
        let length = u32::try_from(length).expect("a frame has fewer bytes");
        let [a, b, c, d] = length.to_be_bytes();
        match (length, markers) {
            (0..0x100, [Some(marker), ..]) => self.put([marker, d]),
            (0..0x1_0000, [_, Some(marker), _]) => self.put([marker, c, d]),
            (_, [.., Some(marker)]) => self.put([marker, a, b, c, d]),
            (_, [.., None]) => unreachable!("every length fits into four bytes"),
        }
    }

    #[inline(never)]
    fn put_number(&mut self, marker: u8, number: u64) {
        self.put([marker]);
        self.put(number.to_be_bytes());
    }
}

type Written = Result<(), fmt::Error>;

impl Serializer for &mut Encoder {
    type Ok = ();
    type Error = fmt::Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fn is_human_readable(&self) -> bool {
        false
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Written {
        self.put([0xc2 | u8::from(value)]);
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Written {
        if let Ok(value) = u64::try_from(value) {
            return self.serialize_u64(value);
        }
        if value >= -32 {
            self.put([value as u8]);
        } else if let Ok(value) = i8::try_from(value) {
            self.put([0xd0, value as u8]);
        } else if let Ok(value) = i16::try_from(value) {
            let [a, b] = value.to_be_bytes();
            self.put([0xd1, a, b]);
        } else if let Ok(value) = i32::try_from(value) {
            let [a, b, c, d] = value.to_be_bytes();
            self.put([0xd2, a, b, c, d]);
        } else {
            self.put_number(0xd3, value as u64);
        }
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Written {
        self.serialize_bytes(&value.to_be_bytes())
    }

    #[inline]
    fn serialize_u8(self, value: u8) -> Written {
        self.serialize_u64(value.into())
    }

    #[inline]
    fn serialize_u16(self, value: u16) -> Written {
        self.serialize_u64(value.into())
    }

    #[inline]
    fn serialize_u32(self, value: u32) -> Written {
        self.serialize_u64(value.into())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Written {
        if value < 0x80 {
            self.put([value as u8]);
        } else if let Ok(value) = u8::try_from(value) {
            self.put([0xcc, value]);
        } else if let Ok(value) = u16::try_from(value) {
            let [a, b] = value.to_be_bytes();
            self.put([0xcd, a, b]);
        } else if let Ok(value) = u32::try_from(value) {
            let [a, b, c, d] = value.to_be_bytes();
            self.put([0xce, a, b, c, d]);
        } else {
            self.put_number(0xcf, value);
        }
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Written {
        self.serialize_bytes(&value.to_be_bytes())
    }

    fn serialize_f32(self, value: f32) -> Written {
        self.put([0xca]);
        self.put(value.to_be_bytes());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Written {
        self.put_number(0xcb, value.to_bits());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Written {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, text: &str) -> Written {
        self.put_text(text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Written {
        self.put_length(bytes.len(), [Some(0xc4), Some(0xc5), Some(0xc6)]);
        self.put_slice(bytes);
        Ok(())
    }

    #[inline]
    fn serialize_none(self) -> Written {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    #[inline]
    fn serialize_unit(self) -> Written {
        self.put([0xc0]);
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Written {
        self.put_list(0);
        Ok(())
    }

    #[inline]
    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Written {
        value.serialize(self)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        self.put_variant(variant);
        value.serialize(self)
    }

    #[inline]
    fn serialize_seq(self, length: Option<usize>) -> Result<Self, fmt::Error> {
        self.put_list(length.ok_or(fmt::Error)?);
        Ok(self)
    }

    #[inline]
    fn serialize_tuple(self, length: usize) -> Result<Self, fmt::Error> {
        self.put_list(length);
        Ok(self)
    }

    fn serialize_tuple_struct(self, _name: &'static str, length: usize) -> Result<Self, fmt::Error> {
        self.put_list(length);
        Ok(self)
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self, fmt::Error> {
        self.put_variant(variant);
        self.put_list(length);
        Ok(self)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self, fmt::Error> {
        match length {
            Some(length @ 0..16) => self.put([0x80 | length as u8]),
            Some(length) => self.put_length(length, [None, Some(0xde), Some(0xdf)]),
            None => return Err(fmt::Error),
        }
        Ok(self)
    }

    #[inline]
    fn serialize_struct(self, _name: &'static str, length: usize) -> Result<Self, fmt::Error> {
        self.put_list(length);
        Ok(self)
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self, fmt::Error> {
        self.put_variant(variant);
        self.put_list(length);
        Ok(self)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, _value: &T) -> Written {
        // The text would have to be written into memory first.
        Err(fmt::Error)
    }
}

/// The parts of a list, a map or a variant follow its length, one by one.
macro_rules! follows {
    ($($of:ident $method:ident $($name:ident)?,)+) => {$(
        impl $of for &mut Encoder {
            type Ok = ();
            type Error = fmt::Error;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, $($name: &'static str,)? value: &T) -> Written {
                value.serialize(&mut **self)
            }

            #[inline]
            fn end(self) -> Written {
                Ok(())
            }
        }
    )+};
}

follows! {
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
    SerializeStruct serialize_field _name,
    SerializeStructVariant serialize_field _name,
}

impl SerializeMap for &mut Encoder {
    type Ok = ();
    type Error = fmt::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        value.serialize(&mut **self)
    }

    fn end(self) -> Written {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, string::String, sync::Arc, vec, vec::Vec};
    use core::fmt::Debug;

    use proptest::prelude::*;
    use serde::Serialize;

    use super::{BLOCK_BYTES, Encoder};
    use crate::{
        command::{Command, VenueCommand},
        id::{Id, hash64},
        layout::{Labels, Layout, Point, Row, Run},
    };

    /// The hash of `rmp-serde`'s bytes, as in the first release.
    #[track_caller]
    fn check(value: &(impl Serialize + Debug)) {
        let mut encoder = Encoder::new();
        value.serialize(&mut encoder).expect("the value can be encoded");
        let bytes = rmp_serde::to_vec(value).expect("the value can be encoded");
        assert_eq!(encoder.finish(), hash64(&bytes), "{value:?}");
    }

    #[derive(Debug, Serialize)]
    enum Shapes {
        Unit,
        Newtype(u8),
        Tuple(i8, String),
        Struct { one: Option<u16>, other: () },
        A123456789012345678901234567890123456789,
    }

    #[derive(Debug, Serialize)]
    struct Unit;

    #[derive(Debug, Serialize)]
    struct Newtype(u128);

    #[derive(Debug, Serialize)]
    struct Tuple(i128, char);

    #[derive(Debug, Serialize)]
    struct Bytes<'a>(#[serde(serialize_with = "bytes")] &'a [u8]);

    fn bytes<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    #[test]
    fn hashes_of_numbers_match_the_first_release() {
        for bits in 0..64 {
            for number in [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                check(&number);
                check(&(number as i64));
                check(&(number as i64).wrapping_neg());
                check(&(number as u32, number as i32, -(i128::from(number)), number as f64, number as f32));
                check(&(number as u16, number as i16, number as u8, number as i8, u128::from(number)));
            }
        }
    }

    #[test]
    fn hashes_of_all_shapes_match_the_first_release() {
        check(&[Shapes::Unit, Shapes::Newtype(200), Shapes::Tuple(-33, "é".into())]);
        check(&[Shapes::Struct { one: None, other: () }, Shapes::Struct { one: Some(300), other: () }]);
        check(&Shapes::A123456789012345678901234567890123456789);
        check(&(Unit, Newtype(7), Tuple(-7, 'ß'), true, false, None::<u8>, Some("x")));
        check(&BTreeMap::from([("a", 1), ("b", 2)]));
        check(&(0..17).map(|number| (number, ())).collect::<BTreeMap<i32, ()>>());
    }

    #[test]
    fn hashes_of_all_lengths_match_the_first_release() {
        let near = |length: usize| [length - 1, length, length + 1];
        for length in [1, 16, 32, 256, BLOCK_BYTES, 1_024, 2 * BLOCK_BYTES, 65_536].into_iter().flat_map(near) {
            let text = "x".repeat(length);
            check(&text);
            check(&vec![length % 256; length]);
            check(&Bytes(text.as_bytes()));
            // Short and long texts alternate.
            check(&(&text, 1, "short", &text, u64::MAX, &text));
        }
    }

    #[test]
    fn hashes_of_halls_match_the_first_release() {
        for rows in [0, 1, 7, 200] {
            let row = |row: u16| Row {
                label: alloc::format!("row {row}").into(),
                section: Some(Id::new("stalls").expect("a good id")),
                runs: vec![Run {
                    gap: row,
                    count: 3,
                    labels: Labels::Numbers { first: -40, step: 2 },
                    category: Id::new("a").expect("a good id"),
                    accessible: row == 0,
                    points: Vec::new(),
                }],
            };
            let focal = Some(Point { x: -1_000_000, y: 5 });
            let layout = Arc::new(Layout::new((0..rows).map(row).collect(), focal).expect("a good hall"));
            let (venue, hall) = (Id::new("globe").expect("a good id"), Id::new("main").expect("a good id"));
            let put = VenueCommand::PutHall { hall, name: "Main".into(), comments: "".into(), layout };
            let command = Command::Venue(venue, put);
            check(&command);
            assert_eq!(command.hash64(), hash64(&rmp_serde::to_vec(&command).expect("the command can be encoded")));
        }
    }

    proptest! {
        #[test]
        fn hashes_of_any_values_match_the_first_release(
            values in prop::collection::vec(any::<(String, i64, Option<u64>, Vec<i16>, bool)>(), 0..20),
        ) {
            check(&values);
        }
    }
}
