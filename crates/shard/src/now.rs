//! The clocks of a node at the start of a pass.

/// The node's clocks at the beginning of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The machine's wall clock, milliseconds since 1970. It may jump.
    pub wall_ms: u64,
    /// Monotonic clock, milliseconds since any fixed moment of this process. It never goes back.
    pub mono_ms: u64,
}

impl Now {
    /// The wall clock less the monotonic clock, in milliseconds. It is constant as long as the wall clock is not set.
    pub(crate) fn shift_ms(self) -> i64 {
        (self.wall_ms as i64).saturating_sub(self.mono_ms as i64)
    }
}
