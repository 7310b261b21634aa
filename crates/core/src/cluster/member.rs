//! A member of the cluster.

use boxoffice_declare::Stored;
use smol_str::SmolStr;

use crate::{command::Machine, time::Timestamp, version::ReadVersions};

/// A member as stored.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Member {
    /// The name of its data directory. `None` while a lost disk is being replaced.
    #[n(6)]
    pub disk: Option<u128>,
    /// Host and port of its address for other members.
    #[n(3)]
    pub peer: SmolStr,
    /// Host and port of its address for clients.
    #[n(4)]
    pub client: SmolStr,
    /// The version of its program when it last started.
    #[n(5)]
    pub program: SmolStr,
    #[n(0)]
    pub state: MemberState,
    /// Its replicas with a lower generation were on a disk that was lost.
    #[n(1)]
    pub first_generation: u64,
    /// When its state last changed.
    #[n(2)]
    pub since: Timestamp,
    /// The versions that its program reads. `None` if it has not started yet.
    #[n(7)]
    pub versions: Option<ReadVersions>,
    /// Its own replacement of a damaged disk, the last one.
    #[n(8)]
    pub renewed: Option<Renewed>,
}

/// A member has replaced its damaged data directory by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Renewed {
    /// When, in true time.
    #[n(0)]
    pub at: Timestamp,
    /// The name of the damaged data directory.
    #[n(1)]
    pub from: u128,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum MemberState {
    /// It was added and has not started yet.
    #[n(0)]
    Joining,
    /// It has replicas, and gets more.
    #[n(1)]
    Serving,
    /// Its replicas are moved away from it.
    #[n(2)]
    Draining,
    /// It was removed. Its id is never reused.
    #[n(3)]
    Gone,
}

impl MemberState {
    /// Its stable name.
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
        let Machine { disk, peer, client, program, versions } = machine.clone();
        Member { disk: Some(disk), peer, client, program, state, first_generation, since, versions, renewed: None }
    }

    /// The same member in another state from now on. Nothing changes if it has that state.
    pub(crate) fn turned(&self, state: MemberState, at: Timestamp) -> Member {
        let since = if self.state == state { self.since } else { at };
        Member { state, since, ..self.clone() }
    }

    /// The same member on this machine.
    pub(crate) fn on(&self, machine: &Machine) -> Member {
        let Machine { disk, peer, client, program, versions } = machine.clone();
        Member { disk: Some(disk), peer, client, program, versions, ..self.clone() }
    }
}
