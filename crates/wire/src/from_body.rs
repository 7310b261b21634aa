//! Reads the bodies of the server's frames, for clients.
//!
//! Reading a type takes much code, so each is compiled here and not in every crate that reads it.

use crate::{Encoding, raw};

/// A frame of the server that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server sent a frame that is not of protocol v1: {0}")]
pub struct Unreadable(pub String);

impl From<raw::Malformed> for Unreadable {
    fn from(raw::Malformed(reason): raw::Malformed) -> Unreadable {
        Unreadable(reason)
    }
}

/// A body of a frame of the server.
pub trait FromBody: Sized {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Unreadable`] if it is another body.
    fn from_body(encoding: Encoding, body: &[u8]) -> Result<Self, Unreadable>;
}

/// Types that are read by their representation.
macro_rules! bodies {
    ($($body:ty),+ $(,)?) => {$(
        impl $crate::from_body::FromBody for $body {
            fn from_body(encoding: $crate::Encoding, body: &[u8]) -> Result<$body, $crate::from_body::Unreadable> {
                let read = $crate::decode::read(encoding, body);
                read.map(|$crate::repr::FromWire(value)| value).map_err($crate::from_body::Unreadable)
            }
        }
    )+};
}
pub(crate) use bodies;
