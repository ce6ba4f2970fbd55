//! The clients of one case: connected beforehand, run by the shared load generator, and aborted after a deadline.
//!
//! Bounds: one call in progress per client; a case ends [`DRAIN`] after its window at the latest.

use std::time::{Duration, Instant};

use crate::load::{Load, LoadClient, LoadCounts, LoadPhase, LoadUsage, OpenLoop};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::plan::{SpeedCase, SpeedPlan};
use crate::lock::{Connector, HeldLock, LockClient, nonce};
use crate::record::{LoadLoop, LockLayout, Measured};
use crate::statistics::{number, per};

/// The timeout of an acquire, longer than any case, so that the case's deadline ends it.
const ACQUIRE_TIMEOUT: Duration = Duration::from_mins(1);
/// The time limit for cycles in progress after the window.
const DRAIN: Duration = Duration::from_secs(5);
/// The time limit for all clients together to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of concurrent connection attempts.
const CONNECTING_MAX: usize = 16;
/// Processor times below this, seconds, are too short for the kernel's ticks of 10 ms.
const PROCESSOR_SECONDS_MIN: f64 = 0.05;

/// A client of a lock, as used by the load generator.
struct ComparedClient {
    client: Box<dyn LockClient>,
    lock: String,
    held: Option<HeldLock>,
}

impl LoadClient for ComparedClient {
    /// Returns no token: the catalogue documents tokens that are not monotonic, and the load generator checks only
    /// exclusion.
    async fn acquire(&mut self) -> Result<Option<u64>, String> {
        let held = self.client.acquire(&self.lock, ACQUIRE_TIMEOUT).await;
        self.held = Some(held.map_err(|error| error.kind().to_owned())?);
        Ok(None)
    }

    async fn release(&mut self) -> Result<(), String> {
        let Some(held) = self.held.take() else { return Ok(()) };
        self.client.release(held).await.map_err(|error| error.kind().to_owned())
    }

    fn usage(&self) -> LoadUsage {
        self.client.usage()
    }
}

/// Measures one case once. `processor_seconds` returns the processor time of the servers so far.
pub async fn measure(
    connector: &Connector,
    case: &SpeedCase,
    plan: &SpeedPlan,
    processor_seconds: impl Fn() -> Option<f64>,
) -> Result<Measured, String> {
    let clients = connect(connector, case.clients).await?;
    let locks = if case.locks == LockLayout::Hot { 1 } else { clients.len() };
    let name = nonce();
    let client = |(index, client)| {
        // No other case has used these locks.
        let lock = format!("compare-{name}-{}", index % locks.max(1));
        ComparedClient { client, lock, held: None }
    };
    let clients = clients.into_iter().enumerate().map(client).collect();
    let (origin, warmup, window) = (Instant::now(), plan.warmup, plan.window);
    let open_loop = match case.load {
        LoadLoop::Closed => None,
        LoadLoop::Open(rate) => Some(OpenLoop { origin, rate, warmup, window }),
    };
    let deadline = Some(origin + warmup + window + DRAIN);
    let mut used = None;
    let load = Load { clients, locks, open_loop, deadline };
    let result = load.run(async |phase| {
        tokio::time::sleep_until((origin + warmup).into()).await;
        let before = processor_seconds();
        let measuring = Instant::now();
        phase.send_replace(LoadPhase::Measuring);
        // The window starts now, because a read of the processor time takes time on a busy machine.
        tokio::time::sleep_until((measuring + window).into()).await;
        phase.send_replace(LoadPhase::Ending);
        let elapsed = measuring.elapsed();
        used = processor_seconds().zip(before).map(|(after, before)| after - before);
        Ok(elapsed)
    });
    let result = result.await?;
    Ok(measured(result.elapsed, &result.counts, result.violations, used))
}

fn measured(
    elapsed: Duration,
    counts: &LoadCounts,
    overlaps: u64,
    processor_seconds: Option<f64>,
) -> Measured {
    let ms = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1_000.0;
    let quantile = |quantile| ms(counts.times.value_at_quantile(quantile));
    let per_acquire = |count: u64| per(number(count), number(counts.acquires));
    let seconds = elapsed.as_secs_f64();
    Measured {
        seconds,
        cycles: counts.times.len() - counts.abandoned,
        per_second: per(number(counts.ended), seconds).unwrap_or(0.0),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        p999_ms: quantile(0.999),
        max_ms: ms(counts.times.max()),
        round_trips: per_acquire(counts.usage.round_trips),
        polls: per_acquire(counts.usage.polls),
        wakeups: per_acquire(counts.usage.wakeups),
        cpu_seconds: processor_seconds
            .filter(|seconds| *seconds >= PROCESSOR_SECONDS_MIN)
            .and_then(|seconds| per(seconds * 1_000.0, number(counts.ended))),
        overlaps,
        scheduled: counts.scheduled,
        unserved: counts.abandoned,
        errors: counts.errors.clone(),
    }
}

/// Connects all clients, or returns the reason of a failure: a case with fewer clients would be another case.
async fn connect(connector: &Connector, count: u32) -> Result<Vec<Box<dyn LockClient>>, String> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    let (mut connecting, mut clients) = (JoinSet::new(), Vec::new());
    let mut remaining = count;
    loop {
        while remaining > 0 && connecting.len() < CONNECTING_MAX {
            let connector = connector.clone();
            connecting.spawn(async move { connector.client().await });
            remaining -= 1;
        }
        let connected = clients.len();
        let failed =
            |why: String| format!("{connected} of {count} clients connected, and then: {why}");
        let late = || failed(format!("no reply within {} s", CONNECT_TIMEOUT.as_secs()));
        let next = timeout_at(deadline.into(), connecting.join_next()).await;
        let Some(client) = next.map_err(|_| late())? else { return Ok(clients) };
        let client = client.map_err(|error| failed(error.to_string()))?;
        clients.push(client.map_err(|error| failed(error.to_string()))?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_no_ratio() {
        let counts = LoadCounts::new().unwrap();
        let result = measured(Duration::from_secs(2), &counts, 0, Some(1.0));
        assert_eq!((result.round_trips, result.cpu_seconds), (None, None));
    }

    #[test]
    fn processor_time_of_one_tick_is_no_figure() {
        let counts = LoadCounts { ended: 100, ..LoadCounts::new().unwrap() };
        let cpu = |used| measured(Duration::from_secs(2), &counts, 0, Some(used)).cpu_seconds;
        assert_eq!(cpu(0.01), None);
        assert!((cpu(0.5).unwrap() - 5.0).abs() < 1e-9, "0.5 s for 100 cycles");
    }
}
