//! `boxoffice admin invite`: one line to paste on a machine that is to join.

use boxoffice_client::AdminInvite;
use boxoffice_core::command::INVITATION_MS_MAX;
use boxoffice_env::secret::Secret;
use boxoffice_wire::joining;

use crate::{
    args::NodeArgs,
    failure::{Failure, Outcome},
    invitation::{self, Invitation},
    node_client::{self, date_and_time, say},
    secret,
};

/// Registers an invitation, and prints its line.
pub(super) fn run(node_args: &NodeArgs, for_ms: u64) -> Outcome {
    if for_ms > INVITATION_MS_MAX {
        return Err(Failure::Usage("--for: an invitation is good for 7d at most".into()));
    }
    let bytes = secret::bytes()?;
    let asked = AdminInvite { hash: invitation::hash(&bytes).into(), for_ms: Some(for_ms) };
    let status = node_client::block_on(async {
        let client = node_args.connect().await?;
        Ok(client.admin_invite(&asked).await.map_err(|error| node_args.failure(error))?.value)
    })?;
    if status.clients.is_empty() {
        return Err(Failure::Refused("no member of the cluster serves; invite again when one does".into()));
    }
    let invited = Invitation {
        addresses: status.clients.iter().map(ToString::to_string).collect(),
        invitation: Secret(joining::written(&bytes).to_string()),
        secret: Secret(status.secret.to_string()),
    };
    eprintln!(
        "Paste this line into `boxoffice join` on the new machine. One machine can use it until {}, at {}. Keep it private, \
         because it contains the secret of the cluster's nodes.",
        date_and_time(status.ends_at),
        invited.addresses.join(", ")
    );
    // An invitation that cannot be printed is lost.
    if say(&invited.line()) { Ok(()) } else { Err(Failure::Node("the invitation could not be printed".into())) }
}
