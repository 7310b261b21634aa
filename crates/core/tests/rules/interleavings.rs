//! interleavings
