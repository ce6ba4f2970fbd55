//! The HTTP API as text: parameters, JSON bodies, error codes, durations and paths.
//!
//! The server, the client library and the command line share these definitions: the server parses what clients write. A
//! [`ParamError`] names the error code, the parameter, and what to write instead. There is no I/O and no clock:
//! ages are computed from a stamp that the caller passes in. Bound: the caller's limit on heads and bodies.

mod acl;
mod acquire_stream;
mod audit;
mod auth;
mod cluster;
mod code;
mod duration;
mod election;
mod escape;
mod explain;
mod json_body;
mod lock;
mod member;
mod name_note;
mod param;
mod param_list;
mod param_value;
pub mod parameters;
mod policy;
mod problem;
mod raw_params;
mod recipe;
#[cfg(feature = "schema")]
mod schema;
mod session;
mod target;
mod time_of_day;
mod tree;
mod znode;

pub use acl::{format_acl_entry, parse_acl_entry};
pub use acquire_stream::{
    AheadBody, EnqueuedBody, EstimateBody, LostBody, QueuedBody, RenewedBody,
};
pub use audit::{AuditBody, AuditEvictedBody, AuditGapBody, AuditGapLine, AuditRecordBody};
pub use auth::{
    AccessTokenBody, AccessTokensBody, AuthBody, CallerBody, ClosedSessionsBody,
    DeniedCertificateBody, DeniedCertificatesBody, FirstAdministratorBody, IssuedTokenBody,
    NamespaceBody, NamespacesBody, RefusalBody, RoleBody, RolesBody, SubjectBody,
    SubjectQuotasBody, SubjectsBody, TokenPolicyBody, VerdictBody,
};
pub use cluster::{
    AlarmBody, AlarmsBody, CheckBody, ClusterBody, FeatureLevelBody, HealthBody, NodeBody,
    NodeLogBody, RecentBody, RecentFigureBody, VersionBody,
};
pub use code::{ErrorCode, UnknownCode};
pub use duration::{DURATION_MAX, DurationError, format_duration, parse_duration};
pub use election::{
    CandidateBody, ElectedBody, ElectionBody, LeaderBody, LeadershipBody, election_lock,
    election_of,
};
pub use escape::{EscapeError, escape_path, escape_query, unescape_path, unescape_query};
pub use explain::{
    ContentionBody, DurationStatsBody, ExplainedBody, HistoryBody, PastHoldBody, WaitLinkBody,
};
pub use holdfast_types::format_time;
pub use holdfast_types::{CooldownCause, Mode, QueueOrder};
pub use json_body::JsonBody;
pub use lock::{
    FenceBody, ForceReleasedBody, GrantAllBody, GrantBody, HandedOverBody, HolderBody, LockBody,
    LocksBody, ReleaseRequestBody, ReleaseRequestedBody, WaiterBody, named_owner,
};
pub use member::{
    InvitedMemberBody, JoinToken, NotJoinToken, SealBody, StateVerificationBody,
    TransferredLeadershipBody, VerifiedMemberBody, VerifiedState,
};
pub use param::{Absent, Form, Param};
pub use param_list::{ParamList, nearest, object_schema};
pub use param_value::{CallParams, CountOrNone, ParamField, ParamValue, missing};
pub use parameters::{KEEPALIVE_SESSIONS_MAX, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX, WAIT_MAX};
pub use policy::{CooldownBody, PolicyBody, ShardBody};
pub use problem::{Facts, ParamError, Problem};
pub use raw_params::{JsonPairs, RawParams};
pub use recipe::{
    BarrierBody, BreachCauseBody, CounterBody, LatchBody, LatchCountBody, LeftBody,
    ListedRecipeBody, RecipeFacts, RecipesBody, TrippedBody,
};
#[cfg(feature = "schema")]
pub use schema::Schemas;
pub use session::{
    EventBody, EventKind, GapBody, HoldBody, KeepaliveBody, KeepaliveManyBody, SessionBody,
    SessionEventsBody, SessionsBody,
};
pub use target::{
    Query, RECIPES_PATH, TREE_QUOTAS_PATH, access_token_path, barrier_path, counter_path,
    denied_certificate_path, double_barrier_path, election_path, fence_path, force_release_path,
    history_path, keepalive_path, latch_path, lock_path, namespace_path, policy_path, quotas_path,
    release_request_path, role_path, session_path, subject_path, transfer_path, tree_path,
    tree_quota_path,
};
pub use time_of_day::{Rfc3339Time, parse_time};
pub use tree::{
    ChangeBody, ChangeKind, OpBody, TreeQuotaBody, TreeQuotaLimits, TreeQuotaUse, TreeQuotasBody,
    TxnBody, WatchBody, path_of,
};
pub use znode::{
    AclBody, ChildBody, ChildrenBody, StatBody, SubtreeBody, ZnodeBody, ZnodeKindBody,
};

/// The media type of [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";
/// The media type of a backup.
pub const BACKUP_MEDIA: &str = "application/vnd.holdfast.backup";
/// Response header: the fencing token of a grant.
pub const FENCING_TOKEN: &str = "fencing-token";
/// Response header: the id of the node that sent the response.
pub const HOLDFAST_NODE: &str = "holdfast-node";
/// Response header: the id of the current leader, or `none`.
pub const HOLDFAST_LEADER: &str = "holdfast-leader";
/// Response header: the revision of the response.
pub const HOLDFAST_REVISION: &str = "holdfast-revision";
/// Request and response header: the id of the call in log lines; generated if the request has no valid one.
pub const HOLDFAST_REQUEST_ID: &str = "holdfast-request-id";
/// Response header of a release: the number of attempts that still hold the lock.
pub const HOLDFAST_HOLD_COUNT: &str = "holdfast-hold-count";
/// Response header of a stale read: the revision of the read.
pub const HOLDFAST_APPLIED_REVISION: &str = "holdfast-applied-revision";
/// Response header of a stale read: milliseconds since the last message from a leader.
pub const HOLDFAST_LEADER_CONTACT_MS: &str = "holdfast-leader-contact-ms";
/// Request header: the request id of a change, the same as `?request=`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Response header of a delete: the number of deleted znodes.
pub const HOLDFAST_DELETED: &str = "holdfast-deleted";
/// Response headers of a znode's data: its stat.
pub mod node_headers {
    /// `persistent`, `container`, `ephemeral` or `ttl`.
    pub const KIND: &str = "holdfast-kind";
    /// The number of changes of the data; the same as `ETag`.
    pub const VERSION: &str = "holdfast-version";
    /// The number of created children plus the number of deleted children.
    pub const CHILDREN_VERSION: &str = "holdfast-children-version";
    /// The number of changes of the access list.
    pub const ACL_VERSION: &str = "holdfast-acl-version";
    /// The revision that created the znode.
    pub const CREATED_REVISION: &str = "holdfast-created-revision";
    /// The revision that last changed the data.
    pub const MODIFIED_REVISION: &str = "holdfast-modified-revision";
    /// The revision that last created or deleted a child.
    pub const CHILDREN_REVISION: &str = "holdfast-children-revision";
    /// The time of creation.
    pub const CREATED_AT: &str = "holdfast-created-at";
    /// The time of the last change of the data.
    pub const MODIFIED_AT: &str = "holdfast-modified-at";
    /// The current number of children.
    pub const CHILDREN: &str = "holdfast-children";
    /// The session number of an ephemeral znode.
    pub const SESSION_NUMBER: &str = "holdfast-session-number";
    /// The time-to-live of a `ttl` znode, milliseconds.
    pub const TTL_MS: &str = "holdfast-ttl-ms";
}
