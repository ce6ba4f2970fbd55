//! What all calls of the service share: the caller, the freshness of a read, the response with its position in the log, and the
//! reasons of a failure.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use holdfast_machine::Machine;
use holdfast_types::{
    Actor, AuthRejection, CertificateName, Identity, LatchView, LockView, LossCause, QuotaFull,
    QuotaOwner, Rejection, Revision, SessionName, SessionRejection, SessionStatus, TreeRejection,
};

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Whose permissions the call has.
    pub actor: Actor,
    /// The certificate that proves the subject of the actor; `None` for other actors.
    pub certificate: Option<CertificateName>,
    /// The proven identities, for the access lists of znodes. `world:anyone` is implied.
    pub identities: Vec<Identity>,
}

impl Principal {
    pub fn anonymous() -> Self {
        Self::of(Actor::Anonymous)
    }

    pub fn of(actor: Actor) -> Self {
        Self { actor, certificate: None, identities: Vec::new() }
    }
}

#[derive(Clone, Debug)]
pub struct RequestContext {
    pub principal: Principal,
    /// Identifies the request in logs.
    pub request_id: String,
}

impl RequestContext {
    pub fn anonymous() -> Self {
        Self { principal: Principal::anonymous(), request_id: String::new() }
    }
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The read sees every write acknowledged before it began.
    Linearizable,
    /// The read returns this node's state, labelled with its age.
    Stale,
}

/// A value with the position in the log at which it was true.
#[derive(Clone, Debug)]
pub struct Response<T> {
    pub value: T,
    /// The revision of the write, or of the state that the read returned.
    pub revision: Revision,
    /// For stale reads: the time since this node's last contact with a leader.
    pub leader_contact: Option<Duration>,
}

impl<T> Response<T> {
    /// The response to a write or a linearizable read.
    pub(crate) fn new(value: T, revision: Revision) -> Self {
        Self { value, revision, leader_contact: None }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Response<U> {
        let Self { value, revision, leader_contact } = self;
        Response { value: change(value), revision, leader_contact }
    }
}

/// The reason why a call failed, and the caller's options.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The state machine rejects the command. A retry gives the same result until the state changes.
    Rejected(Rejection),
    /// The wait ended without a grant, and the caller has left the queue.
    WaitTimeout {
        /// The state of the lock at that time.
        lock: Box<LockView>,
        /// Measured from the request's arrival.
        waited: Duration,
        /// Why the cluster ended the wait before its time.
        removed: Option<LossCause>,
    },
    /// The latch or barrier did not open in time.
    NotYet {
        what: NotYet,
        /// Measured from the request's arrival.
        waited: Duration,
    },
    /// The wait is longer than allowed. Nothing was done.
    WaitTooLong {
        /// The longest allowed.
        max: Duration,
    },
    /// No leader is known. Nothing was done; retry soon.
    NoLeader,
    /// The command may or may not take effect. Retry with the same session.
    OutcomeUnknown,
    /// The reply belongs to another command: a bug in holdfast.
    UnexpectedReply,
    /// The queue of commands is full. Nothing was done; retry later.
    Overloaded { retry_after: Duration },
    /// The namespace or subject makes more than `limit` calls per second to this node. Nothing was done.
    RateLimited { owner: QuotaOwner, limit: NonZeroU32, retry_after: Duration },
    /// The caller has too many connections or streams on this node. Nothing was done.
    CallerLimited(Box<QuotaFull>),
    /// Too many calls are parked on this node. Nothing was done.
    TooManyWaiters { limit: usize },
    /// Free disk space is below the reserve on the members that the text names. Nothing was done; reads and renewals continue.
    DiskFull(String),
    /// The command is larger than a log entry may be. Nothing was done.
    TooLarge,
    /// This node lags behind the leader, so the read would be stale. Use another node.
    Behind {
        /// The node cannot catch up because its disk is full.
        disk_full: bool,
    },
    /// This node has not applied the newest revision that the caller has seen. Nothing was done; use another node.
    Lagging,
    /// Too many streams are open on this node. Nothing was done; use another node.
    TooManyStreams { limit: usize },
    /// The stream, or the node, has too many watches. Some requested watches are not armed.
    TooManyWatches {
        /// The bound of one stream.
        limit: usize,
    },
    /// This node is making another backup. Nothing was done; retry later, or use another node.
    BackupInProgress,
    /// The requested changes were discarded. Read the state, then watch from `restart_from`.
    Compacted { restart_from: Revision },
    /// The voters do not allow the change of a member. Nothing was done.
    UnsafeChange {
        /// What was found.
        detail: String,
        /// Whether the caller may accept it.
        can_be_forced: bool,
    },
    /// The program of a member does not know the requested feature level, or the member is unreachable. Nothing was done.
    LevelNotReady(String),
    /// The node is shutting down. Use another node.
    ShuttingDown,
    /// The node has no log yet; the text names the missing condition. Nothing was done.
    Starting(String),
    /// The node cannot trust its disk and has stopped serving.
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// The latch is not at zero.
    Latch(LatchView),
    /// Members are missing. The caller's arrival, if any, is cancelled.
    Arrivals {
        arrived: u32,
        /// The number of members that the barrier needs.
        parties: u32,
    },
    /// Other members are still inside. The caller has left.
    Inside { round: Revision, inside: u32 },
}

impl Failure {
    /// Whether a session of another subject was named.
    pub(crate) fn is_hidden_session(&self) -> bool {
        matches!(self, Self::Rejected(Rejection::Auth(AuthRejection::HiddenSession { .. })))
    }

    /// Removes the operation's index from the rejection of a call with one operation.
    #[must_use]
    pub fn without_op_index(self) -> Self {
        if let Self::Rejected(Rejection::Tree(TreeRejection::OfOperation { why, .. })) = self {
            return Self::Rejected(*why);
        }
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rejected(_) => "the state machine rejected the command",
            Self::WaitTimeout { .. } => "the lock was not granted in time",
            Self::NotYet { .. } => "the condition was not met in time",
            Self::WaitTooLong { .. } => "the wait is longer than allowed",
            Self::NoLeader => "no leader is known",
            Self::OutcomeUnknown => "the outcome is unknown",
            Self::UnexpectedReply => "the reply is not one of this command",
            Self::Overloaded { .. } => "the queue of commands is full",
            Self::RateLimited { .. } => "the caller makes too many calls",
            Self::CallerLimited(_) => "the caller has too many connections or streams",
            Self::TooManyWaiters { .. } => "too many calls are parked on this node",
            Self::TooLarge => "the command is too large",
            Self::Behind { .. } | Self::Lagging => "this node is behind the leader",
            Self::TooManyStreams { .. } => "too many streams are open on this node",
            Self::TooManyWatches { .. } => "too many watches are open on this node",
            Self::BackupInProgress => "this node is making another backup",
            Self::Compacted { .. } => "the requested changes were compacted",
            Self::ShuttingDown => "this node is shutting down",
            Self::UnsafeChange { detail, .. } => return f.write_str(detail),
            Self::LevelNotReady(why)
            | Self::Starting(why)
            | Self::Failed(why)
            | Self::DiskFull(why) => return f.write_str(why),
        })
    }
}

/// Returns the rejection of a request for a session that is not open.
pub(crate) fn session_ended(machine: &Machine, session: &SessionName) -> Rejection {
    let expired = machine.session(session) == SessionStatus::Expired;
    let session = session.clone();
    Rejection::Session(if expired {
        SessionRejection::Expired { session }
    } else {
        SessionRejection::Unknown { session }
    })
}
