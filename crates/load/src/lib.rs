//! Load: runs a scenario against real servers over real connections, measures it, audits it and says whether it was good.
//!
//! Nothing of a run is dropped: offered = done + refused + abandoned + failed, or the run fails. Latency is told twice, from
//! the start the schedule meant and from the start that came to be; the first one is the one to quote.

// In reading order: what to do, doing it, looking at it afterwards, saying what it came to.
pub mod gallery;
pub mod scenario;

mod keeper;
mod local_node;
mod run;

mod counter;
mod drive;
mod faults;
mod flow;
mod plan;
mod progress;
mod pulse;
mod reads;
mod setup;
mod storm;
mod watching;

mod audit;
mod bank;
mod judge;
mod measure;
mod overload;

pub mod machine;
pub mod report;

pub use drive::FLOWS_UNDER_WAY_MAX;
pub use keeper::Keeper;
pub use local_node::{Launch, LocalCluster, LocalNode, LocalNodeError, Standing};
pub use report::Report;
pub use run::{LoadError, RunConfig, run};
pub use scenario::{Scenario, ScenarioError};
pub use setup::{make_house, make_shop};
