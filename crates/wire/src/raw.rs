//! Splits frames: their depth, the fields of a map and the elements of a list as slices of the frame.
//!
//! Nothing is allocated by a length that a frame claims. Lengths are compared with the bytes of the frame.

use std::borrow::Cow;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::{Encoding, limits::DEPTH_MAX};

/// The fault of a frame, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl From<&str> for Malformed {
    fn from(text: &str) -> Malformed {
        Malformed(text.to_owned())
    }
}

type Checked<T> = Result<T, Malformed>;

/// Checks the depth of a frame. MessagePack is checked while it is split, without another pass.
pub(crate) fn check_depth(encoding: Encoding, frame: &[u8]) -> Checked<()> {
    match encoding {
        Encoding::Json => json_depth(frame),
        Encoding::MsgPack => Ok(()),
    }
}

/// Calls `each` with the name and the bytes of every field of a map. All of `bytes` must be the map.
pub(crate) fn fields<'a>(
    encoding: Encoding,
    bytes: &'a [u8],
    mut each: impl FnMut(&str, &'a [u8]) -> Checked<()>,
) -> Checked<()> {
    match encoding {
        Encoding::Json => {
            let mut deserializer = serde_json::Deserializer::from_slice(bytes);
            let visited = deserializer.deserialize_map(Fields { each: &mut each, refused: None });
            let refused = visited.map_err(|error| Malformed(error.to_string()))?;
            deserializer.end().map_err(|error| Malformed(error.to_string()))?;
            refused.map_or(Ok(()), Err)
        }
        Encoding::MsgPack => {
            let Item::Map { pairs, at: mut cursor } = item(bytes, 0)? else {
                return Err("a map was expected".into());
            };
            for _ in 0..pairs {
                let Item::Text { from, to } = item(bytes, cursor)? else {
                    return Err("names of fields are text".into());
                };
                let name = str::from_utf8(&bytes[from..to]).map_err(|_| Malformed::from("a name is not UTF-8"))?;
                cursor = skip(bytes, to)?;
                each(name, &bytes[to..cursor])?;
            }
            if cursor == bytes.len() { Ok(()) } else { Err("bytes follow the end of the frame".into()) }
        }
    }
}

/// The bytes of the last field with this name.
pub(crate) fn field<'a>(encoding: Encoding, map: &'a [u8], name: &str) -> Checked<Option<&'a [u8]>> {
    let mut found = None;
    fields(encoding, map, |field, value| {
        if field == name {
            found = Some(value);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Calls `each` with the bytes of every element of a list. All of `bytes` must be the list.
pub(crate) fn elements<'a>(
    encoding: Encoding,
    bytes: &'a [u8],
    mut each: impl FnMut(&'a [u8]) -> Checked<()>,
) -> Checked<()> {
    match encoding {
        Encoding::Json => {
            let mut deserializer = serde_json::Deserializer::from_slice(bytes);
            let visited = deserializer.deserialize_seq(Elements { each: &mut each });
            visited.and_then(|()| deserializer.end()).map_err(|error| Malformed(error.to_string()))
        }
        Encoding::MsgPack => {
            let Item::List { elements, at: mut cursor } = item(bytes, 0)? else {
                return Err("a list was expected".into());
            };
            for _ in 0..elements {
                let from = cursor;
                cursor = skip(bytes, from)?;
                each(&bytes[from..cursor])?;
            }
            if cursor == bytes.len() { Ok(()) } else { Err("bytes follow the end of the list".into()) }
        }
    }
}

/// The first value of MessagePack.
pub(crate) fn first(bytes: &[u8]) -> Checked<&[u8]> {
    Ok(&bytes[..skip(bytes, 0)?])
}

/// Whether `bytes` begin like a map.
pub(crate) fn is_map(encoding: Encoding, bytes: &[u8]) -> bool {
    match encoding {
        Encoding::Json => bytes.trim_ascii_start().starts_with(b"{"),
        Encoding::MsgPack => matches!(item(bytes, 0), Ok(Item::Map { .. })),
    }
}

/// The whole number of these bytes, not negative.
pub(crate) fn number(encoding: Encoding, bytes: &[u8]) -> Option<u64> {
    match encoding {
        Encoding::Json => serde_json::from_slice(bytes).ok(),
        Encoding::MsgPack => match item(bytes, 0).ok()? {
            Item::Scalar { at } if at == bytes.len() => whole(bytes),
            _ => None,
        },
    }
}

/// The text of these bytes.
pub(crate) fn text(encoding: Encoding, bytes: &[u8]) -> Option<Cow<'_, str>> {
    match encoding {
        // Borrowed if nothing is escaped.
        Encoding::Json => match bytes {
            [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => str::from_utf8(inner).ok().map(Cow::Borrowed),
            _ => serde_json::from_slice(bytes).ok().map(Cow::Owned),
        },
        Encoding::MsgPack => match item(bytes, 0).ok()? {
            Item::Text { from, to } if to == bytes.len() => str::from_utf8(&bytes[from..to]).ok().map(Cow::Borrowed),
            _ => None,
        },
    }
}

/// Whether these bytes are `null`.
pub(crate) fn is_nothing(encoding: Encoding, bytes: &[u8]) -> bool {
    match encoding {
        Encoding::Json => bytes == b"null",
        Encoding::MsgPack => bytes == [0xc0],
    }
}

/// Refuses JSON that is nested deeper than [`DEPTH_MAX`], in one pass without recursion.
fn json_depth(frame: &[u8]) -> Checked<()> {
    // Most frames have fewer brackets than this, and counting them takes a tenth of the time.
    let opening = |byte: &&u8| matches!(byte, b'{' | b'[');
    if frame.iter().filter(opening).count() <= DEPTH_MAX {
        return Ok(());
    }
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for byte in frame {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(too_deep());
                }
            }
            // The parser refuses surplus closing brackets.
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

fn too_deep() -> Malformed {
    Malformed(format!("nested deeper than {DEPTH_MAX}"))
}

/// Visits a JSON map field by field. Remembers the error of `each`.
struct Fields<'f, F> {
    each: &'f mut F,
    refused: Option<Malformed>,
}

impl<'a, F: FnMut(&str, &'a [u8]) -> Checked<()>> Visitor<'a> for Fields<'_, F> {
    type Value = Option<Malformed>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(name) = map.next_key::<Cow<'a, str>>()? {
            let value: &'a RawValue = map.next_value()?;
            if self.refused.is_none() {
                self.refused = (self.each)(&name, value.get().as_bytes()).err();
            }
        }
        Ok(self.refused)
    }
}

/// Visits a JSON list element by element. Stops at an error of `each`.
struct Elements<'f, F> {
    each: &'f mut F,
}

impl<'a, F: FnMut(&'a [u8]) -> Checked<()>> Visitor<'a> for Elements<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<&'a RawValue>()? {
            if let Err(Malformed(reason)) = (self.each)(value.get().as_bytes()) {
                return Err(A::Error::custom(reason));
            }
        }
        Ok(())
    }
}

/// The head of a MessagePack item. Its contents begin at `at`.
enum Item {
    /// A number, nil, a boolean, bytes or an extension, which ends at `at`.
    Scalar { at: usize },
    /// Text between two places.
    Text { from: usize, to: usize },
    /// A list of this many elements.
    List { elements: u32, at: usize },
    /// A map of this many pairs.
    Map { pairs: u32, at: usize },
}

/// An error in MessagePack, put into words only when it is shown.
#[derive(Clone, Copy)]
enum Fault {
    CutOff,
    NoMessagePack,
    TooDeep,
}

impl From<Fault> for Malformed {
    #[cold]
    fn from(fault: Fault) -> Malformed {
        match fault {
            Fault::CutOff => "the frame ends in the middle of a value".into(),
            Fault::NoMessagePack => "0xc1 is no MessagePack".into(),
            Fault::TooDeep => too_deep(),
        }
    }
}

/// The item that begins at `at`.
#[inline]
fn item(bytes: &[u8], at: usize) -> Result<Item, Fault> {
    let Some(&marker) = bytes.get(at) else { return Err(Fault::CutOff) };
    let body = at + 1;
    // Most items have a head of one byte.
    match marker {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Ok(Item::Scalar { at: body }),
        0x80..=0x8f => Ok(Item::Map { pairs: u32::from(marker & 0x0f), at: body }),
        0x90..=0x9f => Ok(Item::List { elements: u32::from(marker & 0x0f), at: body }),
        0xa0..=0xbf => {
            let to = body + usize::from(marker & 0x1f);
            if to <= bytes.len() { Ok(Item::Text { from: body, to }) } else { Err(Fault::CutOff) }
        }
        0xc1 | 0xc4..=0xdf => long_item(bytes, marker, body),
    }
}

/// The item with this marker, whose head has more than one byte.
#[inline(never)]
fn long_item(bytes: &[u8], marker: u8, body: usize) -> Result<Item, Fault> {
    let found = match marker {
        0xc4 => span(bytes, body + 1, length(bytes, body, 1)?, Item::scalar)?,
        0xc5 => span(bytes, body + 2, length(bytes, body, 2)?, Item::scalar)?,
        0xc6 => span(bytes, body + 4, length(bytes, body, 4)?, Item::scalar)?,
        0xc7 => span(bytes, body + 2, length(bytes, body, 1)?, Item::scalar)?,
        0xc8 => span(bytes, body + 3, length(bytes, body, 2)?, Item::scalar)?,
        0xc9 => span(bytes, body + 5, length(bytes, body, 4)?, Item::scalar)?,
        0xcc | 0xd0 => span(bytes, body, 1, Item::scalar)?,
        0xcd | 0xd1 | 0xd4 => span(bytes, body, 2, Item::scalar)?,
        0xd5 => span(bytes, body, 3, Item::scalar)?,
        0xca | 0xce | 0xd2 => span(bytes, body, 4, Item::scalar)?,
        0xd6 => span(bytes, body, 5, Item::scalar)?,
        0xcb | 0xcf | 0xd3 => span(bytes, body, 8, Item::scalar)?,
        0xd7 => span(bytes, body, 9, Item::scalar)?,
        0xd8 => span(bytes, body, 17, Item::scalar)?,
        0xd9 => span(bytes, body + 1, length(bytes, body, 1)?, Item::text)?,
        0xda => span(bytes, body + 2, length(bytes, body, 2)?, Item::text)?,
        0xdb => span(bytes, body + 4, length(bytes, body, 4)?, Item::text)?,
        0xdc => Item::List { elements: length(bytes, body, 2)?, at: body + 2 },
        0xdd => Item::List { elements: length(bytes, body, 4)?, at: body + 4 },
        0xde => Item::Map { pairs: length(bytes, body, 2)?, at: body + 2 },
        0xdf => Item::Map { pairs: length(bytes, body, 4)?, at: body + 4 },
        _ => return Err(Fault::NoMessagePack),
    };
    Ok(found)
}

impl Item {
    fn text(from: usize, to: usize) -> Item {
        Item::Text { from, to }
    }

    fn scalar(_from: usize, to: usize) -> Item {
        Item::Scalar { at: to }
    }
}

/// The item of `length` bytes from `from`, if they are all there.
fn span(bytes: &[u8], from: usize, length: u32, item: fn(usize, usize) -> Item) -> Result<Item, Fault> {
    let there = bytes.len().checked_sub(from).ok_or(Fault::CutOff)?;
    let length = usize::try_from(length).map_err(|_| Fault::CutOff)?;
    if length <= there { Ok(item(from, from + length)) } else { Err(Fault::CutOff) }
}

/// The big-endian number of `width` bytes at `at`.
fn length(bytes: &[u8], at: usize, width: usize) -> Result<u32, Fault> {
    let digits = bytes.get(at..at + width).ok_or(Fault::CutOff)?;
    Ok(digits.iter().fold(0, |number, digit| (number << 8) | u32::from(*digit)))
}

/// The end of the item that begins at `at`. The item is a field of a map, so it may have [`DEPTH_MAX`] − 1 levels.
#[inline]
fn skip(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    match item(bytes, at)? {
        Item::Scalar { at: end } | Item::Text { to: end, .. } => Ok(end),
        Item::List { .. } | Item::Map { .. } => skip_all(bytes, at),
    }
}

/// The end of a list or a map.
fn skip_all(bytes: &[u8], mut at: usize) -> Result<usize, Fault> {
    // The missing items of each open list or map. Pairs count twice.
    let mut open = [0u64; DEPTH_MAX];
    let mut depth = 0;
    loop {
        let owed = match item(bytes, at)? {
            Item::Scalar { at: end } | Item::Text { to: end, .. } => {
                at = end;
                None
            }
            Item::List { elements, at: inside } => {
                at = inside;
                Some(u64::from(elements))
            }
            Item::Map { pairs, at: inside } => {
                at = inside;
                Some(2 * u64::from(pairs))
            }
        };
        // The map around this item is the first level.
        if owed.is_some() && depth + 1 == DEPTH_MAX {
            return Err(Fault::TooDeep);
        }
        if let Some(owed @ 1..) = owed {
            open[depth] = owed;
            depth += 1;
            continue;
        }
        while depth > 0 {
            open[depth - 1] -= 1;
            if open[depth - 1] > 0 {
                break;
            }
            depth -= 1;
        }
        if depth == 0 {
            return Ok(at);
        }
    }
}

/// The whole number of a scalar, not negative.
fn whole(bytes: &[u8]) -> Option<u64> {
    match bytes {
        [small @ 0x00..=0x7f] => Some(u64::from(*small)),
        [0xcc..=0xcf, digits @ ..] => Some(digits.iter().fold(0, |number, digit| (number << 8) | u64::from(*digit))),
        // Some encoders write numbers that are not negative as signed.
        [0xd0..=0xd3, digits @ ..] if digits[0] < 0x80 => {
            Some(digits.iter().fold(0, |number, digit| (number << 8) | u64::from(*digit)))
        }
        _ => None,
    }
}
