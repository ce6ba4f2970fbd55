//! Every refusal and failure of ours as an error of `ZooKeeper`, in two tables without a default.
//!
//! Owns which number each has, and whether the connection can go on. Refuses to know which request it is an answer
//! to, but for the paths: those are `writes.rs`'s.
//!
//! A failure that leaves open what was done, or that another node would not have, is told by closing the connection:
//! the client takes every request without a reply for unknown, connects elsewhere and goes on with its session. An
//! error would let what it had pipelined behind be done all the same.

use holdfast_service::Failure;
use holdfast_types::{Bound, Rejection};
use holdfast_zkwire::ErrorCode;

/// What the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The error, and the connection goes on.
    Tell(ErrorCode),
    /// The error, then the connection is closed.
    Part(ErrorCode),
    /// The connection is closed without a reply.
    Leave,
}

/// The answer to a request that failed.
pub(crate) fn verdict(failure: &Failure) -> Verdict {
    match failure {
        Failure::Rejected(rejection) => {
            let code = error_code(rejection);
            let over = matches!(code, ErrorCode::SessionExpired | ErrorCode::SessionMoved);
            if over { Verdict::Part(code) } else { Verdict::Tell(code) }
        }
        Failure::TooManyWatches { .. } => Verdict::Tell(ErrorCode::QuotaExceeded),
        Failure::Overloaded { .. } | Failure::TooManyWaiters { .. } => {
            Verdict::Tell(ErrorCode::ThrottledOp)
        }
        Failure::TooLarge => Verdict::Tell(ErrorCode::BadArguments),
        Failure::DiskFull => Verdict::Tell(ErrorCode::SystemError),
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
        | Failure::Failed(_) => Verdict::Leave,
    }
}

/// The error of a rejection; that of a multi is the one of the operation that was refused.
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
        // Only other doors ask for what is refused so.
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
    fn refusals_have_zookeepers_numbers() {
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
    fn what_may_or_may_not_be_done_is_told_by_closing() {
        assert_eq!(verdict(&Failure::OutcomeUnknown), Verdict::Leave);
        assert_eq!(verdict(&Failure::NoLeader), Verdict::Leave);
        let busy = Failure::Overloaded { retry_after: Duration::from_secs(1) };
        assert_eq!(verdict(&busy), Verdict::Tell(ErrorCode::ThrottledOp));
        let session = SessionName::new("s").unwrap();
        let moved = Failure::Rejected(Rejection::SessionMoved { session });
        assert_eq!(verdict(&moved), Verdict::Part(ErrorCode::SessionMoved));
    }
}
