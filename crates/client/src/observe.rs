//! An election as it is observed: every change of who leads, over server-sent events, from one node after another.
//!
//! Owns going on: whatever node ends the stream, the next one is told the id of the last event, so that nothing is told
//! twice and nothing is missed without being said. Refuses to know how elections work.
//! Bounds: one stream, one event of at most [`EVENT_MAX`] bytes in memory.

use std::time::{Duration, Instant};

use holdfast_api::{GapBody, LeaderBody, LeadershipBody};
use holdfast_types::Revision;

use crate::Error;
use crate::calls::Calls;

/// A stream that says nothing for so long is dead: nodes write a comment at least every fifteen seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Bytes of one event: a value has at most 4 KiB, which JSON may write sixfold.
const EVENT_MAX: usize = 64 * 1024;

/// What an observer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// This one leads from now on, or shows another value.
    Leader {
        /// Who, with its value and its token.
        leader: LeaderBody,
        /// Since which revision.
        revision: Revision,
    },
    /// Nobody leads.
    Vacant {
        /// Since which revision.
        revision: Revision,
    },
    /// Some changes are forgotten, and are not told. Who leads now comes next.
    Gap {
        /// What happened up to here is not told.
        until: Revision,
    },
}

/// The changes of one election, from [`Election::observe`](crate::Election::observe).
#[derive(Debug)]
pub struct Observer {
    calls: Calls,
    path: String,
    stream: Option<Stream>,
    /// Which node to ask, counted on with every stream that ended.
    turn: usize,
    /// The id of the last event.
    last: Option<Revision>,
}

/// A stream of one node.
#[derive(Debug)]
struct Stream {
    answer: reqwest::Response,
    /// What has arrived and is not told yet.
    bytes: Vec<u8>,
}

impl Observer {
    pub(crate) fn new(calls: Calls, path: String) -> Self {
        Self { calls, path, stream: None, turn: 0, last: None }
    }

    /// The first time who leads, then each change, as long as it takes. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Error::Retry`] if no node answered for as long as the client is patient: the next call goes on where this one ended.
    /// [`Error::Refused`] if the call cannot succeed.
    pub async fn next_change(&mut self) -> Result<Observed, Error> {
        let mut until = None;
        loop {
            let Some(stream) = &mut self.stream else {
                let until = *until.get_or_insert_with(|| Instant::now() + self.calls.patience);
                let last = self.last.map(|revision| revision.0);
                let exchange = self.calls.exchange.clone();
                let (answer, turn) = exchange.stream((self.turn, &self.path), last, until).await?;
                self.turn = turn;
                self.stream = Some(Stream { answer, bytes: Vec::new() });
                continue;
            };
            match stream.event().await {
                Some(event) => {
                    // A node that tells something is well.
                    until = None;
                    if let Some(observed) = self.hear(&event) {
                        return Ok(observed);
                    }
                }
                None => self.go_on(),
            }
        }
    }

    /// The stream ended: the next node is asked.
    fn go_on(&mut self) {
        self.stream = None;
        self.turn = self.turn.wrapping_add(1);
    }

    fn hear(&mut self, event: &Event) -> Option<Observed> {
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
                self.go_on();
                None
            }
            // A place to go on from.
            _ => None,
        }
    }
}

impl Stream {
    /// The next event; none at the end of the stream, whatever ended it. Dropping the future loses nothing.
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

/// One event.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    name: String,
    data: String,
    id: Option<Revision>,
}

/// Reads one block of lines; none of a comment.
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
    fn events_are_read_and_comments_passed_over() {
        assert_eq!(parse(": still here\n\n"), None);
        let event = parse("id: 12\nevent: leader\ndata: {\"a\": \"b: c\"}\n\n").unwrap();
        assert_eq!((event.name.as_str(), event.id), ("leader", Some(Revision(12))));
        assert_eq!(event.data, r#"{"a": "b: c"}"#);
        assert_eq!(parse("event: gap\ndata: {}\n\n").unwrap().id, None);
    }
}
