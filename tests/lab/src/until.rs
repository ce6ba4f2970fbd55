//! Waiting for a condition with a deadline: the only way that tests wait.
//!
//! A condition that does not hold within its deadline is a panic with its name. No test sleeps for a fixed time.

use std::time::{Duration, Instant};

/// The deadline of any condition of a healthy cluster: generous, for a loaded two-core machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The deadline of what takes several of those, such as a program with a cluster of its own.
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
        assert!(started.elapsed() < deadline, "waited {deadline:?} in vain for: {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Waits until `condition` returns true, in a test without a runtime.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG_DEADLINE, "waited {LONG_DEADLINE:?} in vain for: {what}");
        std::thread::sleep(INTERVAL);
    }
}

#[expect(clippy::print_stderr, reason = "the test runner shows it beside the failure")]
pub(crate) fn report(text: &str) {
    eprintln!("{text}");
}
