//! The changes of an election as server-sent events.
//!
//! When a node ends the stream, the observer sends the id of the last event to the next node. No event is therefore
//! delivered twice, and missing events are reported as a gap. Bounds: one stream, and one event of at most
//! [`EVENT_MAX`] bytes in memory.

use std::time::{Duration, Instant};

use holdfast_api::{GapBody, JsonBody, LeaderBody, LeadershipBody};
use holdfast_types::Revision;

use crate::Error;
use crate::calls::call::StreamedRead;
use crate::calls::retry::retry_pause;
use crate::calls::send::Calls;
use crate::http::StreamedAnswer;

/// A stream without bytes for this long is dead, because nodes write a comment at least every fifteen seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The maximum size of one event in bytes: a value has at most 4 KiB, and JSON escapes may be six times as long.
const EVENT_MAX: usize = 64 * 1024;

/// A change of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionChange {
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
    /// The index of the node of the last stream.
    node: Option<usize>,
    /// The id of the last received event.
    last: Option<Revision>,
    /// Consecutive streams that ended within the request timeout and without a change.
    short_streams: u32,
    /// No stream is opened before this moment, after more than one short stream.
    open_at: Instant,
}

#[derive(Debug)]
struct Stream {
    answer: StreamedAnswer,
    /// Received bytes that are not parsed yet.
    bytes: Vec<u8>,
    opened: Instant,
}

impl Observer {
    pub(crate) fn new(calls: Calls, path: String) -> Self {
        let (stream, last, open_at) = (None, None, Instant::now());
        Self { calls, path, stream, node: None, last, short_streams: 0, open_at }
    }

    /// Returns the current leader first, then each change. Dropping the future loses no change.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no node kept a stream open within the request timeout: the next call continues from the same
    /// point. [`Error::Rejected`] if the cluster rejected the call. [`Error::UnexpectedResponse`] for an event that the client
    /// cannot decode: the next call continues after that event.
    pub async fn next_change(&mut self) -> Result<ElectionChange, Error> {
        let mut until = None;
        loop {
            let Some(stream) = &mut self.stream else {
                let timeout = self.calls.request_timeout;
                self.open(*until.get_or_insert_with(|| crate::clock::end_of(timeout))).await?;
                continue;
            };
            let nodes = &self.calls.nodes;
            let event = tokio::select! {
                event = stream.event() => event,
                () = nodes.silence(self.node, usize::MAX) => None,
            };
            if stream.opened.elapsed() >= self.calls.request_timeout {
                (until, self.short_streams) = (None, 0);
            }
            let Some(event) = event else {
                self.leave_node();
                continue;
            };
            if let Some(observed) = self.receive(&event)? {
                self.short_streams = 0;
                return Ok(observed);
            }
        }
    }

    /// Opens the stream at the next node that accepts it, after a pause if the last streams were short.
    async fn open(&mut self, until: Instant) -> Result<(), Error> {
        if self.short_streams > 1 {
            if Instant::now() >= until {
                return Err(Error::Unavailable("the nodes end the stream at once".to_owned()));
            }
            tokio::time::sleep_until(self.open_at.min(until).into()).await;
        }
        let last = self.last.map(|revision| revision.0);
        let nodes = self.calls.nodes.clone();
        let (answer, node) =
            nodes.open_stream(&StreamedRead::events(&self.path, last), self.node, until).await?;
        self.node = Some(node);
        self.stream = Some(Stream { answer, bytes: Vec::new(), opened: Instant::now() });
        Ok(())
    }

    /// Ends the stream; the next one is at another node.
    fn leave_node(&mut self) {
        self.stream = None;
        self.open_at = Instant::now() + retry_pause(self.short_streams);
        self.short_streams = self.short_streams.saturating_add(1);
    }

    /// Returns the change of an event; `None` for an event without a change.
    fn receive(&mut self, event: &Event) -> Result<Option<ElectionChange>, Error> {
        self.last = event.id.or(self.last);
        Ok(match event.name.as_str() {
            "leader" | "vacant" => {
                let LeadershipBody { leader, revision, .. } = event.body()?;
                Some(match leader {
                    Some(leader) => ElectionChange::Leader { leader, revision },
                    None => ElectionChange::Vacant { revision },
                })
            }
            "gap" => Some(ElectionChange::Gap { until: event.body::<GapBody>()?.until }),
            "reconnect" => {
                self.leave_node();
                None
            }
            // The event only carries an id to continue from.
            _ => None,
        })
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
            let chunk = tokio::time::timeout(SILENCE_MAX, self.answer.next()).await;
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

impl Event {
    fn body<T: JsonBody>(&self) -> Result<T, Error> {
        let undecodable =
            |error| Error::UnexpectedResponse(format!("undecodable {} event: {error}", self.name));
        T::from_json(self.data.as_bytes()).map_err(undecodable)
    }
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
