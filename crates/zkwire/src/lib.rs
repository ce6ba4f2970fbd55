//! `ZooKeeper`'s bytes to typed frames and back, both directions, without I/O; only here and in the door `zk` are
//! there zxids.
//!
//! Owns the layouts of `ZooKeeper` 3.8's client protocol: the length in front of a frame, the connect exchange, every
//! request and reply, watch events, four-letter words. Refuses to know sockets, what an operation does, and which
//! paths are good: a path is the string that came.
//!
//! Decoders take a frame without its length, encoders return one with it. What a decoder promises, whatever the
//! bytes: no panic, and no more memory than [`MEMORY_FACTOR`] times the frame; counts and lengths are held against the bytes
//! that are there before anything is reserved. Nothing nests deeper than a multi's operations. Bytes after the end
//! of a body are ignored, as `ZooKeeper`'s own server does: that is how its records grow. As there, bytes that are not UTF-8
//! read as U+FFFD (no path may hold that), any byte but 0 is true, and a null is an error only where it is one there;
//! elsewhere it reads as empty.

mod connect;
mod create;
mod decode_error;
mod error_code;
mod event;
mod frame;
mod jute;
mod multi;
mod records;
mod reply;
mod request;
mod watch;
mod words;

pub mod op;
pub mod perms;
pub mod xid;

pub use connect::{ConnectRequest, ConnectResponse, PASSWORD_LEN};
pub use create::{Create, CreateMode, CreateOp};
pub use decode_error::DecodeError;
pub use error_code::ErrorCode;
pub use event::{
    SessionState, WatchEventType, WatchedEvent, append_event, decode_event, encode_event,
};
pub use frame::{FRAME_MAX_DEFAULT, FrameError, LENGTH_LEN, frame_len};
pub use multi::{MultiOp, MultiResult, ReadOp, ReadResult};
pub use records::{Acl, AuthId, STAT_LEN, Stat};
pub use reply::{
    ReplyHeader, ReplyKind, Response, append_reply, decode_reply, decode_reply_header, encode_reply,
};
pub use request::{Reconfig, Request, RequestHeader, SetWatches, decode_request, encode_request};
pub use watch::{AddWatchMode, WatcherType};
pub use words::FourLetterWord;

/// What a decoded value takes in memory, per byte of its frame, at most. The worst is a multi's reply of nothing but
/// deletions: nine bytes each.
pub const MEMORY_FACTOR: usize = 32;
