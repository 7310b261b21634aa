//! The load generator. It runs a scenario against real servers over real connections, measures it, audits it and judges
//! it.
//!
//! A run drops no flow: offered = done + refused + abandoned + failed, or the run fails. A latency is reported twice:
//! from the scheduled start of a flow and from its actual start. Quote the first one, which has no coordinated
//! omission.

// In reading order: the scenario, the run, its traffic, its audit and its verdict, the report.
pub mod scenario;

mod config;
mod error;
mod local_node;
mod node_controller;
mod run;

mod booking_registry;
mod connection_pool;
mod expiry_burst;
mod faults;
mod flow;
mod hoarders;
mod live_stats;
mod loops;
mod onsale;
mod overload;
mod progress;
mod reads;
mod run_certificate;
mod run_context;
mod run_watchers;
mod seat_blocks;
mod setup;
mod test_gateway;
pub mod watcher_fleet;
mod websocket;

mod audit;
mod measure;
mod verdict;

pub mod clock;
pub mod machine;
pub mod report;

pub use config::RunConfig;
pub use error::LoadError;
pub use local_node::{LaunchConfig, LocalCluster, LocalNode, LocalNodeError, LocalNodeStatus};
pub use loops::FLOWS_UNDER_WAY_MAX;
pub use node_controller::NodeController;
pub use report::Report;
pub use run::run;
pub use run_certificate::{NoCertificate, RunCertificate};
pub use scenario::{Scenario, ScenarioError};
pub use setup::{create_house, create_products};
