//! Waiting for a condition with a deadline: the only way these tests wait.

use std::time::{Duration, Instant};

/// What any condition is given: generous, for a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(5);

/// Waits until `condition` answers true.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        tokio::time::sleep(STEP).await;
    }
}
