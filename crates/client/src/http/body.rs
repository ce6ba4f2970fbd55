//! The body of an answer: where it ends, by sections 6 and 7 of RFC 9112.

use std::io;

use crate::http::input::Input;

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

#[cfg(test)]
mod tests {
    use super::*;

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
        for bytes in ["x\r\n", "-1\r\n", "1\r\nab\r\n", "fffffffffffffffff\r\n"] {
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
