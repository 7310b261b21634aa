//! `boxoffice admin invite`: one line to paste on a machine that is to join.

use boxoffice_client::AdminInvite;
use boxoffice_env::secret::Secret;
use boxoffice_wire::joining;

use crate::{
    args::NodeArgs,
    failure::{Failure, Outcome},
    invitation::{self, Invitation},
    node_client::{self, date_and_time, say},
    random,
};

/// Registers an invitation, and prints its line.
pub(super) fn run(node_args: &NodeArgs, for_ms: u64) -> Outcome {
    let bytes = random::bytes()?;
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
        "Paste this line into `boxoffice join` on the new machine. It is good for one machine until {}, and has the secret \
         of the cluster's nodes, so show it to nobody else. The machine joins at {}.",
        date_and_time(status.ends_at),
        invited.addresses.join(", ")
    );
    // An invitation that cannot be printed is lost.
    if say(&invited.line()) { Ok(()) } else { Err(Failure::Node("the invitation could not be printed".into())) }
}

/// A time like `90s`, `30m`, `1h` or `7d`, in milliseconds.
///
/// # Errors
/// The text is none.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let units = [('s', 1_000_u64), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];
    let read = units.into_iter().find_map(|(letter, unit_ms)| {
        let number = text.strip_suffix(letter)?.parse::<u64>().ok()?;
        number.checked_mul(unit_ms)
    });
    read.filter(|ms| *ms > 0).ok_or_else(|| format!("{text:?} is no time like 90s, 30m, 1h or 7d"))
}

#[cfg(test)]
mod tests {
    use super::parse_time;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("90s"), Ok(90_000));
        assert_eq!(parse_time("30m"), Ok(1_800_000));
        assert_eq!(parse_time("1h"), Ok(3_600_000));
        assert_eq!(parse_time("7d"), Ok(604_800_000));
        for wrong in ["", "1", "h", "0h", "-1h", "1.5h", "1 h", "99999999999999999999d", "9999999999999999d", "1w"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
