//! The part of the table that is about kinds of locks: modes, permits, rules.

use holdfast_api::{ErrorCode, Facts, Problem};
use holdfast_types::{Attempt, Blocked, HolderView, LockName, Mode, OutOfBounds};

use super::{Case, Fault, sealed};

pub(super) fn limit_mismatch(limit: Option<u32>, case: &Case<'_>) -> Fault {
    let detail = match limit {
        Some(limit) => format!("its limit is {limit}"),
        None => "it is no semaphore: it has no limit".to_owned(),
    };
    about(ErrorCode::LimitMismatch, detail, "name the limit it has, or have it changed", case)
}

pub(super) fn segments_mismatch(segments: Option<u32>, case: &Case<'_>) -> Fault {
    let (detail, hint) = match segments {
        Some(count) => (
            format!("it is cut into {count} segments, from 0 to {}", count.saturating_sub(1)),
            "ask with the segments it has, or with segment=any",
        ),
        None => (
            "it is one lock: it is not cut into segments".to_owned(),
            "take it without segments, or PATCH it with segments=N while nobody uses it",
        ),
    };
    let mut fault = about(ErrorCode::SegmentsMismatch, detail, hint, case);
    fault.facts.segments = segments;
    fault
}

pub(super) fn permits_mismatch(permits: u32, case: &Case<'_>) -> Fault {
    let detail = format!("the session has {permits} permits of it");
    let hint = "release them first, or name another owner to take more beside them";
    about(ErrorCode::LimitMismatch, detail, hint, case)
}

pub(super) fn mode_conflict(mode: Mode, case: &Case<'_>) -> Fault {
    let detail = format!("the session has it with mode={}", mode.as_str());
    let hint = "release it first; only mode=upgradable can become exclusive";
    about(ErrorCode::ModeConflict, detail, hint, case)
}

pub(super) fn not_reentrant(case: &Case<'_>) -> Fault {
    let hint = "name another owner, or leave reentrant=false out";
    about(ErrorCode::NotReentrant, "the owner has it already".to_owned(), hint, case)
}

pub(super) fn attempt_over(newest: Attempt, case: &Case<'_>) -> Fault {
    let detail = format!("attempts up to {newest} are over");
    let hint = "to take the lock, send the call with a larger attempt";
    let mut fault = about(ErrorCode::AttemptOver, detail, hint, case);
    fault.facts.newest_attempt = Some(newest);
    fault
}

pub(super) fn in_use(contenders: u32, case: &Case<'_>) -> Fault {
    let detail = format!("{contenders} hold it or wait for it");
    let hint = "whether it has a limit, or segments, is changed while nobody uses it";
    about(ErrorCode::InUse, detail, hint, case)
}

pub(super) fn out_of_bounds(what: OutOfBounds, case: &Case<'_>) -> Fault {
    let what = match what {
        OutOfBounds::Permits => "permits",
        OutOfBounds::Limit => "limit",
        OutOfBounds::Priority => "priority",
        OutOfBounds::MaxHold => "max_hold",
        OutOfBounds::MinHold => "min_hold",
        OutOfBounds::Policy => "a rule",
        OutOfBounds::Deadline => "the deadline",
        OutOfBounds::Locks => "the number of locks",
        OutOfBounds::Segments => "segments",
    };
    let detail = format!("{what} is out of its bounds");
    about(ErrorCode::InvalidArgument, detail, "ask for less", case)
}

pub(super) fn deadlock(cycle: &[Blocked], case: &Case<'_>) -> Fault {
    let waits = cycle.iter().map(|(session, _, lock)| format!("'{session}' waits for '{lock}'"));
    let waits: Vec<String> = waits.collect();
    let hint = "release what you hold, then ask again; what is to be handed on, release instead";
    about(ErrorCode::Deadlock, waits.join(", "), hint, case)
}

pub(super) fn nobody_holds(case: &Case<'_>) -> Fault {
    let hint = "take it instead";
    about(ErrorCode::NotHolder, "nobody holds it".to_owned(), hint, case)
}

pub(super) fn holds_already(holder: &HolderView, case: &Case<'_>) -> Fault {
    let detail = format!("'{}' holds it already", holder.session);
    about(ErrorCode::InUse, detail, "release it instead", case)
}

pub(super) fn cannot_overtake(case: &Case<'_>) -> Fault {
    let detail = "a ZooKeeper client waits before the one it is to be handed to".to_owned();
    let hint = "release it instead, or hand it to a session that does not wait for it";
    about(ErrorCode::InUse, detail, hint, case)
}

pub(super) fn has_place(lock: &LockName, case: &Case<'_>) -> Fault {
    let detail =
        format!("the owner holds '{lock}' already, or waits for it, but not as it asks now");
    about(ErrorCode::InUse, detail, "release it first, or name another owner", case)
}

fn about(code: ErrorCode, detail: String, hint: &'static str, case: &Case<'_>) -> Fault {
    let (lock, session) = (case.lock.cloned(), case.session.cloned());
    let facts = Facts { lock, session, ..Facts::default() };
    sealed(Problem::new(code, 0, detail).hint(hint).facts(facts))
}
