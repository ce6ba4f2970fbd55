//! Waiting for a condition with a deadline: the only way these tests wait.
//!
//! Owns the polling interval. A condition that does not come within its deadline is a failed test and says what was
//! waited for; nothing sleeps for a fixed time and hopes.

use std::time::{Duration, Instant};

/// What any condition of a healthy cluster is given: generous, for a loaded two-core machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

const INTERVAL: Duration = Duration::from_millis(15);

/// Waits until `condition` answers true.
pub async fn until<F>(what: &str, deadline: Duration, mut condition: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    until_some(what, deadline, async || condition().await.then_some(())).await;
}

/// Waits until `condition` answers something, and returns it.
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
