//! What this node waits for from others: asks that other shards have not replied to, messages for shards without a leader, calls
//! of clients, and histories. Only what is kept of them; `routing` sends it.

pub(crate) mod asks;
pub(crate) mod calls;
pub(crate) mod doubt;
pub(crate) mod histories;
pub(crate) mod leaderless;
