//! Time as it is handed in, and the time of a shard made from it.

/// What the node's clocks show at the beginning of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, milliseconds since 1970; may jump.
    pub wall_ms: u64,
    /// Monotonic clock, milliseconds since any fixed moment of this process; never goes back.
    pub mono_ms: u64,
}

/// The time of a shard during one epoch: a base fixed at the election plus monotonic time since, so that
/// a step of the wall clock moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardTime {
    /// The shard's time at the election, milliseconds since 1970: the later of the last stamp and the wall clock.
    pub base_ms: u64,
    /// The monotonic clock at the election, milliseconds.
    pub mono_base_ms: u64,
}

impl ShardTime {
    /// The time of an epoch that begins `now`, after an entry stamped `last_stamp_ms`.
    pub fn elected(now: Now, last_stamp_ms: u64) -> ShardTime {
        ShardTime { base_ms: now.wall_ms.max(last_stamp_ms), mono_base_ms: now.mono_ms }
    }

    /// The shard's time, milliseconds since 1970, when the monotonic clock shows `mono_ms`.
    pub fn at(&self, mono_ms: u64) -> u64 {
        self.base_ms.saturating_add(mono_ms.saturating_sub(self.mono_base_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_behind_the_last_stamp_starts_at_the_stamp() {
        let now = Now { wall_ms: 500, mono_ms: 7 };
        let time = ShardTime::elected(now, 900);
        assert_eq!((time.at(7), time.at(17), time.at(0)), (900, 910, 900));
    }

    #[test]
    fn a_clock_ahead_of_the_last_stamp_is_believed() {
        let now = Now { wall_ms: 1_500, mono_ms: 7 };
        assert_eq!(ShardTime::elected(now, 900).at(8), 1_501);
    }
}
