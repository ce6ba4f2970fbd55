//! Spot checks of the table; the compiler checks that it is complete.

use holdfast_types::{
    FencingToken, Labels, LockRejection, Mode, Owner, Perms, QuotaKind, Reason, SessionRejection,
    TreeRejection, ZnodePath,
};

use super::*;
use crate::reply::Reply;

fn name(session: &str) -> SessionName {
    SessionName::new(session).unwrap()
}

fn holder() -> HolderView {
    HolderView {
        session: name("web3-77"),
        owner: Owner::unnamed(),
        token: FencingToken(9),
        granted_at: Stamp(1_000),
        hold_count: 1,
        labels: Labels::default(),
        mode: Mode::Exclusive,
        permits: 1,
        slots: Vec::new(),
        upgrading: false,
        ends_at: None,
        value: None,
        durable: None,
    }
}

fn status_of(problem: &Problem) -> u16 {
    of_code(problem.code).as_u16()
}

fn failed(failure: Failure) -> HttpError {
    let (lock, session) = (LockName::new("job").unwrap(), name("me"));
    let context = ErrorContext { lock: Some(&lock), session: Some(&session), now: Stamp(3_000) };
    of_failure(failure, &context)
}

fn rejected(rejection: Rejection) -> HttpError {
    failed(Failure::Rejected(rejection))
}

#[test]
fn exactly_the_codes_with_status_423_429_or_503_are_retryable() {
    for code in ErrorCode::ALL {
        let status = of_code(*code);
        let passes = matches!(status.as_u16(), 423 | 429 | 503);
        assert_eq!(code.retryable(), passes, "{code}");
        assert!(status.is_client_error() || status.is_server_error(), "{code}");
    }
}

#[test]
fn every_code_has_a_next_step_for_a_problem_without_a_hint() {
    for code in ErrorCode::ALL {
        let hint = with_status(problem(*code, "why")).hint.unwrap();
        assert_eq!(hint.contains("again after"), code.retryable(), "{code}: {hint}");
    }
    let own = Box::new(Problem::new(ErrorCode::Internal, "why").hint("its own"));
    assert_eq!(with_status(own).hint.as_deref(), Some("its own"));
}

#[test]
fn a_lock_busy_problem_has_the_holder_and_a_hint_to_queue() {
    let problem =
        rejected(Rejection::Lock(LockRejection::Busy { holder: holder().into(), waiters: 2 }));
    let reply = Reply::problem(problem);
    let expected = r#"{"type":"/errors/lock-busy","title":"The lock is held by another caller","status":423,"code":"lock-busy","retryable":true,"hint":"add the parameter wait=10s to queue","lock":"job","holder":{"session":"web3-77","token":9,"held_for_ms":2000,"hold_count":1,"labels":{},"mode":"exclusive","permits":1},"waiters":2}"#;
    assert_eq!(std::str::from_utf8(&reply.body).unwrap(), expected);
}

#[test]
fn a_not_holder_problem_names_the_holder() {
    let problem = rejected(Rejection::Lock(LockRejection::NotHolder { holder: holder().into() }));
    assert_eq!(status_of(&problem), 409);
    assert_eq!(problem.detail, "'job' is held by 'web3-77', not by 'me'");
}

#[test]
fn a_session_expired_problem_has_a_recovery_hint() {
    let problem = rejected(Rejection::Session(SessionRejection::Expired { session: name("me") }));
    assert_eq!((status_of(&problem), problem.retryable), (410, false));
    let hint =
        "use a new session id, or DELETE /v1/sessions/me to acknowledge the loss and reuse the id";
    assert_eq!(problem.hint.as_deref(), Some(hint));
    let problem = rejected(Rejection::Session(SessionRejection::Unknown { session: name("me") }));
    assert_eq!(problem.code, ErrorCode::SessionExpired);
}

#[test]
fn transient_errors_have_a_retry_delay() {
    for (failure, ms) in [
        (Failure::NoLeader, 0),
        (Failure::OutcomeUnknown, 0),
        (Failure::Lagging, 0),
        (Failure::Behind { disk_full: false }, 0),
        (Failure::Behind { disk_full: true }, 1_000),
        (Failure::DiskFull("free disk space is below the reserve on node 2".to_owned()), 5_000),
        (Failure::ShuttingDown, 1_000),
        (Failure::Starting("waiting for node 3".to_owned()), 1_000),
        (Failure::Overloaded { retry_after: Duration::from_secs(1) }, 1_000),
        (Failure::TooManyWaiters { limit: 7 }, 1_000),
    ] {
        let problem = failed(failure);
        assert_eq!(
            (problem.retryable, problem.facts.retry_after_ms),
            (true, Some(ms)),
            "{problem:?}"
        );
    }
}

#[test]
fn a_sealed_problem_has_the_seal_and_may_be_sent_again() {
    let reason = Reason::new("new machines").unwrap();
    let seal =
        Seal { revision: Revision(1), since: Stamp(1_000), by: None, reason: reason.clone() };
    let problem = rejected(Rejection::Sealed(Box::new(seal)));
    assert_eq!((status_of(&problem), problem.retryable), (503, true));
    assert_eq!(problem.facts.since, Some(Rfc3339Time(Stamp(1_000))));
    assert_eq!((problem.facts.reason, problem.facts.retry_after_ms), (Some(reason), Some(5_000)));
    assert_eq!(problem.detail, "sealed since 1970-01-01T00:00:01Z: new machines; nothing was done");
}

#[test]
fn each_exceeded_bound_has_its_status_and_its_limit() {
    for (bound, status) in [
        (Bound::WaitersPerLock, 429),
        (Bound::Sessions, 403),
        (Bound::Znodes, 403),
        (Bound::QueueEntriesPerSession, 403),
        (Bound::EphemeralsPerSession, 403),
        (Bound::HoldCount, 403),
        (Bound::Counter, 403),
        (Bound::DataBytes, 413),
        (Bound::PathLength, 400),
        (Bound::DeletedAtOnce, 403),
        (Bound::CountedAtOnce, 403),
        (Bound::TreeBytes, 403),
        (Bound::Recipes, 403),
        (Bound::RecipeEntries, 403),
        (Bound::OpsOfMulti, 413),
        (Bound::BytesOfMulti, 413),
        (Bound::MissingDirectories, 413),
        (Bound::AclEntries, 413),
    ] {
        let problem = rejected(Rejection::LimitReached { bound, limit: 5 });
        assert_eq!((status_of(&problem), problem.facts.limit), (status, Some(5)), "{bound:?}");
    }
}

#[test]
fn a_rejection_of_the_tree_has_the_path_and_its_own_facts() {
    let path = ZnodePath::new("/cfg/x").unwrap();
    let moved = Rejection::Tree(TreeRejection::BadVersion { path: path.clone(), actual: 7 });
    let problem =
        rejected(Rejection::Tree(TreeRejection::OfOperation { at: 2, why: Box::new(moved) }));
    assert_eq!(
        (status_of(&problem), problem.facts.version, problem.facts.at),
        (412, Some(7), Some(2))
    );
    assert_eq!(problem.facts.path, Some(path.clone()));
    let problem = rejected(Rejection::Tree(TreeRejection::NotAllowed {
        path: path.clone(),
        needed: Perms::WRITE,
    }));
    assert_eq!((status_of(&problem), problem.facts.needed.as_deref()), (403, Some("w")));
    let below = Rejection::Tree(TreeRejection::NoChildrenForEphemerals { path: path.clone() });
    for (rejection, status, code) in [
        (Rejection::Tree(TreeRejection::NoZnode { path: path.clone() }), 404, ErrorCode::NotFound),
        (
            Rejection::Tree(TreeRejection::ZnodeExists { path: path.clone() }),
            409,
            ErrorCode::ZnodeExists,
        ),
        (Rejection::Tree(TreeRejection::NotEmpty { path: path.clone() }), 409, ErrorCode::NotEmpty),
        (below, 409, ErrorCode::EphemeralParent),
        (Rejection::Tree(TreeRejection::Reserved { path: path.clone() }), 400, ErrorCode::BadName),
        (
            Rejection::Tree(TreeRejection::BadAcl { path: path.clone() }),
            400,
            ErrorCode::InvalidArgument,
        ),
        (
            Rejection::Tree(TreeRejection::QuotaExceeded {
                path,
                quota: QuotaKind::Znodes,
                limit: 5,
                used: 4,
            }),
            403,
            ErrorCode::QuotaExceeded,
        ),
    ] {
        let problem = rejected(rejection);
        assert_eq!((status_of(&problem), problem.code), (status, code));
        assert!(problem.facts.path.is_some() && problem.hint.is_some(), "{problem:?}");
    }
}

#[test]
fn a_revision_compacted_problem_has_the_restart_revision() {
    let problem = failed(Failure::Compacted { restart_from: Revision(90) });
    assert_eq!((status_of(&problem), problem.facts.restart_from), (410, Some(Revision(90))));
    assert!(!problem.retryable);
}
