//! The domain types of holdfast: ids, names, commands, log entries, outcomes, events and views.
//!
//! Names, paths, lock sets and TTLs are valid by construction; `apply` checks the other bounds. There is no I/O and no
//! behaviour beyond validation. Types in the log or on the wire between nodes derive `Serialize` and `Deserialize`.
//! The order of their variants and fields is part of the format (`docs/contributing/formats/`).

mod acl;
mod address;
mod audit;
mod auth;
mod cluster;
mod command;
mod event;
mod ids;
mod limits;
mod lock_set;
mod name;
mod namespace;
mod nesting;
mod operator;
mod outcome;
mod path;
mod policy;
mod quota;
mod recent_metric;
mod recipe;
mod reply;
#[cfg(feature = "schema")]
mod schema;
mod session;
mod time;
mod tree;
mod view;

pub use acl::{AccessList, AclEntry, Identity, Perms};
pub use address::Address;
pub use audit::{
    AuditAction, AuditClass, AuditEvicted, AuditHash, AuditItem, AuditRecord, Credential,
    PolicyItem, RestoreItem, RestoreSource,
};
pub use auth::{
    AccessTokenId, Actor, AuthChange, AuthMode, AuthRejection, BUILT_IN_ROLES, CertificateId,
    CertificateName, Forbidden, NamePattern, NamespaceItems, NewAccessToken, NotCertificateId,
    OWNER_PROOF_FILE, OtherNamespace, Permission, PermissionError, Right, SecretHash,
    TokenLifetime, TokenPolicy, built_in_role,
};
pub use cluster::{
    FeatureLevel, Invitation, Member, MemberAddresses, MembershipChange, MembershipRejection,
    PendingChange, Retirement, Seal, VotingRole,
};
pub use command::{
    Acquire, AcquireOptions, Cancel, Command, Entry, HoldName, NumberedCall, Release, ReleaseTarget,
};
pub use event::{Applied, Event, LockEvent, LossCause, SessionEvent, TreeEvent};
pub use ids::{
    Attempt, CallScope, ClusterId, FencingToken, Incarnation, NodeId, Password, RequestNumber,
    Revision, SessionId, Ticket,
};
pub use limits::{Bound, Limits};
pub use lock_set::{LockSet, LockSetError, ShardChoice, ShardRequest, ShardView};
pub use name::{
    Labels, LockName, NameError, NamespaceName, Owner, Reason, RecipeName, RequestId, RoleName,
    SessionName, SubjectName, Zone, is_hidden,
};
pub use operator::{
    ForceRelease, ForceReleaseTarget, HandOver, NodeOperation, ReleaseRequest, RequestRelease,
};
pub use outcome::{
    Blocked, EntryState, Grant, LockRejection, ModeConflictReason, MultiReply, OpReply,
    OutOfBounds, Outcome, Queued, Rejection, Released, Reply, SessionOpenedReply, SessionRejection,
    TreeRejection,
};
pub use path::ZnodePath;
pub use policy::{Cooldown, CooldownCause, LockPolicy, Mode, PolicyChange, QueueOrder};
pub use quota::{
    QuotaFull, QuotaKind, QuotaOwner, QuotaZnodes, Quotas, SubtreeLimits, SubtreeQuotaView,
    is_nearly_full,
};
pub use recent_metric::{RecentMetric, RecentUnit};
pub use recipe::{
    Arrive, Arrived, BarrierKind, BarrierView, Breach, BreachCause, CancelArrival, ChangeCounter,
    CounterChange, CounterView, LatchView, LeaveBarrier, LeaveBarrierReply, Recipe, RecipeEvent,
    RecipeKind, RecipeRejection, RecipeReply, RecipeState, RecipeView, Tripped,
};
pub use reply::ArriveReply;
pub use session::{LeaseRecord, OpenSession, SessionEnd, SessionScope};
pub use time::{
    ClockReading, Stamp, TimeJump, Ttl, TtlError, date_of, format_time, micros, millis,
};
pub use tree::{
    CONTAINER_OWNER, Caller, Condition, Create, CreateKind, Data, Multi, Op, Stat, TTL_OWNER,
};
pub use view::{
    FenceView, HolderDetails, HolderView, LockView, NodeView, Page, SessionHold, SessionStatus,
    SessionView, WaiterView,
};
