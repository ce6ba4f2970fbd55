//! The changes of an election as server-sent events.
//!
//! When a node ends the stream, the observer sends the id of the last event to the next node. No event is therefore
//! delivered twice, and missing events are reported as a gap. Bounds: one stream, and one event of at most
//! [`EVENT_MAX`] bytes in memory.

use std::time::{Duration, Instant};

use holdfast_api::{GapBody, LeaderBody, LeadershipBody};
use holdfast_types::Revision;

use crate::Error;
use crate::calls::Calls;

/// A stream without bytes for this long is dead, because nodes write a comment at least every fifteen seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The maximum size of one event in bytes: a value has at most 4 KiB, and JSON escapes may be six times as long.
const EVENT_MAX: usize = 64 * 1024;

/// A change of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// A new leader, or a new value of the leader.
    Leader {
        /// The leader with its value and token.
        leader: LeaderBody,
        /// The revision of the change.
        revision: Revision,
    },
    /// There is no leader.
    Vacant {
        /// The revision of the change.
        revision: Revision,
    },
    /// The cluster no longer has some changes. The next event is the current leader.
    Gap {
        /// Changes up to this revision are missing.
        until: Revision,
    },
}

/// The changes of one election, from [`Election::observe`](crate::Election::observe).
#[derive(Debug)]
pub struct Observer {
    calls: Calls,
    path: String,
    stream: Option<Stream>,
    /// The index of the next node to connect to.
    node: usize,
    /// The id of the last received event.
    last: Option<Revision>,
}

#[derive(Debug)]
struct Stream {
    answer: reqwest::Response,
    /// Received bytes that are not parsed yet.
    bytes: Vec<u8>,
}

impl Observer {
    pub(crate) fn new(calls: Calls, path: String) -> Self {
        Self { calls, path, stream: None, node: 0, last: None }
    }

    /// Returns the current leader first, then each change. Dropping the future loses no change.
    ///
    /// # Errors
    /// [`Error::Retry`] if no node answered within the request timeout: the next call continues from the same point.
    /// [`Error::Refused`] if the cluster rejected the call.
    pub async fn next_change(&mut self) -> Result<Observed, Error> {
        let mut until = None;
        loop {
            let Some(stream) = &mut self.stream else {
                let timeout = self.calls.request_timeout;
                let until = *until.get_or_insert_with(|| Instant::now() + timeout);
                let last = self.last.map(|revision| revision.0);
                let nodes = self.calls.nodes.clone();
                let opened = nodes.open_events(&self.path, self.node, last, until).await?;
                let (answer, node) = opened;
                self.node = node;
                self.stream = Some(Stream { answer, bytes: Vec::new() });
                continue;
            };
            match stream.event().await {
                Some(event) => {
                    until = None;
                    if let Some(observed) = self.receive(&event) {
                        return Ok(observed);
                    }
                }
                None => self.leave_node(),
            }
        }
    }

    /// Ends the stream and selects the next node.
    fn leave_node(&mut self) {
        self.stream = None;
        self.node = self.node.wrapping_add(1);
    }

    fn receive(&mut self, event: &Event) -> Option<Observed> {
        self.last = event.id.or(self.last);
        match event.name.as_str() {
            "leader" | "vacant" => {
                let body: LeadershipBody = serde_json::from_str(&event.data).ok()?;
                let revision = body.revision;
                Some(match body.leader {
                    Some(leader) => Observed::Leader { leader, revision },
                    None => Observed::Vacant { revision },
                })
            }
            "gap" => {
                let body: GapBody = serde_json::from_str(&event.data).ok()?;
                Some(Observed::Gap { until: body.until })
            }
            "reconnect" => {
                self.leave_node();
                None
            }
            // The event only carries an id to continue from.
            _ => None,
        }
    }
}

impl Stream {
    /// Returns the next event; `None` when the stream has ended or failed. Dropping the future loses no event.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|bytes| bytes == b"\n\n") {
                let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
                match parse(&String::from_utf8_lossy(&block)) {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            if self.bytes.len() > EVENT_MAX {
                return None;
            }
            let chunk = tokio::time::timeout(SILENCE_MAX, self.answer.chunk()).await;
            match chunk {
                Ok(Ok(Some(chunk))) => self.bytes.extend_from_slice(&chunk),
                Ok(Ok(None) | Err(_)) | Err(_) => return None,
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Event {
    name: String,
    data: String,
    id: Option<Revision>,
}

/// Parses one block of lines; `None` for a comment.
fn parse(block: &str) -> Option<Event> {
    let field = |key: &str| {
        let mut lines = block.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim_start))
    };
    let (name, data) = (field("event")?.to_owned(), field("data").unwrap_or_default().to_owned());
    let id = field("id").and_then(|id| id.parse().ok()).map(Revision);
    Some(Event { name, data, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed_and_comments_skipped() {
        assert_eq!(parse(": still here\n\n"), None);
        let event = parse("id: 12\nevent: leader\ndata: {\"a\": \"b: c\"}\n\n").unwrap();
        assert_eq!((event.name.as_str(), event.id), ("leader", Some(Revision(12))));
        assert_eq!(event.data, r#"{"a": "b: c"}"#);
        assert_eq!(parse("event: gap\ndata: {}\n\n").unwrap().id, None);
    }
}
