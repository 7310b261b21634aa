//! Why a run produced no report.

use std::{io, path::PathBuf, time::Duration};

use boxoffice_client::Error;
use boxoffice_workload::flow::PickerError;

use crate::scenario::ScenarioError;

/// Why a run produced no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Picker(#[from] PickerError),
    #[error("no address given; give at least one node as host:port")]
    NoAddress,
    /// The scenario kills or adds nodes that the run did not start.
    #[error(
        "a run kills and adds only nodes that it started itself; leave out the addresses and give a number of nodes"
    )]
    ForeignNodes,
    /// The baseline is a report of another scenario.
    #[error("the baseline is a run of {0}, and this one is of {1}; compare runs of one scenario")]
    OtherBaseline(String, String),
    /// The scenario has clients of a kind that speaks no TLS.
    #[error("the {0} of this scenario cannot encrypt; leave out --tls or choose a scenario without them")]
    NotEncrypted(&'static str),
    #[error("cannot connect to {addresses}: {error}")]
    Connect { addresses: String, error: Error },
    #[error("a node did not answer the request for {what}: {error}")]
    Query { what: &'static str, error: Error },
    /// A server accepts connections and sends nothing.
    #[error("a node did not say hello within {limit:?}; is another program listening there?")]
    NoHello { limit: Duration },
    #[error("cannot create the {what} of the run: {why}")]
    Setup { what: &'static str, why: String },
    /// The operating system refused an operation.
    #[error("cannot {what}: {error}")]
    System { what: &'static str, error: io::Error },
    #[error("{path}: {error}")]
    File { path: PathBuf, error: io::Error },
    /// A bug in the load generator.
    #[error("the load generator is broken: {0}")]
    Internal(&'static str),
}
