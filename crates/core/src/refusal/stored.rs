//! The stored form of refusals, also between nodes: the code, then the fields in their order. Codes are never used again, so rows may
//! stand anywhere in the table.
//!
//! A refusal of several lines has no code and is stored under 0. There is at least one line, and none is of several lines itself.
//! Only a broken node could write others, which would have no number or no end.

use super::Refusal;
use crate::stored::{Decode, Encode, Error, FieldReader, Reader, Schema, Shape, Writer};

/// The number of a refusal of several lines.
const SEVERAL: u32 = 0;

impl Decode for Refusal {
    fn shape(schema: &mut Schema) -> Shape {
        Refusal::stored_shape(schema)
    }

    fn decode(from: &mut Reader<'_>) -> Result<Refusal, Error> {
        refusal(from, true)
    }
}

/// The refusal of one line. Its code is checked before the rest is read, because lines in lines could be as deep as there are bytes.
pub(super) mod of_line {
    use super::{Encode, Error, Reader, Refusal, Schema, Shape, Writer, refusal};

    pub(in crate::refusal) fn encode(value: &Refusal, out: &mut Writer) {
        value.encode(out);
    }

    pub(in crate::refusal) fn shape(schema: &mut Schema) -> Shape {
        Refusal::stored_shape(schema)
    }

    pub(in crate::refusal) fn decode(from: &mut Reader<'_>) -> Result<Refusal, Error> {
        refusal(from, false)
    }
}

fn refusal(from: &mut Reader<'_>, may_be_several: bool) -> Result<Refusal, Error> {
    let (code, fields) = FieldReader::of_variant(from)?;
    if code == SEVERAL && !may_be_several {
        return Err(Error::message("a refusal of lines in one of lines"));
    }
    match Refusal::read_stored(code, fields, from)? {
        Refusal::Lines(lines) if lines.is_empty() => Err(Error::message("a refusal of no lines")),
        refusal => Ok(refusal),
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;
    use crate::{
        refusal::LineRefusal,
        stored::{append, read},
    };

    fn several(refusal: Refusal) -> Refusal {
        Refusal::Lines(vec![LineRefusal { line: 3, refusal }])
    }

    fn bytes(refusal: &Refusal) -> Vec<u8> {
        append(refusal, Vec::new())
    }

    #[test]
    fn refusals_of_no_lines_or_of_lines_in_lines_are_not_read() {
        for good in [several(Refusal::CartExpired), several(Refusal::NoSuchLine(7))] {
            assert_eq!(read(&bytes(&good)), Ok(good));
        }
        for bad in [Refusal::Lines(Vec::new()), several(several(Refusal::CartExpired))] {
            assert!(read::<Refusal>(&bytes(&bad)).is_err(), "{bad:?}");
        }
        // Nested as deep as the bytes allow, without an end.
        let deep: Vec<u8> =
            bytes(&several(Refusal::CartExpired))[..3].iter().copied().cycle().take(3_000_000).collect();
        assert!(read::<Refusal>(&deep).is_err());
    }

    #[test]
    fn unknown_codes_and_refusals_that_are_cut_off_are_not_read() {
        let unknown = append(&999_u32, Vec::new());
        assert!(read::<Refusal>(&unknown).is_err());
        let whole = bytes(&Refusal::NoSuchLine(7));
        assert!(read::<Refusal>(&whole[..whole.len() - 1]).is_err());
    }
}
