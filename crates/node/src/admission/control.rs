//! The controller decides when to shed, how many commands may be under way then, and when clients should try again. It is a
//! function of the measurements. Time is passed in.
//!
//! While the node sheds, the limit follows Little's law. `n` commands under way that stay `t` on average are answered at the rate
//! `n / t`. So for a stay of the target the limit is multiplied by `target / t`. The node stays busy, and the queue is as long as
//! the target allows, whatever a command costs.

use super::OverloadSettings;

/// The shortest time after which a client that was shed should try again, in milliseconds.
pub(super) const RETRY_MIN_MS: u32 = 50;
/// The longest one. After an overload all clients have tried again within this time and its jitter.
const RETRY_MAX_MS: u32 = 2_000;
/// The limit is never lower, because with fewer commands under way a node waits for its disk more than it decides.
const LIMIT_MIN: f64 = 32.0;
/// It is not raised further, because it would take too long to fall when it is needed.
const LIMIT_MAX: f64 = 4_096.0;
/// The most that one window lowers the limit, and raises it.
const STEP: (f64, f64) = (0.6, 1.25);
/// How much of a longer stay becomes usual in one window without a queue.
const USUAL_WEIGHT: f64 = 0.02;
/// The share of the target that an admitted command should stay on average.
const AIM: f64 = 0.4;
/// How much of a long stay becomes usual in one window where only the fewest commands are under way.
const FLOOR_WEIGHT: f64 = 0.5;
/// The fewest commands are under way where the limit is not above this.
const FLOOR: f64 = 1.2 * LIMIT_MIN;
/// If commands are decided sooner than this on average, in milliseconds, no command queues for the processors. It was 1.3 ms
/// and more when `boxoffice load overload` drove a node of one processor over its capacity, and below 0.1 ms at half of it.
const QUEUE_MIN_MS: f64 = 1.0;
/// A pause between two windows that is longer than this says nothing about the time in between, in milliseconds.
const SILENCE_MS: u64 = 1_000;

/// The measurements of one window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Commands that were decided, and how long all of them had waited.
    pub(super) decided: u64,
    pub(super) waited_ms: u64,
    /// Commands that were answered, and how long all of them had stayed.
    pub(super) answered: u64,
    pub(super) stayed_ms: u64,
    /// Commands that were shed.
    pub(super) shed: u64,
    /// Commands under way at its end.
    pub(super) under_way: usize,
}

impl Seen {
    /// How long a command waited on average, in milliseconds. `None` if none was taken.
    pub(super) fn wait_ms(&self) -> Option<f64> {
        mean(self.waited_ms, self.decided)
    }

    /// How long a command stayed on average, in milliseconds. `None` if none was answered.
    pub(super) fn stay_ms(&self) -> Option<f64> {
        mean(self.stayed_ms, self.answered)
    }

    /// Whether commands queue for the processors. If they do not and stay for long, the disk, a link or another node is slow,
    /// and shedding would not help.
    fn is_queueing(&self) -> bool {
        self.wait_ms().is_some_and(|wait_ms| wait_ms >= QUEUE_MIN_MS)
    }
}

/// The terms of the next window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowTerms {
    pub(super) is_shedding: bool,
    pub(super) limit: usize,
    pub(super) retry_after_ms: u32,
}

/// The state between two windows.
pub(super) struct Control {
    target_ms: f64,
    sustain_ms: u64,
    turned_ms: u64,
    state: State,
    retry_after_ms: f64,
    /// How long a command stays where nothing queues, in milliseconds.
    usual_ms: f64,
    /// For how long the limit has been as low as it gets, in milliseconds.
    at_floor_ms: u64,
}

enum State {
    /// Every command is admitted. Commands have waited too long for these milliseconds on end.
    Open { over_ms: u64 },
    /// There is a limit. Nothing was shed for these milliseconds on end.
    Shedding { limit: f64, calm_ms: u64 },
}

impl Control {
    pub(super) fn new(settings: &OverloadSettings, now_ms: u64) -> Control {
        Control {
            target_ms: settings.target_ms as f64,
            sustain_ms: settings.sustain_ms,
            turned_ms: now_ms,
            state: State::Open { over_ms: 0 },
            retry_after_ms: f64::from(RETRY_MIN_MS),
            usual_ms: 0.0,
            at_floor_ms: 0,
        }
    }

    /// Ends a window.
    pub(super) fn turn(&mut self, seen: &Seen, now_ms: u64) -> WindowTerms {
        let length_ms = now_ms.saturating_sub(self.turned_ms);
        self.turned_ms = now_ms;
        let waits = seen.wait_ms().is_some_and(|wait_ms| wait_ms > self.target_ms);
        let stays = seen.stay_ms().is_some_and(|stay_ms| stay_ms > self.target_ms + self.usual_ms);
        let is_over = waits || stays && seen.is_queueing();
        self.state = match self.state {
            State::Open { over_ms } => self.open(seen, is_over, over_ms, length_ms),
            State::Shedding { limit, calm_ms } => self.shedding(seen, is_over, (limit, calm_ms), length_ms),
        };
        self.set_retry(seen);
        WindowTerms {
            is_shedding: matches!(self.state, State::Shedding { .. }),
            limit: match self.state {
                State::Open { .. } => usize::MAX,
                State::Shedding { limit, .. } => limit as usize,
            },
            retry_after_ms: self.retry_after_ms as u32,
        }
    }

    fn open(&mut self, seen: &Seen, is_over: bool, over_ms: u64, length_ms: u64) -> State {
        if !is_over {
            self.learn_usual(seen);
            return State::Open { over_ms: 0 };
        }
        // Whether commands waited in a long silence is not known.
        let over_ms = if length_ms > SILENCE_MS { 0 } else { over_ms + length_ms };
        // A queue that takes that long to answer makes the delay last, too.
        let drain_ms = seen.under_way as f64 * length_ms as f64 / seen.answered.max(1) as f64;
        let lasts = over_ms > 0 && drain_ms > self.sustain_ms as f64 + self.target_ms;
        if over_ms < self.sustain_ms && !lasts {
            return State::Open { over_ms };
        }
        let stay_ms = seen.stay_ms().unwrap_or(self.target_ms).max(1.0);
        let limit = (seen.under_way as f64 * (self.aim_ms() / stay_ms).min(1.0)).max(LIMIT_MIN);
        State::Shedding { limit, calm_ms: 0 }
    }

    fn shedding(&mut self, seen: &Seen, is_over: bool, (limit, calm_ms): (f64, u64), length_ms: u64) -> State {
        let calm_ms = if seen.shed == 0 && !is_over { calm_ms + length_ms } else { 0 };
        if calm_ms >= self.sustain_ms {
            return State::Open { over_ms: 0 };
        }
        self.at_floor_ms = if limit <= FLOOR { self.at_floor_ms + length_ms } else { 0 };
        let factor = match seen.stay_ms() {
            Some(stay_ms) => {
                // Commands that came before the limit was that low have queued.
                if stay_ms > self.usual_ms && self.at_floor_ms as f64 > 2.0 * stay_ms {
                    // So few commands do not queue. They stay because the disk or other nodes are slow.
                    self.usual_ms += (stay_ms - self.usual_ms) * FLOOR_WEIGHT;
                }
                let least = if seen.is_queueing() { STEP.0 } else { 1.0 };
                // Half of the way there, on a scale of ratios, because one window's stays tell little of the next one's.
                (self.aim_ms() / stay_ms.max(1.0)).sqrt().clamp(least, STEP.1)
            }
            // Nothing was answered, because the disk or the other nodes are slow. A lower limit would not help.
            None => 1.0,
        };
        State::Shedding { limit: (limit * factor).clamp(LIMIT_MIN, LIMIT_MAX.max(limit)), calm_ms }
    }

    /// How long an admitted command should stay on average. The slowest ones stay twice as long, and their way through the
    /// sockets takes time as well.
    fn aim_ms(&self) -> f64 {
        self.target_ms * AIM + self.usual_ms
    }

    fn learn_usual(&mut self, seen: &Seen) {
        let Some(stay_ms) = seen.stay_ms() else { return };
        let is_longer = stay_ms > self.usual_ms && self.usual_ms > 0.0;
        self.usual_ms += (stay_ms - self.usual_ms) * if is_longer { USUAL_WEIGHT } else { 1.0 };
    }

    /// Clients should try again so late that refusing them takes less than deciding does.
    fn set_retry(&mut self, seen: &Seen) {
        if seen.shed > 2 * seen.answered {
            self.retry_after_ms *= 1.5;
        } else if seen.shed < seen.answered {
            self.retry_after_ms /= 1.5;
        }
        self.retry_after_ms = self.retry_after_ms.clamp(RETRY_MIN_MS.into(), RETRY_MAX_MS.into());
    }
}

fn mean(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}
