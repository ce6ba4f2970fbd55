//! Rejects a request in which a bare LF ends a line: in its head, in the size line of a chunk, or in its trailers.
//!
//! hyper accepts a bare LF as the end of a header line. A proxy that insists on CRLF reads the same bytes as one line,
//! so the two would see different requests on one connection. This scanner stands between the socket and hyper.
//! It passes a head on only up to its end, then hyper decides how long the body is, and the scanner follows that.
//! The two therefore agree where each request ends. Bound: bytes behind the end of a head, at most one read.

use memchr::memchr;

/// The length of the body after a head, as hyper decoded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// A whole number of bytes; 0 if there is no body.
    Bytes(u64),
    /// In chunks, each with its size.
    Chunked,
}

/// The part of a request to which the next byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    /// The request line and the headers, or an empty line before them.
    Head,
    /// The line before a chunk; `digits` while the size is being read.
    ChunkSize { size: u64, digits: bool },
    /// Bytes that are not lines.
    Data { left: u64, chunked: bool },
    /// The lines after the last chunk.
    Trailers,
}

/// The result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// The reader may pass on this many bytes.
    pub(crate) passed: usize,
    /// The next byte is a bare LF. Otherwise the bytes after the passed ones wait until the length of the body is known.
    pub(crate) refused: bool,
}

/// The scanner of one connection.
#[derive(Debug)]
pub(crate) struct Lines {
    region: Region,
    /// The last byte was a CR.
    after_cr: bool,
    /// The present line is empty so far, or only a CR.
    empty: bool,
}

impl Lines {
    /// The scanner of a connection before its first byte.
    pub(crate) fn new() -> Self {
        Self { region: Region::Head, after_cr: false, empty: true }
    }

    /// A body follows the head that was passed on.
    pub(crate) fn body_follows(&mut self, length: BodyLength) {
        self.region = match length {
            BodyLength::Bytes(bytes) => after_data(bytes, false),
            BodyLength::Chunked => Region::ChunkSize { size: 0, digits: true },
        };
    }

    /// Scans bytes up to the end of a head, or up to a bare LF.
    pub(crate) fn scan(&mut self, bytes: &[u8]) -> Scanned {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if let Region::Data { left, chunked } = self.region {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                at += taken;
                self.region = after_data(left - u64::try_from(taken).unwrap_or(left), chunked);
                continue;
            }
            let Some(line) = memchr(b'\n', rest) else {
                self.read(rest);
                return Scanned { passed: bytes.len(), refused: false };
            };
            self.read(&rest[..line]);
            if !self.after_cr {
                return Scanned { passed: at + line, refused: true };
            }
            at += line + 1;
            let head_ended = self.empty && self.region == Region::Head;
            self.region = self.after_line();
            (self.after_cr, self.empty) = (false, true);
            if head_ended {
                break;
            }
        }
        Scanned { passed: at, refused: false }
    }

    /// Reads bytes of the present line, without its LF.
    fn read(&mut self, part: &[u8]) {
        let Some(last) = part.last() else { return };
        self.after_cr = *last == b'\r';
        self.empty = self.empty && part.iter().all(|byte| *byte == b'\r');
        if let Region::ChunkSize { .. } = self.region {
            part.iter().filter(|byte| **byte != b'\r').for_each(|byte| self.count_digit(*byte));
        }
    }

    fn after_line(&self) -> Region {
        match self.region {
            Region::Head => Region::Head,
            Region::Trailers if self.empty => Region::Head,
            Region::ChunkSize { size: 0, .. } | Region::Trailers => Region::Trailers,
            // The CRLF behind a chunk belongs to it: hyper accepts nothing else there.
            Region::ChunkSize { size, .. } => {
                Region::Data { left: size.saturating_add(2), chunked: true }
            }
            data @ Region::Data { .. } => data,
        }
    }

    /// Reads the size of a chunk as hyper does: hexadecimal digits, then anything.
    fn count_digit(&mut self, byte: u8) {
        let Region::ChunkSize { size, digits: true } = self.region else { return };
        let digit = char::from(byte).to_digit(16);
        self.region = match digit {
            Some(digit) => {
                let size = size.saturating_mul(16).saturating_add(digit.into());
                Region::ChunkSize { size, digits: true }
            }
            None => Region::ChunkSize { size, digits: false },
        };
    }
}

fn after_data(left: u64, chunked: bool) -> Region {
    match (left, chunked) {
        (0, true) => Region::ChunkSize { size: 0, digits: true },
        (0, false) => Region::Head,
        (left, chunked) => Region::Data { left, chunked },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans bytes in pieces, and sets the next body length after each head. Returns the passed bytes, and whether a
    /// bare LF was rejected.
    fn scan(pieces: &[&[u8]], bodies: &[BodyLength]) -> (Vec<u8>, bool) {
        let (mut lines, mut bodies) = (Lines::new(), bodies.iter());
        let mut passed = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let scanned = lines.scan(rest);
                passed.extend_from_slice(&rest[..scanned.passed]);
                if scanned.refused {
                    return (passed, true);
                }
                rest = &rest[scanned.passed..];
                if lines.region == Region::Head && passed.ends_with(b"\r\n\r\n") {
                    bodies.next().into_iter().for_each(|body| lines.body_follows(*body));
                }
            }
        }
        (passed, false)
    }

    const NONE: BodyLength = BodyLength::Bytes(0);

    #[test]
    fn valid_requests_pass_with_any_split_into_segments() {
        let all = b"\r\nGET / HTTP/1.1\r\nA: b\r\n\r\n\
            PUT / HTTP/1.1\r\nC: d\r\n\r\n\n1\n\n4\
            PUT / HTTP/1.1\r\nT: chunked\r\n\r\n3;x=y\r\n\n\r\n\r\n0A \r\n\n\n\n\n\n\n\n\n\n\n\r\n0\r\nE: f\r\n\r\n\
            GET / HTTP/1.1\r\n\r\n";
        let bodies = [NONE, BodyLength::Bytes(5), BodyLength::Chunked, NONE];
        for cut in 0..all.len() {
            let (first, second) = all.split_at(cut);
            assert_eq!(scan(&[first, second], &bodies), (all.to_vec(), false), "cut at {cut}");
        }
        let single: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(scan(&single, &bodies), (all.to_vec(), false));
    }

    #[test]
    fn a_bare_lf_is_rejected_in_every_line_with_any_split_into_segments() {
        let heads: [&[u8]; 6] = [
            b"\nGET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\nA: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
            b"GET / HTTP/1.1\r\nA: b\r\n\n",
            b"GET / HTTP/1.1\r\nA: b\n\n",
            b"GET / HTTP/1.1\r\nA: b\n\r\n",
        ];
        let bodies: [&[u8]; 5] = [
            b"2\n{}\r\n0\r\n\r\n",
            b"2;x\n{}\r\n",
            b"0\n\r\n",
            b"0\r\n\n",
            b"0\r\nA: b\nC: d\r\n\r\n",
        ];
        let chunked = b"PUT / HTTP/1.1\r\nT: chunked\r\n\r\n";
        let in_bodies = bodies.map(|body| [chunked, body].concat());
        let in_heads = heads.map(|head| [b"GET / HTTP/1.1\r\n\r\n", head].concat());
        let first = heads.iter().map(|head| (head.to_vec(), NONE));
        let second = in_heads.into_iter().map(|bytes| (bytes, NONE));
        let cases = first.chain(second);
        for (bytes, body) in cases.chain(in_bodies.map(|bytes| (bytes, BodyLength::Chunked))) {
            for cut in 0..bytes.len() {
                let (head, tail) = bytes.split_at(cut);
                let (passed, refused) = scan(&[head, tail], &[body]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(refused, "{text:?} cut at {cut}");
                assert_eq!(bytes[passed.len()], b'\n', "{text:?} cut at {cut}");
            }
        }
    }
}
