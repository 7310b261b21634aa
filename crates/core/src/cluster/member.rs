//! A member of the cluster.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{command::Machine, time::Timestamp};

/// A member as kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The name of its data directory; none while another disk is awaited in the place of one that was lost.
    pub disk: Option<u128>,
    /// Where other members reach it: host and port.
    pub peer: SmolStr,
    /// Where clients reach it: host and port.
    pub client: SmolStr,
    /// The version of the program it runs, as it last said.
    pub program: SmolStr,
    /// What may be expected of it.
    pub state: MemberState,
    /// Its replicas with a lower generation were on a disk that was lost.
    pub first_generation: u64,
    /// When its state last changed.
    pub since: Timestamp,
}

/// What may be expected of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberState {
    /// It was promised a place and has not started since.
    Joining,
    /// It has copies, and gets more.
    Serving,
    /// What it has is moved away from it.
    Draining,
    /// It does not come back. Its id is never given again.
    Gone,
}

impl MemberState {
    /// Its name for life.
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Joining => "joining",
            MemberState::Serving => "serving",
            MemberState::Draining => "draining",
            MemberState::Gone => "gone",
        }
    }
}

impl Member {
    /// A machine as a member, from now on.
    pub(crate) fn new(machine: &Machine, state: MemberState, first_generation: u64, since: Timestamp) -> Member {
        let Machine { disk, peer, client, program } = machine.clone();
        Member { disk: Some(disk), peer, client, program, state, first_generation, since }
    }

    /// The same member in another state from now on; nothing changes if it is in it already.
    pub(crate) fn turned(&self, state: MemberState, at: Timestamp) -> Member {
        let since = if self.state == state { self.since } else { at };
        Member { state, since, ..self.clone() }
    }

    /// The same member on this machine.
    pub(crate) fn on(&self, machine: &Machine) -> Member {
        let Machine { disk, peer, client, program } = machine.clone();
        Member { disk: Some(disk), peer, client, program, ..self.clone() }
    }
}
