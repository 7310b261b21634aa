//! Reloads certificates while the node runs, when their files change and at SIGHUP.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use boxoffice_edge::Certificate;
use boxoffice_links::TcpNet;
use tokio::{
    signal::unix::{self, Signal, SignalKind},
    task::JoinHandle,
};

use crate::failure::Failure;

/// How often the files are checked.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The task that reloads them. It ends when this is dropped.
pub(crate) struct Reloading(Option<JoinHandle<()>>);

impl Reloading {
    /// Starts the task, if the client port or the links have certificates.
    ///
    /// # Errors
    /// Signals cannot be listened to.
    pub(crate) fn begin(client: Option<Arc<Certificate>>, links: Weak<TcpNet>) -> Result<Reloading, Failure> {
        if client.is_none() && links.upgrade().is_none_or(|links| !links.has_certificates()) {
            return Ok(Reloading(None));
        }
        let hangup = unix::signal(SignalKind::hangup())
            .map_err(|error| Failure::Node(format!("cannot listen to signals: {error}")))?;
        Ok(Reloading(Some(tokio::spawn(reload(client, links, hangup)))))
    }
}

impl Drop for Reloading {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

async fn reload(client: Option<Arc<Certificate>>, links: Weak<TcpNet>, mut hangup: Signal) {
    loop {
        // A closed stream of signals would be ready again and again.
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            Some(()) = hangup.recv() => {}
        }
        if let Some(client) = &client {
            say("the client port", client.reload());
        }
        if let Some(links) = links.upgrade() {
            say("links to other nodes", links.reload_certificates());
        }
    }
}

fn say(what: &str, reloaded: Result<bool, impl std::fmt::Display>) {
    match reloaded {
        Ok(false) => {}
        Ok(true) => tracing::info!("{what}: new connections are shown the certificate that was just read"),
        Err(why) => tracing::warn!("{what}: the certificate stays as it was: {why}"),
    }
}
