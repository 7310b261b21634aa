//! Failures of commands, and their exit codes.

use std::process::ExitCode;

/// A command that failed. The number of each is its exit code.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// 1: refused, or the verdict is "no".
    #[error("{0}")]
    Refused(String),
    /// 2: the command line or a file is wrong.
    #[error("{0}")]
    Usage(String),
    /// 3: no node could be reached.
    #[error("{0}")]
    Unreachable(String),
    /// 4: the node cannot start or cannot go on.
    #[error("{0}")]
    Node(String),
}

impl Failure {
    /// The exit code, as `boxoffice --help` lists them.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Refused(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Unreachable(_) => 3,
            Failure::Node(_) => 4,
        })
    }
}

/// The result of a command.
pub type Outcome = Result<(), Failure>;
