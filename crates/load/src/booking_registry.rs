//! Bookings that flows of a run may change.

use std::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};

use rand::Rng;

/// The bookings that exist according to the answers of the nodes. A client that changes a booking takes it out of the
/// registry meanwhile.
#[derive(Default)]
pub(crate) struct BookingRegistry {
    /// Resource and number of each.
    bookings: Mutex<Vec<(u32, u32)>>,
    next: AtomicU32,
}

impl BookingRegistry {
    /// The number of a booking that never existed.
    pub(crate) fn next_number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn put(&self, resource: u32, booking: u32) {
        self.bookings.lock().expect("no thread panics while it holds the lock").push((resource, booking));
    }

    /// Takes a random booking out of the registry. `None` if it is empty.
    pub(crate) fn take(&self, random: &mut impl Rng) -> Option<(u32, u32)> {
        let mut bookings = self.bookings.lock().expect("no thread panics while it holds the lock");
        let count = bookings.len();
        (count > 0).then(|| bookings.swap_remove(random.random_range(0..count)))
    }
}
