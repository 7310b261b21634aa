//! The form that values of the core have on the wire: one set of shapes for both encodings.
//!
//! The core's own serialization is for its log; what is here is for clients and never changes: ids are text, carts and
//! orders 32 hexadecimal digits, seats `[row, seat]`, states words, times RFC 3339 in JSON and milliseconds in MessagePack,
//! packed maps base64 in JSON and bytes in MessagePack. `#[serde(with = "form")]` on a field asks for it.

mod time;

use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use base64::engine::general_purpose::STANDARD;
use boxoffice_core::{
    id::{CartId, CartToken, Entity, HoldId, Id, OrderId, RequestHash},
    money::{Currency, Money},
    seat::{Seat, SeatState},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple},
};
use smol_str::SmolStr;

pub use time::{day, day_text, rfc3339, timestamp};
pub(crate) use time::{is_date, wall_time};

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

/// Gives a type of the core the form of a `#[serde(remote)]` definition.
macro_rules! remote_form {
    ($($value:ty => $definition:ty),+ $(,)?) => {$(
        impl $crate::form::Form for $value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$definition>::serialize(self, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$definition>::deserialize(deserializer)
            }
        }
    )+};
}
pub(crate) use remote_form;

/// Gives a type that is the same everywhere the form it has.
macro_rules! plain_form {
    ($($value:ty),+ $(,)?) => {$(
        impl $crate::form::Form for $value {
            fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(self, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }
        }
    )+};
}
pub(crate) use plain_form;

plain_form!(u32, SmolStr);

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
}

impl<T: Form> Form for Arc<T> {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::write(self, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
        T::read(deserializer).map(Arc::new)
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

fn read_text<'de, T, D: Deserializer<'de>>(
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
    ($($value:ident: $expected:literal),+ $(,)?) => {$(
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
        }
    )+};
}

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
    CartToken: "a cart token is 32 hexadecimal digits",
    CartId: "a cart id is 32 hexadecimal digits",
    OrderId: "an order id is 32 hexadecimal digits",
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
}

impl Form for Currency {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Currency, D::Error> {
        read_text(deserializer, "a currency (three capital letters)", Currency::new)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Money")]
struct MoneyForm {
    amount: i64,
    #[serde(with = "crate::form")]
    currency: Currency,
}

remote_form!(Money => MoneyForm);

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
}

/// The state in the words of the protocol.
pub fn seat_state_text(state: SeatState) -> &'static str {
    match state {
        SeatState::Free => "free",
        SeatState::Held => "held",
        SeatState::Sold => "sold",
        SeatState::Blocked => "blocked",
    }
}

impl Form for SeatState {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(seat_state_text(*self))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SeatState, D::Error> {
        read_text(deserializer, "a state (free, held, sold or blocked)", |text| {
            [SeatState::Free, SeatState::Held, SeatState::Sold, SeatState::Blocked]
                .into_iter()
                .find(|state| seat_state_text(*state) == text)
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HoldId")]
struct HoldIdForm {
    #[serde(with = "crate::form")]
    cart: CartId,
    #[serde(with = "request_hash")]
    request: RequestHash,
    part: u16,
    attempt: u16,
}

remote_form!(HoldId => HoldIdForm);

/// A hash of a request id: 16 hexadecimal digits, since JSON's numbers end at 2⁵³.
mod request_hash {
    use boxoffice_core::id::RequestHash;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &RequestHash, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", hash.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RequestHash, D::Error> {
        super::read_text(deserializer, "the hash of a request id (16 hexadecimal digits)", |text| {
            u64::from_str_radix(text, 16).ok().map(RequestHash)
        })
    }
}

/// A name of 128 bits: 32 hexadecimal digits. For `#[serde(with = "form::hex128")]`.
pub(crate) mod hex128 {
    use serde::de::Error as _;

    use super::{Deserializer, Hex, HexText, Serializer};

    pub(crate) fn serialize<S: Serializer>(name: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Hex::of(*name).as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let name = deserializer.deserialize_str(HexText)?;
        name.ok_or_else(|| D::Error::custom("the name of a disk is 32 hexadecimal digits"))
    }
}

/// Bytes: base64 in JSON, bytes in MessagePack. For `#[serde(with = "form::bytes")]`.
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

/// Prices by category: a map from category to money. For `#[serde(with = "form::prices")]`.
pub(crate) mod prices {
    use super::{Deserializer, Id, MapAccess, Money, Of, On, SerializeMap, Serializer, Visitor, fmt};

    pub(crate) fn serialize<S: Serializer>(prices: &[(Id, Money)], serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(prices.len()))?;
        for (category, price) in prices {
            map.serialize_entry(category.as_str(), &On(price))?;
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Id, Money)>, D::Error> {
        deserializer.deserialize_map(Prices)
    }

    struct Prices;

    impl<'de> Visitor<'de> for Prices {
        type Value = Vec<(Id, Money)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from category to price")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut prices = Vec::new();
            while let Some((Of(category), Of(price))) = map.next_entry()? {
                prices.push((category, price));
            }
            Ok(prices)
        }
    }
}

/// Texts by name: a map. For `#[serde(with = "form::properties")]`.
pub(crate) mod properties {
    use super::{Deserializer, MapAccess, SerializeMap, Serializer, SmolStr, Visitor, fmt};

    pub(crate) fn serialize<S: Serializer>(
        properties: &[(SmolStr, SmolStr)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(properties.len()))?;
        for (name, value) in properties {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(SmolStr, SmolStr)>, D::Error> {
        deserializer.deserialize_map(Properties)
    }

    struct Properties;

    impl<'de> Visitor<'de> for Properties {
        type Value = Vec<(SmolStr, SmolStr)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from name to text")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut properties = Vec::new();
            while let Some(property) = map.next_entry()? {
                properties.push(property);
            }
            Ok(properties)
        }
    }
}

/// A map with no fields.
pub(crate) struct Nothing;

impl Serialize for Nothing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_struct("Nothing", 0)?.end()
    }
}
