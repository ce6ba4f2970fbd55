//! What a node keeps on its disk: openraft's log and snapshots over `holdfast_storage`, their checks, and the free space.

pub(crate) mod cache;
pub(crate) mod disk;
pub(crate) mod log_store;
pub(crate) mod scrub;
pub(crate) mod snapshot;

use std::io;

use tokio::sync::oneshot;

/// About a tenth of the time of a processor on which other threads always run.
const NICENESS: i32 = 10;

/// Runs long work on a thread of low priority with this name, which takes the processor time that nothing else needs.
///
/// # Errors
/// The thread could not start, or it panicked.
pub(crate) async fn run_in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Linux has a priority for each thread.
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::debug!(%error, "cannot lower the priority of a thread");
        }
        done.send(work()).ok();
    })?;
    result.await.map_err(|_| io::Error::other("the thread ended without a result"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_thread_of_the_work_has_a_low_priority() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let (name, at_work) = run_in_background("low", move || {
            let name = std::thread::current().name().map(ToOwned::to_owned);
            (name, priority())
        })
        .await
        .unwrap();
        assert_eq!((name.as_deref(), at_work), (Some("low"), NICENESS));
        assert_eq!(priority(), before);
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        assert!(run_in_background("panics", || panic!("as the test wants")).await.is_err());
    }
}
