//! How many entries of a table were looked at one by one. Tests bound it, because other work waits meanwhile.

/// A count in tests, and nothing otherwise.
#[derive(Default)]
pub(crate) struct Steps {
    #[cfg(test)]
    count: std::cell::Cell<u64>,
}

impl Steps {
    /// An entry is looked at.
    pub(crate) fn step(&self) {
        #[cfg(test)]
        self.count.set(self.count.get() + 1);
    }

    /// The number of entries since the last call.
    #[cfg(test)]
    pub(crate) fn take(&self) -> u64 {
        self.count.take()
    }
}
