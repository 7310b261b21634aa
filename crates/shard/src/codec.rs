//! Little-endian reading of the crate's own byte formats. Writing uses `bytes::BufMut`.

use bytes::{Buf, Bytes};

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
    /// A kind or version byte has a value that this program does not know.
    #[error("{what} is {found}, which this version does not know; it was written by a newer version or is damaged")]
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
