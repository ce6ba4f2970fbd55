//! Encodes and decodes the frames of the ZooKeeper 3.8 client protocol, both directions, without I/O.
//!
//! The crate has the connect exchange, every request and reply, watch events and four-letter words. It does not validate
//! paths and knows no semantics of operations. Only this crate and the front-end `zk` know zxids.
//!
//! Decoders take a frame without its length prefix, encoders return a frame with it. For any bytes a decoder does not
//! panic and uses at most [`MEMORY_FACTOR`] times the memory of the frame: it compares each count and length with the
//! remaining bytes before it allocates. Nothing nests deeper than the operations of a multi.
//!
//! As in ZooKeeper's own server:
//!
//! - Bytes after the end of a body are ignored, so that newer records can be longer.
//! - Invalid UTF-8 decodes as U+FFFD, which no path may contain. Any byte except 0 is true.
//! - A null is an error only where ZooKeeper rejects it; elsewhere it decodes as empty.

mod codes;
mod connect;
mod create;
mod frame;
mod jute;
mod multi;
mod records;
mod reply;
mod request;
mod watch;

pub use codes::{ErrorCode, op, xid};
pub use connect::{ConnectRequest, ConnectResponse, PASSWORD_LEN};
pub use create::{Create, CreateMode, CreateOp};
pub use frame::{FRAME_MAX_DEFAULT, FourLetterWord, FrameError, LENGTH_LEN, frame_len};
pub use jute::DecodeError;
pub use multi::{MultiOp, MultiResult, ReadOp, ReadResult};
pub use records::{Acl, AuthId, STAT_LEN, Stat, perms};
pub use reply::{
    ReplyHeader, ReplyKind, Response, append_reply, decode_reply, decode_reply_header, encode_reply,
};
pub use request::{Reconfig, Request, RequestHeader, SetWatches, decode_request, encode_request};
pub use watch::{
    AddWatchMode, SessionState, WatchEventType, WatchedEvent, WatcherType, append_event,
    decode_event, encode_event,
};

/// The most memory of a decoded value for each byte of its frame. The worst case is the reply to a multi of deletions,
/// with nine bytes each.
pub const MEMORY_FACTOR: usize = 32;
