//! Texts with bounds, for the bodies of requests and for commands.
//!
//! A bound is told once, by the type, and checked once, when a request is read. So a rule that gets a command need not check it
//! again. Events and states have plain texts, so that a bound which is lowered later makes nothing unreadable that is stored.

use core::{fmt, ops::Deref};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// A text of `MIN` to `MAX` bytes without control characters except line feeds. With `TABS` it may have tabs and carriage returns
/// as well, as texts that people paste have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text<const MIN: usize, const MAX: usize, const TABS: bool = false>(SmolStr);

/// Why a text is not within its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    TooShort,
    TooLong,
    /// It has control characters.
    Control,
}

impl<const MIN: usize, const MAX: usize, const TABS: bool> Text<MIN, MAX, TABS> {
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
        let is_allowed = |char: char| match char {
            '\n' => true,
            '\t' | '\r' => TABS,
            other => !other.is_control(),
        };
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

/// The empty text, where the bounds allow it.
impl<const MAX: usize, const TABS: bool> Default for Text<0, MAX, TABS> {
    fn default() -> Self {
        Text(SmolStr::default())
    }
}

/// For texts of the program.
///
/// # Panics
/// The text violates a bound.
impl<const MIN: usize, const MAX: usize, const TABS: bool> From<&'static str> for Text<MIN, MAX, TABS> {
    fn from(text: &'static str) -> Self {
        Text::new(text).unwrap_or_else(|why| panic!("{text:?} is {why:?}"))
    }
}

impl<const MIN: usize, const MAX: usize, const TABS: bool> Deref for Text<MIN, MAX, TABS> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MIN: usize, const MAX: usize, const TABS: bool> fmt::Display for Text<MIN, MAX, TABS> {
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
        assert_eq!(Short::new("a\nb").map(Short::into_plain), Ok("a\nb".into()));
        for control in ["\t", "\r", "\0", "\u{7f}", "\u{85}"] {
            assert_eq!(Short::new(control).unwrap_err(), TextError::Control, "{control:?}");
        }
    }

    #[test]
    fn a_pasted_text_may_have_tabs_and_carriage_returns() {
        type Pasted = Text<0, 8, true>;
        assert!(Pasted::new("a\tb\r\nc").is_ok());
        assert_eq!(Pasted::new("\0").unwrap_err(), TextError::Control);
    }

    #[test]
    fn a_longer_text_of_another_version_is_read() {
        let long: String = ['x'; 9].iter().collect();
        let stored = postcard::to_allocvec(&long).expect("it is text");
        let read: Text<0, 8> = postcard::from_bytes(&stored).expect("what is stored is not checked");
        assert_eq!((&*read, read.check()), (&*long, Err(TextError::TooLong)));
    }
}
