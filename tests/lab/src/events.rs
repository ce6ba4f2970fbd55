//! A watch client: reads a node's changes as server-sent events until the connection closes.
//!
//! The client keeps the id of the last event, so that a test can resume the stream. It never reconnects on its own.

use holdfast_client::http::StreamedAnswer;
use serde_json::Value;

use crate::until::DEADLINE;

/// One event of a stream.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Event type, e.g. `created` or `bookmark`.
    pub name: String,
    /// Event payload.
    pub data: Value,
}

/// An open event stream.
#[derive(Debug)]
pub struct Events {
    answer: StreamedAnswer,
    text: String,
    last: Option<u64>,
}

impl Events {
    pub(crate) fn new(answer: StreamedAnswer) -> Self {
        Self { answer, text: String::new(), last: None }
    }

    /// The id of the last event; a stream resumed with it as `since` misses no event.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Returns the next event, or `None` when the stream has ended or failed.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(event) = self.parse(&block) {
                    return Some(event);
                }
                continue;
            }
            let chunk = tokio::time::timeout(DEADLINE, self.answer.next()).await;
            let bytes = chunk.expect("a chunk before the deadline").ok()??;
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    fn parse(&mut self, block: &str) -> Option<Notice> {
        let field = |name: &str| {
            let prefix = format!("{name}: ");
            block.lines().find_map(|line| line.strip_prefix(prefix.as_str()).map(str::to_owned))
        };
        let data = serde_json::from_str(&field("data")?).expect("an event's data is JSON");
        self.last = field("id").map(|id| id.parse().expect("an id is a revision")).or(self.last);
        Some(Notice { name: field("event")?, data })
    }
}
