//! Reads the state of the node at one address, without retries at other addresses; and acquires and releases the probe lock
//! through one node, and measures each step.
//!
//! Each round trip has its own session and removes its state. Concurrent doctors wait for each other.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::{AlarmsBody, ClusterBody, HealthBody, JsonBody, VersionBody};
use holdfast_cli::arguments::NodesArgs;
use holdfast_cli::hints::common_hint;
use holdfast_cli::holder_name;
use holdfast_cli::output::short_time;
use holdfast_client::http::{
    ClientTls, HttpClient, HttpRequest, HttpResponse, Method, Scheme, base_url,
};
use holdfast_client::{AccessToken, EndpointError, Error};
use holdfast_types::LockName;

use super::Finding;

/// The time limit of one call.
const CALL_TIMEOUT: Duration = Duration::from_millis(1_500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// An address as given, and the node that replies there.
#[derive(Clone, Debug)]
pub(super) struct ProbedAddress {
    pub(super) address: String,
    pub(super) node: Result<ProbedNode, String>,
}

/// The state of a node that replies.
#[derive(Clone, Debug)]
pub(super) struct ProbedNode {
    pub(super) version: VersionBody,
    /// The health checks of the node.
    pub(super) ready: Result<HealthBody, String>,
    /// The node's view of the cluster.
    pub(super) cluster: Result<ClusterBody, String>,
    /// The alarms of the cluster; `None` if the node does not list them.
    pub(super) alarms: Option<AlarmsBody>,
    pub(super) clock: Option<ClockOffset>,
    /// The duration of the first call.
    pub(super) took: Duration,
}

/// The bounds of a clock's offset from the local clock, milliseconds; negative if that clock is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockOffset {
    pub(super) at_least: i64,
    pub(super) at_most: i64,
}

impl ClockOffset {
    /// Computes the bounds from the date of a reply, in whole seconds, and the local times of the call and the reply.
    fn of(date_ms: i64, sent_ms: i64, answered_ms: i64) -> Self {
        Self { at_least: date_ms - answered_ms, at_most: date_ms + 1_000 - sent_ms }
    }

    /// The smallest possible difference.
    pub(super) fn certain(self) -> u64 {
        self.at_least.max(-self.at_most).max(0).unsigned_abs()
    }
}

/// The HTTP client of the probes.
#[derive(Clone, Debug)]
pub(super) struct Prober {
    http: HttpClient,
    /// Of addresses without one.
    scheme: Scheme,
}

impl Prober {
    pub(super) fn new(
        tls: Option<&ClientTls>,
        access_token: Option<AccessToken>,
    ) -> Result<Self, EndpointError> {
        let (http, scheme) = match tls {
            Some(tls) => (HttpClient::with_tls(CONNECT_TIMEOUT, tls)?, Scheme::Https),
            None => (HttpClient::new(CONNECT_TIMEOUT), Scheme::Http),
        };
        Ok(Self { http: http.with_access_token(access_token), scheme })
    }

    pub(super) async fn probe(&self, address: &str) -> ProbedAddress {
        ProbedAddress { address: address.to_owned(), node: self.node(address).await }
    }

    async fn node(&self, address: &str) -> Result<ProbedNode, String> {
        let (start, sent_ms) = (Instant::now(), now_ms());
        let answer = self.get(address, "/version").await?;
        let (took, answered_ms) = (start.elapsed(), now_ms());
        let clock = date_ms(&answer).map(|date| ClockOffset::of(date, sent_ms, answered_ms));
        let version = read(&answer)?;
        let (ready, cluster, alarms) = tokio::join!(
            self.get(address, "/readyz"),
            self.cluster(address),
            self.get(address, "/v1/alarms"),
        );
        // A node that is not ready returns its health checks, too.
        let ready = ready.and_then(|answer| read_any(&answer));
        let alarms = alarms.and_then(|answer| read(&answer)).ok();
        Ok(ProbedNode { version, ready, cluster, alarms, clock, took })
    }

    /// Returns the view of the cluster of the node at an address.
    pub(super) async fn cluster(&self, address: &str) -> Result<ClusterBody, String> {
        read(&self.get(address, "/v1/cluster").await?)
    }

    async fn get(&self, address: &str, path: &str) -> Result<HttpResponse, String> {
        let base = base_url(address, self.scheme).map_err(|error| error.to_string())?;
        let request = HttpRequest::new(Method::GET, format!("{base}{path}"), CALL_TIMEOUT);
        self.http.send(request).await.map_err(|error| {
            if !error.timed_out {
                return error.to_string();
            }
            let limit = if error.may_be_done { CALL_TIMEOUT } else { CONNECT_TIMEOUT };
            format!("no answer within {}", short_time(holdfast_types::millis(limit)))
        })
    }
}

fn read<T: JsonBody>(answer: &HttpResponse) -> Result<T, String> {
    if answer.status.is_success() {
        return read_any(answer);
    }
    let problem =
        answer.problem().ok_or_else(|| format!("status {}, not from holdfast", answer.status))?;
    let text = if problem.detail.is_empty() { &problem.title } else { &problem.detail };
    let hint = problem.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    Err(format!("{}: {text}{hint}", problem.code))
}

fn read_any<T: JsonBody>(answer: &HttpResponse) -> Result<T, String> {
    answer.json().map_err(|_| "the answer is not from holdfast".to_owned())
}

/// Returns the date of a reply, milliseconds since the Unix epoch.
fn date_ms(answer: &HttpResponse) -> Option<i64> {
    let text = answer.headers.get("date")?;
    let time = httpdate::parse_http_date(text).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The TTL of the session, which bounds the hold of a killed doctor.
const TTL: Duration = Duration::from_secs(10);
/// The time limit of each step, and of the wait for the probe lock.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest normal round trip; a slower one is a warning.
const SLOW: Duration = Duration::from_secs(1);
const CHECK: &str = "round trip";

pub(super) async fn round_trip(address: &str, nodes: &NodesArgs, probe: &LockName) -> Finding {
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

fn precise_time(duration: Duration) -> String {
    match holdfast_types::millis(duration) {
        0..10 => format!("{:.1}ms", duration.as_secs_f64() * 1_000.0),
        ms => short_time(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Severity;

    #[test]
    fn a_date_in_seconds_bounds_the_offset_of_the_clock() {
        // The date is second 100; the call lasted from 100.2 to 100.3 of the local clock: 0.3 s behind to 0.8 s ahead.
        let offset = ClockOffset::of(100_000, 100_200, 100_300);
        assert_eq!(offset, ClockOffset { at_least: -300, at_most: 800 });
        assert!(ClockOffset::of(160_000, 100_200, 100_300).at_least > 59_000);
    }

    #[test]
    fn a_slow_round_trip_is_a_warning() {
        let steps =
            |ms| [("session", Duration::from_micros(900)), ("acquire", Duration::from_millis(ms))];
        assert_eq!(judge(&steps(12)).found, "session 0.9ms, acquire 12ms");
        assert_eq!(judge(&steps(12)).verdict, Severity::Ok);
        assert_eq!(judge(&steps(3_000)).verdict, Severity::Warn);
    }
}
