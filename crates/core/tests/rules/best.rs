//! best
