//! Names for people, by locale. What is named has an id besides, which never changes.

use alloc::vec::Vec;

use boxoffice_declare::Stored;
use smol_str::{SmolStr, format_smolstr};

/// The longest name of a venue, a city, a title or a person, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// The most locales of one thing.
pub const LOCALES_MAX: usize = 32;

/// The longest locale, in bytes.
pub const LOCALE_BYTES_MAX: usize = 35;

/// Names of one thing by locale, like `da` or `zh-Hant`. They are in the order of locales, each of which has one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Stored)]
#[stored(transparent)]
pub struct Names(Vec<(SmolStr, SmolStr)>);

impl Names {
    /// These names.
    ///
    /// # Errors
    /// The reason if a locale is none or has two names, if a name is empty, too long or has control characters, or if there are
    /// too many.
    pub fn new(names: impl IntoIterator<Item = (SmolStr, SmolStr)>) -> Result<Names, SmolStr> {
        let mut names: Vec<(SmolStr, SmolStr)> = names.into_iter().collect();
        if names.len() > LOCALES_MAX {
            return Err(format_smolstr!("there are names for more than {LOCALES_MAX} locales"));
        }
        names.sort();
        for (locale, name) in &names {
            if !is_locale(locale) {
                return Err(format_smolstr!("{locale:?} is no locale, as `da` and `zh-Hant` are"));
            }
            if !(1..=NAME_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
                return Err(format_smolstr!("the name for {locale} is not 1 to {NAME_BYTES_MAX} bytes of plain text"));
            }
        }
        let mut locales: Vec<SmolStr> = names.iter().map(|(locale, _)| locale.to_lowercase().into()).collect();
        locales.sort_unstable();
        if let Some(twice) = locales.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format_smolstr!("there are two names for {}", twice[0]));
        }
        Ok(Names(names))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Locales with their names, in the order of locales.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&SmolStr, &SmolStr)> {
        self.0.iter().map(|(locale, name)| (locale, name))
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(SmolStr, SmolStr)>()
    }
}

/// Whether a text has the form of a BCP 47 tag. Which languages there are is not known here.
fn is_locale(text: &str) -> bool {
    let mut parts = text.split('-');
    let language = parts.next().unwrap_or_default();
    let plain = |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= LOCALE_BYTES_MAX
        && (2..=8).contains(&language.len())
        && language.bytes().all(|byte| byte.is_ascii_alphabetic())
        && parts.all(plain)
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec};

    use super::*;

    fn names(pairs: &[(&str, &str)]) -> Result<Names, SmolStr> {
        Names::new(pairs.iter().map(|(locale, name)| (SmolStr::new(locale), SmolStr::new(name))))
    }

    #[test]
    fn names_are_in_the_order_of_locales() {
        let both = names(&[("en", "Balcony"), ("da", "Balkon")]).expect("names");
        assert_eq!(both, names(&[("da", "Balkon"), ("en", "Balcony")]).expect("names"));
        assert_eq!(both.iter().map(|(locale, _)| locale.as_str()).collect::<Vec<_>>(), ["da", "en"]);
        assert!(names(&[("zh-Hant", "東上B"), ("es-419", "Balcón"), ("de", "1. Rang")]).is_ok());
    }

    #[test]
    fn bad_names_are_refused_in_words() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let tag = String::from("de-") + &"abcdefgh-".repeat(4) + "a";
        for (pairs, words) in [
            (vec![("", "a")], "\"\" is no locale, as `da` and `zh-Hant` are"),
            (vec![("d", "a")], "\"d\" is no locale, as `da` and `zh-Hant` are"),
            (vec![("da_DK", "a")], "\"da_DK\" is no locale, as `da` and `zh-Hant` are"),
            (vec![("da-", "a")], "\"da-\" is no locale, as `da` and `zh-Hant` are"),
            (vec![("1a", "a")], "\"1a\" is no locale, as `da` and `zh-Hant` are"),
            (vec![(tag.as_str(), "a")], "no locale"),
            (vec![("da", "")], "the name for da is not 1 to 200 bytes of plain text"),
            (vec![("da", "a\nb")], "the name for da is not 1 to 200 bytes of plain text"),
            (vec![("da", long.as_str())], "the name for da is not 1 to 200 bytes of plain text"),
            (vec![("da-DK", "a"), ("da-dk", "b")], "there are two names for da-dk"),
        ] {
            let refused = names(&pairs).expect_err(words);
            assert!(refused.contains(words), "{refused}");
        }
        let many = (0..=LOCALES_MAX).map(|number| (format_smolstr!("da-{number}"), SmolStr::new("a")));
        assert_eq!(Names::new(many), Err("there are names for more than 32 locales".into()));
    }
}
