//! SIGINT and SIGTERM, which ask the program to stop.

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// The stop signals of this process.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl StopSignals {
    /// From now on these signals do not end the process by themselves. Needs a runtime.
    ///
    /// # Errors
    /// If the operating system rejects the handlers.
    pub(crate) fn install() -> std::io::Result<Self> {
        let (interrupt, terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate })
    }

    /// Resolves with the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
        }
    }
}
