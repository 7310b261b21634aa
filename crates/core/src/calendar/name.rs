//! The public names of bookings. Every client sees a booking under this name, and finds it by it.
//!
//! The id of a hold contains the id of its cart, which is also the id of the order, and a caller that knows the id may read the
//! order. Therefore the public name of a cart's booking is a hash of the hold's id, from which the order cannot be found.

use core::{cmp::Ordering, fmt};

use smol_str::{SmolStr, format_smolstr};

use super::BookingKey;
use crate::{
    id::{HoldId, Id},
    planted,
    stored::{self, Decode, Encode, Error, Reader, Schema, Shape, Writer},
};

/// The beginning of the name of every booking that a cart made. No booking without a cart has such a name.
pub const CART_BOOKING_PREFIX: &str = "hold:";

/// The hash of a hold's id has this context, so it is not the hash of the same bytes for another purpose. It never changes.
const CONTEXT: &str = "boxoffice 2026-11-28 public name of a booking";

/// Hexadecimal digits after the prefix.
const DIGITS: usize = 32;

/// The public name of a booking that a cart made. It is `hold:` and 32 lower-case hexadecimal digits, which are the first 128
/// bits of the BLAKE3 hash of the hold's id with a context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CartBookingName([u8; DIGITS / 2]);

impl CartBookingName {
    /// The name of the booking of a hold, whether it is held or sold.
    pub fn of(hold: HoldId) -> CartBookingName {
        let HoldId { cart, request, part, attempt } = hold;
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(&cart.0.to_be_bytes());
        hasher.update(&request.0.to_be_bytes());
        hasher.update(&part.to_be_bytes());
        hasher.update(&attempt.to_be_bytes());
        let mut first = [0; DIGITS / 2];
        first.copy_from_slice(&hasher.finalize().as_bytes()[..DIGITS / 2]);
        CartBookingName(first)
    }

    /// The name as a number.
    pub(crate) fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// The name with these digits, or `None` if they are not 32 lower-case hexadecimal digits.
    fn of_digits(digits: &str) -> Option<CartBookingName> {
        let digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        let strict = digits.len() == DIGITS && digits.as_bytes().iter().all(digit);
        // As if text that is no number of this length were handed on.
        let lenient = planted::is("cursor unchecked");
        let number = if strict || lenient { u128::from_str_radix(digits, 16).ok()? } else { return None };
        Some(CartBookingName(number.to_be_bytes()))
    }
}

impl fmt::Display for CartBookingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CART_BOOKING_PREFIX}{:032x}", self.number())
    }
}

/// The public name of a booking. Names are in the order of their texts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum BookingName {
    /// The id that the client chose.
    Named(Id),
    /// The name of a booking that a cart made.
    Cart(CartBookingName),
}

impl BookingName {
    /// The name with this text. `None` if it is neither an id nor the name of a cart's booking, in exactly that form.
    pub fn parse(text: &str) -> Option<BookingName> {
        match text.strip_prefix(CART_BOOKING_PREFIX) {
            Some(digits) => CartBookingName::of_digits(digits).map(BookingName::Cart),
            None => Id::new(text).map(BookingName::Named),
        }
    }

    /// The text that clients see. It is an id, since ids have the characters of both kinds of names.
    pub fn text(&self) -> SmolStr {
        match self {
            BookingName::Named(id) => SmolStr::new(id.as_str()),
            BookingName::Cart(name) => format_smolstr!("{name}"),
        }
    }

    /// The same text as an id.
    pub fn id(&self) -> Id {
        match self {
            BookingName::Named(id) => id.clone(),
            BookingName::Cart(name) => Id::new(&format_smolstr!("{name}")).expect("a name has the characters of an id"),
        }
    }

    /// The first of all names. No id is smaller.
    pub(super) fn first() -> BookingName {
        BookingName::Named(Id::new("-").expect("the smallest id there is"))
    }

    /// Bytes on the heap. Only long ids have any.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            BookingName::Named(id) => id.heap_bytes(),
            BookingName::Cart(_) => 0,
        }
    }
}

impl BookingKey {
    /// The public name. That of a hold is computed, which costs a hash.
    pub fn name(&self) -> BookingName {
        match self {
            BookingKey::Named(id) => BookingName::Named(id.clone()),
            BookingKey::Hold(hold) => BookingName::Cart(CartBookingName::of(*hold)),
        }
    }
}

/// Whether no client may choose this id for a booking, because carts' bookings have such names.
pub fn is_reserved(id: &Id) -> bool {
    id.as_str().starts_with(CART_BOOKING_PREFIX)
}

impl PartialOrd for BookingName {
    fn partial_cmp(&self, other: &BookingName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BookingName {
    fn cmp(&self, other: &BookingName) -> Ordering {
        match (self, other) {
            (BookingName::Named(one), BookingName::Named(two)) => one.cmp(two),
            // Lower-case digits are in the order of their values.
            (BookingName::Cart(one), BookingName::Cart(two)) => one.cmp(two),
            // No id begins with the prefix, so the digits do not matter.
            (BookingName::Named(id), BookingName::Cart(_)) => id.as_str().cmp(CART_BOOKING_PREFIX),
            (BookingName::Cart(_), BookingName::Named(id)) => CART_BOOKING_PREFIX.cmp(id.as_str()),
        }
    }
}

impl fmt::Display for BookingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BookingName::Named(id) => write!(f, "booking/{id}"),
            BookingName::Cart(name) => write!(f, "{name}"),
        }
    }
}

impl fmt::Debug for BookingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for CartBookingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Encode for BookingName {
    fn encode(&self, out: &mut Writer) {
        self.text().encode(out);
    }
}

impl Decode for BookingName {
    fn shape(_: &mut Schema) -> Shape {
        Shape::Leaf("name of a booking")
    }

    fn decode(from: &mut Reader<'_>) -> Result<BookingName, Error> {
        let start = from.position();
        match stored::text(from)?.strip_prefix(CART_BOOKING_PREFIX) {
            Some(digits) => CartBookingName::of_digits(digits)
                .map(BookingName::Cart)
                .ok_or_else(|| Error::message("the name of a cart's booking has 32 digits")),
            None => {
                from.set_position(start);
                Id::decode(from).map(BookingName::Named)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString, vec::Vec};

    use super::{BookingKey, BookingName, HoldId, Id};
    use crate::id::{CartId, RequestHash};

    fn of(cart: u128, request: u64, part: u16, attempt: u16) -> BookingName {
        BookingKey::Hold(HoldId { cart: CartId(cart), request: RequestHash(request), part, attempt }).name()
    }

    #[test]
    fn a_public_name_is_the_same_for_ever_and_depends_on_the_whole_hold() {
        assert_eq!(of(7, 8, 1, 0).text(), "hold:068f372e3fcdfb0ac81a3f0c8c30d381");
        let mut names: Vec<_> =
            [(7, 8, 1, 0), (8, 8, 1, 0), (7, 9, 1, 0), (7, 8, 2, 0), (7, 8, 1, 1), (7, 8, 0, 1), (u128::MAX, 8, 1, 0)]
                .map(|(cart, request, part, attempt)| of(cart, request, part, attempt))
                .into();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 7);
    }

    #[test]
    fn a_public_name_is_read_in_one_form_only() {
        let name = of(7, 8, 1, 0);
        let text = name.text();
        assert_eq!(BookingName::parse(&text), Some(name.clone()));
        assert_eq!(name.id().as_str(), text);
        let digits = &text[5..];
        assert_eq!(digits.len(), 32);
        for other in [
            format!("hold:{}", &digits[1..]),
            format!("hold:0{digits}"),
            format!("hold:{digits}0"),
            format!("hold:{}", digits.to_uppercase()),
            format!("hold:+{}", &digits[1..]),
            format!("hold:-{}", &digits[1..]),
            format!("hold: {}", &digits[1..]),
            format!("hold:{digits}/"),
            format!("hold:{digits} "),
            "hold:".into(),
            "hold/x".into(),
            "hold/00000000000000000000000000000007/0000000000000008/1/0".into(),
            "".into(),
            "x".repeat(65),
        ] {
            assert_eq!(BookingName::parse(&other), None, "{other}");
        }
        for id in ["hold", "hold-", "holds:1", "Hold:1", "choir"] {
            assert_eq!(BookingName::parse(id), Id::new(id).map(BookingName::Named), "{id}");
        }
    }

    #[test]
    fn names_are_in_the_order_of_their_texts() {
        let ids = ["-", "a", "h", "hold", "hold-", "hold9", "holc:z", "hold;", "holdx", "hole", "z", "Z", "9"];
        let ids = ids.iter().filter_map(|id| Id::new(id).map(BookingName::Named));
        let mut names: Vec<_> = ids.chain((0..20).map(|cart| of(cart, 1, 0, 0))).collect();
        names.sort();
        let texts: Vec<_> = names.iter().map(BookingName::text).collect();
        assert!(texts.windows(2).all(|pair| pair[0] < pair[1]), "{texts:?}");
        assert_eq!(names[0].to_string(), "booking/-");
    }
}
