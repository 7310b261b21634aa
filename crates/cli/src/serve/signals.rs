//! The signals that stop a node.

use std::thread;

use tokio::{
    signal::unix::{self, Signal, SignalKind},
    sync::oneshot,
};

use crate::failure::Failure;

/// How a node was stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// By a supervisor (SIGTERM). The node tells load balancers first.
    Announced,
    /// At the terminal, or by the end of the program that started it.
    Now,
}

/// SIGTERM, Ctrl-C and, if wanted, the end of the standard input. They count from the creation of this value on.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    input: Option<oneshot::Receiver<()>>,
}

impl Signals {
    pub(super) fn listen(to_input: bool) -> Result<Signals, Failure> {
        let listen =
            |kind| unix::signal(kind).map_err(|error| Failure::Node(format!("cannot listen to signals: {error}")));
        let (terminate, interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Signals { terminate, interrupt, input: to_input.then(input_ends).transpose()? })
    }

    pub(super) async fn stop_requested(&mut self) -> Stop {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Stop::Announced,
            _ = self.interrupt.recv() => Stop::Now,
            // A dropped sender means the same.
            _ = async { self.input.as_mut().expect("asked before").await }, if self.input.is_some() => Stop::Now,
        }
    }
}

/// Resolves when the standard input has ended. A thread reads it, because the runtime would wait for a blocked read.
fn input_ends() -> Result<oneshot::Receiver<()>, Failure> {
    let (ended, ends) = oneshot::channel();
    let read = move || {
        // A failed input has ended as well.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        // The node may be gone already.
        let _ = ended.send(());
    };
    let thread = thread::Builder::new().name("input".into()).spawn(read);
    thread.map(|_| ends).map_err(|error| Failure::Node(format!("no thread for the standard input: {error}")))
}
