//! Ids and keys, and the hashes that the cluster routes by.

use core::fmt;

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer};

/// The longest id, in bytes.
pub const ID_BYTES_MAX: usize = 64;

/// The smallest id.
const FIRST_ID: &str = "-";

/// An id chosen by a client. It has 1 to 64 of `A-Z a-z 0-9 . _ : -`, which [`Id::new`] checks when a request is read. A stored id is
/// only checked for what searches rely on, that none is before the first one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(SmolStr);

impl Decode for Id {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("id")
    }

    fn decode(from: &mut Reader<'_>) -> Result<Id, Error> {
        let text = stored::text(from)?;
        if text >= FIRST_ID { Ok(Id(SmolStr::new(text))) } else { Err(Error::message("an id is before the first one")) }
    }
}

impl Encode for Id {
    fn encode(&self, out: &mut Writer) {
        self.0.encode(out);
    }
}

impl Id {
    /// The id with this text, or `None` if it is empty, too long or has other characters.
    pub fn new(text: &str) -> Option<Id> {
        Id::allows(text).then(|| Id(SmolStr::new(text)))
    }

    /// No id is before this one.
    pub(crate) fn first() -> Id {
        Id(SmolStr::new_static(FIRST_ID))
    }

    fn allows(text: &str) -> bool {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
        (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Bytes on the heap. Only long ids have any.
    pub(crate) fn heap_bytes(&self) -> usize {
        if self.0.is_heap_allocated() { 2 * size_of::<usize>() + self.0.len() } else { 0 }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The secret of a cart, which its client draws. Its first 16 bits place the cart, and the other 112 bits are random. A client
/// that shows the token owns the cart. The token is never stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CartToken(pub u128);

impl CartToken {
    /// The token of a cart that lives in the shard of `entity`, for any number of shards. It is the prefix of the
    /// entity by [`Entity::hash_prefix`], then the low 112 bits of `random`, which must come from a secure generator.
    ///
    /// Such a cart commits its line in the shard that commits the hold. Any other token works as well.
    pub fn beside(entity: &Entity, random: u128) -> CartToken {
        CartToken(u128::from(entity.hash_prefix()) << SECRET_BITS | random & SECRET_MASK)
    }

    /// The cart that this token opens. Its id is the token's first 16 bits, which place it, then the first 112 bits of the
    /// BLAKE3 hash of all 128. So the id does not reveal the token.
    pub fn cart(self) -> CartId {
        let hash = blake3::hash(&self.0.to_be_bytes());
        let mut first = [0; 16];
        first.copy_from_slice(&hash.as_bytes()[..16]);
        CartId(self.0 & !SECRET_MASK | u128::from_be_bytes(first) >> PREFIX_BITS)
    }
}

/// Bits of a token and of a cart's id that place the cart.
const PREFIX_BITS: u32 = 16;

/// The other bits, which only the owner of the token knows.
const SECRET_BITS: u32 = 128 - PREFIX_BITS;
const SECRET_MASK: u128 = (1 << SECRET_BITS) - 1;

impl fmt::Debug for CartToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CartToken(secret)")
    }
}

/// The id of a cart. It is the first 16 bits of its token, then 112 bits of the token's hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
#[stored(transparent)]
pub struct CartId(pub u128);

/// An order. A cart makes at most one, so it has the cart's 128 bits. The order lives in its cart and is found without an index
/// (P7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
#[stored(transparent)]
pub struct OrderId(pub u128);

impl CartId {
    /// The order that this cart makes when it is done.
    pub fn order(self) -> OrderId {
        OrderId(self.0)
    }
}

impl OrderId {
    /// The cart that this order came from.
    pub fn cart(self) -> CartId {
        CartId(self.0)
    }
}

macro_rules! hexadecimal {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }
    };
}

hexadecimal!(CartId);
hexadecimal!(OrderId);

/// The hash of a client's request id. Equal hashes count as equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
#[stored(transparent)]
pub struct RequestHash(pub u64);

impl RequestHash {
    /// The hash of a request id's text.
    pub fn of(request_id: &str) -> RequestHash {
        RequestHash(hash64(request_id.as_bytes()))
    }
}

/// The first 64 bits of the BLAKE3 hash of `bytes`. They never change.
pub fn hash64(bytes: &[u8]) -> u64 {
    first64(&blake3::hash(bytes))
}

/// The first 64 bits of a hash.
pub(crate) fn first64(hash: &blake3::Hash) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_be_bytes(first)
}

/// The hash that places keys. It is FNV-1a over the bytes, then the finalizer of MurmurHash3, because FNV alone mixes short keys
/// badly. It never changes, and is short enough to be written again in a client.
fn key_hash(key: &[u8]) -> u64 {
    let folded = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |folded, byte| {
        (folded ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut mixed = (folded ^ (folded >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

/// A request that changes something, by its id and a hash of its command (P9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Request {
    /// The client's request id, hashed.
    #[n(0)]
    pub id: RequestHash,
    /// A hash of the whole command. Another body under the same id is refused.
    #[n(1)]
    pub body: u64,
}

/// The id of one hold for life. It is the cart, the request that made the hold, and which attempt of that request.
///
/// A repeat after a crash asks with the same id and finds the same hold. The attempt counts the holds of this request that the
/// cart has disowned. A disowned hold can never become a line, so the next try is another hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
pub struct HoldId {
    #[n(0)]
    pub cart: CartId,
    /// The request that asked for it.
    #[n(1)]
    pub request: RequestHash,
    /// The line of that request. 0 unless it asked for several.
    #[n(2)]
    pub part: u16,
    /// How many earlier holds of this request and part the cart has disowned.
    #[n(3)]
    pub attempt: u16,
}

impl HoldId {
    /// A position after every hold.
    pub(crate) const LAST: HoldId =
        HoldId { cart: CartId(u128::MAX), request: RequestHash(u64::MAX), part: u16::MAX, attempt: u16::MAX };

    /// Every hold that a cart can have.
    pub(crate) fn all_of(cart: CartId) -> core::ops::RangeInclusive<HoldId> {
        let first = HoldId { cart, request: RequestHash(0), part: 0, attempt: 0 };
        first..=HoldId { cart, ..HoldId::LAST }
    }
}

/// A thing that one actor owns.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Stored)]
pub enum Entity {
    /// A building with halls, and the index of its sessions.
    #[n(0)]
    Venue(#[n(0)] Id),
    /// One title at one time in one hall, with its seat map.
    #[n(1)]
    Session(#[n(0)] Id),
    /// One buyer's lines, and the order they became.
    #[n(2)]
    Cart(#[n(0)] CartId),
    /// A thing sold by quantity.
    #[n(3)]
    Product(#[n(0)] Id),
    /// A thing booked by time.
    #[n(4)]
    Resource(#[n(0)] Id),
    /// One customer's quotas and purchases.
    #[n(5)]
    Customer(#[n(0)] Id),
    /// The catalogue of venues and titles. There is one.
    #[n(6)]
    Directory,
    /// Members and places of the cluster. There is one.
    #[n(7)]
    Cluster,
    /// A code that buyers show, by its keyed hash.
    #[n(8)]
    Code(#[n(0)] Id),
}

impl Entity {
    /// The prefix that places the entity. It is the first 16 bits of the hash of its key, or of a cart's id. The shard depends on
    /// the number of shards. Entities with equal prefixes always share a shard.
    pub fn hash_prefix(&self) -> u16 {
        match self {
            Entity::Cart(id) => (id.0 >> SECRET_BITS) as u16,
            Entity::Venue(_)
            | Entity::Session(_)
            | Entity::Product(_)
            | Entity::Resource(_)
            | Entity::Customer(_)
            | Entity::Code(_)
            | Entity::Directory
            | Entity::Cluster => (self.with_key(key_hash) >> 48) as u16,
        }
    }

    /// Calls `with` with the bytes of this entity's key, which are its kind, then its id. They never change.
    pub fn with_key<T>(&self, with: impl FnOnce(&[u8]) -> T) -> T {
        let mut key = [0u8; ID_BYTES_MAX + 2];
        let (kind, id): (u8, &[u8]) = match self {
            Entity::Venue(id) => (b'v', id.as_str().as_bytes()),
            Entity::Session(id) => (b's', id.as_str().as_bytes()),
            Entity::Product(id) => (b'p', id.as_str().as_bytes()),
            Entity::Resource(id) => (b'r', id.as_str().as_bytes()),
            Entity::Customer(id) => (b'u', id.as_str().as_bytes()),
            Entity::Code(id) => (b'o', id.as_str().as_bytes()),
            Entity::Directory => (b'd', &[]),
            Entity::Cluster => (b'k', &[]),
            Entity::Cart(id) => {
                key[2..18].copy_from_slice(&id.0.to_be_bytes());
                key[0] = b'c';
                key[1] = b'/';
                return with(&key[..18]);
            }
        };
        if id.len() > ID_BYTES_MAX {
            return with(&[&[kind, b'/'], id].concat());
        }
        key[0] = kind;
        key[1] = b'/';
        key[2..2 + id.len()].copy_from_slice(id);
        with(&key[..2 + id.len()])
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entity::Venue(id) => write!(f, "venue/{id}"),
            Entity::Session(id) => write!(f, "session/{id}"),
            Entity::Cart(id) => write!(f, "cart/{id}"),
            Entity::Product(id) => write!(f, "product/{id}"),
            Entity::Resource(id) => write!(f, "resource/{id}"),
            Entity::Customer(id) => write!(f, "customer/{id}"),
            Entity::Code(id) => write!(f, "code/{id}"),
            Entity::Directory => f.write_str("directory"),
            Entity::Cluster => f.write_str("cluster"),
        }
    }
}

impl fmt::Debug for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
