//! Links between nodes, over real sockets and through a proxy that injects faults.

mod common;
mod proxy;
mod raw;

mod encrypted;
mod exchange;
mod faults;
mod lifecycle;
mod refusals;
mod strangers;
