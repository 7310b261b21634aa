//! Load: runs a scenario against real servers over real connections, measures it, audits it and says whether it was good.

// In reading order: the machine.
pub mod machine;
pub mod scenario;
