//! The head of an answer: its status, its headers and the length of its body, by RFC 9112.
//!
//! Bounds: 64 headers, 64 KiB.

use std::borrow::Cow;
use std::io;
use std::str::from_utf8;

use http::{Method, StatusCode};

use crate::http::body::Body;

const HEADERS_MAX: usize = 64;

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
        pairs.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
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
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: Headers,
    pub(super) body: Body,
    /// Whether the node keeps the connection open after the body.
    pub(super) persists: bool,
    /// The number of bytes.
    pub(super) len: usize,
}

impl Head {
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
        let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or_else(|| malformed("a status that HTTP does not have"))?;
        let (mut length, mut is_chunked, mut is_coded) = (None, false, false);
        let mut persists = head.version == Some(1);
        let lengths = Vec::with_capacity(head.headers.len());
        let mut headers = Headers { text: String::with_capacity(len), lengths };
        for field in head.headers.iter() {
            headers.push(field.name, field.value);
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let value =
                    from_utf8(field.value).ok().and_then(|text| text.trim().parse::<u64>().ok());
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
        let body = if has_no_body(method, status) {
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

fn has_no_body(method: &Method, status: StatusCode) -> bool {
    let is_empty = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    *method == Method::HEAD || is_empty || status.is_informational()
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(token))
}

fn last_token(value: &[u8]) -> &[u8] {
    value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        let text = text.replace('\n', "\r\n");
        let head = Head::parse(text.as_bytes(), &Method::GET).unwrap().expect("a complete head");
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
        let of_head = Head::parse(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", &Method::HEAD);
        assert_eq!(of_head.unwrap().unwrap().body, Body::End);
    }

    #[test]
    fn a_head_is_incomplete_until_its_empty_line() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        for len in 0..text.len() {
            assert!(Head::parse(&text[..len], &Method::GET).unwrap().is_none(), "{len}");
        }
    }

    #[test]
    fn what_is_not_an_answer_is_an_error() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "\x15\x03\x01\x00\x02\x02",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 099 What\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        ] {
            assert!(Head::parse(text.as_bytes(), &Method::GET).is_err(), "{text}");
        }
        let many = "x: y\r\n".repeat(HEADERS_MAX + 1);
        assert!(
            Head::parse(format!("HTTP/1.1 200 OK\r\n{many}\r\n").as_bytes(), &Method::GET).is_err()
        );
    }
}
