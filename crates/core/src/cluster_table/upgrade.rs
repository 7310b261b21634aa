//! The version of the cluster, and who holds an upgrade back.

use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt;

use smol_str::{SmolStr, format_smolstr};

use super::ClusterTable;
use crate::{
    cluster::{Member, MemberState},
    event::ClusterEvent,
    id::Request,
    planted,
    refusal::Refusal,
    version::ClusterVersion,
};

/// What an upgrade raises, and who holds it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The version that the cluster gets: the lowest above its own that is the highest of a member.
    pub to: ClusterVersion,
    /// The members that do not read it, or cannot be asked, each with the reason.
    pub held_back_by: BTreeMap<u64, SmolStr>,
}

impl fmt::Display for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Upgrade { to, held_back_by } = self;
        match held_back_by.is_empty() {
            true => write!(f, "to version {to}, which every member reads: `boxoffice admin upgrade finish`"),
            false => write!(f, "to version {to}, held back by {}", who(held_back_by)),
        }
    }
}

impl ClusterTable {
    /// The upgrade that has begun: a member reads a higher version than the cluster's. `down` are the members that cannot be reached.
    /// They may come back with any program, so they hold an upgrade back.
    pub fn upgrade(&self, down: &[u64]) -> Option<Upgrade> {
        let present = || self.members.iter().filter(|(_, member)| member.state != MemberState::Gone);
        // The lowest one, because a member of a still later release must not hold back the one between.
        let higher = present().filter_map(|(_, member)| newest(member)).filter(|newest| *newest > self.cluster_version);
        let to = higher.min()?;
        let holds_back = |(node, member): (&u64, &Member)| {
            let why = match newest(member) {
                None => SmolStr::new_static("it has not started yet"),
                Some(newest) if newest < to => {
                    format_smolstr!("its program {} reads versions up to {newest}", member.program)
                }
                Some(_) if down.contains(node) => SmolStr::new_static("it cannot be reached"),
                Some(_) => return None,
            };
            Some((*node, why))
        };
        Some(Upgrade { to, held_back_by: present().filter_map(holds_back).collect() })
    }

    /// Raises the version of the cluster. Nothing is left to do if no member reads a higher one.
    pub(crate) fn finish_upgrade(
        &self,
        down: &[u64],
        request: Option<Request>,
    ) -> Result<Option<ClusterEvent>, Refusal> {
        let Some(Upgrade { to, held_back_by }) = self.upgrade(down) else {
            // The request is remembered, because a repeat that comes late must not finish the next upgrade.
            let cluster_version = self.cluster_version;
            return Ok(request.map(|request| ClusterEvent::Raised { cluster_version, request: Some(request) }));
        };
        if !held_back_by.is_empty() && !planted::is("an upgrade finished too early") {
            return Err(Refusal::UpgradeHeldBack { version: to.number().into(), why: who(&held_back_by) });
        }
        Ok(Some(ClusterEvent::Raised { cluster_version: to, request }))
    }
}

/// The members that hold an upgrade back, with the reasons.
fn who(held_back_by: &BTreeMap<u64, SmolStr>) -> SmolStr {
    let members: Vec<_> = held_back_by.iter().map(|(node, why)| format_smolstr!("node {node}: {why}")).collect();
    members.join("; ").into()
}

fn newest(member: &Member) -> Option<ClusterVersion> {
    member.versions.map(|versions| versions.newest)
}
