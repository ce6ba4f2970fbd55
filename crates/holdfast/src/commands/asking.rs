//! One call about the tree, sent to one node after another until it is answered or its time is up.
//!
//! Owns what is said to a person when it fails, with what to type instead. A call that may have been done is sent again
//! only if that does no harm.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_api::{ErrorCode, Problem};
use reqwest::Method;
use serde::de::DeserializeOwned;

use super::connect;
use crate::cli::Target;
use crate::exit::Stop;

/// How long a node that answers is looked for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one node may keep a call, beyond the wait that is asked for.
const EACH: Duration = Duration::from_secs(6);
const CONNECT: Duration = Duration::from_secs(1);
/// The rest between two rounds over all nodes.
const REST: Duration = Duration::from_millis(200);

/// What to send.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
    /// A condition on the node: a header.
    pub(super) condition: Option<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// Whether doing it twice is doing it once.
    pub(super) again: bool,
    /// How long the node is asked to wait.
    pub(super) wait: Duration,
}

impl Ask {
    /// A question, which changes nothing.
    pub(super) fn get(target: String) -> Self {
        let (method, body) = (Method::GET, Vec::new());
        Self { method, target, condition: None, body, again: true, wait: Duration::ZERO }
    }
}

/// What a node made of it.
enum Step {
    Done(Vec<u8>),
    Refused(Box<Problem>),
    /// Certainly not done.
    Next(String),
    /// Perhaps done.
    Perhaps(String),
}

/// The cluster, asked as somebody.
pub(super) struct Asking {
    http: reqwest::Client,
    addresses: Vec<String>,
    authorization: Option<String>,
    /// Which address is asked first.
    preferred: usize,
}

impl Asking {
    pub(super) fn new(target: &Target, user: Option<&str>) -> Result<Self, Stop> {
        // Says what is wrong with an address.
        connect(target)?;
        let addresses = target.addr.iter().map(|address| base_of(address));
        let authorization = match user {
            Some(user) if user.contains(':') => Some(format!("Basic {}", STANDARD.encode(user))),
            Some(_) => return Err(Stop::usage("--user is NAME:PASSWORD, with a colon")),
            None => None,
        };
        let builder = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT);
        let http = builder.build().map_err(Stop::failed)?;
        Ok(Self { http, addresses: addresses.collect(), authorization, preferred: 0 })
    }

    /// Asks for JSON.
    pub(super) async fn json<T: DeserializeOwned>(&mut self, ask: &Ask) -> Result<T, Stop> {
        let bytes = self.bytes(ask).await?;
        serde_json::from_slice(&bytes).map_err(|error| {
            Stop::failed(format!("the answer is not holdfast's, is the address right? {error}"))
        })
    }

    /// Asks for whatever the body is.
    pub(super) async fn bytes(&mut self, ask: &Ask) -> Result<Vec<u8>, Stop> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut last = String::new();
            for _ in 0..self.addresses.len() {
                match self.once(ask).await {
                    Step::Done(bytes) => return Ok(bytes),
                    Step::Refused(problem) => return Err(refused(&problem)),
                    Step::Perhaps(reason) if !ask.again => return Err(unknown(&reason)),
                    Step::Next(reason) | Step::Perhaps(reason) => last = reason,
                }
                self.preferred = (self.preferred + 1) % self.addresses.len();
            }
            if Instant::now() >= until {
                return Err(self.nobody(&last));
            }
            tokio::time::sleep(REST).await;
        }
    }

    async fn once(&self, ask: &Ask) -> Step {
        let Some(address) = self.addresses.get(self.preferred) else {
            return Step::Next("no address is given".to_owned());
        };
        let request = self.http.request(ask.method.clone(), format!("{address}{}", ask.target));
        let mut request = request.timeout(EACH + ask.wait).body(ask.body.clone());
        if let Some((name, value)) = &ask.condition {
            request = request.header(*name, value);
        }
        if let Some(value) = &self.authorization {
            request = request.header("authorization", value);
        }
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => {
                return Step::Next(format!("cannot connect to {address}"));
            }
            Err(error) => return Step::Perhaps(format!("{address}: {error}")),
        };
        let success = answer.status().is_success();
        match answer.bytes().await {
            Ok(bytes) if success => Step::Done(bytes.to_vec()),
            Ok(bytes) => sorted(address, &bytes),
            Err(error) => Step::Perhaps(format!("{address}: {error}")),
        }
    }

    fn nobody(&self, last: &str) -> Stop {
        Stop::failed(format!(
            "no node could do it in time: {last}; asked {}: is the cluster running, and are these its addresses (--addr, HOLDFAST_ADDR)?",
            self.addresses.join(",")
        ))
    }
}

/// An address as it may be typed, with its scheme.
pub(super) fn base_of(address: &str) -> String {
    let address = address.trim().trim_end_matches('/').trim_start_matches("http://");
    format!("http://{address}")
}

/// Sorts an answer that is not a success.
fn sorted(address: &str, bytes: &[u8]) -> Step {
    let Ok(problem) = serde_json::from_slice::<Problem>(bytes) else {
        return Step::Perhaps(format!("{address} answered without a problem document"));
    };
    let reason = format!("{address}: {}: {}", problem.code, problem.title);
    if matches!(problem.code, ErrorCode::OutcomeUnknown | ErrorCode::Internal) {
        Step::Perhaps(reason)
    } else if problem.retryable && !is_not_yet(&problem) {
        Step::Next(reason)
    } else {
        Step::Refused(Box::new(problem))
    }
}

fn unknown(reason: &str) -> Stop {
    Stop::failed(format!("it may or may not have been done, look before you repeat it: {reason}"))
}

/// The problem, and what to type instead.
fn refused(problem: &Problem) -> Stop {
    let mut text = problem.title.to_string();
    if !problem.detail.is_empty() {
        text = format!("{text}: {}", problem.detail);
    }
    if let Some(fix) = fix(problem) {
        text = format!("{text} ({fix})");
    }
    if problem.code == ErrorCode::SessionExpired {
        Stop::Lost(text)
    } else if is_not_yet(problem) {
        Stop::NotAcquired(text)
    } else {
        Stop::failed(text)
    }
}

/// The answer is that it has not happened yet: to ask again at once would change nothing.
fn is_not_yet(problem: &Problem) -> bool {
    use ErrorCode::{LockBusy, LockClosed, NotYet, WaitTimeout};
    [LockBusy, LockClosed, NotYet, WaitTimeout].contains(&problem.code)
}

fn fix(problem: &Problem) -> Option<&str> {
    let is = |code| problem.code == code;
    if is_not_yet(problem) {
        // The hint of the API speaks of a query.
        return Some(super::WAIT_LONGER);
    }
    if is(ErrorCode::NotFound) {
        Some("holdfast tree create makes one; with --parents the directories, too")
    } else if is(ErrorCode::NodeExists) {
        Some("holdfast tree set replaces its data")
    } else if is(ErrorCode::NotEmpty) {
        Some("add --recursive to delete them with it")
    } else if is(ErrorCode::VersionMismatch) {
        Some("read it again, and give --version what you have read")
    } else if is(ErrorCode::Forbidden) {
        Some("show who you are: --user NAME:PASSWORD, or HOLDFAST_USER")
    } else {
        problem.hint.as_deref()
    }
}
