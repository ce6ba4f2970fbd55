//! The `ZooKeeper` error of every failure and rejection of the service, in two tables without a default.
//!
//! The connection closes without a reply if the outcome is unknown, or if another node could serve the request. The
//! client then treats every request without a reply as unknown, connects to another node and keeps its session. An error
//! reply would let the requests that the client pipelined behind it be executed. `paths.rs` has the errors of paths.

use holdfast_service::Failure;
use holdfast_types::{Bound, Rejection};
use holdfast_zkwire::ErrorCode;

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
            let session_ended = matches!(code, ErrorCode::SessionExpired | ErrorCode::SessionMoved);
            if session_ended {
                ErrorReply::ReplyAndDisconnect(code)
            } else {
                ErrorReply::Reply(code)
            }
        }
        Failure::TooManyWatches { .. } => ErrorReply::Reply(ErrorCode::QuotaExceeded),
        Failure::Overloaded { .. } | Failure::TooManyWaiters { .. } => {
            ErrorReply::Reply(ErrorCode::ThrottledOp)
        }
        Failure::TooLarge => ErrorReply::Reply(ErrorCode::BadArguments),
        Failure::DiskFull => ErrorReply::Reply(ErrorCode::SystemError),
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
        | Failure::Compacted { .. }
        | Failure::ShuttingDown
        | Failure::Failed(_) => ErrorReply::Disconnect,
    }
}

/// The error of a rejection. A rejected `multi` has the error of the operation that failed.
pub(crate) fn error_code(rejection: &Rejection) -> ErrorCode {
    match rejection {
        Rejection::SessionExpired { .. } | Rejection::NoSession { .. } => ErrorCode::SessionExpired,
        Rejection::SessionMoved { .. } => ErrorCode::SessionMoved,
        Rejection::NoNode { .. } => ErrorCode::NoNode,
        Rejection::NodeExists { .. } => ErrorCode::NodeExists,
        Rejection::NotEmpty { .. } => ErrorCode::NotEmpty,
        Rejection::BadVersion { .. } => ErrorCode::BadVersion,
        Rejection::NoChildrenForEphemerals { .. } => ErrorCode::NoChildrenForEphemerals,
        Rejection::Reserved { .. } | Rejection::SegmentsMismatch { .. } => ErrorCode::BadArguments,
        Rejection::NotAllowed { .. } => ErrorCode::NoAuth,
        Rejection::BadAcl { .. } => ErrorCode::InvalidAcl,
        Rejection::QuotaExceeded { .. } => ErrorCode::QuotaExceeded,
        Rejection::LimitReached { bound, .. } => limit_code(*bound),
        Rejection::OpRefused { why, .. } => error_code(why),
        // Only operations of the HTTP API are rejected with these.
        Rejection::Superseded
        | Rejection::LockBusy { .. }
        | Rejection::LockClosed { .. }
        | Rejection::LimitMismatch { .. }
        | Rejection::PermitsMismatch { .. }
        | Rejection::ModeConflict { .. }
        | Rejection::NotReentrant
        | Rejection::InUse { .. }
        | Rejection::OutOfBounds { .. }
        | Rejection::Deadlock { .. }
        | Rejection::NobodyHolds
        | Rejection::HoldsAlready { .. }
        | Rejection::CannotOvertake
        | Rejection::HasPlace { .. }
        | Rejection::LockReserved { .. }
        | Rejection::MemberRefused { .. }
        | Rejection::NotHolder { .. }
        | Rejection::AttemptOver { .. }
        | Rejection::NodeTaken
        | Rejection::Recipe(_) => ErrorCode::SystemError,
    }
}

fn limit_code(bound: Bound) -> ErrorCode {
    match bound {
        Bound::DataBytes
        | Bound::PathLength
        | Bound::OpsOfMulti
        | Bound::DeletedAtOnce
        | Bound::CountedAtOnce => ErrorCode::BadArguments,
        Bound::AclEntries => ErrorCode::InvalidAcl,
        Bound::Sessions
        | Bound::Znodes
        | Bound::TreeBytes
        | Bound::WaitersPerLock
        | Bound::ContendersPerSession
        | Bound::EphemeralsPerSession
        | Bound::EntriesPerHold
        | Bound::Permits
        | Bound::ValueBytes
        | Bound::Counter
        | Bound::Recipes
        | Bound::RecipePlaces => ErrorCode::QuotaExceeded,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_types::{Perms, SessionName, ZnodePath};

    use super::*;

    #[test]
    fn rejections_have_the_error_numbers_of_zookeeper() {
        let path = ZnodePath::root;
        let session = || SessionName::new("s").unwrap();
        let in_multi = |why| Rejection::OpRefused { at: 3, why: Box::new(why) };
        for (rejection, code) in [
            (Rejection::NoNode { path: path() }, -101),
            (Rejection::NotAllowed { path: path(), needed: Perms::READ }, -102),
            (Rejection::BadVersion { path: path(), actual: 1 }, -103),
            (Rejection::NoChildrenForEphemerals { path: path() }, -108),
            (Rejection::NodeExists { path: path() }, -110),
            (Rejection::NotEmpty { path: path() }, -111),
            (Rejection::SessionExpired { session: session() }, -112),
            (Rejection::NoSession { session: session() }, -112),
            (Rejection::BadAcl { path: path() }, -114),
            (Rejection::SessionMoved { session: session() }, -118),
            (Rejection::QuotaExceeded { path: path(), limit: 1 }, -125),
            (Rejection::Reserved { path: path() }, -8),
            (Rejection::LimitReached { bound: Bound::Znodes, limit: 1 }, -125),
            (in_multi(Rejection::NoNode { path: path() }), -101),
        ] {
            assert_eq!(error_code(&rejection).code(), code, "{rejection:?}");
        }
    }

    #[test]
    fn an_unknown_outcome_closes_the_connection_without_a_reply() {
        assert_eq!(error_reply(&Failure::OutcomeUnknown), ErrorReply::Disconnect);
        assert_eq!(error_reply(&Failure::NoLeader), ErrorReply::Disconnect);
        let busy = Failure::Overloaded { retry_after: Duration::from_secs(1) };
        assert_eq!(error_reply(&busy), ErrorReply::Reply(ErrorCode::ThrottledOp));
        let session = SessionName::new("s").unwrap();
        let moved = Failure::Rejected(Rejection::SessionMoved { session });
        assert_eq!(error_reply(&moved), ErrorReply::ReplyAndDisconnect(ErrorCode::SessionMoved));
    }
}
