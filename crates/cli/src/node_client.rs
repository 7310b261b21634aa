//! The connection of a command to a node, and the failures of its requests.

use std::{
    future::Future,
    io::{IsTerminal, Write},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use boxoffice_client::{AdminToken, Client, ClientConfig, Error, Timestamp};
use boxoffice_wire::{
    limits::{SPEAKS_TLS, close},
    repr,
};

use crate::{
    address::{self, Address},
    args::NodeArgs,
    config::read_secret_file,
    draw::DrawOptions,
    failure::Failure,
};

/// How long a command tries to reach a node.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// The width of maps if the width of the output is not known.
const COLUMNS: usize = 120;

impl NodeArgs {
    /// `host:port`.
    pub fn host_and_port(&self) -> String {
        Address::parse(&self.address).host_and_port
    }

    /// The key or the admin token.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the file that holds it cannot be read.
    pub fn token(&self) -> Result<Option<String>, Failure> {
        token(self.admin_token.as_ref(), self.admin_token_file.as_deref())
    }

    /// Connects to the node.
    ///
    /// # Errors
    /// [`Failure::Unreachable`] with the reason and what to do.
    pub async fn connect(&self) -> Result<Client, Failure> {
        let config = ClientConfig {
            name: concat!("boxoffice ", env!("CARGO_PKG_VERSION")).into(),
            admin_token: self.token()?.map(AdminToken),
            connect_timeout: CONNECT_TIME,
            tls: address::authorities(&[Address::parse(&self.address)], self.ca.as_deref())?,
            ..ClientConfig::new([self.host_and_port()])
        };
        let client = Client::start(config).map_err(|error| self.failure(error))?;
        client.with_deadline(CONNECT_TIME).wait_until_connected().await.map_err(|error| self.failure(error))?;
        Ok(client)
    }

    /// The failure of a request, with what to do.
    pub fn failure(&self, error: Error) -> Failure {
        let address = self.host_and_port();
        match error {
            Error::Refused(no) if no.name == "unauthenticated" => Failure::Refused(format!(
                "{no}: show a key with --admin-token-file or in BOXOFFICE_ADMIN_TOKEN, or ask the operators' port \
                     (--address) on the node's machine"
            )),
            Error::Refused(no) => Failure::Refused(no.to_string()),
            Error::Failed(fail) => Failure::Node(format!("the node at {address} {fail}")),
            Error::Unknown(_) => Failure::Unreachable(format!(
                "no answer from the node at {address}; whether it happened is not known. Is the node still running? \
                 Look with `boxoffice admin status --address {address}`, then repeat the command"
            )),
            Error::Closed(why) if why.starts_with(&close::UNAUTHENTICATED.to_string()) => Failure::Refused(format!(
                "the node at {address} does not take this key; mend --admin-token-file or BOXOFFICE_ADMIN_TOKEN"
            )),
            Error::Closed(why) if why.contains(SPEAKS_TLS) => Failure::Unreachable(format!(
                "the node at {address} speaks TLS: write --address https://{address}, and --ca FILE if its authority is not one \
                 of this machine's"
            )),
            Error::Closed(why) => Failure::Unreachable(format!(
                "no node reached at {address} ({}). Is `boxoffice serve` running there? --address names another node",
                // The reason without the address and the question, which the message has already.
                why.split(';').next().unwrap_or_default().trim_start_matches(&format!("{address}: "))
            )),
            Error::Protocol(error) => Failure::Unreachable(format!(
                "what answers at {address} does not speak this program's protocol: {error}. Is it a boxoffice node of \
                 this version?"
            )),
        }
    }
}

/// A secret from the command line, or from a file.
///
/// # Errors
/// [`Failure::Usage`] if the file cannot be read.
pub fn token(said: Option<&String>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    match (said, file) {
        (Some(said), _) => Ok(Some(said.clone())),
        (None, Some(file)) => read_secret_file(file).map(Some).map_err(Failure::Usage),
        (None, None) => Ok(None),
    }
}

/// Runs a command's future to its end.
///
/// # Errors
/// Those of the command.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Node(format!("cannot start: {error}; raise the limit of open files")))?;
    let outcome = runtime.block_on(future);
    // A thread may still wait for the keyboard.
    runtime.shutdown_background();
    outcome
}

/// The options for drawing on standard output.
pub fn options() -> DrawOptions {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let terminal = std::io::stdout().is_terminal();
    let size = if terminal { crossterm::terminal::size().ok() } else { None };
    // A terminal with no columns does not know its width.
    let columns = size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0).unwrap_or(COLUMNS);
    DrawOptions { colours: terminal && !no_color, columns }
}

/// Prints a line. Returns whether the reader is still there.
pub fn say(line: &str) -> bool {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_ok()
}

/// This machine's clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// An instant for people: `2026-12-24 19:30 UTC`.
pub fn date_and_time(at: Timestamp) -> String {
    match repr::rfc3339(at) {
        Some(text) => format!("{} {} UTC", &text[..10], &text[11..16]),
        None => "beyond the year 9999".into(),
    }
}

/// A time of day for people: `19:30:05.123`.
pub fn time_of_day(at: Timestamp) -> String {
    repr::rfc3339(at).map_or_else(|| "?".into(), |text| text[11..23].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_shown_for_people() {
        let at = Timestamp(1_798_140_605_123);
        assert_eq!(date_and_time(at), "2026-12-24 19:30 UTC");
        assert_eq!(time_of_day(at), "19:30:05.123");
        assert_eq!(date_and_time(Timestamp(u64::MAX)), "beyond the year 9999");
    }
}
