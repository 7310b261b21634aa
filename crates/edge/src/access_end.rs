//! The end of what let a caller in, while its connection is open.

use std::{pin::Pin, sync::Arc, time::Duration};

use boxoffice_core::{access::AccessKey, time::Timestamp};

/// How long the last answer to a caller may take whose credentials are no longer valid.
pub(crate) const ACCESS_END_TIMEOUT: Duration = Duration::from_millis(50);

/// A future that is done when credentials are no longer valid.
pub(crate) type AccessEnd = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// Why a caller's credentials are no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its key was revoked.
    Revoked,
    /// Its token has expired.
    Expired,
    /// The operators' port needs credentials now.
    Guarded,
}

impl Ended {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Ended::Revoked => "this key was revoked",
            Ended::Expired => "this token has expired",
            Ended::Guarded => "the operators' port needs a key since there is one with the role admin",
        }
    }
}

/// What ends credentials. Those with the same one end at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum EndsWith {
    /// They last as long as the node.
    #[default]
    Node,
    Key(Arc<AccessKey>),
    Time(Timestamp),
    /// The first key with the role admin.
    OpenPort,
}

/// Waits until credentials are no longer valid. For ever if they cannot end.
pub(crate) async fn ended(access_end: &mut Option<AccessEnd>) -> Ended {
    match access_end {
        Some(end) => end.await,
        None => std::future::pending().await,
    }
}
