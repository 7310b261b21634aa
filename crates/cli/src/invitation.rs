//! The line that invites a machine into a cluster. `boxoffice admin invite` prints it, and `boxoffice join` reads it.

use std::io::{BufRead, Read};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use boxoffice_env::secret::Secret;
use boxoffice_wire::joining::{self, INVITATION_BYTES};
use serde::{Deserialize, Serialize};

use crate::{failure::Failure, peer_secret};

/// The beginning of the line. The number is that of its form.
const PREFIX: &str = "boxoffice-join-1.";

/// The longest line, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// What an invited machine needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Where clients reach members of the cluster.
    pub addresses: Vec<String>,
    /// The invitation that the cluster knows by its hash.
    pub invitation: Secret,
    /// The secret of the cluster's nodes.
    pub secret: Secret,
}

/// The fields of the line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InvitationFields {
    addresses: Vec<String>,
    /// 64 hexadecimal digits.
    invitation: String,
    secret: String,
}

impl Invitation {
    /// The line without a line end.
    pub fn line(&self) -> String {
        let fields = InvitationFields {
            addresses: self.addresses.clone(),
            invitation: self.invitation.0.clone(),
            secret: self.secret.0.clone(),
        };
        let json = serde_json::to_vec(&fields).expect("texts can be written as JSON");
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(json))
    }

    /// The invitation in a line.
    ///
    /// # Errors
    /// The line is none, or a part of it is missing.
    pub fn parse(line: &str) -> Result<Invitation, String> {
        let line = line.trim();
        if line.is_empty() {
            return Err("paste the line that `boxoffice admin invite` prints into the standard input".into());
        }
        let encoded = line.strip_prefix(PREFIX).ok_or_else(|| {
            format!("this is no invitation: `boxoffice admin invite` prints one line that begins with {PREFIX}")
        })?;
        let cut =
            |_| "the invitation is not whole: copy all of the line that `boxoffice admin invite` prints".to_owned();
        let json = URL_SAFE_NO_PAD.decode(encoded).map_err(|error| cut(error.to_string()))?;
        let fields: InvitationFields = serde_json::from_slice(&json).map_err(|error| cut(error.to_string()))?;
        let InvitationFields { addresses, invitation, secret } = fields;
        let is_good = !addresses.is_empty()
            && joining::read(&invitation).is_some()
            && peer_secret::parse(&secret).is_ok_and(|secrets| secrets.len() == 1);
        if !is_good {
            return Err(cut(String::new()));
        }
        Ok(Invitation { addresses, invitation: Secret(invitation), secret: Secret(secret) })
    }

    /// Reads the invitation from the first line of an input.
    ///
    /// # Errors
    /// [`Failure::Usage`] as [`Invitation::parse`], or if the input cannot be read.
    pub fn read_from(input: &mut impl BufRead) -> Result<Invitation, Failure> {
        let mut line = String::new();
        let read = input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        read.map_err(|error| Failure::Usage(format!("the invitation cannot be read: {error}")))?;
        Invitation::parse(&line).map_err(Failure::Usage)
    }
}

/// The hash of an invitation's text, as the cluster keeps it.
pub fn hash(bytes: &[u8; INVITATION_BYTES]) -> String {
    joining::written(&joining::invitation_hash(bytes)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation() -> Invitation {
        Invitation {
            addresses: vec!["10.0.0.1:7180".into(), "10.0.0.2:7180".into()],
            invitation: Secret("0123456789abcdef".repeat(4)),
            secret: Secret("fedcba9876543210".repeat(4)),
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let line = invitation().line();
        assert!(line.bytes().all(|byte| byte.is_ascii_graphic()), "{line}");
        assert_eq!(Invitation::parse(&format!("  {line}\r\n")), Ok(invitation()));
        let read = Invitation::read_from(&mut format!("{line}\nmore\n").as_bytes());
        assert_eq!(read.expect("the first line counts"), invitation());
        assert!(!format!("{:?}", invitation()).contains("abcdef"), "secrets are not shown");
    }

    #[test]
    fn a_line_that_is_cut_is_refused_at_every_place() {
        let line = invitation().line();
        for length in 0..line.len() {
            let why = Invitation::parse(&line[..length]).expect_err("a part is missing");
            assert!(why.contains("boxoffice admin invite"), "{why}");
        }
        for other in ["bok.till.0123", &line.to_uppercase(), &format!("{line}A"), &line.replace('A', "!")] {
            assert!(Invitation::parse(other).is_err() || other == line, "{other}");
        }
    }
}
