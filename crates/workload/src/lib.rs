//! The plan of a load run and the check of its results, without a socket or a clock: when flows start, what they buy,
//! and whether the servers' state afterwards agrees with the answers that the clients got.
//!
//! All functions are pure. The same seed gives the same run.
//!
//! ```
//! use boxoffice_workload::{arrival::FlowNumber, flow::{Pick, Picker}, house::House};
//!
//! let house = House { prefix: "globe".into(), groups: 1, venues: 1, sessions: 2, rows: 5, seats: 16 };
//! // 20 flows of four seats each, one after the other through the house.
//! let picker = Picker::new(house, Pick::Next, 4, 20, 1)?;
//! let [first, second] = [0, 1].map(|index| picker.choose(FlowNumber { group: 0, index }, 0));
//! assert_ne!((first.session, first.seats.as_slice()), (second.session, second.seats.as_slice()));
//! # Ok::<(), boxoffice_workload::flow::PickerError>(())
//! ```

// In reading order: what is sold, the plan of the flows, the answers, the checks.
pub mod goods;
pub mod house;

pub mod arrival;
pub mod flow;
pub mod history;
pub mod run_seed;

pub mod calls;
pub mod check;
pub mod statistics;
