//! promises
