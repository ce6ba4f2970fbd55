//! A client that follows the changes of a node as server-sent events, until the connection breaks.
//!
//! Knows where to go on from: the id of the last event. Never reconnects by itself; a test decides where to.

use serde_json::Value;

use crate::until::DEADLINE;

/// One event of a stream.
#[derive(Clone, Debug)]
pub struct Notice {
    /// `created`, `bookmark` and so on.
    pub name: String,
    /// What it says.
    pub data: Value,
}

/// A stream of events under way.
#[derive(Debug)]
pub struct Events {
    response: reqwest::Response,
    text: String,
    last: Option<u64>,
}

impl Events {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self { response, text: String::new(), last: None }
    }

    /// Where to go on from: with this as `since` nothing is missed.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// The next event; none when the stream has ended or broken.
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
            let chunk = tokio::time::timeout(DEADLINE, self.response.chunk()).await;
            let bytes = chunk.expect("a stream says something now and then").ok()??;
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
