//! Requests that a stopped node has not read: they lie in its sockets until it runs again, and then they are executed.
//!
//! A client that gets no answer repeats its call at another node and goes on. So the copy in the stopped node arrives late.
//! Bound: [`COPIES_MAX`] connections until [`Unread::answers`] is called; a stopped node accepts none, and the kernel queues few.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_client::http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::Http;

/// Copies left in one stopped node at most.
const COPIES_MAX: usize = 64;

/// The copies that clients leave in a node while it is stopped.
#[derive(Clone, Debug, Default)]
pub struct Unread(Arc<Mutex<Copies>>);

#[derive(Debug, Default)]
struct Copies {
    stopped: Option<Http>,
    /// How many were left, or are being left.
    count: usize,
    left: Vec<(String, TcpStream)>,
}

impl Unread {
    /// From now on clients leave a copy of each call in this node, which is stopped.
    pub fn begin(&self, stopped: &Http) {
        let mut copies = self.0.lock().expect("the copies");
        (copies.stopped, copies.count) = (Some(stopped.clone()), 0);
    }

    /// Clients leave no further copies.
    pub fn end(&self) {
        self.0.lock().expect("the copies").stopped = None;
    }

    /// Leaves a copy of a call if a node is stopped.
    pub async fn leave(&self, method: &Method, target: &str) {
        let Some(stopped) = self.reserve() else { return };
        let mut stream = stopped.connect().await;
        let request =
            format!("{method} {target} HTTP/1.1\r\nhost: holdfast\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the kernel takes the request");
        let copy = (format!("{method} {target}"), stream);
        self.0.lock().expect("the copies").left.push(copy);
    }

    /// The stopped node, if one more copy may be left in it.
    fn reserve(&self) -> Option<Http> {
        let mut copies = self.0.lock().expect("the copies");
        let stopped = copies.stopped.clone().filter(|_| copies.count < COPIES_MAX)?;
        copies.count += 1;
        Some(stopped)
    }

    /// The answers of the node, which runs again, to all copies that were left: the call, and status and body. Empty for one
    /// that the node closed without an answer.
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
