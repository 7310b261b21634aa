//! Reads that a request causes before its own command is submitted.

use std::sync::Arc;

use boxoffice_core::{
    answer::{Answer, Answered},
    command::Command,
    refusal::Refusal,
};
use boxoffice_node::api::{self, Failure, ReplySink, ReplyTo};
use tokio::sync::oneshot;
use tracing_mutex::parkinglot::Mutex;

use crate::Backend;

/// Why a read has no answer. The command behind it was not submitted.
pub(crate) enum NotRead {
    Refused(Refusal),
    Failed(Failure),
}

/// The answer to a read that takes at most `timeout_ms`.
///
/// # Errors
/// The reason why there is none.
pub(crate) async fn read(backend: &Arc<dyn Backend>, command: Command, timeout_ms: u64) -> Result<Answer, NotRead> {
    let (told, tell) = oneshot::channel();
    let reply = ReplyTo::new(Arc::new(Once(Mutex::new(Some(told)))), 0).with_timeout(timeout_ms);
    backend.submit(command, None, reply);
    match tell.await {
        Ok(Ok(Ok(Answered { answer, .. }))) => Ok(answer),
        Ok(Ok(Err(refusal))) => Err(NotRead::Refused(refusal)),
        // Only the read is unknown.
        Ok(Err(Failure::Unknown)) | Err(_) => Err(NotRead::Failed(Failure::NotReady)),
        Ok(Err(failure)) => Err(NotRead::Failed(failure)),
    }
}

/// Takes one answer.
struct Once(Mutex<Option<oneshot::Sender<api::Result>>>);

impl ReplySink for Once {
    fn answer(&self, _: u64, result: api::Result) {
        if let Some(told) = self.0.lock().take() {
            // The reader may have gone.
            let _ = told.send(result);
        }
    }
}
