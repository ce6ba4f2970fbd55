//! Reads the state of the node at one address, without retries at other addresses.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::{AlarmsBody, ClusterBody, HealthBody, JsonBody, VersionBody};
use holdfast_cli::output::short_time;
use holdfast_client::http::{
    ClientTls, HttpClient, HttpRequest, HttpResponse, Method, Scheme, base_url,
};
use holdfast_client::{AccessToken, EndpointError};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_in_seconds_bounds_the_offset_of_the_clock() {
        // The date is second 100; the call lasted from 100.2 to 100.3 of the local clock: 0.3 s behind to 0.8 s ahead.
        let offset = ClockOffset::of(100_000, 100_200, 100_300);
        assert_eq!(offset, ClockOffset { at_least: -300, at_most: 800 });
        assert!(ClockOffset::of(160_000, 100_200, 100_300).at_least > 59_000);
    }
}
