//! The progress of commands that take a while, on standard error. Nothing is shown unless that is a terminal.

use std::{borrow::Cow, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

/// How often it moves while nothing is counted.
const TICK: Duration = Duration::from_millis(120);

/// A line of progress. It goes away when it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Bytes of `total`, or without a known total.
    pub fn of_bytes(what: impl Into<Cow<'static, str>>, total: Option<u64>) -> Progress {
        let template = match total {
            Some(_) => "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {eta}",
            None => "{spinner} {prefix} {decimal_bytes} {decimal_bytes_per_sec} {elapsed}",
        };
        Progress::new(what, total, template)
    }

    /// Things that are counted, or nothing.
    pub fn of_items(what: impl Into<Cow<'static, str>>) -> Progress {
        Progress::new(what, None, "{spinner} {prefix} {human_pos} {elapsed}")
    }

    fn new(what: impl Into<Cow<'static, str>>, total: Option<u64>, template: &str) -> Progress {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_prefix(what);
        bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
        bar.enable_steady_tick(TICK);
        Progress(bar)
    }

    /// Counts more.
    pub fn add(&self, more: u64) {
        self.0.inc(more);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
