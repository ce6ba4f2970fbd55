//! The thread of a listener on which TLS handshakes compute. Its priority is low: a flood of handshakes takes the processor
//! time that calls of known callers leave.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// About a quarter of the time of a processor on which other threads always run.
const NICENESS: i32 = 5;

#[derive(Debug)]
pub(crate) struct HandshakeThread {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl HandshakeThread {
    /// # Errors
    /// The thread could not start.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tls-handshakes")
            .on_thread_start(|| {
                // Linux has a priority for each thread.
                if let Err(error) = rustix::process::nice(NICENESS) {
                    tracing::debug!(%error, "cannot lower the priority of a thread");
                }
            })
            .build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs a handshake. The drop of the future cancels it.
    ///
    /// # Errors
    /// The handshake panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        handshake: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let ended = || io::Error::other("the thread of handshakes has ended");
        let mut running = JoinSet::new();
        running.spawn_on(handshake, self.runtime.as_ref().ok_or_else(ended)?.handle());
        running.join_next().await.ok_or_else(ended)?.map_err(io::Error::other)
    }
}

impl Drop for HandshakeThread {
    fn drop(&mut self) {
        // A drop within another runtime must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_handshake_computes_on_a_thread_of_low_priority() {
        let thread = HandshakeThread::start().unwrap();
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let at_work = thread.run(async move { priority() }).await.unwrap();
        assert_eq!((at_work, priority()), ((before + NICENESS).min(19), before));
    }

    #[tokio::test]
    async fn a_dropped_handshake_is_cancelled() {
        let thread = HandshakeThread::start().unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let handshake = async move {
            std::future::pending::<()>().await;
            drop(sender);
        };
        tokio::select! {
            biased;
            _ = thread.run(handshake) => {}
            () = std::future::ready(()) => {}
        }
        assert!(receiver.await.is_err());
    }
}
