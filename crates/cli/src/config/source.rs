//! Configuration files, and the lookup of keys in them.

use std::{
    fmt::Display,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue, ValueDeserializer},
};

use super::{ConfigError, DEFAULT};
use crate::suggest;

/// The message for a key of earlier versions.
pub(super) const UNDER_WAY_PER_SHARD: &str = "limits.under_way_per_shard was replaced by overload.under_way, which bounds \
    the commands under way on the node, in all shards together; remove the key, and set overload.under_way if 16 384 does \
    not fit";

/// Files in order of precedence. The last one is the built-in configuration, which has every key.
pub(super) struct Settings<'t>(Vec<Source<'t>>);

impl<'t> Settings<'t> {
    /// Parses files, in order of precedence.
    pub(super) fn parse(files: &'t [(PathBuf, String)]) -> Result<Settings<'t>, ConfigError> {
        let built_in = Source::parse(Path::new("built-in configuration"), DEFAULT)?;
        let mut sources = Vec::new();
        for (path, text) in files {
            let source = Source::parse(path, text)?;
            source.check_keys(&built_in)?;
            sources.push(source);
        }
        sources.push(built_in);
        Ok(Settings(sources))
    }

    /// The setting of a key like `node.shards`. The type of its value is checked in every file, also where another file
    /// overrides it.
    pub(super) fn find<'a, T: DeserializeOwned>(&'a self, key: &'a str) -> Result<Setting<'a, T>, ConfigError> {
        let settings = self.0.iter().filter_map(|source| source.setting(key).transpose());
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        Ok(settings.into_iter().next().expect("the built-in configuration has every key"))
    }

    /// The value of a key.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T, ConfigError> {
        Ok(self.find(key)?.value)
    }

    /// A number, which must be within a range.
    pub(super) fn within<N>(&self, key: &str, range: RangeInclusive<N>) -> Result<N, ConfigError>
    where
        N: DeserializeOwned + PartialOrd + Copy + Display,
    {
        let number = self.find::<N>(key)?;
        if !range.contains(&number.value) {
            let (given, start, end) = (number.value, range.start(), range.end());
            return Err(number.wrong(format!("{given} is not within {start} and {end}")));
        }
        Ok(number.value)
    }

    /// The paths of files that are set together. `None` if all of them are empty.
    pub(super) fn files_set_together<const N: usize>(
        &self,
        keys: [&str; N],
        what: &str,
    ) -> Result<Option<[PathBuf; N]>, ConfigError> {
        let files = keys.iter().map(|key| self.find::<PathBuf>(key)).collect::<Result<Vec<_>, _>>()?;
        let mut set = files.iter().filter(|file| !file.value.as_os_str().is_empty());
        // The error names a key that is set, since a missing key has no place.
        match (set.next(), set.count() + 1 == N) {
            (None, _) => Ok(None),
            (Some(_), true) => Ok(files.iter().map(Setting::path).collect::<Vec<_>>().try_into().ok()),
            (Some(file), false) => Err(file.source.wrong(file.at, what.to_owned())),
        }
    }

    /// The place of a key, `FILE: line LINE: `, if a file sets it and not only the built-in configuration.
    pub(super) fn place(&self, key: &str) -> Option<String> {
        let (_, files) = self.0.split_last()?;
        let (source, value) = files.iter().find_map(|source| Some((source, source.value(key)?)))?;
        Some(format!("{}: line {}: ", source.path.display(), source.line_of(value.span().start)))
    }
}

/// The value of a key, and where it is set.
pub(super) struct Setting<'a, T> {
    key: &'a str,
    pub(super) value: T,
    source: &'a Source<'a>,
    /// The offset of the value in the text of the file.
    at: usize,
}

impl<T> Setting<'_, T> {
    /// An error about this value. It begins with the key.
    pub(super) fn wrong(&self, what: impl Display) -> ConfigError {
        self.wrong_at(self.at, what)
    }

    /// An error about a part of this value, which is at this offset in the text of the file.
    pub(super) fn wrong_at(&self, at: usize, what: impl Display) -> ConfigError {
        self.source.wrong(at, format!("{}: {what}", self.key))
    }
}

impl Setting<'_, PathBuf> {
    /// The path of a file that the configuration names. A relative one begins at the folder of the configuration.
    pub(super) fn path(&self) -> PathBuf {
        self.source.beside(&self.value)
    }
}

impl<T> Setting<'_, T> {
    /// A relative path in a part of this value, as [`Setting::path`].
    pub(super) fn beside(&self, path: &Path) -> PathBuf {
        self.source.beside(path)
    }
}

impl Setting<'_, String> {
    /// The meaning of this word, which must be one of `words`.
    pub(super) fn one_of<M: Copy>(&self, words: &[(&str, M)]) -> Result<M, ConfigError> {
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == self.value) {
            return Ok(*meaning);
        }
        let known: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        Err(self.wrong(match &known[..] {
            [one, other] => format!("{:?} is neither {one} nor {other}", self.value),
            _ => format!("{:?} is none of {}", self.value, known.join(", ")),
        }))
    }
}

/// A file: its text, and its sections with the places of their values in the text.
struct Source<'t> {
    path: &'t Path,
    text: &'t str,
    sections: DeTable<'t>,
}

impl<'t> Source<'t> {
    fn parse(path: &'t Path, text: &'t str) -> Result<Source<'t>, ConfigError> {
        let mut source = Source { path, text, sections: DeTable::new() };
        source.sections = DeTable::parse(text).map_err(|error| source.malformed(&error, 0))?.into_inner();
        Ok(source)
    }

    /// Checks that the built-in configuration has every key of this file.
    fn check_keys(&self, built_in: &Source<'_>) -> Result<(), ConfigError> {
        for (name, section) in &self.sections {
            let known = self.known(name, &built_in.sections, &built_in.sections)?;
            let known = known.as_table().expect("the built-in configuration consists of sections");
            let Some(keys) = section.get_ref().as_table() else {
                let kind = section.get_ref().type_str();
                let what = format!("invalid type: {kind}, expected a section (at `{}`)", name.get_ref());
                return Err(self.wrong(section.span().start, what));
            };
            for (key, _) in keys {
                self.known(key, known, &built_in.sections)?;
            }
        }
        Ok(())
    }

    /// The value that a table of the built-in configuration has for a key of this file. `sections` are all of its sections.
    fn known<'b>(
        &self,
        key: &Spanned<DeString<'_>>,
        built_in: &'b DeTable<'_>,
        sections: &DeTable<'_>,
    ) -> Result<&'b DeValue<'b>, ConfigError> {
        let name: &str = key.get_ref();
        if let Some(value) = built_in.get(name) {
            return Ok(value.get_ref());
        }
        let mut known: Vec<_> = built_in.keys().collect();
        known.sort_by_key(|known| known.span().start);
        let known: Vec<&str> = known.iter().map(|known| known.get_ref().as_ref()).collect();
        let expected = match &known[..] {
            [only] => format!("`{only}`"),
            [one, other] => format!("`{one}` or `{other}`"),
            _ => format!("one of `{}`", known.join("`, `")),
        };
        let has_it = |section: &DeValue<'_>| section.as_table().is_some_and(|keys| keys.contains_key(name));
        let section =
            sections.iter().find(|(_, section)| has_it(section.get_ref())).map(|(section, _)| section.get_ref());
        let what = match (name, section, suggest::nearest(name, known.iter().copied())) {
            ("under_way_per_shard", _, _) => UNDER_WAY_PER_SHARD.to_owned(),
            (_, Some(section), _) => format!("unknown field `{name}`; it belongs to `[{section}]`"),
            (_, None, Some(meant)) => format!("unknown field `{name}`; did you mean `{meant}`? Expected {expected}"),
            (_, None, None) => format!("unknown field `{name}`, expected {expected}"),
        };
        Err(self.wrong(key.span().start, what))
    }

    fn beside(&self, path: &Path) -> PathBuf {
        self.path.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }

    fn value(&self, key: &str) -> Option<&Spanned<DeValue<'t>>> {
        let (section, name) = key.split_once('.')?;
        self.sections.get(section)?.get_ref().get(name)
    }

    fn setting<'a, T: DeserializeOwned>(&'a self, key: &'a str) -> Result<Option<Setting<'a, T>>, ConfigError> {
        let Some(found) = self.value(key) else { return Ok(None) };
        let at = found.span().start;
        let value = T::deserialize(ValueDeserializer::from(found.clone()));
        let value = value.map_err(|error| self.malformed(&error, at))?;
        Ok(Some(Setting { key, value, source: self, at }))
    }

    /// The error of a text that is not TOML, or of a value of the wrong type. It names the key in that line, which is the
    /// line of `at` if the parser tells no other place.
    fn malformed(&self, error: &toml::de::Error, at: usize) -> ConfigError {
        let start = error.span().map_or(at, |span| span.start).min(self.text.len());
        let line_start = self.text[..start].rfind('\n').map_or(0, |end| end + 1);
        let key = self.text[line_start..].split(['=', '\n']).next().unwrap_or_default().trim();
        let what = match in_plain_words(error.message()) {
            message if is_bare(&self.text[line_start..]) => {
                format!("{message} (at `{key}`): a text stands in quotes, as in {key} = \"VALUE\"")
            }
            message if message.contains("unknown field") || key.is_empty() => message,
            message => format!("{message} (at `{key}`)"),
        };
        self.wrong(start, what)
    }

    fn wrong(&self, at: usize, what: String) -> ConfigError {
        ConfigError::Wrong { file: self.path.to_owned(), line: self.line_of(at), what }
    }

    /// The line of an offset in the text, from 1.
    fn line_of(&self, at: usize) -> usize {
        self.text[..at.min(self.text.len())].matches('\n').count() + 1
    }
}

/// Whether the value of this line is a text without quotes, such as an address.
fn is_bare(line: &str) -> bool {
    let Some((_, value)) = line.lines().next().and_then(|line| line.split_once('=')) else { return false };
    let value = value.split('#').next().unwrap_or_default().trim();
    !value.starts_with(['"', '\'', '[', '{'])
        && value.contains(|letter: char| letter.is_alphabetic() || ":/".contains(letter))
}

/// A parser's message without names of Rust's types.
fn in_plain_words(message: &str) -> String {
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let words = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, not below 0",
        "i32" | "i64" => "a whole number",
        "f64" => "a number",
        other => other,
    };
    format!("{before}expected {words}")
}
