//! The shutdown signals for connections and streams of the front-end.

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownPhase {
    Serving,
    /// A connection closes after its call in flight; a stream ends.
    Draining,
    /// A connection closes at once.
    Closed,
}

/// Resolves when the shutdown begins.
pub(crate) async fn begun(phase: &mut watch::Receiver<ShutdownPhase>) {
    drop(phase.wait_for(|phase| *phase != ShutdownPhase::Serving).await);
}
