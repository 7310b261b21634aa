//! The stored form of refusals, also between nodes: the code, then the fields in their order. Codes are never used again, so rows may
//! stand anywhere in the table.
//!
//! A refusal of several lines has no code and is stored under 0. There is at least one line, and none is of several lines itself.
//! Only a broken node could write others, which would have no number or no end.

use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use super::Refusal;

/// The number of a refusal of several lines.
const SEVERAL: u16 = 0;

impl<'de> Deserialize<'de> for Refusal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Refusal, D::Error> {
        deserializer.deserialize_tuple(1 + Refusal::STORED_FIELDS_MAX, Read { may_be_several: true })
    }
}

/// The refusal of one line. Its code is checked before the rest is read, because lines in lines could be as deep as there are bytes.
pub(super) fn of_line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Refusal, D::Error> {
    deserializer.deserialize_tuple(1 + Refusal::STORED_FIELDS_MAX, Read { may_be_several: false })
}

/// The next of the fields that follow a code.
pub(crate) fn next_field<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(fields: &mut A) -> Result<T, A::Error> {
    fields.next_element()?.ok_or_else(|| A::Error::custom("the refusal is cut off"))
}

struct Read {
    may_be_several: bool,
}

impl<'de> Visitor<'de> for Read {
    type Value = Refusal;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the code of a refusal and its fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Refusal, A::Error> {
        let code: u16 = next_field(&mut fields)?;
        if code == SEVERAL && !self.may_be_several {
            return Err(A::Error::custom("a refusal of lines in one of lines"));
        }
        match Refusal::read_stored(code, &mut fields)? {
            Refusal::Lines(lines) if lines.is_empty() => Err(A::Error::custom("a refusal of no lines")),
            refusal => Ok(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;
    use crate::refusal::LineRefusal;

    fn several(refusal: Refusal) -> Refusal {
        Refusal::Lines(vec![LineRefusal { line: 3, refusal }])
    }

    fn bytes(refusal: &Refusal) -> Vec<u8> {
        postcard::to_allocvec(refusal).expect("the refusal can be encoded")
    }

    #[test]
    fn refusals_of_no_lines_or_of_lines_in_lines_are_not_read() {
        for good in [several(Refusal::CartExpired), several(Refusal::NoSuchLine(7))] {
            assert_eq!(postcard::from_bytes(&bytes(&good)), Ok(good));
        }
        for bad in [Refusal::Lines(Vec::new()), several(several(Refusal::CartExpired))] {
            assert!(postcard::from_bytes::<Refusal>(&bytes(&bad)).is_err(), "{bad:?}");
        }
        // Nested as deep as the bytes allow, without an end.
        let deep: Vec<u8> =
            bytes(&several(Refusal::CartExpired))[..3].iter().copied().cycle().take(3_000_000).collect();
        assert!(postcard::from_bytes::<Refusal>(&deep).is_err());
    }

    #[test]
    fn unknown_codes_and_refusals_that_are_cut_off_are_not_read() {
        let unknown = postcard::to_allocvec(&999_u16).expect("a number can be encoded");
        assert!(postcard::from_bytes::<Refusal>(&unknown).is_err());
        let whole = bytes(&Refusal::NoSuchLine(7));
        assert!(postcard::from_bytes::<Refusal>(&whole[..whole.len() - 1]).is_err());
    }
}
