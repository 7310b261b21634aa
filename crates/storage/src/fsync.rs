//! When a change is durable.

/// When a change is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before it is acknowledged, so that it survives a power cut.
    Always,
    /// At most this many milliseconds after it was acknowledged. A power cut loses the changes of that time.
    Interval(u64),
    /// When the operating system writes it. For memory-only use.
    Never,
}

impl Fsync {
    /// The word of the configuration and of `hello`.
    pub fn as_str(self) -> &'static str {
        match self {
            Fsync::Always => "always",
            Fsync::Interval(_) => "interval",
            Fsync::Never => "never",
        }
    }
}
