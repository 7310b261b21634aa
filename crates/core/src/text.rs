//! Texts with bounds, for the bodies of requests and for commands.
//!
//! A bound is told once, by the type, and checked once, when a request is read. So a rule that gets a command need not check it
//! again. Events and states have plain texts, so that a bound which is lowered later makes nothing unreadable that is stored.

use core::{fmt, ops::Deref};

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::names::NAME_BYTES_MAX;

/// A name of something, or of somebody.
pub type Name = Text<1, NAME_BYTES_MAX>;

/// A name, or nothing.
pub type OptionalName = Text<0, NAME_BYTES_MAX>;

/// Comments on something, for buyers.
pub type Comments = Text<0, 4_096, true>;

/// Why something is canceled or refunded. Every cart that holds something of a canceled session gets it.
pub type Reason = Text<1, 256, true>;

/// A reason, or nothing.
pub type OptionalReason = Text<0, 256, true>;

/// A text of `MIN` to `MAX` bytes. With `LINES` it may have several lines, with tabs, as a form or a spreadsheet sends them. Other
/// control characters are in no text.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
#[stored(transparent)]
pub struct Text<const MIN: usize, const MAX: usize, const LINES: bool = false>(SmolStr);

/// Why a text is not within its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    TooShort,
    TooLong,
    /// It has control characters.
    Control,
}

impl<const MIN: usize, const MAX: usize, const LINES: bool> Text<MIN, MAX, LINES> {
    /// The most bytes.
    pub const BYTES_MAX: usize = MAX;

    /// A text within the bounds.
    ///
    /// # Errors
    /// The first bound that it violates.
    pub fn new(text: impl Into<SmolStr>) -> Result<Self, TextError> {
        let text = Text(text.into());
        text.check()?;
        Ok(text)
    }

    /// A text as a client says it. The node that reads the request checks it, so that the client need not know the bound of
    /// another version.
    pub fn as_said(text: impl Into<SmolStr>) -> Self {
        Text(text.into())
    }

    /// Checks the bounds.
    ///
    /// # Errors
    /// The first bound that it violates.
    pub fn check(&self) -> Result<(), TextError> {
        let is_allowed = |char: char| !char.is_control() || LINES && matches!(char, '\t' | '\n' | '\r');
        match self.0.len() {
            length if length < MIN => Err(TextError::TooShort),
            length if length > MAX => Err(TextError::TooLong),
            _ if !self.0.chars().all(is_allowed) => Err(TextError::Control),
            _ => Ok(()),
        }
    }

    /// The text as events and states have it.
    pub fn into_plain(self) -> SmolStr {
        self.0
    }
}

/// The empty text. Where the bounds do not allow it, the check refuses it.
impl<const MIN: usize, const MAX: usize, const LINES: bool> Default for Text<MIN, MAX, LINES> {
    fn default() -> Self {
        Text(SmolStr::default())
    }
}

/// For texts of the program.
///
/// # Panics
/// The text violates a bound.
impl<const MIN: usize, const MAX: usize, const LINES: bool> From<&'static str> for Text<MIN, MAX, LINES> {
    fn from(text: &'static str) -> Self {
        Text::new(text).unwrap_or_else(|why| panic!("{text:?} is {why:?}"))
    }
}

impl<const MIN: usize, const MAX: usize, const LINES: bool> Deref for Text<MIN, MAX, LINES> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MIN: usize, const MAX: usize, const LINES: bool> fmt::Display for Text<MIN, MAX, LINES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::{Text, TextError};

    #[test]
    fn a_text_is_within_its_bounds() {
        type Short = Text<1, 4>;
        assert_eq!(Short::new("").unwrap_err(), TextError::TooShort);
        assert_eq!(Short::new("abcde").unwrap_err(), TextError::TooLong);
        assert_eq!(Short::new("äöü").unwrap_err(), TextError::TooLong, "the bounds are in bytes");
        assert_eq!(Short::new("a b").map(Short::into_plain), Ok("a b".into()));
        for control in ["\n", "\t", "\r", "\0", "\u{7f}", "\u{85}"] {
            assert_eq!(Short::new(control).unwrap_err(), TextError::Control, "{control:?}");
        }
    }

    #[test]
    fn a_pasted_text_may_have_tabs_and_line_ends() {
        type Pasted = Text<0, 8, true>;
        assert!(Pasted::new("a\tb\r\nc").is_ok());
        assert_eq!(Pasted::new("\0").unwrap_err(), TextError::Control);
    }

    #[test]
    fn a_longer_text_of_another_version_is_read() {
        let long: String = ['x'; 9].iter().collect();
        let stored = crate::stored::append(&long, alloc::vec::Vec::new());
        let read: Text<0, 8> = crate::stored::read(&stored).expect("what is stored is not checked");
        assert_eq!((&*read, read.check()), (&*long, Err(TextError::TooLong)));
    }
}
