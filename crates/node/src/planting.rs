//! Bugs that are planted in the whole process, by one test at a time.

use boxoffice_core::planted::plant_everywhere;
use tracing_mutex::parkinglot::Mutex;

static PLANTING: Mutex<()> = Mutex::new(());

/// Runs a part of a test with a planted bug. Other tests run meanwhile and must not notice.
pub(crate) fn with_planted<T>(bug: &str, run: impl FnOnce() -> T) -> T {
    let _one = PLANTING.lock();
    plant_everywhere(bug);
    let result = run();
    plant_everywhere("none");
    result
}
