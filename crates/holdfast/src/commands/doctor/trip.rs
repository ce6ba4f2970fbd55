//! A lock taken and given back through one node, with the time of each step: what every client pays.
//!
//! Owns a session of its own for the trip, and leaves nothing behind. Two examinations at once wait for each other.

use std::time::{Duration, Instant};

use holdfast_client::{Client, Error};
use holdfast_types::LockName;

use super::super::name_of;
use super::finding::Finding;
use super::in_ms;

/// The session outlives a doctor that was killed by so long.
const TTL: Duration = Duration::from_secs(10);
/// How long a node may take with a step, and another holder with the probe lock.
const PATIENCE: Duration = Duration::from_secs(5);
/// A whole trip that takes longer is worth a look at disks and network.
const SLOW: Duration = Duration::from_secs(1);
const CHECK: &str = "round trip";

/// Takes and gives back.
pub(super) async fn through(address: &str, probe: &LockName) -> Finding {
    match step_by_step(address, probe).await {
        Ok(steps) => judged(&steps),
        Err(error) => refused(&error, probe),
    }
}

fn judged(steps: &[(&str, Duration)]) -> Finding {
    let total: Duration = steps.iter().map(|(_, took)| *took).sum();
    let each: Vec<String> =
        steps.iter().map(|(what, took)| format!("{what} {}", in_ms(*took))).collect();
    let found = each.join(", ");
    if total > SLOW {
        let next = "every step waits for a majority's disks: look at them, and at the network between the nodes";
        return Finding::warn(CHECK, found, next);
    }
    Finding::ok(CHECK, found)
}

fn refused(error: &Error, probe: &LockName) -> Finding {
    match error.holder() {
        Some(holder) => {
            let found = format!("{probe} is held by {}", name_of(holder));
            Finding::warn(CHECK, found, "wait, or choose another lock with --probe")
        }
        None => Finding::fail(
            CHECK,
            error.to_string(),
            "mend what is above first, then look at the node's log",
        ),
    }
}

async fn step_by_step(
    address: &str,
    probe: &LockName,
) -> Result<Vec<(&'static str, Duration)>, Error> {
    let builder =
        Client::builder([address]).ttl(TTL).session_prefix("doctor").request_timeout(PATIENCE);
    let client = builder.build().map_err(|error| Error::Argument(error.to_string()))?;
    let mut steps = Vec::new();
    let mut begun = Instant::now();
    let mut done = |what| {
        steps.push((what, begun.elapsed()));
        begun = Instant::now();
    };
    let session = client.session().await?;
    done("session");
    let guard = client.lock(probe.as_str()).wait(PATIENCE).acquire().await?;
    done("take");
    guard.release().await?;
    done("give back");
    drop(session);
    client.close().await?;
    done("close");
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_slow_trip_is_worth_a_look() {
        let steps =
            |ms| [("session", Duration::from_micros(900)), ("take", Duration::from_millis(ms))];
        assert_eq!(judged(&steps(12)).found, "session 0.9ms, take 12ms");
        assert_eq!(judged(&steps(12)).verdict, Verdict::Ok);
        assert_eq!(judged(&steps(3_000)).verdict, Verdict::Warn);
    }
}
