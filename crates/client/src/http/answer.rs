//! An answer from the bytes of a connection: its head, and where its body ends, by RFC 9112.
//!
//! Bounds: 64 headers, and [`UNREAD_MAX`] bytes. The bytes of a body are taken as they arrive, so only a head or a line can be
//! longer.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::str::from_utf8;
use std::task::{Context, Poll, ready};

use http::{Method, StatusCode};
use tokio::io::{AsyncRead, ReadBuf};

const HEADERS_MAX: usize = 64;
const CAPACITY: usize = 8 * 1_024;
const UNREAD_MAX: usize = 64 * 1_024;

/// The headers of an answer, in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// All names and values, one after the other.
    text: String,
    /// The lengths of each name and its value.
    lengths: Vec<(usize, usize)>,
}

impl Headers {
    #[cfg(test)]
    pub(crate) fn new(pairs: &[(&str, &str)]) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            headers.push(name, value.as_bytes());
        }
        headers
    }

    fn push(&mut self, name: &str, value: &[u8]) {
        // The check alone is faster than the conversion.
        let value = from_utf8(value).map_or_else(|_| String::from_utf8_lossy(value), Cow::Borrowed);
        self.text.push_str(name);
        self.text.push_str(&value);
        self.lengths.push((name.len(), value.len()));
    }

    /// Returns the first value of a name, whose case is irrelevant.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names and values. A byte that is not UTF-8 is U+FFFD.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut text = self.text.as_str();
        self.lengths.iter().map(move |(name_len, value_len)| {
            let (name, rest) = text.split_at(*name_len);
            let (value, rest) = rest.split_at(*value_len);
            text = rest;
            (name, value)
        })
    }
}

/// The head of an answer, and the length of what follows it.
#[derive(Debug)]
pub(super) struct AnswerHead {
    pub(super) status: StatusCode,
    pub(super) headers: Headers,
    pub(super) body: Body,
    /// Whether the node keeps the connection open after the body.
    pub(super) persists: bool,
    /// The number of bytes.
    pub(super) len: usize,
}

impl AnswerHead {
    /// Parses the head of the answer to a call with this method; `None` if it is incomplete.
    ///
    /// # Errors
    /// The bytes are not an answer of HTTP/1.
    pub(super) fn parse(bytes: &[u8], method: &Method) -> io::Result<Option<Self>> {
        let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
        let parsed = head.parse(bytes);
        let parsed =
            parsed.map_err(|error| malformed(&format!("not an answer of HTTP/1: {error}")))?;
        let httparse::Status::Complete(len) = parsed else { return Ok(None) };
        let code = head.code.unwrap_or_default();
        let status = code.try_into().map_err(|_| malformed("a status that HTTP does not have"))?;
        let (mut length, mut is_chunked, mut is_coded) = (None, false, false);
        let mut persists = head.version == Some(1);
        let lengths = Vec::with_capacity(head.headers.len());
        let mut headers = Headers { text: String::with_capacity(len), lengths };
        for field in head.headers.iter() {
            headers.push(field.name, field.value);
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let value = decimal(field.value);
                let value = value.ok_or_else(|| malformed("a malformed content-length"))?;
                if length.replace(value).is_some_and(|other| other != value) {
                    return Err(malformed("two lengths of one body"));
                }
            } else if is("transfer-encoding") {
                is_coded = true;
                is_chunked = last_token(field.value).eq_ignore_ascii_case(b"chunked");
            } else if is("connection") {
                persists &= !has_token(field.value, b"close");
            }
        }
        // A body with both headers may hide another answer, so the connection ends with it.
        persists &= !(is_coded && length.is_some());
        let body = if has_no_body(method, code) {
            Body::End
        } else if is_chunked {
            Body::ChunkSize
        } else if let Some(length) = length.filter(|_| !is_coded) {
            Body::of_length(length)
        } else {
            Body::UntilClose
        };
        persists &= body != Body::UntilClose;
        Ok(Some(Self { status, headers, body, persists, len }))
    }
}

/// Whether an answer to this method with this status code has only a head.
pub(crate) fn has_no_body(method: &Method, code: u16) -> bool {
    *method == Method::HEAD || matches!(code, 100..=199 | 204 | 304)
}

/// A number of digits alone: a sign is no part of a length.
fn decimal(value: &[u8]) -> Option<u64> {
    let digits = from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits?.parse().ok()
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(token))
}

fn last_token(value: &[u8]) -> &[u8] {
    value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
}

/// What is left of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing.
    End,
    /// This many bytes, at least one.
    Bytes(u64),
    /// All bytes until the node closes the connection.
    UntilClose,
    /// The line with the size of the next chunk.
    ChunkSize,
    /// This many bytes of a chunk, at least one.
    ChunkBytes(u64),
    /// The end of the line after a chunk.
    ChunkEnd,
    /// The lines after the last chunk.
    Trailers,
}

impl Body {
    pub(super) fn of_length(length: u64) -> Self {
        if length == 0 { Self::End } else { Self::Bytes(length) }
    }

    /// Moves the received bytes of the body from `input` to `output`.
    ///
    /// # Errors
    /// A malformed chunk.
    pub(super) fn read(&mut self, input: &mut Input, output: &mut Vec<u8>) -> io::Result<()> {
        while let Some(next) = self.step(input, output)? {
            *self = next;
        }
        Ok(())
    }

    /// The state after the next part of the body; `None` at the end, and until more bytes arrive.
    fn step(self, input: &mut Input, output: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let next = match self {
            Self::End => return Ok(None),
            Self::UntilClose => {
                input.take(u64::MAX, output);
                return Ok(None);
            }
            Self::Bytes(left) => match (left, input.take(left, output)) {
                (_, 0) => return Ok(None),
                (left, taken) => Self::of_length(left - taken),
            },
            Self::ChunkBytes(left) => match (left, input.take(left, output)) {
                (_, 0) => return Ok(None),
                (left, taken) if taken == left => Self::ChunkEnd,
                (left, taken) => Self::ChunkBytes(left - taken),
            },
            Self::ChunkSize => {
                // httparse reads a size without a digit as 0, which would end the body.
                if input.unread().first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
                    return Err(malformed("a malformed size of a chunk"));
                }
                let parsed = httparse::parse_chunk_size(input.unread());
                match parsed.map_err(|_| malformed("a malformed size of a chunk"))? {
                    httparse::Status::Partial => return Ok(None),
                    httparse::Status::Complete((len, size)) => {
                        input.consume(len);
                        if size == 0 { Self::Trailers } else { Self::ChunkBytes(size) }
                    }
                }
            }
            Self::ChunkEnd => match input.line() {
                None => return Ok(None),
                Some(0) => Self::ChunkSize,
                Some(_) => return Err(malformed("a chunk that is longer than its size")),
            },
            Self::Trailers => match input.line() {
                None => return Ok(None),
                Some(0) => Self::End,
                Some(_) => Self::Trailers,
            },
        };
        Ok(Some(next))
    }

    /// The state after the node has closed the connection.
    ///
    /// # Errors
    /// The body is not complete.
    pub(super) fn closed(self) -> io::Result<Self> {
        match self {
            Self::End | Self::UntilClose => Ok(Self::End),
            Self::Bytes(_)
            | Self::ChunkSize
            | Self::ChunkBytes(_)
            | Self::ChunkEnd
            | Self::Trailers => Err(incomplete()),
        }
    }
}

/// The error of a connection that ended before the answer.
pub(super) fn incomplete() -> io::Error {
    let what = "the node closed the connection before the end of its answer";
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The bytes that a connection has received and no answer has taken.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// The unread bytes are those from `start` to `end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Moves at most `len` bytes to the end of `output`, and returns their number.
    pub(super) fn take(&mut self, len: u64, output: &mut Vec<u8>) -> u64 {
        let unread = self.unread();
        let taken = usize::try_from(len).map_or(unread.len(), |len| len.min(unread.len()));
        output.extend_from_slice(&unread[..taken]);
        self.consume(taken);
        taken as u64
    }

    /// Consumes a line, and returns its length without the end; `None` if it is incomplete.
    pub(super) fn line(&mut self) -> Option<usize> {
        let end = self.unread().iter().position(|byte| *byte == b'\n')?;
        let line = &self.unread()[..end];
        let len = line.strip_suffix(b"\r").unwrap_or(line).len();
        self.consume(end + 1);
        Some(len)
    }

    /// Reads what has arrived at the socket. Returns the number of bytes, 0 at the end of the connection.
    pub(super) fn poll_fill(
        &mut self,
        socket: &mut (impl AsyncRead + Unpin + ?Sized),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Err(error) = self.make_room() {
            return Poll::Ready(Err(error));
        }
        let mut free = ReadBuf::new(&mut self.bytes[self.end..]);
        ready!(Pin::new(socket).poll_read(context, &mut free))?;
        let len = free.filled().len();
        self.end += len;
        Poll::Ready(Ok(len))
    }

    /// # Errors
    /// More than [`UNREAD_MAX`] bytes would be unread.
    fn make_room(&mut self) -> io::Result<()> {
        if self.end < self.bytes.len() {
            return Ok(());
        }
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end >= UNREAD_MAX {
            let what = "the head of the answer has more than 64 KiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if self.end == self.bytes.len() {
            self.bytes.resize((2 * self.end).clamp(CAPACITY, UNREAD_MAX), 0);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(bytes);
        self.end = self.bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> AnswerHead {
        let text = text.replace('\n', "\r\n");
        let head =
            AnswerHead::parse(text.as_bytes(), &Method::GET).unwrap().expect("a complete head");
        assert_eq!(head.len, text.len());
        head
    }

    #[test]
    fn names_have_no_case_and_values_no_spaces_around() {
        let head = head("HTTP/1.1 201 Created\nHoldfast-Node:  2 \netag: a:b\nX: \n\n");
        assert_eq!(head.status, StatusCode::CREATED);
        assert_eq!(head.headers.get("holdfast-node"), Some("2"));
        assert_eq!(head.headers.get("ETag"), Some("a:b"));
        assert_eq!(head.headers.get("x"), Some(""));
        assert_eq!(head.headers.get("node"), None);
        assert_eq!(head.headers.iter().count(), 3);
    }

    #[test]
    fn the_length_of_the_body_follows_from_the_headers() {
        for (lines, body, persists) in [
            ("content-length: 5\n", Body::Bytes(5), true),
            ("content-length: 0\n", Body::End, true),
            ("content-length: 5\ncontent-length: 5\n", Body::Bytes(5), true),
            ("content-length: 5\nconnection: keep-alive, Close\n", Body::Bytes(5), false),
            ("transfer-encoding: chunked\n", Body::ChunkSize, true),
            ("transfer-encoding: gzip, chunked\n", Body::ChunkSize, true),
            ("transfer-encoding: chunked\ncontent-length: 5\n", Body::ChunkSize, false),
            ("transfer-encoding: gzip\ncontent-length: 5\n", Body::UntilClose, false),
            ("", Body::UntilClose, false),
        ] {
            let head = head(&format!("HTTP/1.1 200 OK\n{lines}\n"));
            assert_eq!((head.body, head.persists), (body, persists), "{lines}");
        }
        assert!(!head("HTTP/1.0 200 OK\ncontent-length: 5\n\n").persists);
        for status in ["204 No Content", "304 Not Modified", "100 Continue"] {
            let head = head(&format!("HTTP/1.1 {status}\n\n"));
            assert_eq!((head.body, head.persists), (Body::End, true), "{status}");
        }
        let of_head =
            AnswerHead::parse(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", &Method::HEAD);
        assert_eq!(of_head.unwrap().unwrap().body, Body::End);
    }

    #[test]
    fn a_head_is_incomplete_until_its_empty_line() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        for len in 0..text.len() {
            assert!(AnswerHead::parse(&text[..len], &Method::GET).unwrap().is_none(), "{len}");
        }
    }

    #[test]
    fn what_is_not_an_answer_is_an_error() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "\x15\x03\x01\x00\x02\x02",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 099 What\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        ] {
            assert!(AnswerHead::parse(text.as_bytes(), &Method::GET).is_err(), "{text}");
        }
        let many = "x: y\r\n".repeat(HEADERS_MAX + 1);
        assert!(
            AnswerHead::parse(format!("HTTP/1.1 200 OK\r\n{many}\r\n").as_bytes(), &Method::GET)
                .is_err()
        );
    }

    /// Reads a body that arrives in pieces of `piece` bytes, and returns it with what follows.
    fn read(mut body: Body, bytes: &[u8], piece: usize) -> io::Result<(Vec<u8>, Body, Vec<u8>)> {
        let (mut input, mut output) = (Input::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            input.push(piece);
            body.read(&mut input, &mut output)?;
        }
        Ok((output, body, input.unread().to_vec()))
    }

    #[test]
    fn a_body_ends_after_its_length() {
        for piece in 1..8 {
            let (body, state, rest) = read(Body::of_length(4), b"body+rest", piece).unwrap();
            assert_eq!((body, state, rest), (b"body".to_vec(), Body::End, b"+rest".to_vec()));
        }
        assert_eq!(Body::of_length(0), Body::End);
        let (body, state, _) = read(Body::of_length(5), b"bod", 2).unwrap();
        assert_eq!((body, state), (b"bod".to_vec(), Body::Bytes(2)));
        assert!(state.closed().is_err(), "the connection ended before the body");
    }

    #[test]
    fn a_body_ends_after_its_last_chunk_and_the_trailers() {
        let bytes = b"4\r\nbody\r\n0c;name=value\r\n of chunks \n\r\n0\r\nx: y\r\n\r\nHTTP";
        for piece in 1..bytes.len() {
            let (body, state, rest) = read(Body::ChunkSize, bytes, piece).unwrap();
            assert_eq!((body, state), (b"body of chunks \n".to_vec(), Body::End), "{piece}");
            assert_eq!(rest, b"HTTP");
        }
        for cut in 1..bytes.len() - 4 {
            let (_, state, _) = read(Body::ChunkSize, &bytes[..cut], 3).unwrap();
            assert!(state.closed().is_err(), "{cut}");
        }
    }

    #[test]
    fn a_malformed_chunk_is_an_error() {
        for bytes in
            ["x\r\n", "-1\r\n", "\r\n", ";x\r\n", " \r\n", "1\r\nab\r\n", "fffffffffffffffff\r\n"]
        {
            assert!(read(Body::ChunkSize, bytes.as_bytes(), 1).is_err(), "{bytes}");
        }
    }

    #[test]
    fn a_body_without_a_length_ends_with_the_connection() {
        let (body, state, rest) = read(Body::UntilClose, b"all of it", 4).unwrap();
        assert_eq!((body.as_slice(), rest.as_slice()), (b"all of it".as_slice(), b"".as_slice()));
        assert_eq!(state.closed().unwrap(), Body::End);
    }
}
