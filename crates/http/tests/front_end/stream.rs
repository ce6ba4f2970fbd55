//! A test client that reads server-sent events one at a time.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::TIMEOUT;

/// One event as received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

/// An open stream.
pub(crate) struct Events {
    stream: TcpStream,
    /// Received and unread bytes, without the chunk framing.
    text: String,
    raw: Vec<u8>,
    /// Whether the last chunk has arrived.
    ended: bool,
    pub(crate) head: String,
    /// The number of received comments.
    pub(crate) comments: usize,
}

impl Events {
    /// Opens a stream; `last` is sent as `Last-Event-ID`.
    pub(crate) async fn open(address: SocketAddr, target: &str, last: Option<u64>) -> Self {
        Self::begin(address, "GET", target, last).await
    }

    /// Opens a stream with another method.
    pub(crate) async fn begin(
        address: SocketAddr,
        method: &str,
        target: &str,
        last: Option<u64>,
    ) -> Self {
        let resume = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        Self::begin_with(address, method, target, &resume).await
    }

    /// Opens a stream with these header lines, each with its line end.
    pub(crate) async fn begin_with(
        address: SocketAddr,
        method: &str,
        target: &str,
        headers: &str,
    ) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let (text, raw, head) = (String::new(), Vec::new(), String::new());
        let mut events = Self { stream, text, raw, ended: false, head, comments: 0 };
        while !events.raw.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            assert!(
                events.read().await,
                "the server closed the connection before the end of the head"
            );
        }
        let end = events.raw.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let rest = events.raw.split_off(end);
        events.head = String::from_utf8(std::mem::replace(&mut events.raw, rest)).unwrap();
        events.unchunk();
        events
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                match parse(&block) {
                    Some(event) => return Some(event),
                    None => self.comments += 1,
                }
            } else if self.ended || !self.read().await {
                return None;
            }
        }
    }

    /// Returns the data of the next event, which must have this name.
    pub(crate) async fn expect(&mut self, name: &str) -> Value {
        let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {name}"));
        assert_eq!(event.name, name, "{event:?}");
        event.data
    }

    /// The next event other than a bookmark.
    pub(crate) async fn next_change(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("the stream has ended");
            if event.name != "bookmark" {
                return event;
            }
        }
    }

    /// Reads more bytes; false at the end.
    async fn read(&mut self) -> bool {
        let read = tokio::time::timeout(TIMEOUT, self.stream.read_buf(&mut self.raw)).await;
        let more = read.expect("no bytes arrived").unwrap_or(0) > 0;
        if !self.head.is_empty() {
            self.unchunk();
        }
        more
    }

    /// Decodes the complete chunks among the received bytes.
    fn unchunk(&mut self) {
        while let Some(line) = self.raw.windows(2).position(|bytes| bytes == b"\r\n") {
            let size = std::str::from_utf8(&self.raw[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            let (from, to) = (line + 2, line + 2 + size);
            if self.raw.len() < to + 2 {
                return;
            }
            self.ended |= size == 0;
            self.text.push_str(std::str::from_utf8(&self.raw[from..to]).unwrap());
            self.raw.drain(..to + 2);
        }
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let prefix = format!("{name}: ");
        block.lines().find_map(|line| line.strip_prefix(prefix.as_str()).map(str::to_owned))
    };
    let data = field("data")?;
    Some(Event {
        name: field("event").unwrap(),
        id: field("id").map(|id| id.parse().unwrap()),
        data: serde_json::from_str(&data).unwrap(),
    })
}
