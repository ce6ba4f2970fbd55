//! The HTTP API as text: parameters, JSON bodies, error codes, durations and paths.
//!
//! The server, the client library and the command line share these definitions: the server parses what clients write. A
//! [`ParamError`] names the error code, the parameter, and what to write instead. Sockets, headers and clocks are elsewhere;
//! ages are computed from a stamp that the caller passes in. Bound: the caller's limit on heads and bodies.

mod acl;
mod acquire_stream;
mod cluster;
mod code;
mod duration;
mod election;
mod escape;
mod explain;
mod lock;
mod param;
mod param_error;
mod param_value;
pub mod parameters;
mod path;
mod problem;
mod query;
mod raw_params;
mod recipe;
#[cfg(feature = "schema")]
mod schema;
mod segments;
mod session;
mod session_events;
mod time_of_day;
mod txn;
mod watch;
mod znode;

pub use acl::{format_acl_entry, parse_acl_entry};
pub use acquire_stream::{AheadBody, EstimateBody, LostBody, QueuedBody, RenewedBody};
pub use cluster::{CheckBody, ClusterBody, HealthBody, NodeBody, VersionBody};
pub use code::{ErrorCode, UnknownCode};
pub use duration::{DURATION_MAX, DurationError, format_duration, parse_duration};
pub use election::{
    CandidateBody, ElectedBody, ElectionBody, LeaderBody, LeadershipBody, election_lock,
    election_of, election_path,
};
pub use escape::{EscapeError, escape_path, escape_query, unescape_path, unescape_query};
pub use explain::{ContentionBody, ExplainedBody, HistoryBody, LinkBody, PastHoldBody, TimesBody};
pub use holdfast_types::{CooldownCause, Mode, QueueOrder};
pub use lock::{
    AskedBody, BrokenBody, ClosedBody, FenceBody, GrantAllBody, GrantBody, HandedBody, HolderBody,
    LockBody, LocksBody, PolicyBody, ReleaseRequestBody, WaiterBody, named_owner,
};
pub use param::{Absent, Form, Param, object_schema};
pub use param_error::{ParamError, nearest};
pub use param_value::{CallParams, CountOrNone, ParamField, ParamValue};
pub use parameters::{KEPT_ALIVE_MAX, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX, WAIT_MAX};
pub use path::{fence_path, history_path, keepalive_path, lock_path, session_path, tree_path};
pub use problem::{Facts, Problem};
pub use query::Query;
pub use raw_params::{JsonPairs, ParamList, RawParams};
pub use recipe::{
    BreachBody, CountDownBody, CounterBody, GateBody, LatchBody, LeftBody, PassedBody, RecipeFacts,
    barrier_path, counter_path, double_barrier_path, latch_path,
};
#[cfg(feature = "schema")]
pub use schema::Schemas;
pub use segments::SegmentBody;
pub use session::{HoldBody, SessionBody, SessionsBody};
pub use session_events::{EventBody, EventKind, GapBody, KeptBody, KeptManyBody, NewsBody};
pub use time_of_day::{format_time, parse_time};
pub use txn::{OpBody, TxnBody, path_of};
pub use watch::{ChangeBody, ChangeKind, WatchBody};
pub use znode::{AclBody, ChildBody, ChildrenBody, KindBody, StatBody, SubtreeBody, ZnodeBody};

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
/// The request's header with the request id of a change, beside `?request=`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The answer's header, on a delete: nodes that are gone.
pub const HOLDFAST_DELETED: &str = "holdfast-deleted";
/// Headers of a node's data: what it says about itself.
pub mod node_headers {
    /// `persistent`, `container`, `ephemeral` or `ttl`.
    pub const KIND: &str = "holdfast-kind";
    /// Changes of its data; the same as `ETag`.
    pub const VERSION: &str = "holdfast-version";
    /// Children created plus children deleted, ever.
    pub const CHILDREN_VERSION: &str = "holdfast-children-version";
    /// Changes of its access list.
    pub const ACL_VERSION: &str = "holdfast-acl-version";
    /// The revision that created it.
    pub const CREATED_REVISION: &str = "holdfast-created-revision";
    /// The revision that last changed its data.
    pub const MODIFIED_REVISION: &str = "holdfast-modified-revision";
    /// The revision that last created or deleted a child of it.
    pub const CHILDREN_REVISION: &str = "holdfast-children-revision";
    /// When it was created, milliseconds of the Unix epoch.
    pub const CREATED_AT_MS: &str = "holdfast-created-at-ms";
    /// When its data was last changed, milliseconds of the Unix epoch.
    pub const MODIFIED_AT_MS: &str = "holdfast-modified-at-ms";
    /// Children it has now.
    pub const CHILDREN: &str = "holdfast-children";
    /// Of an ephemeral: the number of its session.
    pub const SESSION_NUMBER: &str = "holdfast-session-number";
    /// Of a node with a time-to-live: milliseconds.
    pub const TTL_MS: &str = "holdfast-ttl-ms";
}
