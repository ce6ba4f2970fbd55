//! Rejections of locks (modes, permits, policies), and of latches, barriers and counters.

use std::time::Duration;

use holdfast_api::{ErrorCode, Facts, Problem, RecipeFacts};
use holdfast_service::NotYet;
use holdfast_types::{
    Attempt, Blocked, Breach, HolderView, LockName, Mode, ModeConflictReason, OutOfBounds,
    RecipeRejection, ZnodePath,
};

use super::{ErrorContext, HttpError};

pub(super) fn limit_mismatch(limit: Option<u32>, context: &ErrorContext<'_>) -> HttpError {
    let (detail, hint) = match limit {
        Some(limit) => (
            format!("the limit of the semaphore is {limit}"),
            "name that limit, or change it with PATCH /v1/policies/{name}",
        ),
        None => (
            "the lock is not a semaphore".to_owned(),
            "add limit=N: the first call with a limit creates the semaphore while the lock has no holder and no waiter; \
             leave permits out for a plain lock",
        ),
    };
    about(ErrorCode::LimitMismatch, detail, hint, context)
}

pub(super) fn shards_mismatch(shards: Option<u32>, context: &ErrorContext<'_>) -> HttpError {
    let (detail, hint) = match shards {
        Some(count) => (
            format!("the lock has {count} shards, numbered from 0 to {}", count.saturating_sub(1)),
            "acquire with that number of shards, or shard=any; otherwise name one shard, such as NAME/0",
        ),
        None => (
            "the lock is not sharded".to_owned(),
            "leave shards out, or set the number with PATCH /v1/policies/{name}?shards=N while it has no holder and no waiter",
        ),
    };
    let mut problem = about(ErrorCode::ShardsMismatch, detail, hint, context);
    problem.facts.shards = shards;
    problem
}

pub(super) fn permits_mismatch(permits: u32, context: &ErrorContext<'_>) -> HttpError {
    let detail = format!("the owner holds {permits} permits of this semaphore or waits for them");
    let hint = "acquire more with another attempt, or release at most as many";
    about(ErrorCode::LimitMismatch, detail, hint, context)
}

pub(super) fn mode_conflict(
    mode: Mode,
    why: ModeConflictReason,
    context: &ErrorContext<'_>,
) -> HttpError {
    let mode = mode.as_str();
    let (detail, hint) = match why {
        ModeConflictReason::SameAttempt => (
            format!("this attempt holds the lock or waits for it with mode={mode}"),
            "to convert it, add change=N with this attempt (0 without one), and attempt=M with a larger number; to nest, \
             send a larger attempt without change",
        ),
        ModeConflictReason::SharedBesideOthers => (
            "the owner holds the lock with mode=shared, beside other holders".to_owned(),
            "release the shared hold first; an owner that may have to write acquires with mode=upgradable",
        ),
        ModeConflictReason::NoOtherMode => (
            format!("the owner holds the lock or waits for it with mode={mode}"),
            "send the same mode, or release it first: a waiter, a semaphore and a multi-lock have one mode",
        ),
        ModeConflictReason::HandOver => (
            format!("the session waits for the lock with mode={mode}, beside other holders"),
            "wait until the other holders have released it",
        ),
    };
    about(ErrorCode::ModeConflict, detail, hint, context)
}

pub(super) fn value_conflict(context: &ErrorContext<'_>) -> HttpError {
    let detail = "this attempt has another value".to_owned();
    let hint = "to replace it, add change=N with this attempt (0 without one), and attempt=M with a larger number";
    about(ErrorCode::ValueConflict, detail, hint, context)
}

pub(super) fn not_reentrant(context: &ErrorContext<'_>) -> HttpError {
    let detail = "the owner already holds the lock or waits for it".to_owned();
    let hint = "name another owner, or leave reentrant=false out of both calls";
    about(ErrorCode::NotReentrant, detail, hint, context)
}

pub(super) fn attempt_over(newest: Attempt, context: &ErrorContext<'_>) -> HttpError {
    let detail = format!("attempts up to {newest} are over");
    let hint = "to acquire the lock, send the call with a larger attempt";
    let mut problem = about(ErrorCode::AttemptOver, detail, hint, context);
    problem.facts.newest_attempt = Some(newest);
    problem
}

pub(super) fn in_use(entries: u32, context: &ErrorContext<'_>) -> HttpError {
    let detail = format!("{entries} holders and waiters are in its queue");
    let hint = "change the limit or the shards while it has no holder and no waiter";
    about(ErrorCode::InUse, detail, hint, context)
}

pub(super) fn out_of_bounds(what: OutOfBounds, context: &ErrorContext<'_>) -> HttpError {
    let what = match what {
        OutOfBounds::Durable => {
            let detail =
                "the session of a durable hold belongs to the hold: no other call may name it";
            let hint = "use hold=durable with owner, and release the hold with its token";
            return about(ErrorCode::InvalidArgument, detail.to_owned(), hint, context);
        }
        OutOfBounds::Permits => "permits",
        OutOfBounds::Limit => "limit",
        OutOfBounds::Priority => "priority",
        OutOfBounds::MaxHold => "max_hold",
        OutOfBounds::MinHold => "min_hold",
        OutOfBounds::Policy => "a value of the policy",
        OutOfBounds::Deadline => "the deadline",
        OutOfBounds::Locks => "an option of the multi-lock",
        OutOfBounds::Shards => "shards",
        OutOfBounds::Quota => "a quota",
    };
    let detail = format!("{what} is out of bounds");
    about(
        ErrorCode::InvalidArgument,
        detail,
        "choose a value within the bounds that /docs lists",
        context,
    )
}

pub(super) fn deadlock(cycle: &[Blocked], context: &ErrorContext<'_>) -> HttpError {
    let waits = cycle.iter().map(|(session, _, lock)| format!("'{session}' waits for '{lock}'"));
    let waits: Vec<String> = waits.collect();
    let detail = match &waits[..] {
        [] => "the wait would close a cycle with locks that the caller may not read".to_owned(),
        waits => waits.join(", "),
    };
    let hint = "release the locks of this session, then acquire again; after a rejected hand-over, release the lock instead";
    about(ErrorCode::Deadlock, detail, hint, context)
}

pub(super) fn not_held(context: &ErrorContext<'_>) -> HttpError {
    let hint = "acquire it instead";
    about(ErrorCode::NotHolder, "the caller does not hold the lock".to_owned(), hint, context)
}

pub(super) fn already_holds(holder: &HolderView, context: &ErrorContext<'_>) -> HttpError {
    let detail = format!("'{}' holds the lock already", holder.session);
    about(ErrorCode::InUse, detail, "release it instead", context)
}

pub(super) fn cannot_overtake(context: &ErrorContext<'_>) -> HttpError {
    let detail = "a ZooKeeper client is ahead of the receiver in the queue".to_owned();
    let hint = "release the lock instead, or hand it to a session outside the queue";
    about(ErrorCode::InUse, detail, hint, context)
}

pub(super) fn foreign_recipe(path: &ZnodePath, context: &ErrorContext<'_>) -> HttpError {
    let detail = format!("the ZooKeeper client of '{path}' does not see HTTP callers");
    let hint = "use another lock, or one of the recipes in docs/zookeeper.md";
    about(ErrorCode::InUse, detail, hint, context)
}

pub(super) fn already_queued(lock: &LockName, context: &ErrorContext<'_>) -> HttpError {
    let detail = format!("the owner already holds '{lock}' or waits for it, with other options");
    about(ErrorCode::InUse, detail, "release it first, or name another owner", context)
}

fn about(
    code: ErrorCode,
    detail: String,
    hint: &'static str,
    context: &ErrorContext<'_>,
) -> HttpError {
    let (lock, session) = (context.lock.cloned(), context.session.cloned());
    let facts = Facts { lock, session, ..Facts::default() };
    Box::new(Problem::new(code, detail).hint(hint).facts(facts))
}

pub(super) fn of_recipe_rejection(rejection: RecipeRejection) -> HttpError {
    let none = RecipeFacts::default();
    match rejection {
        RecipeRejection::CountMismatch { count } => {
            let detail = format!("the latch exists with count {count}");
            let facts = RecipeFacts { count: Some(count), ..none };
            about_recipe(
                ErrorCode::CountMismatch,
                detail,
                "delete it first: DELETE /v1/latches/{name}, or holdfast latch rm NAME",
                facts,
            )
        }
        RecipeRejection::NoLatch => {
            let hint = "create it: PUT /v1/latches/{name}?count=N, or holdfast latch create NAME --count N";
            about_recipe(ErrorCode::NotFound, "the latch does not exist".to_owned(), hint, none)
        }
        RecipeRejection::OutOfBounds { max } => {
            let detail =
                format!("the count of a latch or the parties of a barrier must be from 1 to {max}");
            about_recipe(ErrorCode::InvalidArgument, detail, "send a number in this range", none)
        }
        RecipeRejection::PartiesMismatch { parties } => {
            let detail = format!("the barrier exists with {parties} parties");
            let facts = RecipeFacts { parties: Some(parties), ..none };
            about_recipe(
                ErrorCode::CountMismatch,
                detail,
                "send the same number in every call",
                facts,
            )
        }
        RecipeRejection::NotYet { arrived, parties } => {
            not_yet(NotYet::Arrivals { arrived, parties }, Duration::ZERO)
        }
        RecipeRejection::Broken(breach) => broken(&breach),
        RecipeRejection::Overflow { value } => {
            let detail = format!("the counter is {value}");
            let facts = RecipeFacts { value: Some(value), ..none };
            about_recipe(ErrorCode::CounterOverflow, detail, "PUT another value first", facts)
        }
        RecipeRejection::CounterVersion { actual } => {
            let detail = format!("the counter has version {actual}");
            let hint = "read it again, then send the change with the new version";
            let mut problem = about_recipe(ErrorCode::VersionMismatch, detail, hint, none);
            problem.facts.version = Some(actual);
            problem
        }
    }
}

fn broken(breach: &Breach) -> HttpError {
    let detail = format!("'{}' left before all members had arrived", breach.session);
    let hint = "to try again, every member must arrive again with a new request id";
    let mut problem =
        about_recipe(ErrorCode::BarrierBroken, detail, hint, RecipeFacts::of_breach(breach));
    problem.facts.session = Some(breach.session.clone());
    problem
}

/// The error of a wait that timed out.
pub(super) fn not_yet(what: NotYet, waited: Duration) -> HttpError {
    let none = RecipeFacts::default();
    let (detail, hint, facts) = match what {
        NotYet::Latch(view) => {
            let detail = format!("{} of {} counts are left", view.left, view.count);
            let facts = RecipeFacts { count: Some(view.count), left: Some(view.left), ..none };
            (detail, "add ?wait=30s to wait for the latch", facts)
        }
        NotYet::Arrivals { arrived, parties } => {
            let detail = format!(
                "{arrived} of {parties} members have arrived; this caller is not among them"
            );
            let facts = RecipeFacts { arrived: Some(arrived), parties: Some(parties), ..none };
            (detail, "send the call again with the parameter wait=60s to arrive and wait", facts)
        }
        NotYet::Inside { round, inside } => {
            let detail = format!("this caller has left; {inside} members are still inside");
            let (generation, inside) = (Some(round), Some(inside));
            let facts = RecipeFacts { generation, inside, ..none };
            (
                detail,
                "send the call again with the parameter wait=60s to wait until all members have left",
                facts,
            )
        }
    };
    let mut problem = about_recipe(ErrorCode::NotYet, detail, hint, facts);
    problem.facts.waited_ms =
        Some(waited).filter(|waited| !waited.is_zero()).map(holdfast_types::millis);
    problem
}

fn about_recipe(
    code: ErrorCode,
    detail: String,
    hint: &'static str,
    recipe: RecipeFacts,
) -> HttpError {
    let facts = Facts { recipe, ..Facts::default() };
    Box::new(Problem::new(code, detail).hint(hint).facts(facts))
}
