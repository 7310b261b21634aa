//! Several real nodes under load, and faults of the nodes and of the links between them. After each fault everything that was
//! acknowledged is there, at every node.
//!
//! Stories that leave the cluster unchanged share one. Each story states its fault and what must still work during it.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/cluster/mod.rs"]
mod cluster;

mod backups;
mod clocks;
mod copies;
mod damaged_blocks;
mod disks;
mod idle_clients;
mod joining;
mod keys;
mod leaders;
mod link_faults;
mod members;
mod network;
mod offers;
mod outvoted;
mod panics;
mod pauses;
mod power;
mod processes;
#[path = "../attacks/renewals.rs"]
mod renewals;
mod repair;
mod runbook;
mod story;
mod upgrades;
mod waits;

use cluster::Plan;

/// Three nodes.
const THREE: Plan = Plan { nodes: 3, places: 3, faults: false, clocks: false, gateway: false };

/// Exit code of a node that its cluster refuses.
const REFUSED: i32 = 1;

/// Exit code of a node that cannot start or go on.
const NODE: i32 = 4;
