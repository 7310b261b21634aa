//! Reads of what a node has, many at once.

use std::future::Future;

use boxoffice_client::{Error, Reply};
use futures_util::{StreamExt, stream};

/// Reads under way at once.
const READS_MAX: usize = 16;

/// The longest session, in milliseconds: one that is not over began no longer ago. It is 31 days.
pub(super) const SESSION_SPAN_MAX_MS: u64 = 31 * 24 * 60 * 60 * 1000;

/// Reads something of each entry, a few at the same time. Returns the results in order.
pub(super) async fn read_all<'a, T, V, F>(things: &'a [T], read: impl Fn(&'a T) -> F) -> Result<Vec<Option<V>>, Error>
where
    F: Future<Output = Result<Option<V>, Error>>,
{
    stream::iter(things).map(read).buffered(READS_MAX).collect::<Vec<_>>().await.into_iter().collect()
}

/// The existing entry, if there is one.
pub(super) fn known<T>(answer: Result<Reply<T>, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(reply) => Ok(Some(reply.value)),
        // The command that creates it will tell any other error.
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
