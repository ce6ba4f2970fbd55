//! Watches: the kinds of them in requests, and their events, which are frames from the server without a request.
//!
//! Unknown numbers are kept, so that the front-end can reject them.

use bytes::{Bytes, BytesMut};

use crate::jute::{Reader, Record, Sink};
use crate::{DecodeError, ReplyHeader, frame, xid};

/// The mode of `addWatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddWatchMode {
    /// 0: fires for every change of the node's data and children.
    Persistent,
    /// 1: fires for every change of data in the subtree.
    PersistentRecursive,
    /// Another number: [`crate::ErrorCode::MarshallingError`].
    Unknown(i32),
}

impl AddWatchMode {
    pub fn from_code(code: i32) -> Self {
        match code {
            0 => Self::Persistent,
            1 => Self::PersistentRecursive,
            code => Self::Unknown(code),
        }
    }

    pub fn code(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::PersistentRecursive => 1,
            Self::Unknown(code) => code,
        }
    }
}

/// The watches of a path that `checkWatches` and `removeWatches` select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatcherType {
    /// 1.
    Children,
    /// 2.
    Data,
    /// 3.
    Any,
    /// Another number: [`crate::ErrorCode::MarshallingError`].
    Unknown(i32),
}

impl WatcherType {
    pub fn from_code(code: i32) -> Self {
        match code {
            1 => Self::Children,
            2 => Self::Data,
            3 => Self::Any,
            code => Self::Unknown(code),
        }
    }

    pub fn code(self) -> i32 {
        match self {
            Self::Children => 1,
            Self::Data => 2,
            Self::Any => 3,
            Self::Unknown(code) => code,
        }
    }
}

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchEventType {
    /// −1: only the state of the session changed.
    None,
    /// 1.
    Created,
    /// 2.
    Deleted,
    /// 3: its data changed.
    DataChanged,
    /// 4: a child was created or deleted.
    ChildrenChanged,
    /// 5: a watch on its data was removed.
    DataWatchRemoved,
    /// 6: a watch on its children was removed.
    ChildWatchRemoved,
    /// 7: a persistent watch was removed.
    PersistentWatchRemoved,
    /// Another number.
    Unknown(i32),
}

impl WatchEventType {
    pub fn from_code(code: i32) -> Self {
        match code {
            -1 => Self::None,
            1 => Self::Created,
            2 => Self::Deleted,
            3 => Self::DataChanged,
            4 => Self::ChildrenChanged,
            5 => Self::DataWatchRemoved,
            6 => Self::ChildWatchRemoved,
            7 => Self::PersistentWatchRemoved,
            code => Self::Unknown(code),
        }
    }

    pub fn code(self) -> i32 {
        match self {
            Self::None => -1,
            Self::Created => 1,
            Self::Deleted => 2,
            Self::DataChanged => 3,
            Self::ChildrenChanged => 4,
            Self::DataWatchRemoved => 5,
            Self::ChildWatchRemoved => 6,
            Self::PersistentWatchRemoved => 7,
            Self::Unknown(code) => code,
        }
    }
}

/// The session's state that an event carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// 3: connected to a member of the quorum; the state of every event about a node.
    SyncConnected,
    /// 5: connected to a read-only server.
    ConnectedReadOnly,
    /// Another number; servers send none.
    Unknown(i32),
}

impl SessionState {
    pub fn from_code(code: i32) -> Self {
        match code {
            3 => Self::SyncConnected,
            5 => Self::ConnectedReadOnly,
            code => Self::Unknown(code),
        }
    }

    pub fn code(self) -> i32 {
        match self {
            Self::SyncConnected => 3,
            Self::ConnectedReadOnly => 5,
            Self::Unknown(code) => code,
        }
    }
}

/// A watch event.
///
/// # Format
/// A reply's header with number −1 and error 0, then `int type, int state, string path`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchedEvent {
    pub kind: WatchEventType,
    pub state: SessionState,
    pub path: String,
}

impl WatchedEvent {
    pub fn of(kind: WatchEventType, path: impl Into<String>) -> Self {
        Self { kind, state: SessionState::SyncConnected, path: path.into() }
    }
}

struct EventFrame<'a> {
    zxid: i64,
    event: &'a WatchedEvent,
}

impl Record for EventFrame<'_> {
    fn write<S: Sink>(&self, out: &mut S) {
        ReplyHeader { xid: xid::EVENT, zxid: self.zxid, err: 0 }.write(out);
        out.int(self.event.kind.code());
        out.int(self.event.state.code());
        out.string(&self.event.path);
    }
}

/// Appends the frame of an event. `zxid` is −1 as in ZooKeeper 3.8, or that of the change as in 3.9.
pub fn append_event(out: &mut BytesMut, zxid: i64, event: &WatchedEvent) {
    if frame::append(out, &EventFrame { zxid, event }).is_err() {
        // No node has a path of two gigabytes.
        append_event(out, zxid, &WatchedEvent { path: String::new(), ..*event });
    }
}

/// Encodes an event; see [`append_event`].
pub fn encode_event(zxid: i64, event: &WatchedEvent) -> Bytes {
    let mut out = BytesMut::new();
    append_event(&mut out, zxid, event);
    out.freeze()
}

/// Decodes an event.
///
/// # Errors
/// [`DecodeError`] if the frame is a reply to a request, or is too short.
pub fn decode_event(frame: Bytes) -> Result<(ReplyHeader, WatchedEvent), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = ReplyHeader::read(&mut reader)?;
    if header.xid != xid::EVENT {
        return Err(DecodeError::NotAnEvent { xid: header.xid });
    }
    let kind = WatchEventType::from_code(reader.int("type")?);
    let state = SessionState::from_code(reader.int("state")?);
    let path = reader.string("path")?;
    Ok((header, WatchedEvent { kind, state, path }))
}
