//! One address, looked at on its own: nothing is retried anywhere else, because what this address does is the question.
//!
//! Owns the calls and how long each may take. Refuses to judge what it saw.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::{ClusterBody, HealthBody, Problem, VersionBody};
use reqwest::Response;
use serde::de::DeserializeOwned;

use super::super::asking::base_of;
use super::super::for_people;
use crate::exposition;

/// How long one call may take.
const EACH: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(2);
/// The gauge of the free bytes on a node's disk.
const DISK_FREE: &str = "holdfast_disk_free_bytes";

/// What one address showed.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// As it was typed.
    pub(super) address: String,
    /// What it is, or why it could not be seen.
    pub(super) node: Result<Node, String>,
}

/// A node that answers.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) version: VersionBody,
    /// What it says about its own health.
    pub(super) ready: Result<HealthBody, String>,
    /// The cluster as it sees it.
    pub(super) cluster: Result<ClusterBody, String>,
    pub(super) disk_free: Option<u64>,
    /// How far its wall clock is ahead of ours.
    pub(super) ahead: Option<Ahead>,
    /// How long the first answer took.
    pub(super) took: Duration,
}

/// The bounds between which a clock is ahead of ours, milliseconds; negative if it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) at_least: i64,
    pub(super) at_most: i64,
}

impl Ahead {
    /// An answer that says its time in whole seconds, of a call that was sent and answered at these times of our clock.
    fn of(told_ms: i64, sent_ms: i64, answered_ms: i64) -> Self {
        Self { at_least: told_ms - answered_ms, at_most: told_ms + 1_000 - sent_ms }
    }
}

/// Whoever looks.
#[derive(Clone, Debug)]
pub(super) struct Eye(reqwest::Client);

impl Eye {
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT).timeout(EACH);
        http.redirect(reqwest::redirect::Policy::none()).build().map(Self)
    }

    /// Looks at an address.
    pub(super) async fn look(&self, address: &str) -> Seen {
        Seen { address: address.to_owned(), node: self.node(&base_of(address)).await }
    }

    async fn node(&self, base: &str) -> Result<Node, String> {
        let (begun, sent_ms) = (Instant::now(), now_ms());
        let answer = self.ask(base, "/version").await?;
        let (took, answered_ms) = (begun.elapsed(), now_ms());
        let ahead = told_ms(&answer).map(|told| Ahead::of(told, sent_ms, answered_ms));
        let version = read(answer).await?;
        let ready = match self.ask(base, "/readyz").await {
            // Not ready is an answer, too.
            Ok(answer) => read_any(answer).await,
            Err(error) => Err(error),
        };
        let cluster = self.cluster_at(base).await;
        let disk_free = match self.ask(base, "/metrics").await {
            Ok(answer) => {
                answer.text().await.ok().and_then(|text| exposition::value(&text, DISK_FREE))
            }
            Err(_) => None,
        };
        Ok(Node { version, ready, cluster, disk_free, ahead, took })
    }

    /// The cluster as the node at an address sees it.
    pub(super) async fn cluster(&self, address: &str) -> Result<ClusterBody, String> {
        self.cluster_at(&base_of(address)).await
    }

    async fn cluster_at(&self, base: &str) -> Result<ClusterBody, String> {
        read(self.ask(base, "/v1/cluster").await?).await
    }

    async fn ask(&self, base: &str, path: &str) -> Result<Response, String> {
        self.0.get(format!("{base}{path}")).send().await.map_err(|error| why(&error))
    }
}

async fn read<T: DeserializeOwned>(answer: Response) -> Result<T, String> {
    let status = answer.status();
    if status.is_success() {
        return read_any(answer).await;
    }
    match read_any::<Problem>(answer).await {
        Ok(problem) if problem.detail.is_empty() => {
            Err(format!("{}: {}", problem.code, problem.title))
        }
        Ok(problem) => Err(format!("{}: {}", problem.code, problem.detail)),
        Err(_) => Err(format!("it answers {status}, and not as holdfast does")),
    }
}

async fn read_any<T: DeserializeOwned>(answer: Response) -> Result<T, String> {
    let bytes = answer.bytes().await.map_err(|error| why(&error))?;
    serde_json::from_slice(&bytes).map_err(|_| "what answers there is not holdfast".to_owned())
}

fn why(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        let patience = if error.is_connect() { CONNECT } else { EACH };
        let ms = holdfast_types::millis(patience);
        return format!("no answer within {}", for_people(ms));
    }
    // The innermost says it; the others repeat the address.
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// What the answer says its clock says, milliseconds.
fn told_ms(answer: &Response) -> Option<i64> {
    let text = answer.headers().get("date")?.to_str().ok()?;
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
    fn a_second_that_is_told_bounds_the_clock() {
        // It says second 100, and the call was under way from 100.2 to 100.3 of ours: 0.3 s behind to 0.8 s ahead.
        let ahead = Ahead::of(100_000, 100_200, 100_300);
        assert_eq!(ahead, Ahead { at_least: -300, at_most: 800 });
        assert!(Ahead::of(160_000, 100_200, 100_300).at_least > 59_000);
    }
}
