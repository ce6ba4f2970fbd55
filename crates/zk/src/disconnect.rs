//! Why a connection ends after its handshake.

use std::io;

use holdfast_service::StreamEnd;
use holdfast_zkwire::{DecodeError, ErrorCode, FrameError};

use crate::frame_reader::FrameReadError;

#[derive(Debug)]
pub(crate) enum Disconnect {
    /// The client closed the connection.
    ByClient,
    /// The client sent nothing for as long as its session timeout.
    Timeout,
    /// The client does not read from its socket.
    WriteTimeout,
    Socket(io::Error),
    /// The length of a frame is invalid.
    Frame(FrameError),
    /// A frame has no complete header.
    Header(DecodeError),
    /// The last reply was an error that ends the connection.
    Error(ErrorCode),
    /// The outcome of a request is unknown, or this node cannot serve it.
    Unavailable,
    /// The stream of the session ended.
    Stream(StreamEnd),
}

impl Disconnect {
    /// The value of the log field `end`.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::ByClient => "closed",
            Self::Timeout => "timeout",
            Self::WriteTimeout => "write-timeout",
            Self::Socket(_) => "socket",
            Self::Frame(_) => "frame",
            Self::Header(_) => "header",
            Self::Error(_) => "error",
            Self::Unavailable => "unavailable",
            Self::Stream(_) => "session",
        }
    }
}

impl From<FrameReadError> for Disconnect {
    fn from(error: FrameReadError) -> Self {
        match error {
            FrameReadError::Closed => Self::ByClient,
            FrameReadError::Socket(error) => Self::Socket(error),
            FrameReadError::Frame(error) => Self::Frame(error),
        }
    }
}
