//! The form that values of the core have on the wire: one set of shapes for both encodings.
//!
//! The core's own serialization is for its log; what is here is for clients and never changes: ids are text, carts and
//! orders 32 hexadecimal digits, seats `[row, seat]`, states words, times RFC 3339 in JSON and milliseconds in MessagePack,
//! packed maps base64 in JSON and bytes in MessagePack. `#[serde(with = "form")]` on a field asks for it.

pub mod shape;
mod time;

use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use base64::engine::general_purpose::STANDARD;
use boxoffice_core::{
    id::{CartId, CartToken, Entity, HoldId, ID_BYTES_MAX, Id, OrderId, RequestHash},
    money::{Currency, Money, PRICE_MAX},
    seat::{Seat, SeatState},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
    ser::{SerializeSeq, SerializeStruct, SerializeTuple},
};
use serde_json::{Value, json};
use smol_str::SmolStr;

use self::shape::{Each, Field, Narrow, Shapes, described, map, shapes};
use crate::limits::{CATEGORIES_MAX, PROPERTIES_MAX, PROPERTY_NAME_BYTES_MAX, PROPERTY_VALUE_BYTES_MAX};
pub(crate) use time::{Day, WallTime, is_date, wall_time};
pub use time::{day, day_text, rfc3339, timestamp};

/// A value with a form on the wire.
pub trait Form: Sized {
    /// Writes the form.
    ///
    /// # Errors
    /// Those of the serializer.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads the form.
    ///
    /// # Errors
    /// Those of the deserializer, and what does not fit, in words.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// The JSON Schema of the form: of a shape with a name, a reference to it among `shapes`.
    fn schema(shapes: &mut Shapes) -> Value;
}

/// For `#[serde(with = "form")]`.
pub(crate) fn serialize<T: Form, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.write(serializer)
}

/// For `#[serde(with = "form")]`.
pub(crate) fn deserialize<'de, T: Form, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// A value written in its form.
pub(crate) struct On<'a, T>(pub(crate) &'a T);

impl<T: Form> Serialize for On<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// A value read from its form.
pub(crate) struct Of<T>(pub(crate) T);

impl<'de, T: Form> Deserialize<'de> for Of<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Of<T>, D::Error> {
        T::read(deserializer).map(Of)
    }
}

/// Whether a field with this value is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Gives types that are the same everywhere the form they have.
macro_rules! plain_form {
    ($($($value:ty),+ => $schema:expr;)+) => {$($(
        impl $crate::form::Form for $value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            fn schema(_: &mut $crate::form::shape::Shapes) -> serde_json::Value {
                $schema
            }
        }
    )+)+};
}
pub(crate) use plain_form;

plain_form! {
    u8, u16, u32, u64 => json!({"type": "integer", "minimum": 0});
    i32, i64 => json!({"type": "integer"});
    f64 => json!({"type": "number"});
    bool => json!({"type": "boolean"});
    SmolStr, String, Cow<'static, str> => json!({"type": "string"});
    // A time or a place: two numbers side by side.
    (u16, u16) => json!({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2});
    (i32, i32) => json!({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2});
}

/// Gives a type the form of another one, from and into which it is made.
macro_rules! form_of {
    ($($value:ty: $shape:ty),+ $(,)?) => {$(
        impl $crate::form::Form for $value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&<$shape>::from(self.clone()), serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let shape: $shape = serde::Deserialize::deserialize(deserializer)?;
                shape.try_into().map_err(serde::de::Error::custom)
            }

            fn schema(shapes: &mut $crate::form::shape::Shapes) -> serde_json::Value {
                <$shape as $crate::form::Form>::schema(shapes)
            }
        }
    )+};
}
pub(crate) use form_of;

/// Makes one type into another that has the same values, and back: each is written as the pattern that takes it apart.
macro_rules! same {
    ($($value:ident { $($values:tt)* } = $shape:ident { $($fields:tt)* }),+ $(,)?) => {$(
        impl From<$value> for $shape {
            fn from($value { $($values)* }: $value) -> $shape {
                $shape { $($fields)* }
            }
        }

        impl From<$shape> for $value {
            fn from($shape { $($fields)* }: $shape) -> $value {
                $value { $($values)* }
            }
        }
    )+};
}
pub(crate) use same;

/// Gives an enum words.
macro_rules! words {
    ($($(#[doc = $words:literal])? $value:ident as $component:ident { $($variant:ident: $word:literal),+ $(,)? })+) => {$(
        impl $crate::form::Form for $value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::form::Word::word(self))
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::form::read_text(deserializer, concat!("one of", $(" `", $word, "`"),+), |text| match text {
                    $($word => Some($value::$variant),)+
                    _ => None,
                })
            }

            fn schema(shapes: &mut $crate::form::shape::Shapes) -> serde_json::Value {
                let words = || serde_json::json!({"type": "string", "enum": [$($word),+]});
                shapes.named::<Self>(stringify!($component), |_| $crate::form::shape::described(words(), &[$($words)?]))
            }
        }

        impl $crate::form::Word for $value {
            fn word(&self) -> &'static str {
                match self {
                    $($value::$variant => $word,)+
                }
            }
        }
    )+};
}
pub(crate) use words;

/// What has a word for each of its values.
pub(crate) trait Word {
    fn word(&self) -> &'static str;
}

impl<T: Form> Form for Vec<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.len()))?;
        for value in self {
            list.serialize_element(&On(value))?;
        }
        list.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(UpTo { most: usize::MAX, of: PhantomData })
    }

    fn schema(shapes: &mut Shapes) -> Value {
        json!({"type": "array", "items": T::schema(shapes)})
    }
}

impl<T: Form> Form for Option<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => serializer.serialize_some(&On(value)),
            None => serializer.serialize_none(),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        Ok(Option::<Of<T>>::deserialize(deserializer)?.map(|Of(value)| value))
    }

    fn schema(shapes: &mut Shapes) -> Value {
        T::schema(shapes)
    }
}

impl<T: Form> Form for Arc<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::write(self, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
        T::read(deserializer).map(Arc::new)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        T::schema(shapes)
    }
}

/// A list of at most `MOST` values and one more: enough to see that there are too many, whatever a frame claims.
pub(crate) struct AtMost<const MOST: usize>;

impl<const MOST: usize> AtMost<MOST> {
    pub(crate) fn serialize<T: Form, S: Serializer>(values: &Vec<T>, serializer: S) -> Result<S::Ok, S::Error> {
        values.write(serializer)
    }

    pub(crate) fn deserialize<'de, T: Form, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(UpTo { most: MOST, of: PhantomData })
    }
}

/// The same where the list may be absent.
pub(crate) struct AtMostIfAny<const MOST: usize>;

impl<const MOST: usize> AtMostIfAny<MOST> {
    pub(crate) fn serialize<T: Form, S: Serializer>(values: &Option<Vec<T>>, serializer: S) -> Result<S::Ok, S::Error> {
        values.write(serializer)
    }

    pub(crate) fn deserialize<'de, T: Form, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
        deserializer.deserialize_option(IfAny(UpTo { most: MOST, of: PhantomData }))
    }
}

/// Entries reserved ahead of reading a list: a claimed length is not believed further than this.
const RESERVED_ENTRIES: usize = 32;

struct UpTo<T> {
    most: usize,
    of: PhantomData<T>,
}

impl<'de, T: Form> Visitor<'de> for UpTo<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::with_capacity(list.size_hint().unwrap_or(0).min(RESERVED_ENTRIES));
        while let Some(Of(value)) = list.next_element::<Of<T>>()? {
            values.push(value);
            if values.len() > self.most {
                while list.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(values)
    }
}

struct IfAny<T>(UpTo<T>);

impl<'de, T: Form> Visitor<'de> for IfAny<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or nothing")
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self.0).map(Some)
    }
}

/// Reads text without copying it where the frame has it plainly.
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

impl Form for Id {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        read_text(deserializer, "an id (1 to 64 of A-Z a-z 0-9 . _ : -)", Id::new)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let pattern = format!("^[A-Za-z0-9._:-]{{1,{ID_BYTES_MAX}}}$");
        pattern_schema::<Id>(shapes, "Id", &pattern, "An id that the client chooses.")
    }
}

/// The schema of texts that this expression fits.
fn pattern_schema<T>(shapes: &mut Shapes, name: &'static str, pattern: &str, words: &str) -> Value {
    shapes.named::<T>(name, |_| described(json!({"type": "string", "pattern": pattern}), &[words]))
}

/// 32 lower-case hexadecimal digits on the stack.
struct Hex([u8; 32]);

impl Hex {
    fn of(number: u128) -> Hex {
        let mut text = [0; 32];
        for (place, shift) in [96, 64, 32, 0].into_iter().enumerate() {
            text[8 * place..8 * place + 8].copy_from_slice(&digits((number >> shift) as u32));
        }
        Hex(text)
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

/// The eight hexadecimal digits of a number, all at once: each half of a byte moves into a byte of its own, and becomes a digit.
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

/// The values of hexadecimal digits; other bytes have one that no digit has.
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
fn from_hex(text: &str) -> Option<u128> {
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

/// The cart token with this text: 32 hexadecimal digits.
pub fn cart_token(text: &str) -> Option<CartToken> {
    from_hex(text).map(CartToken)
}

/// The text of a cart token. It is a secret: for its owner's pocket, not for logs.
pub fn cart_token_text(token: CartToken) -> String {
    Hex::of(token.0).as_str().to_owned()
}

/// The cart id with this text: 32 hexadecimal digits.
pub fn cart_id(text: &str) -> Option<CartId> {
    from_hex(text).map(CartId)
}

/// The order id with this text: 32 hexadecimal digits.
pub fn order_id(text: &str) -> Option<OrderId> {
    from_hex(text).map(OrderId)
}

macro_rules! hexadecimal_form {
    ($($value:ident as $name:literal: $expected:literal, $words:literal;)+) => {$(
        impl Form for $value {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(Hex::of(self.0).as_str())
            }

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$value, D::Error> {
                // The text is not shown: it may be a token, mistaken for something else.
                deserializer.deserialize_str(HexText).and_then(|number| {
                    number.map($value).ok_or_else(|| D::Error::custom($expected))
                })
            }

            fn schema(shapes: &mut Shapes) -> Value {
                pattern_schema::<$value>(shapes, $name, HEX_128, $words)
            }
        }
    )+};
}

/// What 32 hexadecimal digits fit.
pub(crate) const HEX_128: &str = "^[0-9a-fA-F]{32}$";

struct HexText;

impl Visitor<'_> for HexText {
    type Value = Option<u128>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("32 hexadecimal digits")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Option<u128>, E> {
        Ok(from_hex(text))
    }
}

hexadecimal_form! {
    CartToken as "Token": "a cart token is 32 hexadecimal digits",
        "A cart's token: 128 bits that the client keeps secret; the last 112 are random.";
    CartId as "CartId": "a cart id is 32 hexadecimal digits",
        "A cart: the first 16 bits of its token, then the first 112 bits of the token's BLAKE3 hash.";
    OrderId as "OrderId": "an order id is 32 hexadecimal digits", "An order: the cart it came from.";
}

/// The entity with this text: `venue/…`, `session/…`, `product/…`, `resource/…`, `cart/…`, `customer/…`, `directory` or `cluster`.
pub fn entity(text: &str) -> Option<Entity> {
    let Some((kind, id)) = text.split_once('/') else {
        return match text {
            "directory" => Some(Entity::Directory),
            "cluster" => Some(Entity::Cluster),
            _ => None,
        };
    };
    match kind {
        "venue" => Id::new(id).map(Entity::Venue),
        "session" => Id::new(id).map(Entity::Session),
        "product" => Id::new(id).map(Entity::Product),
        "resource" => Id::new(id).map(Entity::Resource),
        "customer" => Id::new(id).map(Entity::Customer),
        "cart" => cart_id(id).map(Entity::Cart),
        _ => None,
    }
}

impl Form for Entity {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [0u8; "resource/".len() + boxoffice_core::id::ID_BYTES_MAX];
        let hex;
        let (kind, id) = match self {
            Entity::Venue(id) => ("venue/", id.as_str()),
            Entity::Session(id) => ("session/", id.as_str()),
            Entity::Product(id) => ("product/", id.as_str()),
            Entity::Resource(id) => ("resource/", id.as_str()),
            Entity::Customer(id) => ("customer/", id.as_str()),
            Entity::Directory => ("directory", ""),
            Entity::Cluster => ("cluster", ""),
            Entity::Cart(id) => {
                hex = Hex::of(id.0);
                ("cart/", hex.as_str())
            }
        };
        let end = kind.len() + id.len();
        text[..kind.len()].copy_from_slice(kind.as_bytes());
        text[kind.len()..end].copy_from_slice(id.as_bytes());
        serializer.serialize_str(str::from_utf8(&text[..end]).expect("ids are ASCII"))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Entity, D::Error> {
        read_text(
            deserializer,
            "an entity (session/…, product/…, resource/…, cart/…, customer/…, venue/…, directory or cluster)",
            entity,
        )
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let pattern = format!(
            "^((venue|session|product|resource|customer)/[A-Za-z0-9._:-]{{1,{ID_BYTES_MAX}}}|cart/[0-9a-fA-F]{{32}}|directory|cluster)$"
        );
        let words =
            "`venue/…`, `session/…`, `product/…`, `resource/…`, `customer/…`, `cart/…`, `directory` or `cluster`.";
        pattern_schema::<Entity>(shapes, "Entity", &pattern, words)
    }
}

impl Form for Currency {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Currency, D::Error> {
        read_text(deserializer, "a currency (three capital letters)", Currency::new)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        pattern_schema::<Currency>(shapes, "Currency", "^[A-Z]{3}$", "An ISO 4217 code.")
    }
}

shapes! {
    /// An amount in minor units.
    remote Money {
        amount: i64 = -(1i64 << 53)..=1 << 53,
        currency: Currency,
    }
}

/// The schema of the money that one seat, place or unit costs.
pub(crate) struct Price;

impl Narrow for Price {
    fn narrow(self, _: Value, shapes: &mut Shapes) -> Value {
        shapes.named::<Price>("Price", |shapes| {
            let words: &[&str] = &["The price of one seat, place or unit in minor units."];
            let amount = Field {
                name: "amount",
                is_needed: true,
                schema: (0..=PRICE_MAX).narrow(i64::schema(shapes), shapes),
                words: &[],
            };
            let currency = Field { name: "currency", is_needed: true, schema: Currency::schema(shapes), words: &[] };
            map([amount, currency], &[], words)
        })
    }
}

impl Form for Seat {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pair = serializer.serialize_tuple(2)?;
        pair.serialize_element(&self.row)?;
        pair.serialize_element(&self.seat)?;
        pair.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Seat, D::Error> {
        let (row, seat) = <(u16, u16)>::deserialize(deserializer)?;
        Ok(Seat { row, seat })
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let words = "`[row, seat]`, counted from 0 in layout order.";
        shapes.named::<Seat>("Seat", |shapes| {
            described(Each(0..=u16::MAX).narrow(<(u16, u16)>::schema(shapes), shapes), &[words])
        })
    }
}

words! {
    SeatState as SeatState { Free: "free", Held: "held", Sold: "sold", Blocked: "blocked" }
}

/// The state in the words of the protocol.
pub fn seat_state_text(state: SeatState) -> &'static str {
    state.word()
}

shapes! {
    remote HoldId {
        cart: CartId,
        request: RequestHash,
        part: u16,
        attempt: u16,
    }
}

/// 16 hexadecimal digits, since JSON's numbers end at 2⁵³.
impl Form for RequestHash {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RequestHash, D::Error> {
        read_text(deserializer, "the hash of a request id (16 hexadecimal digits)", |text| {
            u64::from_str_radix(text, 16).ok().map(RequestHash)
        })
    }

    fn schema(_: &mut Shapes) -> Value {
        json!({"type": "string", "pattern": "^[0-9a-f]{16}$"})
    }
}

/// A name of 128 bits.
impl Form for u128 {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Hex::of(*self).as_str())
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let name = deserializer.deserialize_str(HexText)?;
        name.ok_or_else(|| D::Error::custom("a name of 128 bits is 32 hexadecimal digits"))
    }

    fn schema(_: &mut Shapes) -> Value {
        json!({"type": "string", "pattern": HEX_128})
    }
}

/// Bytes: base64 in JSON, bytes in MessagePack.
pub(crate) mod bytes {
    use base64::{Engine as _, display::Base64Display};

    use super::{Deserializer, STANDARD, Serializer, Visitor, fmt, read_text};

    pub(crate) fn serialize<S: Serializer>(bytes: impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&Base64Display::new(bytes.as_ref(), &STANDARD))
        } else {
            serializer.serialize_bytes(bytes.as_ref())
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        if deserializer.is_human_readable() {
            read_text(deserializer, "base64", |text| STANDARD.decode(text).ok())
        } else {
            deserializer.deserialize_bytes(Plain)
        }
    }

    struct Plain;

    impl Visitor<'_> for Plain {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_owned())
        }
    }
}

/// Bytes, at most so many, in a schema.
pub(crate) struct Base64(pub(crate) Option<usize>);

impl Narrow for Base64 {
    fn narrow(self, _: Value, _: &mut Shapes) -> Value {
        let mut schema = json!({"type": "string", "contentEncoding": "base64"});
        if let Some(bytes_max) = self.0 {
            schema["maxLength"] = json!(bytes_max.div_ceil(3) * 4);
        }
        schema
    }
}

/// Pairs that are a map on the wire, in the order in which they stand.
macro_rules! map_form {
    ($key:ty, $value:ty: $schema:expr) => {
        impl $crate::form::Form for Vec<($key, $value)> {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.iter().map(|(key, value)| ($crate::form::On(key), $crate::form::On(value))))
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map($crate::form::Pairs(std::marker::PhantomData))
            }

            fn schema(shapes: &mut $crate::form::shape::Shapes) -> serde_json::Value {
                $schema(shapes)
            }
        }
    };
}
pub(crate) use map_form;

/// Reads a map as pairs.
pub(crate) struct Pairs<K, V>(pub(crate) PhantomData<(K, V)>);

impl<'de, K: Form, V: Form> Visitor<'de> for Pairs<K, V> {
    type Value = Vec<(K, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Of(key), Of(value))) = map.next_entry()? {
            pairs.push((key, value));
        }
        Ok(pairs)
    }
}

map_form!(Id, Money: |shapes: &mut Shapes| {
    let (category, price) = (Id::schema(shapes), Price.narrow(Value::Null, shapes));
    shapes.named::<Vec<(Id, Money)>>("Prices", |_| json!({
        "type": "object", "propertyNames": category, "additionalProperties": price,
        "maxProperties": CATEGORIES_MAX, "description": "A price for each category, all in one currency.",
    }))
});

map_form!(SmolStr, SmolStr: |shapes: &mut Shapes| {
    shapes.named::<Vec<(SmolStr, SmolStr)>>("Properties", |_| json!({
        "type": "object", "propertyNames": {"type": "string", "minLength": 1, "maxLength": PROPERTY_NAME_BYTES_MAX},
        "additionalProperties": {"type": "string", "maxLength": PROPERTY_VALUE_BYTES_MAX},
        "maxProperties": PROPERTIES_MAX, "description": "Whatever else is said of it, by name.",
    }))
});

/// A map with no fields.
pub(crate) struct Nothing;

impl Nothing {
    pub(crate) fn schema(shapes: &mut Shapes) -> Value {
        shapes.named::<Nothing>("Done", |_| json!({"type": "object", "description": "Done."}))
    }
}

impl Serialize for Nothing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_struct("Nothing", 0)?.end()
    }
}
