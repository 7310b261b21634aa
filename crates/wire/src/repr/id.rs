//! Ids, tokens and entities.

use boxoffice_core::id::{CartId, CartToken, Entity, HoldId, ID_BYTES_MAX, Id, OrderId, RequestHash};
use serde::{Deserializer, Serializer, de::Error as _};
use serde_json::{Value, json};

use super::{
    WireRepr, WireWrite, read_text,
    shape::{Shapes, shapes},
    text::{Hex, HexText, from_hex, pattern_schema},
};

impl WireWrite for Id {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl WireRepr for Id {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        read_text(deserializer, "an id (1 to 64 of A-Z a-z 0-9 . _ : -)", Id::new)
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let pattern = format!("^[A-Za-z0-9._:-]{{1,{ID_BYTES_MAX}}}$");
        pattern_schema::<Id>(shapes, "Id", &pattern, "An id that the client chooses.")
    }
}

/// The cart token with this text: 32 hexadecimal digits.
pub fn cart_token(text: &str) -> Option<CartToken> {
    from_hex(text).map(CartToken)
}

/// The text of a cart token. It is a secret and must not be logged.
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

macro_rules! hexadecimal_repr {
    ($($value:ident as $name:literal: $expected:literal, $words:literal;)+) => {$(
        impl WireWrite for $value {
            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(Hex::of(self.0).as_str())
            }
        }

        impl WireRepr for $value {
            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$value, D::Error> {
                // The text is not shown, because it may be a token by mistake.
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

/// The pattern of 32 hexadecimal digits.
pub(crate) const HEX_128: &str = "^[0-9a-fA-F]{32}$";

hexadecimal_repr! {
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
        "code" => Id::new(id).map(Entity::Code),
        "cart" => cart_id(id).map(Entity::Cart),
        _ => None,
    }
}

impl WireWrite for Entity {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [0u8; "resource/".len() + ID_BYTES_MAX];
        let hex;
        let (kind, id) = match self {
            Entity::Venue(id) => ("venue/", id.as_str()),
            Entity::Session(id) => ("session/", id.as_str()),
            Entity::Product(id) => ("product/", id.as_str()),
            Entity::Resource(id) => ("resource/", id.as_str()),
            Entity::Customer(id) => ("customer/", id.as_str()),
            Entity::Code(id) => ("code/", id.as_str()),
            Entity::Directory => ("directory", ""),
            Entity::Cluster => ("cluster", ""),
            Entity::Cart(id) => {
                hex = Hex::of(id.0);
                ("cart/", hex.as_str())
            }
        };
        let end = kind.len() + id.len();
        if end > text.len() {
            return serializer.serialize_str(&[kind, id].concat());
        }
        text[..kind.len()].copy_from_slice(kind.as_bytes());
        text[kind.len()..end].copy_from_slice(id.as_bytes());
        serializer.serialize_str(str::from_utf8(&text[..end]).expect("ids are ASCII"))
    }
}

impl WireRepr for Entity {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Entity, D::Error> {
        read_text(
            deserializer,
            "an entity (session/…, product/…, resource/…, cart/…, customer/…, venue/…, directory or cluster)",
            entity,
        )
    }

    fn schema(shapes: &mut Shapes) -> Value {
        let pattern = format!(
            "^((venue|session|product|resource|customer|code)/[A-Za-z0-9._:-]{{1,{ID_BYTES_MAX}}}|cart/[0-9a-fA-F]{{32}}|directory|cluster)$"
        );
        let words =
            "`venue/…`, `session/…`, `product/…`, `resource/…`, `customer/…`, `cart/…`, `directory` or `cluster`.";
        pattern_schema::<Entity>(shapes, "Entity", &pattern, words)
    }
}

shapes! {
    remote HoldId {
        cart: CartId,
        request: RequestHash,
        part: u16,
        attempt: u16,
    }
}

/// 16 hexadecimal digits, since JSON's numbers are exact only up to 2⁵³.
impl WireWrite for RequestHash {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl WireRepr for RequestHash {
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
impl WireWrite for u128 {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Hex::of(*self).as_str())
    }
}

impl WireRepr for u128 {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let name = deserializer.deserialize_str(HexText)?;
        name.ok_or_else(|| D::Error::custom("a name of 128 bits is 32 hexadecimal digits"))
    }

    fn schema(_: &mut Shapes) -> Value {
        json!({"type": "string", "pattern": HEX_128})
    }
}
