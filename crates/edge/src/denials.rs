//! Denied requests: counted by reason, and logged up to a bounded number a minute.

use std::sync::atomic::{AtomicU64, Ordering};

use boxoffice_node::metrics_text::MetricsText;
use tokio::time::{Duration, Instant};
use tracing_mutex::parkinglot::Mutex;

/// Log lines a minute.
const LOGGED_MAX: u32 = 20;

/// Why a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The key or token is not valid.
    Token,
    /// The op needs credentials, and none were shown.
    Nothing,
    /// The credentials do not have the role.
    Role,
    /// The request is for another customer.
    Customer,
    /// The key is limited to other venues.
    Venue,
    /// The page's origin or the host name is not allowed.
    Origin,
    /// A code cannot be taken: the node has no secret for codes, or the network has shown too many wrong ones.
    Code,
}

impl Denial {
    pub(crate) const ALL: [Denial; 7] =
        [Denial::Token, Denial::Nothing, Denial::Role, Denial::Customer, Denial::Venue, Denial::Origin, Denial::Code];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Denial::Token => "token",
            Denial::Nothing => "nothing_shown",
            Denial::Role => "role",
            Denial::Customer => "customer",
            Denial::Venue => "venue",
            Denial::Origin => "origin",
            Denial::Code => "code",
        }
    }
}

/// The counts, and the log lines of the current minute.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    counts: [AtomicU64; Denial::ALL.len()],
    logged: Mutex<Option<(Instant, u32)>>,
}

impl Denials {
    /// Counts a denial, and logs it if the minute's lines are not used up.
    pub(crate) fn note(&self, why: Denial, by: Option<&str>, words: &str) {
        self.note_at(Instant::now(), why, by, words);
    }

    fn note_at(&self, now: Instant, why: Denial, by: Option<&str>, words: &str) {
        self.counts[why as usize].fetch_add(1, Ordering::Relaxed);
        let line = {
            let mut logged = self.logged.lock();
            let (begun, lines) = match *logged {
                Some((begun, lines)) if now.duration_since(begun) < Duration::from_secs(60) => (begun, lines),
                Some(_) | None => (now, 0),
            };
            *logged = Some((begun, lines.saturating_add(1)));
            lines
        };
        match line {
            0..LOGGED_MAX => tracing::warn!(reason = why.name(), by, "denied: {words}"),
            LOGGED_MAX => tracing::warn!("more is denied than is logged; boxoffice_edge_denied_total counts it"),
            _ => {}
        }
    }

    /// Writes the counts.
    pub(crate) fn write(&self, text: &mut MetricsText) {
        let name = "boxoffice_edge_denied_total";
        text.describe(name, "counter", "Denials of callers, by reason.");
        text.samples(name, "reason", Denial::ALL.map(|why| (why.name(), self.count(why))));
    }

    fn count(&self, why: Denial) -> u64 {
        self.counts[why as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_and_a_part_is_logged() {
        let (denials, now) = (Denials::default(), Instant::now());
        for _ in 0..100 {
            denials.note_at(now, Denial::Role, Some("till-3"), "no");
        }
        assert_eq!((denials.count(Denial::Role), denials.count(Denial::Token)), (100, 0));
        assert_eq!(denials.logged.lock().map(|(_, lines)| lines), Some(100));
        denials.note_at(now + Duration::from_secs(61), Denial::Token, None, "no");
        assert_eq!(denials.logged.lock().map(|(_, lines)| lines), Some(1));
    }
}
