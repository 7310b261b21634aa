//! Writes values in an encoding.

use std::io;

use bytes::{BufMut, BytesMut};
use serde::Serialize;

use crate::{Encoding, repr::layout_cache};

impl Encoding {
    /// Appends `value` to `out`.
    ///
    /// # Panics
    /// The value cannot be written in the encoding, which is a mistake in its shape.
    pub(crate) fn write<T: Serialize + ?Sized>(self, out: &mut BytesMut, value: &T) {
        layout_cache::with_layouts(self, out, |out| match self {
            Encoding::Json => {
                serde_json::to_writer(Appender(out), value)
                    .expect("every shape of the protocol can be written as JSON");
            }
            Encoding::MsgPack => value
                .serialize(&mut rmp_serde::Serializer::new(Appender(out)).with_struct_map())
                .expect("every shape of the protocol can be written as MessagePack"),
        });
    }
}

/// Writes to the end of a buffer. Never fails.
struct Appender<'a>(&'a mut BytesMut);

impl io::Write for Appender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    // Most writes of MessagePack are one byte, the marker of the next item.
    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match bytes {
            [byte] => self.0.put_u8(*byte),
            bytes => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
