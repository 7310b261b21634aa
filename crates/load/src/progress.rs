//! The progress bar of a run. It is hidden unless standard error is a terminal.

use std::{
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{flow::Flow, loops::FinishedFlows, report::grouped};

/// How often the bar is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// A progress bar. All its clones are the same bar.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar on standard error. It is hidden with `quiet`, or if standard error is no terminal.
    pub(crate) fn new(quiet: bool) -> Progress {
        let visible = !quiet && stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{prefix:>10} {wide_bar} {human_pos}/{human_len} {msg}");
        bar.set_style(style.expect("the template is valid"));
        Progress { bar }
    }

    /// Begins a part of the run that has `steps` steps.
    pub(crate) fn begin(&self, what: &'static str, steps: u64) {
        self.bar.reset();
        self.bar.set_prefix(what);
        self.bar.set_message("");
        self.bar.set_length(steps);
    }

    /// Counts steps that are done.
    pub(crate) fn add(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows the flows that ended, with their rate and 99th percentile, until the caller drops it.
    pub(crate) async fn follow(self, finished: FinishedFlows) {
        if self.bar.is_hidden() {
            return std::future::pending().await;
        }
        let mut shown = 0;
        let mut last = Instant::now();
        loop {
            tokio::time::sleep(DRAW_EVERY).await;
            let latencies = |flows: &[Flow]| -> Vec<u64> { flows.iter().map(Flow::latency_us).collect() };
            let (all, mut latencies_us) = finished.since(shown, latencies);
            let rate = (all - shown) as f64 / last.elapsed().as_secs_f64();
            (shown, last) = (all, Instant::now());
            latencies_us.sort_unstable();
            let p99 = latencies_us.get(latencies_us.len() * 99 / 100).map_or(0.0, |&us| us as f64 / 1_000.0);
            self.bar.set_position(all as u64);
            self.bar.set_message(format!("{}/s, p99 {p99:.1} ms", grouped(rate as i64)));
        }
    }
}
