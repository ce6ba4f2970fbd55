//! Streams: connections that speak for a session, with everything that goes out to the client in one order.
//!
//! Owns attachments of sessions to connections, `ZooKeeper`'s watches, the ordered outbox (design D12) and the renewal
//! of sessions by signs of life. Refuses to know bytes and sockets: a door translates.
//!
//! ```text
//! door ─ Service::open_stream_session | attach_session ─► Attached ─ Service::stream ─► Stream, Outbox
//! request ─► Stream::read | write | … ─► order ─► Outbox ─► reply, notice, end
//! apply ───► hub ─► Streams::see ────────► order ─┘
//! ```
//!
//! Bounds: streams and watches of a node by `ServiceConfig`, of one stream by [`StreamLimits`].

mod arming;
mod attach;
mod handle;
mod life;
mod listing;
mod message;
mod order;
mod outbox;
mod renewals;
mod table;

pub use attach::Attached;
pub use handle::Stream;
pub use listing::{StreamView, WatchCounts};
pub use message::{
    Ended, Notice, NoticeKind, Outgoing, StreamAnswer, StreamRead, StreamReply, WatchKind,
    WatchMode, WatchSet,
};
pub use outbox::{Outbox, StreamLimits};

pub(crate) use order::Streams;
pub(crate) use renewals::{Renewals, run as renew_streams};
pub(crate) use table::ancestors;
