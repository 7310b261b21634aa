//! Several real nodes under load, and what may happen to them and between them. After each fault everything that was
//! acknowledged is there, at every node.
//!
//! Stories that leave a cluster as it was share one; each says what it takes away and what must go on meanwhile.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/cluster/mod.rs"]
mod cluster;

mod clocks;
mod copies;
mod crowds;
mod disks;
mod keys;
mod leaders;
mod members;
mod network;
mod panics;
mod pauses;
mod processes;
mod waits;
mod weather;

use cluster::Plan;

/// Three nodes.
const THREE: Plan = Plan { nodes: 3, places: 3, faults: false, clocks: false, gateway: false };

/// The number a node ends with that its cluster does not let in.
const REFUSED: i32 = 1;

/// The number a node ends with that cannot start or go on.
const NODE: i32 = 4;
