//! The log of a node, on the standard error output: lines for people, or one JSON object a line.

use std::{
    io::IsTerminal,
    panic::PanicHookInfo,
    sync::atomic::{AtomicBool, Ordering},
};

use boxoffice_wire::repr;
use serde_json::json;
use tracing_subscriber::{filter::filter_fn, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    failure::{Failure, Outcome},
    node_client::now,
};

/// Whether every line is an object.
static JSON: AtomicBool = AtomicBool::new(false);

/// Starts the log of this process. Only a terminal gets colours, unless `NO_COLOR` is set.
///
/// # Errors
/// [`Failure::Usage`] if the filter cannot be read.
pub fn start(filter: &str, json: bool) -> Outcome {
    JSON.store(json, Ordering::Relaxed);
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|error| Failure::Usage(format!("--log {filter}: {error}")))?;
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = std::io::stderr().is_terminal() && !no_color;
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours && !json);
    if json {
        builder.json().finish().with(filter_fn(may_be_logged)).init()
    } else {
        builder.finish().with(filter_fn(may_be_logged)).init()
    }
    Ok(())
}

/// Says something that is not for the filter to decide, like that the node stops.
pub fn say(text: &str) {
    eprintln!("{}", line(text, "INFO", JSON.load(Ordering::Relaxed)));
}

/// Says why a command has failed.
pub fn failed(failure: &Failure) {
    eprintln!("{}", line(&failure.to_string(), "ERROR", JSON.load(Ordering::Relaxed)));
}

/// Reports a panic as `report` would, or as an object.
pub fn panicked(panic: &PanicHookInfo<'_>, report: &dyn Fn(&PanicHookInfo<'_>)) {
    if JSON.load(Ordering::Relaxed) {
        eprintln!("{}", line(&panic.to_string(), "ERROR", true));
    } else {
        report(panic);
    }
}

/// A line of the log that does not come from an event. As an object it has the fields of the others.
fn line(text: &str, level: &str, json: bool) -> String {
    if !json {
        return format!("boxoffice: {text}");
    }
    let timestamp = repr::rfc3339(now()).map(|text| text.to_string());
    json!({"timestamp": timestamp, "level": level, "fields": {"message": text}, "target": "boxoffice"}).to_string()
}

/// Whether a line may be logged, whatever the filter says. At `trace` libraries log bytes as they come and go, with the tokens and
/// keys in them. This program's own lines never have any.
fn may_be_logged(line: &tracing::Metadata<'_>) -> bool {
    line.target().starts_with("boxoffice") || *line.level() <= tracing::Level::DEBUG
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_of_many_lines_is_one_object() {
        let text = "line 3: carts.grace_ms: \"0\"\nand more";
        assert_eq!(line(text, "ERROR", false), format!("boxoffice: {text}"));
        let object: serde_json::Value = serde_json::from_str(&line(text, "ERROR", true)).expect("an object");
        assert_eq!((&object["level"], &object["fields"]["message"]), (&"ERROR".into(), &text.into()));
        assert!(!line(text, "ERROR", true).contains('\n') && object["timestamp"].is_string());
    }
}
