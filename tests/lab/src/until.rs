//! Waits for a condition with a deadline. Tests use these functions instead of sleeps of a fixed time.
//!
//! A condition that does not hold before its deadline panics with its description.

use std::time::{Duration, Instant};

/// Default deadline of a condition on a healthy cluster, long enough for a loaded two-core machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Deadline of an operation with several such conditions, e.g. a program that starts its own cluster.
pub const LONG_DEADLINE: Duration = Duration::from_mins(1);

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
        assert!(started.elapsed() < deadline, "timed out after {deadline:?} waiting for: {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Waits until `condition` returns true, in a test without a runtime.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < LONG_DEADLINE,
            "timed out after {LONG_DEADLINE:?} waiting for: {what}"
        );
        std::thread::sleep(INTERVAL);
    }
}

#[expect(clippy::print_stderr, reason = "the test runner shows stderr with the failure")]
pub(crate) fn report(text: &str) {
    eprintln!("{text}");
}
