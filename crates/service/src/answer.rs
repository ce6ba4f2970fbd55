//! What the service answers, and why it could not.

use std::fmt;
use std::time::Duration;

use holdfast_raft::{ProposeError, ReadError};
use holdfast_types::{
    AclEntry, Data, FenceView, FencingToken, Grant, LockView, NodeId, OpReply, Page, Policy,
    Rejection, Released, Revision, SessionName, SessionView, Stat, Ttl,
};

use crate::contention::LockTimes;
use crate::explain::{Explanation, LockHistory};
use crate::notices::Heard;
use crate::recipes::{NotYet, RecipeAnswer};

/// An answer with the position in the log it was true at.
#[derive(Clone, Debug)]
pub struct Response {
    /// The answer.
    pub reply: Answer,
    /// Revision of the write, or the revision the read saw.
    pub revision: Revision,
    /// For stale reads: how long ago this node last heard from a leader.
    pub leader_contact: Option<Duration>,
}

/// One answer to each kind of request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The caller holds the lock.
    Granted {
        /// The hold.
        grant: Grant,
        /// From the request's arrival to this answer.
        waited: Duration,
        /// What is certainly left of the lease at the moment of this answer. A client that counts
        /// `waited + expires_in` from the moment it *sent* the request gives up before the server does.
        expires_in: Duration,
    },
    /// The caller holds all the locks that it asked for at once.
    GrantedAll {
        /// The holds, by the locks' names.
        grants: Vec<Grant>,
        /// From the request's arrival to this answer.
        waited: Duration,
        /// What is certainly left of the lease, as in [`Answer::Granted`].
        expires_in: Duration,
    },
    /// The caller no longer holds or waits for any of the locks.
    ReleasedAll {
        /// Places given up.
        changed: u32,
    },
    /// Places were taken away.
    Broken {
        /// How many.
        places: u32,
    },
    /// Holders are asked to give the lock back.
    ReleaseAsked {
        /// How many.
        holders: u32,
    },
    /// Another session holds the lock now, as this says.
    HandedOver(Grant),
    /// The caller no longer holds or waits.
    Released(Released),
    /// The rules of a lock.
    Policy(Policy),
    /// One lock.
    Lock(LockView),
    /// One lock, and why it is not free.
    Explained(Box<Explanation>),
    /// Who held a lock when.
    History(LockHistory),
    /// The locks that are waited for most.
    Contention(Vec<(LockView, Option<LockTimes>)>),
    /// A session that was renewed, and what happened to its locks.
    Heard {
        /// What it has.
        view: SessionView,
        /// What is certainly left of its lease at the moment of this answer.
        expires_in: Duration,
        /// From the request's arrival to this answer.
        waited: Duration,
        /// What happened.
        heard: Heard,
    },
    /// What became of each of many renewals, in order: what a session lives, and what is certainly left of it.
    KeptAlive(Vec<KeptAlive>),
    /// A page of locks.
    Locks(Page<LockView>),
    /// One session.
    Session {
        /// What it has.
        view: SessionView,
        /// True if the call opened it.
        created: bool,
        /// What is certainly left of its lease.
        expires_in: Duration,
    },
    /// A page of sessions.
    Sessions(Page<SessionView>),
    /// The session has ended.
    SessionClosed,
    /// Whether a token is good.
    Fence {
        /// The verdict.
        valid: bool,
        /// The token asked about.
        token: FencingToken,
        /// The lock's tokens.
        view: FenceView,
    },
    /// Znodes are changed.
    Multi {
        /// Whether the conditions held: `then` was done, or else `otherwise`.
        succeeded: bool,
        /// One to each operation done, in order.
        results: Vec<OpReply>,
    },
    /// One znode is changed.
    Changed(OpReply),
    /// A znode.
    Node {
        /// Its stat.
        stat: Stat,
        /// Its data.
        data: Data,
    },
    /// A page of a znode's children.
    Children(Page<holdfast_types::NodeView>),
    /// A page of a subtree.
    Subtree(Page<holdfast_types::NodeView>),
    /// About a latch, a barrier, a double barrier or a counter.
    Recipe(RecipeAnswer),
    /// A znode's access list.
    Acl {
        /// The list, with hashes masked for those who may not change it.
        acl: Vec<AclEntry>,
        /// The znode's stat.
        stat: Stat,
    },
}

/// What became of one renewal of many.
#[derive(Clone, Debug)]
pub struct KeptAlive {
    /// Of which session.
    pub session: SessionName,
    /// What it lives, and what is certainly left of it; or why it was not renewed.
    pub renewed: Result<(Ttl, Duration), Failure>,
}

/// Why there is no answer. Each says what the caller may do.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The machine refused: the same on every node, asking again gives the same until something changes.
    Rejected(Rejection),
    /// The wait ended without a grant; the caller is no longer in the queue.
    WaitTimeout {
        /// The lock as it was then.
        lock: Box<LockView>,
        /// From the request's arrival.
        waited: Duration,
    },
    /// What the caller waited for at a latch or a barrier has not happened.
    NotYet {
        /// What.
        what: NotYet,
        /// From the request's arrival.
        waited: Duration,
    },
    /// The wait is longer than allowed. Nothing was done.
    WaitTooLong {
        /// The longest allowed.
        max: Duration,
    },
    /// No leader is known. Nothing was done; ask again soon.
    NoLeader,
    /// No answer came: it may or may not have been done. Ask again with the same session.
    OutcomeUnknown,
    /// Too much is queued. Nothing was done; ask again after a while.
    Overloaded {
        /// How long a while.
        retry_after: Duration,
    },
    /// Too many callers are parked on this node. Nothing was done.
    TooManyWaiters {
        /// The bound.
        limit: usize,
    },
    /// Too little disk is left. Nothing was done; reads and renewals go on.
    DiskFull,
    /// The command is larger than an entry may be. Nothing was done.
    TooLarge,
    /// This node lags behind the leader, so the read would be stale. Ask another node.
    Behind {
        /// Whether it cannot catch up because its disk is full.
        disk_full: bool,
    },
    /// This node has not applied what the caller has seen elsewhere. Nothing was done; ask another one.
    Lagging,
    /// Too many streams are open on this node, or too many watch it. Nothing was done; ask another one.
    TooManyStreams {
        /// The bound.
        limit: usize,
    },
    /// The stream has too many watches, or all streams of the node together. Not all that was asked for is armed.
    TooManyWatches {
        /// The stream's bound.
        limit: usize,
    },
    /// Changes that were asked for are forgotten. Look at the state anew, then watch from there.
    Compacted {
        /// From where on.
        restart_from: Revision,
    },
    /// The node is about to stop. Ask another one.
    ShuttingDown,
    /// The node has no log yet, and waits for what is said here. Nothing was done.
    Starting(String),
    /// The node cannot trust its disk and serves nothing any more.
    Failed(String),
}

impl Failure {
    /// The failure of a call that made one operation: what that was refused for, without its place.
    #[must_use]
    pub fn of_one_op(self) -> Self {
        if let Self::Rejected(Rejection::OpRefused { why, .. }) = self {
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
            Self::Overloaded { .. } => "too much is queued",
            Self::TooManyWaiters { .. } => "too many callers wait on this node",
            Self::DiskFull => "too little disk is left",
            Self::TooLarge => "the command is too large",
            Self::Behind { .. } | Self::Lagging => "this node is behind the leader",
            Self::TooManyStreams { .. } => "too many streams are open on this node",
            Self::TooManyWatches { .. } => "too many watches are open on this node",
            Self::Compacted { .. } => "the changes asked for were compacted",
            Self::ShuttingDown => "this node is shutting down",
            Self::Starting(why) | Self::Failed(why) => return f.write_str(why),
        })
    }
}

impl From<ProposeError> for Failure {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NoLeader => Self::NoLeader,
            ProposeError::Unknown => Self::OutcomeUnknown,
            ProposeError::Overloaded => Self::Overloaded { retry_after: Duration::from_secs(1) },
            ProposeError::DiskFull => Self::DiskFull,
            ProposeError::TooLarge => Self::TooLarge,
            ProposeError::ShuttingDown => Self::ShuttingDown,
            ProposeError::Failed => Self::Failed("the node has stopped".to_owned()),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NoLeader => Self::NoLeader,
            ReadError::Lagging => Self::Behind { disk_full: false },
            ReadError::Overloaded => Self::Overloaded { retry_after: Duration::from_secs(1) },
            ReadError::ShuttingDown => Self::ShuttingDown,
            ReadError::Failed => Self::Failed("the node has stopped".to_owned()),
        }
    }
}

/// A node's part in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It orders the log.
    Leader,
    /// It follows a leader.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It receives the log without a vote.
    Learner,
    /// It answers, but has failed or is about to stop.
    Stopped,
    /// It did not answer.
    Unreachable,
}

/// The cluster as one node sees it.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// Its name.
    pub cluster: String,
    /// The present term.
    pub term: u64,
    /// Who leads, as far as this node knows.
    pub leader: Option<NodeId>,
    /// All members, by id.
    pub nodes: Vec<NodeView>,
}

/// One member.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its id.
    pub id: NodeId,
    /// Its part.
    pub role: Role,
    /// Where clients reach it.
    pub http: String,
    /// Where nodes reach it.
    pub peer: String,
    /// Where `ZooKeeper` clients reach it.
    pub zookeeper: String,
    /// The last revision it has applied.
    pub applied: Revision,
    /// Digest of what it has applied so far.
    pub digest: u64,
    /// It answered and knows a leader.
    pub healthy: bool,
}

/// One thing that must hold for a node to be well.
#[derive(Clone, Debug)]
pub struct Check {
    /// Short name.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// What was found.
    pub detail: String,
}

/// A node's health.
#[derive(Clone, Debug)]
pub struct Health {
    /// If any fails, the process should be restarted.
    pub live: Vec<Check>,
    /// If any fails, traffic should go elsewhere.
    pub ready: Vec<Check>,
}
