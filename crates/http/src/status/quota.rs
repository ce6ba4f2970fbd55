//! Errors of the quotas of namespaces and subjects.

use std::num::NonZeroU32;
use std::time::Duration;

use holdfast_api::{ErrorCode, Facts, Problem};
use holdfast_types::{QuotaFull, QuotaKind, QuotaOwner};

use super::HttpError;

/// The owner makes too many calls.
pub(super) fn rate_limited(
    owner: &QuotaOwner,
    limit: NonZeroU32,
    retry_after: Duration,
) -> HttpError {
    let detail = format!("{owner} makes more than {limit} calls per second");
    let facts = Facts {
        retry_after_ms: Some(holdfast_types::millis(retry_after).max(1)),
        bound: Some(bound_of(QuotaKind::CallsPerSecond, owner).into()),
        limit: Some(limit.get().into()),
        ..Facts::default()
    };
    let hint = hint_of_quota(QuotaKind::CallsPerSecond, owner);
    Box::new(Problem::new(ErrorCode::RateLimited, detail).hint(hint).facts(facts))
}

/// A quota has no room.
pub(super) fn full(code: ErrorCode, full: &QuotaFull) -> HttpError {
    let QuotaFull { owner, quota, limit, used } = full;
    let detail = format!("{quota} of {owner}: at most {limit}, and {used} are in use");
    let bound = Some(bound_of(*quota, owner).into());
    let facts = Facts { bound, limit: Some(*limit), ..Facts::default() };
    let hint = hint_of_quota(*quota, owner);
    Box::new(Problem::new(code, detail).hint(hint).facts(facts))
}

fn bound_of(quota: QuotaKind, owner: &QuotaOwner) -> String {
    let owner = match owner {
        QuotaOwner::Namespace(_) => "namespace",
        QuotaOwner::Subject(_) => "subject",
    };
    format!("{quota} of the {owner}")
}

fn hint_of_quota(quota: QuotaKind, owner: &QuotaOwner) -> String {
    let command = match owner {
        QuotaOwner::Namespace(namespace) => format!("holdfast namespace set {namespace}"),
        QuotaOwner::Subject(subject) => {
            format!("holdfast auth subject set {subject} --quota {quota}=LIMIT")
        }
    };
    let first = match quota {
        QuotaKind::CallsPerSecond => "call less often",
        QuotaKind::Streams | QuotaKind::Connections => "close some, or use another node",
        QuotaKind::Locks
        | QuotaKind::QueueEntries
        | QuotaKind::WaitersPerLock
        | QuotaKind::Sessions
        | QuotaKind::Znodes
        | QuotaKind::Bytes
        | QuotaKind::Recipes => "release or delete something",
    };
    format!("{first}, or ask an administrator: {command}")
}
