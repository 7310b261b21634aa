//! The simulation: real nodes, actors and all, in a simulated world on one thread, where everything that happens follows
//! from a seed. A town sells, machines lose their power, stand still and have sick disks; then everything is healed, and
//! what the buyers were told is held against what there is.

// In reading order: what a run is, what befalls it, who buys, who judges, the world below.
mod many;
mod run;
mod settings;

mod cluster;
mod faults;
mod operator;

mod bank;
mod buyer;
mod curious;
mod desk;
mod portions;
mod spectator;
mod staff;
mod town;

mod judge;
mod leftovers;
mod oracle;
mod tally;

mod clock;
mod dice;
mod disk;
mod ether;
pub mod fabric;
mod machine;
mod panics;
mod tap;
mod trace;
mod walls;

#[cfg(feature = "planted")]
pub use boxoffice_node::plant;
pub use faults::{Fault, Swarm};
pub use judge::Seen;
pub use many::{Summary, run_many};
pub use run::{Report, run};
pub use settings::Settings;
pub use tally::Tally;
pub use tap::tapped;
