//! Waits for a condition with a deadline: the only form of waiting in these tests.

use std::time::{Duration, Instant};

/// The time limit of any condition, sufficient on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(5);

/// Waits until `condition` returns `true`.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        tokio::time::sleep(STEP).await;
    }
}
