//! Whole nodes, alone and as a cluster, in real and in simulated time.

mod beside;
mod cluster;
mod hand_over;
mod leaving;
mod plants;
mod simulated;
mod watching;
