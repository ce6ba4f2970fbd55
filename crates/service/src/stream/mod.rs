//! Streams: connections that act for a session, with one ordered outbox to the client.
//!
//! A stream has the attachment of its session, ZooKeeper's watches, and the renewals caused by client activity. The
//! front-end translates bytes.
//!
//! ```text
//! front-end ─ Service::open_stream_session | attach_session ─► Attached ─ Service::stream ─► SessionStream, Outbox
//! request ──► SessionStream::read | write | … ─► order ─► Outbox ─► reply, notice, end
//! apply ────► ApplyObserver ─► Streams::on_event ─► order ─┘
//! ```
//!
//! Bounds: `ServiceConfig` bounds the streams and watches of a node, [`StreamLimits`] those of one stream.

mod arming;
mod attach;
mod handle;
mod listing;
mod liveness;
mod message;
mod order;
mod outbox;
mod renewals;
mod watch_table;

pub use attach::SessionKey;
pub use handle::SessionStream;
pub use listing::{StreamView, WatchCounts};
pub use message::{
    Notice, NoticeKind, Outgoing, StreamAnswer, StreamEnd, StreamRead, StreamReply, WatchKind,
    WatchMode, WatchSet,
};
pub use outbox::{Outbox, StreamLimits};

pub(crate) use liveness::RenewalQueue;
pub use order::Attachment;
pub(crate) use order::Streams;
pub(crate) use renewals::run as renew_streams;
pub(crate) use watch_table::ancestors;
