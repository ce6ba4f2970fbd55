//! `PUT /v1/locks/{name}`: acquire a lock or renew it. With `Accept: text/event-stream` the response is a stream. With `enqueue` the
//! call queues without waiting: 202 has the place in the queue, which the session keeps.

use std::time::Duration;

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use holdfast_api::parameters::lock::{
    DURABLE_REASON, ENQUEUE, HOLD, LIMIT, MAX_HOLD, MIN_HOLD, MODE, PERMITS, PRIORITY, QUEUE_MAX,
    REENTRANT, SESSION, SHARD, SHARDS, VALUE,
};
use holdfast_api::parameters::{ATTEMPT, CHANGE, INCARNATION, LABELS, OWNER, TTL, WAIT};
use holdfast_api::{
    CallParams as _, EnqueuedBody, ErrorCode, GrantBody, ParamError, Schemas, lock_path, params,
};
use holdfast_service::AcquireProgress;
use holdfast_types::{
    Acquire, AcquireOptions, Attempt, Data, Labels, Mode, Owner, Right, SessionId, SessionName,
    ShardChoice, ShardRequest, Ttl, millis,
};

use super::acquire_stream::{queued_body, stream};
use super::acquiring::{
    ACQUIRE_ERRORS, DurableHold, GRANTED_TOKEN, acquiring_session, grant_body, grant_reply,
};
use crate::access::CallAccess;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult, accepts};
use crate::late_copies::LateCopies;
use crate::operation::{Content, Example, Header, Method, Operation, ResponseSpec, handler};
use crate::reply::{EVENT_STREAM, Reply};
use crate::routes::LOCK;
use crate::status::HttpError;

const PLACE: Header = Header::text("location", "The path of the lock, with its queue");

const ENQUEUED_HINT: &str = "renew the session within its ttl: POST /v1/sessions/ID/keepalive?wait=30s answers at the grant. This call \
    again returns the place or the grant, and DELETE leaves the queue";

const ACCESS: CallAccess = CallAccess::AnyOf {
    rights: &[Right::LockAcquire, Right::LockDurable],
    names: "whether the hold is durable",
    decided_in: "crates/machine/src/auth/needed.rs: needed_by",
};

pub(crate) static OPERATION: Operation = Operation {
    summary: "Acquire a lock, or renew it",
    description: "200 means that the caller holds the lock, 423 that it does not, 202 that it waits (only with enqueue). The same call sent again renews the \
        hold, with the same token. With Accept: text/plain the response is the token alone. With shards the response names \
        the shard.",
    params: AcquireParams::LIST,
    example: Example { query: "session=me&attempt=1&ttl=30s&wait=10s", body: "" },
    answers: || {
        vec![
            ResponseSpec::json(
                StatusCode::OK,
                "The caller holds the lock",
                Schemas::of::<GrantBody>,
            )
            .or("text/plain", Content::Text)
            .or("text/event-stream", Content::Text)
            .with(&[GRANTED_TOKEN]),
            ResponseSpec::json(
                StatusCode::ACCEPTED,
                "With enqueue: the caller is in the queue, and holds nothing yet",
                Schemas::of::<EnqueuedBody>,
            )
            .with(&[PLACE]),
        ]
    },
    errors: ACQUIRE_ERRORS,
    late_copies: LateCopies::Attempt,
    body: BodyKind::LISTS,
    ..Operation::change("acquireLock", Method::Put, &LOCK, ACCESS, handler!(acquire))
};

params! {
    struct AcquireParams {
        session: Option<SessionName> = SESSION,
        incarnation: Option<SessionId> = INCARNATION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = ATTEMPT,
        change: Option<Attempt> = CHANGE,
        ttl: Option<Ttl> = TTL,
        wait: Duration = WAIT,
        enqueue: bool = ENQUEUE,
        queue_max: Option<u32> = QUEUE_MAX,
        mode: Option<Mode> = MODE,
        hold: Option<&'static str> = HOLD,
        reason: Option<String> = DURABLE_REASON,
        permits: Option<u32> = PERMITS,
        limit: Option<u32> = LIMIT,
        priority: u8 = PRIORITY,
        reentrant: Option<bool> = REENTRANT,
        max_hold: Option<Duration> = MAX_HOLD,
        min_hold: Option<Duration> = MIN_HOLD,
        value: Option<String> = VALUE,
        shards: Option<u32> = SHARDS,
        shard: Option<ShardChoice> = SHARD,
        labels: Labels = LABELS,
    }
}

async fn acquire(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let params: AcquireParams = call.params()?;
    let end = hold_end(&params)?;
    check_alone(&params)?;
    let shards = shard_request(&params)?;
    let enqueues = params.enqueue;
    call.log_fields.wait = if enqueues { Duration::ZERO } else { params.wait };
    let AcquireParams { session, incarnation, owner, attempt, change, ttl, labels, .. } = params;
    let for_connection = matches!(end, HoldLifetime::Connection);
    let (open, durable) = match end {
        HoldLifetime::Durable(hold) => (hold.open(call, labels)?, Some(hold.reason)),
        HoldLifetime::Session | HoldLifetime::Connection => {
            (acquiring_session(call, (session, incarnation), (attempt, change), ttl, labels)?, None)
        }
    };
    let acquire =
        Acquire::new(lock.clone(), open, owner.unwrap_or_else(Owner::unnamed)).waiting(params.wait);
    let acquire = Acquire {
        attempt,
        change,
        // An owner has one durable hold of a lock, whose token ends all its attempts.
        enters: params.reentrant == Some(true) || durable.is_some(),
        mode: params.mode,
        permits: params.permits,
        limit: params.limit,
        queue_max: params.queue_max,
        wait: enqueues || acquire.wait,
        shards,
        options: AcquireOptions {
            priority: params.priority,
            reentrant: params.reentrant != Some(false),
            max_hold_ms: params.max_hold.map(millis),
            min_hold_ms: params.min_hold.map(millis),
            value: params.value.map(|value| Data::from(value.into_bytes())),
            durable,
        },
        ..acquire
    };
    if enqueues {
        let place = enqueue(call, acquire).await;
        return place.map_err(|problem| with_queue_max_hint(problem, params.queue_max));
    }
    if for_connection || accepts(&call.parts.headers, EVENT_STREAM) {
        return stream(call, acquire, for_connection).await;
    }
    let granted = call.run(call.service().acquire(acquire)).await;
    let granted = granted.map_err(|problem| with_queue_max_hint(problem, params.queue_max))?;
    let body = grant_body(granted, shards.is_some().then_some(&lock), call.now());
    Ok(grant_reply(call, body.token, &body, body.revision))
}

async fn enqueue(call: &CallContext<'_>, acquire: Acquire) -> HandlerResult {
    let (lock, is_sharded) = (acquire.locks.first().clone(), acquire.shards.is_some());
    let enqueued = call.service().enqueue(acquire).await.map_err(|failure| call.error(failure))?;
    let position = match enqueued {
        AcquireProgress::Queued(position) => position,
        AcquireProgress::Done(done) => {
            let granted = (*done).map_err(|failure| call.error(failure))?;
            let body = grant_body(granted, is_sharded.then_some(&lock), call.now());
            return Ok(grant_reply(call, body.token, &body, body.revision));
        }
    };
    let (revision, path) = (position.revision, lock_path(&position.lock));
    let place = queued_body(*position, call.now());
    let body = EnqueuedBody { place, hint: ENQUEUED_HINT.to_owned() };
    let reply = Reply::json(StatusCode::ACCEPTED, &body).at(revision);
    Ok(match HeaderValue::try_from(path) {
        Ok(path) => reply.with_header(LOCATION, path),
        Err(_) => reply,
    })
}

/// What ends a hold, besides its release.
#[derive(Debug)]
enum HoldLifetime {
    /// The end of its session.
    Session,
    /// The end of the connection.
    Connection,
    /// Nothing but an operator.
    Durable(DurableHold),
}

fn hold_end(params: &AcquireParams) -> Result<HoldLifetime, ParamError> {
    let (owner, reason) = (params.owner.as_ref(), params.reason.as_deref());
    let is_durable = params.hold == Some("durable");
    if reason.is_some() && !is_durable {
        let detail = "'reason' needs 'hold=durable'";
        return Err(ParamError::invalid("reason", detail)
            .hint("add hold=durable, or send the text as value"));
    }
    let changes = [
        ("session", params.session.is_some()),
        ("incarnation", params.incarnation.is_some()),
        ("change", params.change.is_some()),
    ];
    if is_durable {
        let others = [
            ("ttl", params.ttl.is_some()),
            ("max_hold", params.max_hold.is_some()),
            ("reentrant", params.reentrant.is_some()),
            ("shards", params.shards.is_some()),
            ("shard", params.shard.is_some()),
            ("enqueue", params.enqueue),
        ];
        let others = [&changes[..], &others[..]].concat();
        let hold = DurableHold::of(owner, params.attempt, reason, params.mode, &others);
        return hold.map(HoldLifetime::Durable);
    }
    if params.hold.is_none() {
        return Ok(HoldLifetime::Session);
    }
    let others = [("owner", owner.is_some()), ("attempt", params.attempt.is_some())];
    let others = [&changes[..], &others[..]].concat();
    let hint = "the connection is the holder: leave one of them out";
    ParamError::check_alone("hold=connection", &others, hint)?;
    Ok(HoldLifetime::Connection)
}

/// Rejects the parameters of a new entry in a change, and a place in the queue that no session keeps.
fn check_alone(params: &AcquireParams) -> Result<(), ParamError> {
    let (hold, change) = (("hold", params.hold.is_some()), ("change", params.change.is_some()));
    if params.change.is_some() {
        let fixed = [
            ("queue_max", params.queue_max.is_some()),
            ("priority", params.priority != 0),
            ("reentrant", params.reentrant.is_some()),
            ("max_hold", params.max_hold.is_some()),
        ];
        let hint = "a change may have another mode, value or min_hold";
        ParamError::check_alone("change", &fixed, hint)?;
    }
    if !params.enqueue {
        return Ok(());
    }
    ParamError::check_alone("enqueue", &[hold, change], "leave one of them out")?;
    if params.session.is_some() {
        return Ok(());
    }
    Err(ParamError::invalid("session", "'enqueue' needs 'session'")
        .hint("the session keeps the place in the queue: add the parameter session=ID"))
}

fn shard_request(params: &AcquireParams) -> Result<Option<ShardRequest>, ParamError> {
    match (params.shards, params.shard) {
        (None, None) => Ok(None),
        (Some(count), Some(ShardChoice::At(index))) if index >= count => {
            let detail = format!("there is no shard {index} of {count}");
            Err(ParamError::invalid("shard", detail)
                .hint(format!("shards are numbered from 0 to {}", count.saturating_sub(1))))
        }
        (count, choice) => Ok(Some(ShardRequest { count, choice: choice.unwrap_or_default() })),
    }
}

/// Adds the hint for a queue that is full by `queue_max`.
pub(super) fn with_queue_max_hint(mut problem: HttpError, queue_max: Option<u32>) -> HttpError {
    let waiters = problem.facts.waiters.unwrap_or(0);
    if let Some(max) = queue_max.filter(|max| waiters >= *max)
        && problem.code != ErrorCode::WaitTimeout
    {
        let hint =
            format!("{waiters} callers wait, and queue_max is {max}: raise it, or try again later");
        problem.hint = Some(hint.into());
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::acquiring::check_attempts;

    fn read(query: &str) -> Result<AcquireParams, ParamError> {
        let params = AcquireParams::from_query(query)?;
        hold_end(&params)?;
        check_alone(&params)?;
        shard_request(&params)?;
        if params.hold != Some("durable") {
            check_attempts(params.attempt, params.change, params.session.as_ref())?;
        }
        Ok(params)
    }

    #[track_caller]
    fn rejected(query: &str) -> (ErrorCode, String) {
        let error = read(query).unwrap_err();
        (error.code, error.detail)
    }

    #[test]
    fn absent_parameters_have_their_defaults() {
        let params = read("").unwrap();
        assert_eq!((params.mode, params.wait, params.priority), (None, Duration::ZERO, 0));
        assert_eq!((params.reentrant, params.hold, params.ttl), (None, None, None));
        assert_eq!(read("mode=upgradable").unwrap().mode, Some(Mode::Upgradable));
        assert_eq!(read("reentrant=false").unwrap().reentrant, Some(false));
        assert_eq!(read("reentrant").unwrap().reentrant, Some(true));
        assert_eq!(read("max_hold=720h").unwrap().max_hold, Some(Duration::from_hours(720)));
        assert_eq!(read("value=web-3%3A8080").unwrap().value.as_deref(), Some("web-3:8080"));
    }

    #[test]
    fn values_out_of_bounds_are_rejected() {
        let (longest, longer) = ("x".repeat(4_096), "x".repeat(4_097));
        assert!(read(&format!("value={longest}")).is_ok());
        assert!(rejected(&format!("value={longer}")).1.contains("longer than 4096 bytes"));
        assert!(read("permits=10000&limit=8&priority=9&shards=1024&shard=1023").is_ok());
        for query in [
            "permits=0",
            "permits=10001",
            "permits=-1",
            "limit=0",
            "limit=many",
            "priority=10",
            "mode=odd",
            "shards=0",
            "shards=1025",
            "shard=1024",
            "shard=best",
            "session=me&attempt=0",
            "session=me&attempt=x",
        ] {
            assert_eq!(rejected(query).0, ErrorCode::InvalidArgument, "{query}");
        }
        for query in ["max_hold=0s", "max_hold=720h1ms", "min_hold=5", "ttl=30", "wait=5m1ms"] {
            assert_eq!(rejected(query).0, ErrorCode::BadDuration, "{query}");
        }
        let long = format!("session={}", "a".repeat(257));
        for query in ["session=a/b", "owner=a%20b", "label.a/b=1", long.as_str()] {
            assert_eq!(rejected(query).0, ErrorCode::BadName, "{query}");
        }
        let many: Vec<String> = (0..17).map(|i| format!("label.k{i}=v")).collect();
        assert_eq!(rejected(&many.join("&")).1, "17 labels: at most 16 are allowed");
    }

    #[test]
    fn a_shard_is_any_or_a_number_below_the_number_of_shards() {
        let read = |query: &str| shard_request(&read(query).unwrap()).unwrap();
        let of = |count, choice| Some(ShardRequest { count, choice });
        assert_eq!(read("session=me"), None);
        assert_eq!(read("shards=8"), of(Some(8), ShardChoice::Any));
        assert_eq!(read("shards=8&shard=any"), of(Some(8), ShardChoice::Any));
        assert_eq!(read("shards=1024&shard=1023"), of(Some(1_024), ShardChoice::At(1_023)));
        assert_eq!(read("shard=3"), of(None, ShardChoice::At(3)));
        assert_eq!(read("shard=any"), of(None, ShardChoice::Any));
        assert_eq!(rejected("shards=8&shard=8").1, "there is no shard 8 of 8");
    }

    #[test]
    fn a_connection_hold_accepts_no_session_and_no_attempt() {
        assert!(read("hold=connection&ttl=5s&label.host=a").unwrap().hold.is_some());
        for query in ["hold=connection&session=me", "hold=session", "hold=connection&attempt=1"] {
            assert_eq!(rejected(query).0, ErrorCode::InvalidArgument, "{query}");
        }
    }

    #[test]
    fn a_durable_hold_needs_an_owner_and_a_reason_and_accepts_what_has_a_meaning() {
        let durable = "hold=durable&owner=carol&attempt=1&reason=moving";
        for more in [
            "",
            "&wait=5s&priority=3&queue_max=2",
            "&mode=shared",
            "&min_hold=1s",
            "&permits=2&limit=3",
            "&value=x&label.team=db",
        ] {
            assert!(read(&format!("{durable}{more}")).is_ok(), "{more}");
        }
        for (query, detail) in [
            ("hold=durable&reason=x", "'hold=durable' needs 'owner'"),
            ("hold=durable&reason=x&owner=-", "'hold=durable' needs 'owner'"),
            ("hold=durable&owner=carol&reason=x", "'hold=durable' needs 'attempt'"),
            ("hold=durable&owner=carol&attempt=1", "'hold=durable' needs 'reason'"),
            ("session=me&reason=x", "'reason' needs 'hold=durable'"),
        ] {
            assert_eq!(rejected(query), (ErrorCode::InvalidArgument, detail.to_owned()), "{query}");
        }
        for other in [
            "session=me",
            "incarnation=1",
            "ttl=5s",
            "max_hold=5s",
            "reentrant",
            "shards=2",
            "shard=1",
            "enqueue",
            "change=0",
        ] {
            let name = other.split('=').next().unwrap();
            let detail = format!("'{name}' and 'hold=durable' exclude each other");
            assert_eq!(rejected(&format!("{durable}&{other}")).1, detail);
        }
        assert!(rejected(&format!("{durable}&mode=upgradable")).1.contains("exclusive or shared"));
        assert_eq!(
            rejected("hold=durable&owner=carol&attempt=1&reason=").0,
            ErrorCode::InvalidArgument
        );
        let long = format!("hold=durable&owner=carol&attempt=1&reason={}", "x".repeat(257));
        assert_eq!(rejected(&long).0, ErrorCode::InvalidArgument);
        assert_eq!(
            rejected("hold=durable&owner=carol&attempt=1&reason=a%0ab").0,
            ErrorCode::BadName
        );
    }

    #[test]
    fn a_change_needs_a_session_and_a_larger_attempt() {
        for query in
            ["session=me&attempt=2&change=1&mode=shared&value=x&min_hold=1s", "session=me&change=0"]
        {
            assert!(read(query).is_ok(), "{query}");
        }
        for (query, detail) in [
            ("change=0", "'change' needs 'session'"),
            ("session=me&change=1", "'change=1' needs a larger 'attempt'"),
            ("session=me&change=2&attempt=2", "'change=2' needs a larger 'attempt'"),
            ("session=me&change=0&max_hold=1s", "'max_hold' and 'change' exclude each other"),
            ("session=me&change=0&reentrant=false", "'reentrant' and 'change' exclude each other"),
            ("hold=connection&change=0", "'change' and 'hold=connection' exclude each other"),
        ] {
            assert_eq!(rejected(query), (ErrorCode::InvalidArgument, detail.to_owned()), "{query}");
        }
    }

    #[test]
    fn a_place_in_the_queue_needs_a_session_that_keeps_it() {
        assert!(read("session=me&enqueue").unwrap().enqueue);
        assert!(!read("session=me&enqueue=false").unwrap().enqueue);
        assert_eq!(rejected("enqueue").1, "'enqueue' needs 'session'");
        assert_eq!(
            rejected("hold=connection&enqueue").1,
            "'hold' and 'enqueue' exclude each other"
        );
        let change = "session=me&attempt=2&change=1&enqueue";
        assert_eq!(rejected(change).1, "'change' and 'enqueue' exclude each other");
    }

    #[test]
    fn an_attempt_needs_a_session() {
        assert_eq!(rejected("attempt=1").1, "'attempt' needs 'session'");
        assert!(read("session=me&attempt=9223372036854775807").is_ok());
    }
}
