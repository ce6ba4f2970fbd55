//! The words of the HTTP door: parameters, JSON bodies, error codes, durations and paths.
//!
//! Owns how a call looks as text, in both directions, so that the front-end, the client library and the command
//! line cannot disagree: what the server parses is what the client prints. Everything is checked here once and
//! turned into the nouns of `holdfast-types`; a [`Refusal`] says which code, which parameter and what to write instead.
//!
//! Refuses to know status codes, headers, sockets and clocks (ages are computed from a stamp handed in). Nothing
//! here queues; the size of what is parsed is bounded by the caller's limit on heads and bodies.

mod cluster;
mod code;
mod duration;
mod escape;
mod fields;
mod lock;
mod params;
mod path;
mod problem;
mod refusal;
mod session;

pub use cluster::{CheckBody, ClusterBody, HealthBody, NodeBody, VersionBody};
pub use code::{ErrorCode, UnknownCode};
pub use duration::{DURATION_MAX, DurationError, format_duration, parse_duration};
pub use escape::{EscapeError, escape_path, escape_query, unescape_path, unescape_query};
pub use fields::{Fields, Keys};
pub use lock::{FenceBody, GrantBody, HolderBody, LockBody, LocksBody, Mode, WaiterBody};
pub use params::{
    AcquireParams, FenceModeParam, FenceParams, KeepAliveParams, LIST_LIMIT_DEFAULT,
    LIST_LIMIT_MAX, ListParams, OpenParams, ReadParams, ReadyParams, ReleaseParams, WAIT_MAX,
};
pub use path::{fence_path, keepalive_path, lock_path, session_path};
pub use problem::{Facts, Problem};
pub use refusal::Refusal;
pub use session::{HoldBody, SessionBody, SessionsBody};

/// The media type of [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The answer's header that carries the fencing token of a grant.
pub const FENCING_TOKEN: &str = "fencing-token";
/// The answer's header that names the node that answered.
pub const HOLDFAST_NODE: &str = "holdfast-node";
/// The answer's header that names the leader as that node knows it, or `none`.
pub const HOLDFAST_LEADER: &str = "holdfast-leader";
/// The answer's header with the revision at which the call was answered.
pub const HOLDFAST_REVISION: &str = "holdfast-revision";
/// The header that ties a call to the log lines about it; taken from the request if it is sane, else made.
pub const HOLDFAST_REQUEST_ID: &str = "holdfast-request-id";
/// The answer's header, on a release that named an entry: entries that still hold the lock.
pub const HOLDFAST_ENTRIES_LEFT: &str = "holdfast-entries-left";
/// The answer's header of a stale read: the revision it was read at.
pub const HOLDFAST_APPLIED_REVISION: &str = "holdfast-applied-revision";
/// The answer's header of a stale read: milliseconds since the node last heard from a leader.
pub const HOLDFAST_LEADER_CONTACT_MS: &str = "holdfast-leader-contact-ms";
