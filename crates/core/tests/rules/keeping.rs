//! keeping
