//! Little-endian reading of the crate's own byte formats. Writing uses `bytes::BufMut`.

use boxoffice_core::version::{ClusterVersion, OtherVersion};
use bytes::{Buf, BufMut, Bytes};

use crate::name::ReplicaId;

/// A stored or received value is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end before the value does.
    #[error("{what} is cut off: {missing} more bytes were expected; the file or frame is damaged")]
    Short {
        /// The value being read.
        what: &'static str,
        /// How many bytes are missing at least.
        missing: usize,
    },
    /// Bytes are left over after the value.
    #[error("{what} is followed by {extra} bytes that belong to nothing; the file or frame is damaged")]
    Long {
        /// The value being read.
        what: &'static str,
        /// How many bytes are left over.
        extra: usize,
    },
    /// It has a version that this program does not read. Nothing else of it was decoded.
    #[error("{what} was {version}")]
    Version {
        /// The value being read.
        what: &'static str,
        version: OtherVersion,
    },
    /// A number is longer than it need be, or larger than it can be.
    #[error("{what} has a number that nothing writes so; the file or frame is damaged")]
    Number {
        /// The value being read.
        what: &'static str,
    },
    /// A kind has a value that this program does not know.
    #[error("{what} is {found}, which this program does not know; the file or frame is damaged")]
    Unknown {
        /// The value being read.
        what: &'static str,
        found: u8,
    },
    /// A number is not the id of a replica.
    #[error("{what} says {found:#x}, which is no replica's id; the file or frame is damaged")]
    Replica {
        /// The value being read.
        what: &'static str,
        found: u64,
    },
}

/// Takes values from the front of some bytes.
pub(crate) struct Reader<'a> {
    what: &'static str,
    rest: &'a mut Bytes,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(what: &'static str, rest: &'a mut Bytes) -> Reader<'a> {
        Reader { what, rest }
    }

    fn need(&self, wanted: usize) -> Result<(), Malformed> {
        match wanted.checked_sub(self.rest.len()) {
            None | Some(0) => Ok(()),
            Some(missing) => Err(Malformed::Short { what: self.what, missing }),
        }
    }

    /// The version with which the bytes begin.
    pub(crate) fn version(&mut self) -> Result<ClusterVersion, Malformed> {
        let what = self.what;
        ClusterVersion::read(self.u8()?).map_err(|version| Malformed::Version { what, version })
    }

    /// A number by [`put_varint`].
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let (number, used) = read_varint(self.what, self.rest)?;
        self.rest.advance(used);
        Ok(number)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.need(1)?;
        Ok(self.rest.get_u8())
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.need(2)?;
        Ok(self.rest.get_u16_le())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.need(4)?;
        Ok(self.rest.get_u32_le())
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.need(8)?;
        Ok(self.rest.get_u64_le())
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Malformed> {
        self.need(16)?;
        Ok(self.rest.get_u128_le())
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.need(8)?;
        Ok(self.rest.get_i64_le())
    }

    pub(crate) fn replica(&mut self) -> Result<ReplicaId, Malformed> {
        let found = self.u64()?;
        ReplicaId::from_bits(found).ok_or(Malformed::Replica { what: self.what, found })
    }

    /// 0 means none.
    pub(crate) fn replica_if_any(&mut self) -> Result<Option<ReplicaId>, Malformed> {
        match self.u64()? {
            0 => Ok(None),
            found => Ok(Some(ReplicaId::from_bits(found).ok_or(Malformed::Replica { what: self.what, found })?)),
        }
    }

    /// A slice of the same memory, without a copy.
    pub(crate) fn bytes(&mut self, length: usize) -> Result<Bytes, Malformed> {
        self.need(length)?;
        Ok(self.rest.split_to(length))
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(Malformed::Long { what: self.what, extra }),
        }
    }
}

/// The most bytes of a number by [`put_varint`].
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// How many bytes [`put_varint`] takes.
pub(crate) fn varint_bytes(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Writes a number with seven bits in each byte, the lowest first. All but the last have their highest bit set.
pub(crate) fn put_varint(out: &mut impl BufMut, mut number: u64) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

/// The number by [`put_varint`] with which the bytes begin, and how many it takes.
pub(crate) fn read_varint(what: &'static str, bytes: &[u8]) -> Result<(u64, usize), Malformed> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        let (part, shift) = (u64::from(byte & 0x7f), 7 * at);
        if part << shift >> shift != part || at > 0 && *byte == 0 {
            return Err(Malformed::Number { what });
        }
        number |= part << shift;
        if *byte < 0x80 {
            return Ok((number, at + 1));
        }
    }
    match bytes.len() {
        VARINT_BYTES_MAX.. => Err(Malformed::Number { what }),
        _ => Err(Malformed::Short { what, missing: 1 }),
    }
}

/// A number whose sign is its lowest bit, so that small ones are short whatever their sign.
pub(crate) fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Reverses [`zigzag`].
pub(crate) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        let edges = (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for number in edges.chain([u64::MAX, u64::MAX - 1]) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(bytes.len(), varint_bytes(number), "{number}");
            assert!(bytes.len() <= VARINT_BYTES_MAX);
            let mut rest = Bytes::from(bytes.clone());
            assert_eq!(Reader::new("a number", &mut rest).varint(), Ok(number));
            assert_eq!(unzigzag(zigzag(number as i64)), number as i64);
            // One byte more says the same number.
            *bytes.last_mut().unwrap() |= 0x80;
            bytes.push(0);
            let longer = Reader::new("a number", &mut Bytes::from(bytes)).varint();
            assert_eq!(longer, Err(Malformed::Number { what: "a number" }));
        }
        for wrong in [&[0xFF; 10][..], &[0xFF; 11], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2]] {
            let larger = Reader::new("a number", &mut Bytes::copy_from_slice(wrong)).varint();
            assert_eq!(larger, Err(Malformed::Number { what: "a number" }), "{wrong:?}");
        }
        assert_eq!((zigzag(-1), zigzag(1), zigzag(i64::MIN)), (1, 2, u64::MAX));
    }
}
