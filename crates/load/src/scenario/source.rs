//! The text of a scenario and its settings. It finds the line of a key for error messages.

use std::fmt::Display;

use toml::de::DeTable;

use super::{Scenario, ScenarioError};

/// The text of a scenario, and the settings that change it.
pub(super) struct ScenarioSource<'a> {
    origin: &'a str,
    text: &'a str,
    settings: std::cell::RefCell<Vec<String>>,
}

impl<'a> ScenarioSource<'a> {
    pub(super) fn new(origin: &'a str, text: &'a str) -> ScenarioSource<'a> {
        ScenarioSource { origin, text, settings: std::cell::RefCell::new(Vec::new()) }
    }

    /// The parser's error, with file and line.
    pub(super) fn malformed(&self, error: &toml::de::Error) -> ScenarioError {
        let location = match error.span() {
            Some(span) => format!("{}:{}", self.origin, self.line(span.start)),
            None => self.origin.to_owned(),
        };
        ScenarioError::Malformed { location, message: error.message().to_owned() }
    }

    /// An error about this key.
    pub(super) fn malformed_at(&self, key: &str, message: &str) -> ScenarioError {
        ScenarioError::Malformed { location: self.location_of(key), message: message.to_owned() }
    }

    /// Returns an error with the key, its value and the allowed values, unless `good`.
    pub(super) fn require(
        &self,
        good: bool,
        key: &str,
        value: impl Display,
        remedy: impl Into<String>,
    ) -> Result<(), ScenarioError> {
        if good {
            return Ok(());
        }
        Err(ScenarioError::BadValue {
            location: self.location_of(key),
            key: key.to_owned(),
            value: value.to_string(),
            remedy: remedy.into(),
        })
    }

    /// The scenario with these settings.
    pub(super) fn with_settings(&self, mut scenario: Scenario, settings: &[String]) -> Result<Scenario, ScenarioError> {
        let mut table: toml::Table = toml::from_str(self.text).map_err(|error| self.malformed(&error))?;
        for setting in settings {
            let bad = || ScenarioError::BadSetting(setting.clone());
            let (key, value) = setting.split_once('=').ok_or_else(bad)?;
            let (key, value) = (key.trim(), value.trim());
            let mut parts: Vec<&str> = key.split('.').collect();
            let last = parts.pop().filter(|last| !last.is_empty()).ok_or_else(bad)?;
            let mut at = &mut table;
            for part in parts {
                let entry = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
                at = entry.as_table_mut().ok_or_else(bad)?;
            }
            at.insert(last.to_owned(), value_of(value));
            self.settings.borrow_mut().push(key.to_owned());
            // Each setting is checked by itself, so that the error can name it.
            scenario = scenario_of(&table).map_err(|error| ScenarioError::Malformed {
                location: format!("--set {setting}"),
                message: error.message().to_owned(),
            })?;
        }
        Ok(scenario)
    }

    /// The file and line of a key (`house.rows`), of its table if the key is absent, or the setting that sets it.
    fn location_of(&self, key: &str) -> String {
        if !key.is_empty() && self.settings.borrow().iter().any(|set| set == key) {
            return format!("--set {key}");
        }
        let mut line = None;
        if let Ok(document) = DeTable::parse(self.text) {
            let mut table = document.get_ref();
            for part in key.split('.') {
                let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == part) else { break };
                line = Some(self.line(name.span().start));
                match value.get_ref().as_table() {
                    Some(inner) => table = inner,
                    None => break,
                }
            }
        }
        match line {
            Some(line) => format!("{}:{line}", self.origin),
            None => self.origin.to_owned(),
        }
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }
}

/// The scenario of a table. The table is written and read again, because a scenario that is read in two ways takes
/// twice as long to compile.
fn scenario_of(table: &toml::Table) -> Result<Scenario, toml::de::Error> {
    toml::from_str(&table.to_string())
}

/// The value of a TOML expression. Other text is the value itself, so `pick=random` needs no quotes.
fn value_of(text: &str) -> toml::Value {
    let document: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    let value = document.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}
