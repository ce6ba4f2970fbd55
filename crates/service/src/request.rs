//! What a front-end asks of the service. Names and bounds were checked when the values were made.

use std::time::Duration;

use crate::explain::HistoryRequest;
use crate::keepalive::ListenRequest;
use holdfast_machine::LockFilter;
use holdfast_types::{
    AskRelease, Attempt, Break, Condition, Data, FencingToken, HandOver, Identity, Labels,
    LockName, Mode, Op, Owner, PolicyChange, ReleaseTarget, RequestId, Segments, SessionId,
    SessionName, Ttl, ZnodePath,
};

use crate::recipes::RecipeRequest;

/// Who asks. Locks and sessions are open to everybody; znodes have access lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Nobody in particular.
    Anonymous,
    /// Somebody who has proved to be this, in one or several schemes. `world:anyone` need not be named.
    Known {
        /// All of them.
        identities: Vec<Identity>,
    },
}

impl Principal {
    /// Whom the caller has proved to be.
    pub fn identities(&self) -> &[Identity] {
        match self {
            Self::Anonymous => &[],
            Self::Known { identities } => identities,
        }
    }
}

/// The circumstances of a request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asks.
    pub principal: Principal,
    /// Names the request in logs.
    pub request_id: String,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// It sees every write acknowledged before it began.
    Linearizable,
    /// What this node has, labelled with its age.
    Stale,
}

/// Which tokens a fence check accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceMode {
    /// Only that of the present holder.
    Current,
    /// Any that is not smaller than the smallest of the present holders'; if nobody holds, than the last one.
    Monotonic,
}

/// One thing asked.
#[derive(Clone, Debug)]
pub enum Request {
    /// Take a lock, or renew it if it is the caller's already.
    Acquire(AcquireRequest),
    /// Take several locks at once, or renew them if they are the caller's already.
    AcquireAll(AcquireAllRequest),
    /// Give several locks back at once, or leave their queues.
    ReleaseAll {
        /// Which locks; at most `AcquireAll::LOCKS_MAX`.
        locks: Vec<LockName>,
        /// Whose.
        session: SessionName,
        /// Who within the session.
        owner: Option<Owner>,
        /// The attempt that is given up; none means whatever places there are.
        attempt: Option<Attempt>,
    },
    /// Take places away by an operator's will. Written into the audit trail.
    Break(Break),
    /// Ask holders to give a lock back.
    AskRelease(AskRelease),
    /// Hand a hold to another session.
    HandOver(HandOver),
    /// Change the rules of a lock.
    SetPolicy {
        /// Which lock.
        lock: LockName,
        /// What changes.
        change: PolicyChange,
    },
    /// Give it back, or leave its queue.
    Release {
        /// Which lock.
        lock: LockName,
        /// Whose.
        session: SessionName,
        /// Who within the session.
        owner: Option<Owner>,
        /// What exactly is given up.
        target: ReleaseTarget,
    },
    /// Who holds it and who waits.
    Lock {
        /// Which lock.
        lock: LockName,
        /// How fresh.
        read: ReadMode,
    },
    /// Many locks, by name.
    Locks {
        /// Which ones.
        filter: LockFilter,
        /// Those after this name.
        after: Option<String>,
        /// At most so many.
        limit: usize,
        /// How fresh.
        read: ReadMode,
    },
    /// The same, with everything that explains why it is not free. Linearizable.
    Explain {
        /// Which lock.
        lock: LockName,
    },
    /// Who held a lock when, as this node remembers it.
    History(HistoryRequest),
    /// The locks that are waited for most, as this node knows them.
    Contention {
        /// Names that begin so.
        prefix: String,
        /// At most so many.
        limit: usize,
        /// How fresh.
        read: ReadMode,
    },
    /// Open a session, or renew it.
    OpenSession {
        /// Its name; none lets the server choose.
        session: Option<SessionName>,
        /// Its time-to-live.
        ttl: Option<Ttl>,
        /// Its labels.
        labels: Labels,
    },
    /// Renew a session.
    KeepAlive {
        /// Which.
        session: SessionName,
    },
    /// Renew a session, then wait for what happens to its locks.
    Listen(ListenRequest),
    /// Renew many sessions with one quorum round: at most [`crate::RENEWED_MAX`].
    KeepManyAlive {
        /// Which.
        sessions: Vec<SessionName>,
    },
    /// End somebody's session by an operator's will. Written into the audit trail.
    EndSession {
        /// Which.
        session: SessionName,
        /// The one session of that name that is meant; none means whichever is open.
        incarnation: Option<SessionId>,
        /// Why.
        reason: String,
    },
    /// End a session and release everything it has.
    CloseSession {
        /// Which.
        session: SessionName,
        /// The one session of that name that is meant; none means whichever is open.
        incarnation: Option<SessionId>,
    },
    /// What a session has.
    Session {
        /// Which.
        session: SessionName,
        /// How fresh.
        read: ReadMode,
    },
    /// Many sessions, by name.
    Sessions {
        /// Those after this name.
        after: Option<String>,
        /// At most so many.
        limit: usize,
        /// How fresh.
        read: ReadMode,
    },
    /// Is this token still good?
    Fence {
        /// Of which lock.
        lock: LockName,
        /// The token.
        token: FencingToken,
        /// Which tokens are good.
        mode: FenceMode,
        /// How fresh.
        read: ReadMode,
    },
    /// Change znodes, all or nothing. What an operation is refused for is told as `Rejection::OpRefused`.
    Multi(MultiRequest),
    /// Change one znode. What it is refused for is told as it is.
    Change {
        /// Owner of an ephemeral, keeper of the memo. It must be open; the change does not renew it.
        session: Option<SessionName>,
        /// With a session: a retry under the same id gets the first answer.
        request: Option<RequestId>,
        /// What to do.
        op: Op,
    },
    /// A znode's data and stat.
    Node {
        /// Which.
        path: ZnodePath,
        /// How fresh.
        read: ReadMode,
    },
    /// A znode's children with their stats, by name.
    Children {
        /// Of which.
        path: ZnodePath,
        /// Those after this name.
        after: Option<String>,
        /// At most so many.
        limit: usize,
        /// How fresh.
        read: ReadMode,
    },
    /// A znode and everything below it, by directory and name, with their stats.
    Subtree {
        /// Which.
        path: ZnodePath,
        /// Those after this path.
        after: Option<ZnodePath>,
        /// At most so many.
        limit: usize,
        /// How fresh.
        read: ReadMode,
    },
    /// Something about a latch, a barrier, a double barrier or a counter.
    Recipe(RecipeRequest),
    /// A znode's access list.
    Acl {
        /// Of which.
        path: ZnodePath,
        /// How fresh.
        read: ReadMode,
    },
}

/// See [`Request::Multi`].
#[derive(Clone, Debug, Default)]
pub struct MultiRequest {
    /// Owner of ephemerals, keeper of the memo. It must be open; the change does not renew it.
    pub session: Option<SessionName>,
    /// With a session: a retry under the same id gets the first answer.
    pub request: Option<RequestId>,
    /// All must hold for `then` to be done; with none, they hold.
    pub conditions: Vec<Condition>,
    /// Done in order, each seeing what those before did.
    pub then: Vec<Op>,
    /// Done instead if a condition does not hold.
    pub otherwise: Vec<Op>,
}

/// See [`Request::Acquire`].
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// Which lock.
    pub lock: LockName,
    /// For which session; none gets one made by the server, whose life is the lock's.
    pub session: Option<SessionName>,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// The attempt that this is a copy of.
    pub attempt: Option<Attempt>,
    /// The session's time-to-live.
    pub ttl: Option<Ttl>,
    /// How long to wait for the grant; zero means not at all. At most `ServiceConfig::wait_max`.
    pub wait: Duration,
    /// Labels of a session that is opened by this call.
    pub labels: Labels,
    /// How to hold it; none means exclusively, or as it is held already.
    pub mode: Option<Mode>,
    /// What else it says about the place.
    pub terms: Terms,
}

/// See [`Request::AcquireAll`].
#[derive(Clone, Debug)]
pub struct AcquireAllRequest {
    /// Which locks, in any order; at most `AcquireAll::LOCKS_MAX`.
    pub locks: Vec<LockName>,
    /// For which session; none gets one made by the server, whose life is that of the locks.
    pub session: Option<SessionName>,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// The attempt that this is a copy of.
    pub attempt: Option<Attempt>,
    /// The session's time-to-live.
    pub ttl: Option<Ttl>,
    /// How long to wait for all of them together; zero means not at all. At most `ServiceConfig::wait_max`.
    pub wait: Duration,
    /// Labels of a session that is opened by this call.
    pub labels: Labels,
    /// How to hold them, all alike; none means exclusively.
    pub mode: Option<Mode>,
    /// The longest hold.
    pub max_hold: Option<Duration>,
}

/// What an acquire may say beyond the plain thing; see the fields of [`holdfast_types::Acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Permits of a semaphore.
    pub permits: Option<u32>,
    /// The semaphore's limit.
    pub limit: Option<u32>,
    /// From 0 to [`holdfast_types::Acquire::PRIORITY_MAX`].
    pub priority: u8,
    /// Whether the owner may enter twice.
    pub reentrant: bool,
    /// The longest hold.
    pub max_hold: Option<Duration>,
    /// The shortest, as far as others are concerned.
    pub min_hold: Option<Duration>,
    /// Shown beside the place.
    pub value: Option<Data>,
    /// One segment of the lock, instead of the lock itself.
    pub segments: Option<Segments>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            permits: None,
            limit: None,
            priority: 0,
            reentrant: true,
            max_hold: None,
            min_hold: None,
            value: None,
            segments: None,
        }
    }
}
