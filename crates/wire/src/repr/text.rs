//! Texts, and 128 bits as hexadecimal digits.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, Serializer, de::Visitor};
use serde_json::{Value, json};

use boxoffice_core::text::{self, TextError};
use smol_str::{SmolStr, format_smolstr};

use super::{
    WireRepr, WireWrite,
    shape::{Shapes, described},
};
use crate::bound::OutOfBounds;

/// Read as it is said, and checked with its field.
impl<const MIN: usize, const MAX: usize, const LINES: bool> WireWrite for text::Text<MIN, MAX, LINES> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<const MIN: usize, const MAX: usize, const LINES: bool> WireRepr for text::Text<MIN, MAX, LINES> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SmolStr::deserialize(deserializer).map(text::Text::as_said)
    }

    fn schema(_: &mut Shapes) -> Value {
        let mut schema = json!({"type": "string", "maxLength": MAX});
        if MIN > 0 {
            schema["minLength"] = json!(MIN);
        }
        schema
    }

    fn check_field(&self, name: &str) -> Result<(), OutOfBounds> {
        self.check().map_err(|why| match why {
            TextError::TooShort => OutOfBounds::Bad(format_smolstr!("`{name}` is empty")),
            TextError::TooLong => OutOfBounds::TooLarge(format_smolstr!("`{name}` has at most {MAX} bytes")),
            TextError::Control => OutOfBounds::Bad(format_smolstr!("`{name}` has control characters")),
        })
    }
}

/// Reads text. It is not copied if the frame has it unescaped.
struct Text<F, T> {
    expected: &'static str,
    make: F,
    of: PhantomData<T>,
}

impl<'de, T, F: FnOnce(&str) -> Option<T>> Visitor<'de> for Text<F, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        let expected = self.expected;
        (self.make)(text).ok_or_else(|| E::custom(format_args!("`{}` is not {expected}", shortened(text))))
    }
}

pub(crate) fn read_text<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    expected: &'static str,
    make: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(Text { expected, make, of: PhantomData })
}

/// The start of a text, for messages.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    const SHOWN_CHARS: usize = 40;
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// The schema of texts that this expression fits.
pub(super) fn pattern_schema<T>(shapes: &mut Shapes, name: &'static str, pattern: &str, words: &str) -> Value {
    shapes.named::<T>(name, |_| described(json!({"type": "string", "pattern": pattern}), &[words]))
}

/// 32 lower-case hexadecimal digits on the stack.
pub(super) struct Hex([u8; 32]);

impl Hex {
    pub(super) fn of(number: u128) -> Hex {
        let mut text = [0; 32];
        for (place, shift) in [96, 64, 32, 0].into_iter().enumerate() {
            text[8 * place..8 * place + 8].copy_from_slice(&digits((number >> shift) as u32));
        }
        Hex(text)
    }

    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

/// The eight hexadecimal digits of a number, all at once. Each half of a byte moves into a byte of its own, and becomes a digit.
fn digits(number: u32) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut halves = u64::from(number);
    halves = (halves << 16 | halves) & 0x0000_ffff_0000_ffff;
    halves = (halves << 8 | halves) & 0x00ff_00ff_00ff_00ff;
    halves = (halves << 4 | halves) & 0x0f0f_0f0f_0f0f_0f0f;
    // One where the half is more than nine.
    let letters = (halves + 6 * ONES) >> 4 & ONES;
    let to_letter = u64::from(b'a' - b'0' - 10);
    (halves + u64::from(b'0') * ONES + to_letter * letters).to_be_bytes()
}

/// The values of hexadecimal digits. Other bytes have a value that no digit has.
const DIGITS: [u8; 256] = {
    let (mut values, mut value) = ([0xff; 256], 0);
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// The number with exactly these 32 hexadecimal digits.
pub(super) fn from_hex(text: &str) -> Option<u128> {
    let (high, low) = text.as_bytes().split_first_chunk::<16>()?;
    let half = |text: &[u8; 16]| {
        let (mut number, mut all) = (0, 0);
        for byte in text {
            let digit = DIGITS[usize::from(*byte)];
            number = number << 4 | u64::from(digit & 0xf);
            all |= digit;
        }
        (all < 16).then_some(u128::from(number))
    };
    Some(half(high)? << 64 | half(low.try_into().ok()?)?)
}

/// Reads 32 hexadecimal digits. `None` if the text is anything else.
pub(super) struct HexText;

impl Visitor<'_> for HexText {
    type Value = Option<u128>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("32 hexadecimal digits")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Option<u128>, E> {
        Ok(from_hex(text))
    }
}
