//! Links between nodes, over real sockets and through a proxy that spoils what passes.

mod common;
mod proxy;

mod encrypted;
mod exchange;
mod faults;
mod refusals;
mod standing;
