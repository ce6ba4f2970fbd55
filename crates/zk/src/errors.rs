//! The ZooKeeper error of every failure and rejection of the service, in two tables without a default, and why a connection
//! ends after its handshake.
//!
//! The connection closes without a reply if the outcome is unknown, or if another node could serve the request. The
//! client then treats every request without a reply as unknown, connects to another node and keeps its session. An error
//! reply would let the requests that the client pipelined behind it be executed. `paths.rs` has the errors of paths.
//!
//! A request that was not executed and may succeed later fails with `ConnectionLoss`: Curator and kazoo ask again. They do
//! not after `ThrottledOp`, `NotReadOnly` or `SystemError`: the lock of a release that failed so would stay held.

use std::io;

use holdfast_service::{Failure, StreamEnd};
use holdfast_types::{Bound, LockRejection, Rejection, SessionRejection, TreeRejection};
use holdfast_zkwire::{DecodeError, ErrorCode, FrameError};

use crate::frame_reader::FrameReadError;

/// An error reply, or the end of the connection without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorReply {
    /// The connection stays open.
    Reply(ErrorCode),
    /// The connection closes after the reply.
    ReplyAndDisconnect(ErrorCode),
    /// The connection closes without a reply.
    Disconnect,
}

pub(crate) fn error_reply(failure: &Failure) -> ErrorReply {
    match failure {
        Failure::Rejected(rejection) => {
            let code = error_code(rejection);
            if code == ErrorCode::SessionMoved {
                ErrorReply::Disconnect
            } else if code == ErrorCode::SessionExpired {
                ErrorReply::ReplyAndDisconnect(code)
            } else {
                ErrorReply::Reply(code)
            }
        }
        Failure::TooManyWatches { .. } => ErrorReply::Reply(ErrorCode::QuotaExceeded),
        Failure::Overloaded { .. }
        | Failure::RateLimited { .. }
        | Failure::CallerLimited(_)
        | Failure::TooManyWaiters { .. }
        | Failure::DiskFull(_) => ErrorReply::Reply(ErrorCode::ConnectionLoss),
        Failure::TooLarge => ErrorReply::Reply(ErrorCode::BadArguments),
        Failure::UnsafeChange { .. } | Failure::LevelNotReady(_) => {
            ErrorReply::Reply(ErrorCode::SystemError)
        }
        Failure::WaitTimeout { .. }
        | Failure::NotYet { .. }
        | Failure::WaitTooLong { .. }
        | Failure::NoLeader
        | Failure::OutcomeUnknown
        | Failure::UnexpectedReply
        | Failure::Behind { .. }
        | Failure::Lagging
        | Failure::Starting(_)
        | Failure::TooManyStreams { .. }
        | Failure::BackupInProgress
        | Failure::Compacted { .. }
        | Failure::ShuttingDown
        | Failure::Failed(_) => ErrorReply::Disconnect,
    }
}

/// The error of a rejection. A rejected `multi` has the error of the operation that failed.
pub(crate) fn error_code(rejection: &Rejection) -> ErrorCode {
    match rejection {
        Rejection::Session(rejection) => match rejection {
            SessionRejection::Expired { .. }
            | SessionRejection::Unknown { .. }
            | SessionRejection::IncarnationEnded { .. } => ErrorCode::SessionExpired,
            SessionRejection::Moved { .. } => ErrorCode::SessionMoved,
            // The commands of this front-end have no request number.
            SessionRejection::LeaseRenewed
            | SessionRejection::RequestOver { .. }
            | SessionRejection::RequestMismatch { .. } => ErrorCode::SystemError,
        },
        Rejection::Tree(rejection) => match rejection {
            TreeRejection::NoZnode { .. } => ErrorCode::NoNode,
            TreeRejection::ZnodeExists { .. } => ErrorCode::NodeExists,
            TreeRejection::NotEmpty { .. } => ErrorCode::NotEmpty,
            TreeRejection::BadVersion { .. } => ErrorCode::BadVersion,
            TreeRejection::NoChildrenForEphemerals { .. } => ErrorCode::NoChildrenForEphemerals,
            TreeRejection::Reserved { .. } => ErrorCode::BadArguments,
            TreeRejection::NotAllowed { .. } => ErrorCode::NoAuth,
            TreeRejection::BadAcl { .. } => ErrorCode::InvalidAcl,
            TreeRejection::QuotaExceeded { .. } => ErrorCode::QuotaExceeded,
            TreeRejection::OfOperation { why, .. } => error_code(why),
        },
        Rejection::Auth(_) => ErrorCode::NoAuth,
        Rejection::LimitReached { bound, .. } => limit_code(*bound),
        Rejection::QuotaFull(_) => ErrorCode::QuotaExceeded,
        Rejection::Sealed(_) => ErrorCode::ConnectionLoss,
        Rejection::OtherSeal { .. } => ErrorCode::BadVersion,
        Rejection::Lock(
            LockRejection::ShardsMismatch { .. } | LockRejection::ForeignRecipe { .. },
        ) => ErrorCode::BadArguments,
        // Only operations of the HTTP API are rejected with these.
        Rejection::Lock(_)
        | Rejection::OutOfBounds { .. }
        | Rejection::NodeIdTaken
        | Rejection::Membership(_)
        | Rejection::OtherCluster
        | Rejection::LevelTooLow { .. }
        | Rejection::LevelStep { .. }
        | Rejection::Recipe(_) => ErrorCode::SystemError,
    }
}

fn limit_code(bound: Bound) -> ErrorCode {
    match bound {
        Bound::DataBytes
        | Bound::PathLength
        | Bound::OpsOfMulti
        | Bound::BytesOfMulti
        | Bound::MissingDirectories
        | Bound::DeletedAtOnce
        | Bound::CountedAtOnce => ErrorCode::BadArguments,
        Bound::AclEntries => ErrorCode::InvalidAcl,
        Bound::Sessions
        | Bound::Znodes
        | Bound::TreeBytes
        | Bound::WaitersPerLock
        | Bound::QueueEntriesPerSession
        | Bound::EphemeralsPerSession
        | Bound::HoldCount
        | Bound::Permits
        | Bound::ValueBytes
        | Bound::Counter
        | Bound::Recipes
        | Bound::RecipeEntries
        | Bound::AccessTokens
        | Bound::Subjects
        | Bound::Roles
        | Bound::Permissions
        | Bound::RolesOfSubject
        | Bound::CertificatesOfSubject
        | Bound::DeniedCertificates
        | Bound::Namespaces => ErrorCode::QuotaExceeded,
    }
}

/// Why a connection ends after its handshake.
#[derive(Debug)]
pub(crate) enum Disconnect {
    /// The client closed the connection.
    ByClient,
    /// The client sent nothing for as long as its session timeout.
    Timeout,
    /// The client does not read from its socket.
    WriteTimeout,
    Socket(io::Error),
    /// The length of a frame is invalid.
    Frame(FrameError),
    /// A frame has no complete header.
    Header(DecodeError),
    /// The last reply was an error that ends the connection.
    Error(ErrorCode),
    /// The outcome of a request is unknown, or this node cannot serve it.
    Unavailable,
    /// The stream of the session ended.
    Stream(StreamEnd),
}

impl Disconnect {
    /// The value of the log field `end`.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::ByClient => "closed",
            Self::Timeout => "timeout",
            Self::WriteTimeout => "write-timeout",
            Self::Socket(_) => "socket",
            Self::Frame(_) => "frame",
            Self::Header(_) => "header",
            Self::Error(_) => "error",
            Self::Unavailable => "unavailable",
            Self::Stream(_) => "session",
        }
    }
}

impl From<FrameReadError> for Disconnect {
    fn from(error: FrameReadError) -> Self {
        match error {
            FrameReadError::Closed => Self::ByClient,
            FrameReadError::Socket(error) => Self::Socket(error),
            FrameReadError::Frame(error) => Self::Frame(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_types::{Perms, QuotaKind, Reason, Seal, SessionName, Stamp, ZnodePath};

    use super::*;

    #[test]
    fn rejections_have_the_error_numbers_of_zookeeper() {
        let path = ZnodePath::root;
        let session = || SessionName::new("s").unwrap();
        let in_multi =
            |why| Rejection::Tree(TreeRejection::OfOperation { at: 3, why: Box::new(why) });
        let reason = Reason::new("new machines").unwrap();
        let seal =
            Seal { revision: holdfast_types::Revision(1), since: Stamp(1), by: None, reason };
        for (rejection, code) in [
            (Rejection::Tree(TreeRejection::NoZnode { path: path() }), -101),
            (
                Rejection::Tree(TreeRejection::NotAllowed { path: path(), needed: Perms::READ }),
                -102,
            ),
            (Rejection::Tree(TreeRejection::BadVersion { path: path(), actual: 1 }), -103),
            (Rejection::Tree(TreeRejection::NoChildrenForEphemerals { path: path() }), -108),
            (Rejection::Tree(TreeRejection::ZnodeExists { path: path() }), -110),
            (Rejection::Tree(TreeRejection::NotEmpty { path: path() }), -111),
            (Rejection::Session(SessionRejection::Expired { session: session() }), -112),
            (Rejection::Session(SessionRejection::Unknown { session: session() }), -112),
            (Rejection::Tree(TreeRejection::BadAcl { path: path() }), -114),
            (Rejection::Session(SessionRejection::Moved { session: session() }), -118),
            (
                Rejection::Tree(TreeRejection::QuotaExceeded {
                    path: path(),
                    quota: QuotaKind::Znodes,
                    limit: 1,
                    used: 1,
                }),
                -125,
            ),
            (Rejection::Tree(TreeRejection::Reserved { path: path() }), -8),
            (Rejection::LimitReached { bound: Bound::Znodes, limit: 1 }, -125),
            (Rejection::Sealed(Box::new(seal)), -4),
            (in_multi(Rejection::Tree(TreeRejection::NoZnode { path: path() })), -101),
        ] {
            assert_eq!(error_code(&rejection).code(), code, "{rejection:?}");
        }
    }

    #[test]
    fn an_unknown_outcome_closes_the_connection_without_a_reply() {
        assert_eq!(error_reply(&Failure::OutcomeUnknown), ErrorReply::Disconnect);
        assert_eq!(error_reply(&Failure::NoLeader), ErrorReply::Disconnect);
        let busy = Failure::Overloaded { retry_after: Duration::from_secs(1) };
        assert_eq!(error_reply(&busy), ErrorReply::Reply(ErrorCode::ConnectionLoss));
        let full = Failure::DiskFull("free disk space is below the reserve".to_owned());
        assert_eq!(error_reply(&full), ErrorReply::Reply(ErrorCode::ConnectionLoss));
        let session = SessionName::new("s").unwrap();
        let moved = Failure::Rejected(Rejection::Session(SessionRejection::Moved { session }));
        assert_eq!(error_reply(&moved), ErrorReply::Disconnect);
    }
}
