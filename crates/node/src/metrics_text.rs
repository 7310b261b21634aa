//! Prometheus' text format, in which metrics answer a scrape.

use std::{
    fmt::{Display, Write},
    sync::atomic::{AtomicU64, Ordering},
};

/// The metrics written so far.
#[derive(Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Writes what a metric is. Its samples follow.
    pub fn describe(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// Writes a sample of a metric. The suffix of its name is empty, a part of a histogram, or labels like `{shard="3"}`.
    pub fn sample(&mut self, name: &str, suffix: impl Display, value: impl Display) {
        self.line(format_args!("{name}{suffix} {value}"));
    }

    /// Writes a counter.
    pub fn counter(&mut self, name: &str, help: &str, count: &AtomicU64) {
        self.describe(name, "counter", help);
        self.sample(name, "", count.load(Ordering::Relaxed));
    }

    /// Writes a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.describe(name, "gauge", help);
        self.sample(name, "", value);
    }

    /// Writes samples of a metric that was described, each with its value of one label.
    pub fn samples<L: Display, V: Display>(
        &mut self,
        name: &str,
        label: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        for (is, value) in samples {
            self.sample(name, format_args!("{{{label}=\"{is}\"}}"), value);
        }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("a string takes what is written");
    }
}
