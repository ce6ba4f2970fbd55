//! Waiting for a condition with a deadline: the only way these tests wait.

use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_mins(1);
const STEP: Duration = Duration::from_millis(5);

/// Waits until `condition` answers true.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        tokio::time::sleep(STEP).await;
    }
}
