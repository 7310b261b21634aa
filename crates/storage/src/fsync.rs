//! Whether a change is on disk before it is answered.

/// When an answered change is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before it is answered. What is acknowledged survives a power cut.
    Always,
    /// At the latest so many milliseconds after it was answered: a power cut loses up to that much of what was acknowledged.
    Interval(u64),
    /// When the operating system likes. For memory-only use.
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
