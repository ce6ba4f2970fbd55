//! Repeats an attempt until it succeeds or its time is over.

use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(30);

/// Repeats `attempt` for `time`. Returns its first success, or its last error.
pub(crate) async fn poll<T>(
    time: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, String> {
    let began = Instant::now();
    loop {
        match attempt().await {
            Err(_) if began.elapsed() < time => tokio::time::sleep(STEP).await,
            result => return result,
        }
    }
}
