//! Values in [postcard](https://postcard.jamesmunns.com/wire-format), the format of logs, snapshots and the store.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use postcard::ser_flavors::Flavor;
use serde::{Serialize, de::DeserializeOwned};

/// Appends a value's bytes to `bytes`.
///
/// # Panics
/// If the value's type cannot be written as postcard.
pub fn append(value: &(impl Serialize + ?Sized), bytes: Vec<u8>) -> Vec<u8> {
    postcard::serialize_with_flavor(value, Appended(bytes)).expect("what is kept can be written into memory")
}

/// The value in these bytes, which must be all of them.
///
/// # Errors
/// If the bytes are not exactly one value.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes are left over", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

/// Appends to a vector. Postcard itself pushes byte by byte, or takes no vector with spare room.
struct Appended(Vec<u8>);

impl Flavor for Appended {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    // Most numbers are one byte long.
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        match bytes {
            [byte] => self.0.push(*byte),
            bytes => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bytes_are_appended_postcard_bytes() {
        let value = ("text", [1_u64, 300, u64::MAX], Some(-7_i32), [9_u8; 3]);
        let written = postcard::to_allocvec(&value).expect("the value can be encoded");
        assert_eq!(append(&value, Vec::new()), written);
        assert_eq!(append(&value, alloc::vec![1, 2]), [&[1, 2][..], &written].concat());
    }
}
