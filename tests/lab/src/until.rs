//! Waiting for a condition with a deadline: the only way that tests wait.
//!
//! A condition that does not hold within its deadline is a panic with its name. No test sleeps for a fixed time.

use std::time::{Duration, Instant};

/// The deadline of any condition of a healthy cluster: generous, for a loaded two-core machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

const INTERVAL: Duration = Duration::from_millis(15);

/// Waits until `condition` returns true.
pub async fn until(what: &str, deadline: Duration, mut condition: impl AsyncFnMut() -> bool) {
    until_some(what, deadline, async || condition().await.then_some(())).await;
}

/// Waits until `condition` returns a value, and returns it.
pub async fn until_some<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(started.elapsed() < deadline, "waited {deadline:?} in vain for: {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}
