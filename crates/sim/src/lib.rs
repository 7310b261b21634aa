//! The simulation. It runs real nodes with all actors in a simulated world on one thread, and everything follows from a
//! seed. Buyers buy while machines lose power, pause and have failing disks. Then everything is healed, and the final
//! state is compared with the answers that buyers received.
//!
//! ```
//! use boxoffice_sim::{Settings, run};
//!
//! let report = run(Settings { minutes: 1, ..Settings::new(42) }).unwrap();
//! assert!(report.violations.is_empty(), "{:?}", report.violations);
//! assert!(report.changes > 0);
//! // The same seed is the same run.
//! assert_eq!(run(report.settings.clone()).unwrap().hash, report.hash);
//! ```

// In reading order: runs, faults, clients, checks, the world below.
mod evening;
mod many;
mod run;
mod settings;
mod swarm;

mod cluster;
mod cuts;
mod faults;
mod operator;
mod upgrade;

mod buyer;
mod client_stub;
mod fixture;
mod gateway;
mod portions;
mod spectator;
mod staff;
mod stale_reads;
mod stall;

mod judge;
mod leftovers;
mod oracle;
mod remembered;
mod shown;
mod tally;

mod clock;
mod disk;
mod frame_capture;
pub mod link_model;
mod machine;
mod network;
mod panics;
mod rng;
mod trace;
mod wall_clocks;

#[cfg(feature = "planted")]
pub use boxoffice_node::plant;
pub use evening::{Evening, EveningReport, Hoard, run_evening};
pub use judge::Seen;
pub use many::{Summary, run_many};
pub use run::{Report, run, run_and_capture_frames};
pub use settings::{Flips, Settings};
pub use swarm::{Fault, Swarm};
pub use tally::Tally;
