//! The driver's own calls to the cluster: those of an operator, at any node that answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_client::http::{HttpClient, HttpRequest, Method};
use holdfast_client::{AccessToken, EndpointError};
use serde_json::Value;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a node may take to answer, beside the wait of the call.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The answer of a node.
#[derive(Clone, Debug)]
pub struct OperatorAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body; `null` if it is not JSON.
    pub body: Value,
}

/// A caller with every right.
#[derive(Debug)]
pub struct Operator {
    http: HttpClient,
    bases: Vec<String>,
    /// The node that answered last.
    preferred: AtomicUsize,
}

impl Operator {
    /// Creates an operator of the nodes with these base URLs.
    ///
    /// # Errors
    /// If the HTTP library cannot be set up.
    pub fn new(
        bases: Vec<String>,
        access_token: Option<AccessToken>,
    ) -> Result<Self, EndpointError> {
        let http = HttpClient::new(CONNECT_TIMEOUT).with_access_token(access_token);
        Ok(Self { http, bases, preferred: AtomicUsize::new(0) })
    }

    /// Sends a call to the nodes in turn, until one answers. Returns the last error if none does.
    ///
    /// # Errors
    /// If no node answers, or for an unknown method.
    pub async fn call(&self, line: &str, body: Option<&Value>) -> Result<OperatorAnswer, String> {
        self.call_for(line, body, TIMEOUT).await
    }

    /// As [`Operator::call`], for a call that waits.
    ///
    /// # Errors
    /// If no node answers, or for an unknown method.
    pub async fn call_for(
        &self,
        line: &str,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<OperatorAnswer, String> {
        let (method, target) = line.split_once(' ').ok_or("a call is `METHOD /target`")?;
        let method: Method = method.parse().map_err(|_| format!("{method} is no method"))?;
        let first = self.preferred.load(Ordering::Relaxed);
        let mut failure = String::new();
        for turn in 0..self.bases.len() {
            let node = (first + turn) % self.bases.len();
            let url = format!("{}{target}", self.bases[node]);
            let mut request = HttpRequest::new(method.clone(), url, timeout);
            if let Some(body) = body {
                request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
                request.body = body.to_string().into_bytes();
            }
            match self.http.send(request).await {
                Ok(answer) => {
                    // A node that is not ready may stay so: the next call asks another one.
                    let next = if answer.status.as_u16() < 500 { node } else { node + 1 };
                    self.preferred.store(next, Ordering::Relaxed);
                    let body = answer.json().unwrap_or_default();
                    return Ok(OperatorAnswer { status: answer.status.as_u16(), body });
                }
                Err(error) => failure = format!("{line} at node {}: {}", node + 1, error.reason),
            }
        }
        Err(failure)
    }

    /// Reads a JSON body; `None` unless a node answers with success.
    pub async fn read(&self, target: &str) -> Option<Value> {
        let answer = self.call(&format!("GET {target}"), None).await.ok()?;
        (200..300).contains(&answer.status).then_some(answer.body)
    }
}
