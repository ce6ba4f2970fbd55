//! Failures of a call: code, status, text, hint and facts. After an acquire, 2xx means that the caller holds the lock,
//! and 423 that it does not.
//!
//! No `match` has a wildcard arm, so a new code, rejection or failure compiles only with an error here. A busy lock
//! gets 423 because `curl --retry` repeats 408, 429 and 503, but not 423, 409 and 412. So curl retries on an
//! unavailable cluster and never on a busy lock.

mod administration;
mod lock;
mod node;

use std::borrow::Cow;
use std::time::Duration;

use axum::http::StatusCode;

use holdfast_api::{
    ErrorCode, Facts, HolderBody, Problem, Rfc3339Time, format_duration, format_time,
};
use holdfast_service::Failure;
use holdfast_types::{
    Bound, Cooldown, CooldownCause, HolderView, LockName, LockRejection, LockView, LossCause,
    Rejection, Revision, Seal, SessionName, SessionRejection, Stamp, TreeRejection,
};

/// The problem that the client receives.
pub(crate) type HttpError = Box<Problem>;

/// The retry delay for errors that end with an election: the call has waited for it already.
const AT_ONCE: Duration = Duration::ZERO;
/// The retry delay for other transient errors.
const SOON: Duration = Duration::from_secs(1);
/// The retry delay for errors that an operator has to fix.
const LATER: Duration = Duration::from_secs(5);

/// The names and the time in an error text.
#[derive(Debug)]
pub(crate) struct ErrorContext<'a> {
    pub(crate) lock: Option<&'a LockName>,
    pub(crate) session: Option<&'a SessionName>,
    /// The log's time, to compute ages.
    pub(crate) now: Stamp,
}

/// The problem with the status of its code, and with a hint.
pub(crate) fn with_status(mut problem: HttpError) -> HttpError {
    problem.status = of_code(problem.code).as_u16();
    problem.hint =
        problem.hint.filter(|hint| !hint.is_empty()).or_else(|| Some(next_step(problem.code)));
    problem
}

/// The hint of a problem without a hint of its own.
fn next_step(code: ErrorCode) -> Cow<'static, str> {
    const STEPS: [(ErrorCode, &str); 6] = [
        (ErrorCode::InvalidArgument, "correct the call: GET /docs lists all parameters"),
        (ErrorCode::BadName, "choose a name that follows the rules: GET /errors/bad-name"),
        (ErrorCode::QuotaExceeded, "close, release or delete something first"),
        (ErrorCode::LimitMismatch, "request at most as many permits as the limit"),
        (ErrorCode::PayloadTooLarge, "send less in one call"),
        (
            ErrorCode::Internal,
            "read the state before you repeat a change, and search this node's log for the request id",
        ),
    ];
    match STEPS.iter().find(|(of, _)| *of == code) {
        Some((_, step)) => (*step).into(),
        None if code.retryable() => "send the same call again after retry_after_ms".into(),
        None => format!("GET {} shows the next step", code.type_uri()).into(),
    }
}

pub(crate) const fn of_code(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidArgument | ErrorCode::BadDuration | ErrorCode::BadName => {
            StatusCode::BAD_REQUEST
        }
        ErrorCode::Unauthenticated | ErrorCode::TokenExpired => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden | ErrorCode::ForeignSite | ErrorCode::QuotaExceeded => {
            StatusCode::FORBIDDEN
        }
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::NotHolder
        | ErrorCode::AttemptOver
        | ErrorCode::RequestOver
        | ErrorCode::RequestMismatch
        | ErrorCode::ModeConflict
        | ErrorCode::ValueConflict
        | ErrorCode::LimitMismatch
        | ErrorCode::ShardsMismatch
        | ErrorCode::NotReentrant
        | ErrorCode::InUse
        | ErrorCode::Deadlock
        | ErrorCode::EphemeralParent
        | ErrorCode::ZnodeExists
        | ErrorCode::NotEmpty
        | ErrorCode::HasAdministrator
        | ErrorCode::LastAdministrator
        | ErrorCode::NamespaceInUse
        | ErrorCode::MembershipInProgress
        | ErrorCode::MembershipUnsafe
        | ErrorCode::LevelTooLow
        | ErrorCode::LevelNotReady
        | ErrorCode::CountMismatch
        | ErrorCode::BarrierBroken
        | ErrorCode::CounterOverflow => StatusCode::CONFLICT,
        ErrorCode::SessionExpired | ErrorCode::RevisionCompacted => StatusCode::GONE,
        ErrorCode::StaleToken | ErrorCode::VersionMismatch => StatusCode::PRECONDITION_FAILED,
        ErrorCode::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::LockBusy
        | ErrorCode::LockInCooldown
        | ErrorCode::WaitTimeout
        | ErrorCode::NotYet => StatusCode::LOCKED,
        ErrorCode::RateLimited | ErrorCode::TooManyWaiters => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::NoLeader
        | ErrorCode::OutcomeUnknown
        | ErrorCode::ShuttingDown
        | ErrorCode::Starting
        | ErrorCode::DiskFull
        | ErrorCode::Sealed => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The text of `/errors/{code}`: the meaning of a code, whether to retry, and what to do next.
pub fn explanation(code: ErrorCode) -> String {
    code.page(of_code(code).as_u16())
}

/// A problem without facts.
pub(crate) fn problem(code: ErrorCode, detail: impl Into<Cow<'static, str>>) -> HttpError {
    Box::new(Problem::new(code, detail))
}

/// A failure of this node, not of the call.
pub(crate) fn internal(detail: impl Into<Cow<'static, str>>) -> HttpError {
    problem(ErrorCode::Internal, detail)
}

/// The error of a call that the service rejected or could not complete.
pub(crate) fn of_failure(failure: Failure, context: &ErrorContext<'_>) -> HttpError {
    match failure {
        Failure::Rejected(rejection) => of_rejection(rejection, context),
        Failure::WaitTimeout { lock, waited, removed } => {
            wait_timeout(*lock, waited, removed, context)
        }
        Failure::NotYet { what, waited } => lock::not_yet(what, waited),
        Failure::WaitTooLong { max } => {
            let detail = format!("wait: one wait is at most {}", format_duration(max));
            let hint = "to wait longer, send the call again after the wait";
            let facts = Facts { parameter: Some("wait".to_owned()), ..Facts::default() };
            Box::new(Problem::new(ErrorCode::BadDuration, detail).hint(hint).facts(facts))
        }
        Failure::NoLeader => transient(ErrorCode::NoLeader, "nothing was done", AT_ONCE),
        Failure::OutcomeUnknown => {
            let detail = "the call was proposed, and no result arrived in time";
            transient(ErrorCode::OutcomeUnknown, detail, AT_ONCE)
        }
        Failure::UnexpectedReply => internal("the reply is not one of this command"),
        Failure::Overloaded { retry_after } => {
            transient(ErrorCode::RateLimited, "nothing was done", retry_after)
        }
        Failure::RateLimited { owner, limit, retry_after } => {
            administration::rate_limited(&owner, limit, retry_after)
        }
        Failure::CallerLimited(full) => {
            let mut problem = administration::full(ErrorCode::RateLimited, &full);
            problem.facts.retry_after_ms = Some(holdfast_types::millis(SOON));
            problem
        }
        Failure::TooManyWaiters { limit } => {
            let limit = u64::try_from(limit).unwrap_or(u64::MAX);
            too_many_waiters("calls waiting on one node", limit)
        }
        Failure::DiskFull(why) => {
            transient(ErrorCode::DiskFull, format!("nothing was done: {why}"), LATER)
        }
        Failure::TooLarge => {
            problem(ErrorCode::PayloadTooLarge, "the call is larger than one log entry may be")
        }
        Failure::UnsafeChange { detail, can_be_forced } => {
            administration::unsafe_change(detail, can_be_forced)
        }
        Failure::LevelNotReady(detail) => administration::level_not_ready(detail),
        Failure::ShuttingDown => shutting_down(),
        Failure::TooManyStreams { limit } | Failure::TooManyWatches { limit } => {
            let limit = u64::try_from(limit).unwrap_or(u64::MAX);
            let mut problem = at_bound(ErrorCode::RateLimited, "watches of one node", limit);
            problem.facts.retry_after_ms = Some(holdfast_types::millis(SOON));
            problem
        }
        Failure::BackupInProgress => {
            let detail = "this node is making another backup, one at a time";
            let mut problem = transient(ErrorCode::RateLimited, detail, LATER);
            problem.hint = Some("wait for its end, or make the backup at another node".into());
            problem
        }
        Failure::Behind { disk_full } => behind(disk_full),
        Failure::Lagging => behind(false),
        Failure::Starting(why) => {
            let facts =
                Facts { retry_after_ms: Some(holdfast_types::millis(SOON)), ..Facts::default() };
            Box::new(Problem::new(ErrorCode::Starting, why).facts(facts))
        }
        Failure::Compacted { restart_from } => compacted(restart_from),
        Failure::Failed(why) => internal(why),
    }
}

/// The error of a stream whose caller may not read any more.
pub(crate) fn denied(rejection: Rejection) -> HttpError {
    of_rejection(rejection, &ErrorContext { lock: None, session: None, now: Stamp(0) })
}

/// Replaces the advice to create a missing znode, for a call that reads or deletes it.
pub(crate) fn without_creation(mut problem: HttpError) -> HttpError {
    if let (ErrorCode::NotFound, Some(path)) = (problem.code, &problem.facts.path) {
        let parent = path.parent().unwrap_or_else(|| path.clone());
        let hint = format!(
            "GET {}?children lists the znodes that exist",
            holdfast_api::tree_path(&parent)
        );
        problem.hint = Some(hint.into());
    }
    problem
}

pub(crate) fn shutting_down() -> HttpError {
    let mut problem = transient(ErrorCode::ShuttingDown, "this node is shutting down", SOON);
    problem.hint = Some("send the same call to another node".into());
    problem
}

/// The error of a watch from a revision that is no longer available.
pub(crate) fn compacted(restart_from: Revision) -> HttpError {
    let detail = format!("changes are available from revision {restart_from} on");
    let hint = format!("read the state again, then watch with ?since={restart_from}");
    let facts = Facts { restart_from: Some(restart_from), ..Facts::default() };
    Box::new(Problem::new(ErrorCode::RevisionCompacted, detail).hint(hint).facts(facts))
}

/// The error of a command that the state machine rejected.
fn of_rejection(rejection: Rejection, context: &ErrorContext<'_>) -> HttpError {
    match rejection {
        Rejection::Lock(rejection) => of_lock_rejection(rejection, context),
        Rejection::Session(rejection) => of_session_rejection(rejection),
        Rejection::Tree(TreeRejection::OfOperation { at, why }) => {
            let mut problem = of_rejection(*why, context);
            problem.facts.at = Some(at);
            problem
        }
        Rejection::Tree(rejection) => node::of_rejection(rejection, context),
        Rejection::Recipe(rejection) => lock::of_recipe_rejection(rejection),
        Rejection::Auth(rejection) => administration::of_auth_rejection(rejection),
        Rejection::Membership(rejection) => administration::of_membership_rejection(rejection),
        Rejection::LimitReached { bound, limit } => of_bound(bound, limit),
        Rejection::QuotaFull(full) => administration::full(ErrorCode::QuotaExceeded, &full),
        Rejection::OutOfBounds { what } => lock::out_of_bounds(what, context),
        Rejection::LevelTooLow { needed } => administration::level_too_low(needed),
        Rejection::LevelStep { level } => administration::not_one_level(level),
        Rejection::Sealed(seal) => sealed(*seal),
        Rejection::OtherSeal { present } => other_seal(present),
        Rejection::NodeIdTaken | Rejection::OtherCluster => unexpected(&rejection),
    }
}

fn sealed(Seal { since, reason, .. }: Seal) -> HttpError {
    let detail = format!("sealed since {}: {reason}; nothing was done", format_time(since));
    let mut problem = transient(ErrorCode::Sealed, detail, LATER);
    problem.hint = Some("send the call again, to the new cluster if it has another address".into());
    problem.facts.since = Some(Rfc3339Time(since));
    problem.facts.reason = Some(reason);
    problem
}

fn other_seal(present: Revision) -> HttpError {
    let detail = format!("the cluster was sealed again, at the revision {present}");
    let hint = "read the reason of the present seal before you end it: GET /v1/cluster";
    Box::new(Problem::new(ErrorCode::VersionMismatch, detail).hint(hint))
}

fn of_session_rejection(rejection: SessionRejection) -> HttpError {
    match rejection {
        SessionRejection::Expired { session } => {
            let detail = format!("the session '{session}' expired: its locks are lost");
            gone(detail, session, "use a new session id")
        }
        SessionRejection::Unknown { session } => {
            let detail = format!("there is no session '{session}': it holds nothing");
            let path = holdfast_api::session_path(&session);
            let facts = Facts { session: Some(session), ..Facts::default() };
            let hint = format!(
                "PUT {path}?ttl=30s opens it; PUT /v1/locks/{{name}} opens its session by itself"
            );
            Box::new(Problem::new(ErrorCode::SessionExpired, detail).hint(hint).facts(facts))
        }
        SessionRejection::IncarnationEnded { session, incarnation } => {
            let detail = format!(
                "incarnation {incarnation} of the session '{session}' has ended: its locks are lost"
            );
            gone(detail, session, "leave out 'incarnation' to open the session again")
        }
        SessionRejection::RequestOver { newest } => {
            let detail =
                "the session remembers no response to this request number; nothing was done now";
            let hint = format!("a later call needs a request number larger than {newest}");
            let facts = Facts { newest_request: Some(newest), ..Facts::default() };
            Box::new(Problem::new(ErrorCode::RequestOver, detail).hint(hint).facts(facts))
        }
        SessionRejection::RequestMismatch { revision } => {
            let detail = format!(
                "the session executed another call with this request number, in revision {revision}"
            );
            let hint = "send the same call again, or a new call with a larger request number";
            Box::new(Problem::new(ErrorCode::RequestMismatch, detail).hint(hint))
        }
        SessionRejection::LeaseRenewed | SessionRejection::Moved { .. } => {
            unexpected(&rejection.into())
        }
    }
}

fn of_lock_rejection(rejection: LockRejection, context: &ErrorContext<'_>) -> HttpError {
    match rejection {
        LockRejection::Busy { holder, waiters } => {
            busy(ErrorCode::LockBusy, Some(*holder), waiters, context)
        }
        LockRejection::InCooldown { cooldown, waiters } => in_cooldown(cooldown, waiters, context),
        LockRejection::Reserved { waiters } => busy(ErrorCode::LockBusy, None, waiters, context),
        LockRejection::NotHolder { holder } => not_holder(*holder, context),
        LockRejection::AttemptOver { newest } => lock::attempt_over(newest, context),
        LockRejection::LimitMismatch { limit } => lock::limit_mismatch(limit, context),
        LockRejection::PermitsMismatch { permits } => lock::permits_mismatch(permits, context),
        LockRejection::ShardsMismatch { shards } => lock::shards_mismatch(shards, context),
        LockRejection::ModeConflict { mode, why } => lock::mode_conflict(mode, why, context),
        LockRejection::ValueConflict => lock::value_conflict(context),
        LockRejection::NotReentrant => lock::not_reentrant(context),
        LockRejection::InUse { entries } => lock::in_use(entries, context),
        LockRejection::Deadlock { cycle } => lock::deadlock(&cycle, context),
        LockRejection::NotHeld => lock::not_held(context),
        LockRejection::AlreadyHolds { holder } => lock::already_holds(&holder, context),
        LockRejection::CannotOvertake => lock::cannot_overtake(context),
        LockRejection::ForeignRecipe { path } => lock::foreign_recipe(&path, context),
        LockRejection::AlreadyQueued { lock } => lock::already_queued(&lock, context),
        LockRejection::OfMultiLock { lock, why } => {
            of_rejection(*why, &ErrorContext { lock: Some(&lock), ..*context })
        }
    }
}

fn unexpected(rejection: &Rejection) -> HttpError {
    internal(format!("unexpected rejection of this call: {rejection:?}"))
}

fn of_bound(bound: Bound, limit: u64) -> HttpError {
    use ErrorCode::{BadName, LimitMismatch, PayloadTooLarge, QuotaExceeded};
    let (code, what) = match bound {
        Bound::WaitersPerLock => return too_many_waiters("waiters of one lock", limit),
        Bound::DataBytes => (PayloadTooLarge, "bytes of data in one znode"),
        Bound::PathLength => (BadName, "bytes of a path"),
        Bound::Sessions => (QuotaExceeded, "sessions"),
        Bound::Znodes => (QuotaExceeded, "znodes"),
        Bound::TreeBytes => {
            (QuotaExceeded, "bytes of names, data, access lists, values and labels in the cluster")
        }
        Bound::QueueEntriesPerSession => (QuotaExceeded, "locks held or waited for by one session"),
        Bound::EphemeralsPerSession => (QuotaExceeded, "ephemeral znodes of one session"),
        Bound::HoldCount => (QuotaExceeded, "attempts that share one hold"),
        Bound::Counter => {
            (QuotaExceeded, "changes of the children of one znode, or fencing tokens")
        }
        Bound::DeletedAtOnce => (QuotaExceeded, "znodes deleted by one call"),
        Bound::Recipes => (QuotaExceeded, "latches, barriers and counters"),
        Bound::RecipeEntries => (
            QuotaExceeded,
            "latch keys and barrier arrivals that one session, latch or double barrier keeps",
        ),
        Bound::OpsOfMulti => (PayloadTooLarge, "conditions and operations of one call"),
        Bound::BytesOfMulti => (PayloadTooLarge, "bytes that one call adds"),
        Bound::MissingDirectories => (PayloadTooLarge, "missing directories that one call creates"),
        Bound::AclEntries => (PayloadTooLarge, "entries of one access list"),
        Bound::CountedAtOnce => (QuotaExceeded, "znodes below a new quota"),
        Bound::Permits => (LimitMismatch, "permits of the semaphore"),
        Bound::ValueBytes => (PayloadTooLarge, "bytes of a value"),
        Bound::AccessTokens => (QuotaExceeded, "access tokens"),
        Bound::Subjects => (QuotaExceeded, "subjects"),
        Bound::Roles => (QuotaExceeded, "roles"),
        Bound::Permissions => (QuotaExceeded, "permissions of one role"),
        Bound::RolesOfSubject => (QuotaExceeded, "roles of one subject"),
        Bound::Namespaces => (QuotaExceeded, "namespaces"),
        Bound::DeniedCertificates => (QuotaExceeded, "denied certificates"),
        Bound::CertificatesOfSubject => (QuotaExceeded, "certificates of one subject"),
    };
    at_bound(code, what, limit)
}

fn at_bound(code: ErrorCode, bound: &'static str, limit: u64) -> HttpError {
    let facts = Facts { bound: Some(bound.into()), limit: Some(limit), ..Facts::default() };
    Box::new(Problem::new(code, format!("{bound}: at most {limit}")).facts(facts))
}

fn too_many_waiters(bound: &'static str, limit: u64) -> HttpError {
    let mut problem = at_bound(ErrorCode::TooManyWaiters, bound, limit);
    problem.facts.retry_after_ms = Some(holdfast_types::millis(SOON));
    problem
}

/// A transient error: the same call may succeed later.
fn transient(
    code: ErrorCode,
    detail: impl Into<Cow<'static, str>>,
    retry_after: Duration,
) -> HttpError {
    let facts =
        Facts { retry_after_ms: Some(holdfast_types::millis(retry_after)), ..Facts::default() };
    Box::new(Problem::new(code, detail).facts(facts))
}

/// The error of a node that lags behind other nodes.
fn behind(disk_full: bool) -> HttpError {
    let mut problem = if disk_full {
        let detail = "the disk of this node is full, so the newest writes are missing here";
        transient(ErrorCode::DiskFull, detail, SOON)
    } else {
        let detail = "this node has not caught up with the leader in time";
        transient(ErrorCode::NoLeader, detail, AT_ONCE)
    };
    problem.hint = Some("send the same call to another node".into());
    problem
}

fn gone(detail: String, session: SessionName, fix: &str) -> HttpError {
    let path = holdfast_api::session_path(&session);
    let hint = format!("{fix}, or DELETE {path} to acknowledge the loss and reuse the id");
    let facts = Facts { session: Some(session), ..Facts::default() };
    Box::new(Problem::new(ErrorCode::SessionExpired, detail).hint(hint).facts(facts))
}

fn busy(
    code: ErrorCode,
    holder: Option<HolderView>,
    waiters: u32,
    context: &ErrorContext<'_>,
) -> HttpError {
    let queued = code == ErrorCode::WaitTimeout;
    let hint = if queued {
        "send the call again, with a larger attempt if it named one, to queue again"
    } else {
        "add the parameter wait=10s to queue"
    };
    let facts = Facts {
        lock: context.lock.cloned(),
        holder: holder.map(|holder| Box::new(HolderBody::new(holder, context.now))),
        waiters: Some(waiters),
        ..Facts::default()
    };
    Box::new(Problem::new(code, "").hint(hint).facts(facts))
}

/// The error for a lock that is free but in its cooldown.
fn in_cooldown(cooldown: Cooldown, waiters: u32, context: &ErrorContext<'_>) -> HttpError {
    let left = cooldown.until.0.saturating_sub(context.now.0);
    let why = match cooldown.cause {
        CooldownCause::MinHold => "its last holder set min_hold",
        CooldownCause::Cooldown => "its policy has a cooldown",
        CooldownCause::LockDelay => {
            "its last holder may not know that it lost the lock (lock_delay)"
        }
    };
    let detail = format!("the lock is free, but is not granted for another {left} ms: {why}");
    let facts = Facts {
        lock: context.lock.cloned(),
        waiters: Some(waiters),
        retry_after_ms: Some(left),
        ..Facts::default()
    };
    let hint = "add the parameter wait=10s to queue";
    Box::new(Problem::new(ErrorCode::LockInCooldown, detail).hint(hint).facts(facts))
}

/// `removed` is the cause if the cluster ended the wait before its time.
fn wait_timeout(
    lock: LockView,
    waited: Duration,
    removed: Option<LossCause>,
    context: &ErrorContext<'_>,
) -> HttpError {
    let waiters = lock.waiters_total;
    let mut problem =
        busy(ErrorCode::WaitTimeout, lock.holders.into_iter().next(), waiters, context);
    // For a sharded lock, the shard that the call waited for.
    problem.facts.lock = context.lock.map(|_| lock.lock);
    problem.facts.waited_ms = Some(holdfast_types::millis(waited));
    if let Some(cause) = removed {
        problem.detail =
            format!("the cluster ended the wait before its time: {}", cause.as_str()).into();
    }
    problem
}

/// The next step of a caller that wants the lock of another one. No hint shows the holder's session as a way in.
fn ask_the_holder(lock: Option<&LockName>) -> String {
    let path = |call: fn(&LockName) -> String, of_any: &str| lock.map_or(of_any.to_owned(), call);
    let ask = path(holdfast_api::release_request_path, "/v1/release-requests/{name}");
    let force = path(holdfast_api::force_release_path, "/v1/force-releases/{name}");
    format!("ask for it: POST {ask}?reason=TEXT; or as operator: POST {force}?reason=TEXT")
}

fn not_holder(holder: HolderView, context: &ErrorContext<'_>) -> HttpError {
    let is_own = context.session == Some(&holder.session);
    let detail = match (context.lock, context.session) {
        (Some(lock), Some(_)) if is_own => {
            format!("'{lock}' is held by another owner of the session '{}'", holder.session)
        }
        (Some(lock), Some(session)) => {
            format!("'{lock}' is held by '{}', not by '{session}'", holder.session)
        }
        _ => format!("held by '{}'", holder.session),
    };
    let hint = if is_own {
        "add the parameter owner=NAME with the owner of the grant".to_owned()
    } else {
        ask_the_holder(context.lock)
    };
    let facts = Facts {
        lock: context.lock.cloned(),
        session: context.session.cloned(),
        holder: Some(Box::new(HolderBody::new(holder, context.now))),
        ..Facts::default()
    };
    Box::new(Problem::new(ErrorCode::NotHolder, detail).hint(hint).facts(facts))
}

#[cfg(test)]
mod tests;
