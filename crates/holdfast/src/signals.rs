//! SIGINT and SIGTERM, which request the end of the program.

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// The stop signals of this process.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl StopSignals {
    /// Installs the handlers. From then on these signals do not end the process by themselves. Requires a runtime.
    ///
    /// # Errors
    /// The operating system rejects the handlers.
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
