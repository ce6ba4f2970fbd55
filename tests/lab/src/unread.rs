//! Requests in the socket buffers of a stopped node, which the node executes late, after it resumes.
//!
//! A client without a reply repeats its call at another node, so the copy at the stopped node is a late duplicate.
//! Bound: [`COPIES_MAX`] connections until [`LateCopies::answers`] is called, because the kernel's accept queue is short.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_client::http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::Http;

/// Limit of copies per stopped node.
const COPIES_MAX: usize = 64;

/// The copies that clients send to a stopped node.
#[derive(Clone, Debug, Default)]
pub struct LateCopies(Arc<Mutex<Copies>>);

#[derive(Debug, Default)]
struct Copies {
    stopped: Option<Http>,
    /// Copies sent or being sent.
    count: usize,
    left: Vec<(String, TcpStream)>,
}

impl LateCopies {
    /// Makes clients send a copy of each call to this stopped node.
    pub fn begin(&self, stopped: &Http) {
        let mut copies = self.0.lock().expect("the copies");
        (copies.stopped, copies.count) = (Some(stopped.clone()), 0);
    }

    /// Stops sending copies.
    pub fn end(&self) {
        self.0.lock().expect("the copies").stopped = None;
    }

    /// Sends a copy of a call to the stopped node, if there is one and the limit is not reached.
    pub async fn leave(&self, method: &Method, target: &str) {
        let Some(stopped) = self.reserve() else { return };
        let mut stream = stopped.connect().await;
        let request =
            format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the kernel takes the request");
        let copy = (format!("{method} {target}"), stream);
        self.0.lock().expect("the copies").left.push(copy);
    }

    /// Counts one more copy and returns the stopped node; `None` if none is stopped or the limit is reached.
    fn reserve(&self) -> Option<Http> {
        let mut copies = self.0.lock().expect("the copies");
        let stopped = copies.stopped.clone().filter(|_| copies.count < COPIES_MAX)?;
        copies.count += 1;
        Some(stopped)
    }

    /// Reads the replies to all copies after the node has resumed, as pairs of call and reply text. The reply is empty
    /// if the node closed the connection without one.
    pub async fn answers(&self, deadline: Duration) -> Vec<(String, String)> {
        let left = std::mem::take(&mut self.0.lock().expect("the copies").left);
        let mut answers = Vec::new();
        for (call, mut stream) in left {
            let mut answer = Vec::new();
            let read = tokio::time::timeout(deadline, stream.read_to_end(&mut answer)).await;
            assert!(read.is_ok(), "{call} was not answered within {deadline:?}");
            let answer = String::from_utf8_lossy(&answer);
            answers.push((call, answer.strip_prefix("HTTP/1.1 ").unwrap_or(&answer).to_owned()));
        }
        answers
    }
}
