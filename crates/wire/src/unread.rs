//! The body of a request before its op reads it.

use serde::de::DeserializeOwned;

use crate::{Encoding, decode, rejection::Rejection, repr::WireRepr};

/// The bytes of a body.
#[derive(Clone, Copy)]
pub(crate) struct Body<'a> {
    pub(crate) encoding: Encoding,
    /// Whether unknown fields are refused.
    pub(crate) is_strict: bool,
    pub(crate) bytes: &'a [u8],
}

impl Body<'_> {
    /// The body as this shape, if its fields are within their bounds.
    ///
    /// # Errors
    /// `bad_request` with the reason why it is another one, or the field that is out of its bounds.
    pub(crate) fn read_checked<T: DeserializeOwned + WireRepr>(self) -> Result<T, Rejection> {
        let body: T = self.read()?;
        body.check()?;
        Ok(body)
    }

    /// The body as this shape.
    ///
    /// # Errors
    /// `bad_request` with the reason why it is another one.
    fn read<T: DeserializeOwned>(self) -> Result<T, Rejection> {
        let read = if self.is_strict { decode::read_strict } else { decode::read };
        read(self.encoding, self.bytes).map_err(|reason| Rejection::bad_request(format!("body: {reason}")))
    }
}
