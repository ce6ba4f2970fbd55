//! Acquires and releases the probe lock through one node, and measures each step.
//!
//! Each round trip has its own session and removes its state. Concurrent doctors wait for each other.

use std::time::{Duration, Instant};

use holdfast_cli::arguments::NodesArgs;
use holdfast_cli::hints::common_hint;
use holdfast_cli::holder_name;
use holdfast_client::Error;
use holdfast_types::LockName;

use super::finding::Finding;
use super::precise_time;

/// The TTL of the session, which bounds the hold of a killed doctor.
const TTL: Duration = Duration::from_secs(10);
/// The time limit of each step, and of the wait for the probe lock.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest normal round trip; a slower one is a warning.
const SLOW: Duration = Duration::from_secs(1);
const CHECK: &str = "round trip";

pub(super) async fn through(address: &str, nodes: &NodesArgs, probe: &LockName) -> Finding {
    match measure(address, nodes, probe).await {
        Ok(steps) => judge(&steps),
        Err(error) => failed(&error, probe),
    }
}

/// The finding for a cluster in which no acquire can succeed.
pub(super) fn without_leader() -> Finding {
    let next = "fix the problems above first";
    Finding::fail(CHECK, "not tried, because the cluster has no leader", next)
}

fn judge(steps: &[(&str, Duration)]) -> Finding {
    let total: Duration = steps.iter().map(|(_, took)| *took).sum();
    let times: Vec<String> =
        steps.iter().map(|(step, took)| format!("{step} {}", precise_time(*took))).collect();
    let found = times.join(", ");
    if total > SLOW {
        let next = "every step waits for the disks of a majority: check them, and the network between the nodes";
        return Finding::warn(CHECK, found, next);
    }
    Finding::ok(CHECK, found)
}

fn failed(error: &Error, probe: &LockName) -> Finding {
    if let Some(holder) = error.holder() {
        let found = format!("{probe} is held by {}", holder_name(holder));
        return Finding::warn(CHECK, found, "wait, or choose another lock with --probe");
    }
    let next = "fix the problems above first, then read the node's log";
    let found = if let Error::Unavailable(reason) | Error::OutcomeUnknown(reason) = error {
        format!("no answer in time: {reason}")
    } else {
        error.to_string()
    };
    Finding::fail(CHECK, found, common_hint(error).unwrap_or(next.into()))
}

async fn measure(
    address: &str,
    nodes: &NodesArgs,
    probe: &LockName,
) -> Result<Vec<(&'static str, Duration)>, Error> {
    let client = nodes.only(address).client_with(|builder| {
        builder.ttl(TTL).session_prefix("doctor").request_timeout(STEP_TIMEOUT)
    });
    let client = client.map_err(|error| Error::InvalidArgument(error.to_string()))?;
    let mut steps = Vec::new();
    let mut start = Instant::now();
    let mut done = |step| {
        steps.push((step, start.elapsed()));
        start = Instant::now();
    };
    let session = client.session().await?;
    done("session");
    let guard = client.lock(probe.as_str()).timeout(STEP_TIMEOUT).acquire().await?;
    done("acquire");
    guard.release().await?;
    done("release");
    drop(session);
    client.close().await?;
    done("close");
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn a_slow_round_trip_is_a_warning() {
        let steps =
            |ms| [("session", Duration::from_micros(900)), ("acquire", Duration::from_millis(ms))];
        assert_eq!(judge(&steps(12)).found, "session 0.9ms, acquire 12ms");
        assert_eq!(judge(&steps(12)).verdict, Severity::Ok);
        assert_eq!(judge(&steps(3_000)).verdict, Severity::Warn);
    }
}
