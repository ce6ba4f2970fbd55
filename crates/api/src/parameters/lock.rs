//! Parameters of locks.

use std::time::Duration;

use holdfast_types::{
    AcquireOptions, FencingToken, LockPolicy, Owner, Reason, RequestRelease, SessionName,
};

use crate::param::{Absent, Form, Param};

const HOLD_BOUNDS: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(AcquireOptions::HOLD_MAX_MS));
const HOLD_HINT: &str = "leave it out for a hold that lasts as long as its session is renewed";

pub const SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session that holds the lock; the call opens it if it does not exist. By default the server opens a session \
     for the hold",
);
pub const QUEUE_MAX: Param = Param::number(
    "queue_max",
    (1, u32::MAX as u64),
    "The call is rejected if the queue has this many waiters or more. A caller that is already in the queue keeps its \
     position",
)
.hint("leave it out to queue behind any number of waiters");
pub const MODE: Param = Param::word(
    "mode",
    &["exclusive", "shared", "upgradable"],
    "exclusive: a single holder. shared: any number of shared holders. upgradable: as shared, with the right to become \
     exclusive. Without this parameter, a renewal keeps the mode. Another attempt of the owner may have another mode; the \
     hold has the strongest one. The parameter change converts",
)
.absent(Absent::Word("exclusive"));
pub const HOLD: Param = Param::word(
    "hold",
    &["connection", "durable"],
    "connection: the hold lasts as long as the connection, whose response is an event stream, and requires no session. \
     durable: the hold has no session and no ttl, and ends only with its token or by force; it requires owner, attempt \
     and reason, and the permission lock durable",
)
.hint("leave hold out, and renew the session");
pub const DURABLE_REASON: Param = Param::bounded_text(
    "reason",
    Reason::MAX_LEN,
    "Why the hold is durable, for everybody who reads the lock and for the audit trail",
)
.hint("say what the lock protects, and who to ask");
pub const RELEASED_HOLD: Param = Param::word(
    "hold",
    &["durable"],
    "durable: release the durable hold of owner that has token; the call then has no session",
);
pub const ENQUEUE: Param = Param::flag(
    "enqueue",
    "Whether to return at once with the place in the queue, as 202. The place ends at most 10 s after wait, or \
     with the session",
);
pub const PERMITS: Param = Param::number(
    "permits",
    (1, LockPolicy::LIMIT_MAX as u64),
    "The number of permits of a semaphore; a renewal keeps its permits. Each permit has its own slot",
);
pub const LIMIT: Param = Param::number(
    "limit",
    (1, LockPolicy::LIMIT_MAX as u64),
    "The total number of permits of the semaphore. The first call creates the semaphore; later calls must send the \
     same number",
);
pub const PRIORITY: Param = Param::number(
    "priority",
    (0, AcquireOptions::PRIORITY_MAX as u64),
    "The priority in the queue. One level is worth as much waiting time as the ageing in the lock's policy, 10s by \
     default",
)
.absent(Absent::Number(0));
pub const REENTRANT: Param = Param::flag(
    "reentrant",
    "With false, another attempt of the owner is rejected at once. With true, it enters the hold that the owner has in a \
     semaphore, with the same token, instead of acquiring permits of its own. Another attempt always enters a lock",
)
.absent(Absent::Unchanged);
pub const MAX_HOLD: Param = Param::duration(
    "max_hold",
    HOLD_BOUNDS,
    "The maximum duration of the hold since its grant; renewals do not extend it",
)
.hint(HOLD_HINT);
pub const MIN_HOLD: Param = Param::duration(
    "min_hold",
    HOLD_BOUNDS,
    "The minimum time from this grant to the next grant, even after an earlier release",
)
.hint(HOLD_HINT);
pub const VALUE: Param = Param::bounded_text(
    "value",
    AcquireOptions::VALUE_MAX,
    "Text that reads of the lock show with the holder or waiter, e.g. an address or a job number",
)
.hint("store the text elsewhere, and send its location");
pub const SHARDS: Param = Param::number(
    "shards",
    (1, LockPolicy::SHARDS_MAX as u64),
    "The number of shards: the locks NAME/0, NAME/1 and so on. The call acquires one of them. The first call sets \
     the number; later calls must send the same number",
);
pub const SHARD: Param = Param::of(
    "shard",
    Form::Shard { max: LockPolicy::SHARDS_MAX as u64 - 1 },
    "The number of the shard, or any: the shard that the caller already holds or waits for, otherwise a free \
     shard, otherwise the shard with the fewest holders and waiters. The parameter shards is optional",
);

pub const NAMES: Param = Param::of(
    "name",
    Form::Locks,
    "A lock of the multi-lock; repeat the parameter for each lock, at most 16 times. In a body, the field is a list",
)
.needed("orders");
pub const MULTI_LOCK_MODE: Param = Param::word(
    "mode",
    &["exclusive", "shared"],
    "The mode of all locks; a multi-lock cannot be upgradable",
)
.absent(Absent::Word("exclusive"));

pub const RELEASED_SESSION: Param =
    Param::name("session", SessionName::MAX_LEN, "The session that holds the lock or waits for it")
        .needed("me")
        .hint("add ?session=ID with the session of the grant");
pub const RELEASED_PERMITS: Param = Param::number(
    "permits",
    (1, LockPolicy::LIMIT_MAX as u64),
    "The number of permits to give back, from the highest slot down; the last one ends the hold. Without attempt and \
     token, of the hold without an attempt, otherwise of the oldest hold. Send a request, too: a late copy without one \
     gives back again",
);
pub const RELEASED_MULTI_LOCK_SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session that holds the locks or waits for them",
)
.needed("me")
.hint("add the parameter session=ID with the session of the grant");
pub const FROM: Param =
    Param::name("session", SessionName::MAX_LEN, "The session that holds the lock")
        .needed("me")
        .hint("add ?session=ID with the session of the grant");
pub const FROM_TOKEN: Param = Param::number(
    "token",
    (1, FencingToken::END - 1),
    "The token of the hold. With it a late copy of the call transfers no later hold",
);
pub const TO: Param = Param::name(
    "to",
    SessionName::MAX_LEN,
    "The session that receives the lock, with a new token and without a gap. The session must be open",
)
.needed("you")
.hint("add the parameter to=ID with the session that receives the lock");
pub const TO_OWNER: Param =
    Param::name("to_owner", Owner::MAX_LEN, "The owner within the receiving session");
pub const ENDED_TOKEN: Param = Param::number(
    "token",
    (1, FencingToken::END - 1),
    "Only the hold of this token; or, if this hold was the last and the lock is free, the cooldown. With it a late copy of the call ends no later hold",
);
pub const ENDED_TICKET: Param = Param::number(
    "ticket",
    (1, FencingToken::END - 1),
    "Only the holder or the waiter with this ticket: a waiter then leaves the queue",
);
pub const ASKED_TOKEN: Param = Param::number(
    "token",
    (1, FencingToken::END - 1),
    "Only the hold of this token. With it a late copy of the call asks no later holder",
);
pub const FORCE_REASON: Param = Param::bounded_text(
    "reason",
    Reason::MAX_LEN,
    "The reason, for the holders that lose the lock and for the audit trail",
)
.needed("stuck")
.hint("add ?reason=TEXT: it is shown to the holders that lose the lock");

pub const REQUESTED_SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session of the holder that receives the request; by default all holders",
);
pub const REQUESTED_OWNER: Param =
    Param::name("owner", Owner::MAX_LEN, "The owner within the session. Requires session");
pub const REQUEST_REASON: Param =
    Param::bounded_text("reason", Reason::MAX_LEN, "The reason of the request, for the holder");
pub const DEADLINE: Param = Param::duration(
    "deadline",
    (Duration::from_millis(1), Duration::from_millis(RequestRelease::DEADLINE_MAX_MS)),
    "The time that the holders have to release the lock",
)
.absent(Absent::Duration(Duration::from_secs(30)))
.hint("write a duration from now");
pub const REVOKE: Param =
    Param::flag("revoke", "Whether the node revokes the hold at the deadline");

pub const POLICY_LIMIT: Param = Param::of(
    "limit",
    Form::Limit { max: LockPolicy::LIMIT_MAX as u64 },
    "The total number of permits of a semaphore, or none for a plain lock. A limit below the permits in use revokes no \
     permit. A lock becomes a semaphore, or the reverse, only while it has no holder and no waiter",
)
.absent(Absent::Unchanged);
pub const ORDER: Param = Param::word(
    "order",
    &["fifo", "writer-first", "reader-first"],
    "The queue order of later arrivals. fifo: order of arrival. writer-first: exclusive first. reader-first: shared \
     first",
)
.absent(Absent::Unchanged);
pub const AGEING: Param = Param::of(
    "ageing",
    Form::DurationOrOff { max: Duration::from_millis(LockPolicy::AGEING_MAX_MS) },
    "The waiting time that one level of priority is worth, for later arrivals",
)
.absent(Absent::Unchanged);
pub const LOCK_DELAY: Param = Param::of(
    "lock_delay",
    Form::DurationOrOff { max: Duration::from_millis(LockPolicy::LOCK_DELAY_MAX_MS) },
    "The delay before the next grant after a hold expires, is revoked or is force-released, because its holder may still \
     write. The delay ends at once when the session is closed, which acknowledges the loss",
)
.absent(Absent::Unchanged);
pub const COOLDOWN: Param = Param::of(
    "cooldown",
    Form::DurationOrOff { max: Duration::from_millis(LockPolicy::COOLDOWN_MAX_MS) },
    "The minimum time between two grants",
)
.absent(Absent::Unchanged);
pub const DETECT_DEADLOCKS: Param = Param::flag(
    "detect_deadlocks",
    "Whether an acquire that would close a deadlock cycle is rejected",
)
.absent(Absent::Unchanged);
pub const POLICY_SHARDS: Param = Param::of(
    "shards",
    Form::Limit { max: LockPolicy::SHARDS_MAX as u64 },
    "The number of shards of a sharded lock, or none for a plain lock. The number changes only while no shard has \
     a holder or a waiter",
)
.absent(Absent::Unchanged);

pub const WAIT_ALARM: Param = Param::of(
    "wait_alarm",
    Form::DurationOrOff { max: Duration::from_millis(LockPolicy::ALARM_MAX_MS) },
    "A longer wait for the lock raises the alarm lock-wait-long",
)
.absent(Absent::Unchanged);
pub const HOLD_ALARM: Param = Param::of(
    "hold_alarm",
    Form::DurationOrOff { max: Duration::from_millis(LockPolicy::ALARM_MAX_MS) },
    "An older hold of the lock raises the alarm lock-hold-old",
)
.absent(Absent::Unchanged);

pub const PREFIX: Param = Param::text("prefix", "Only locks whose names begin with this text");
pub const LIST_SESSION: Param =
    Param::name("session", SessionName::MAX_LEN, "Only locks that this session holds or waits for");
pub const HELD: Param = Param::flag("held", "Only locks with a holder");
pub const WAITING: Param = Param::flag("waiting", "Only locks with a queued waiter");
pub const SORT: Param = Param::word(
    "sort",
    &["name", "contention", "longest-wait", "oldest-hold"],
    "The order of the list. name: by name. contention: longest queue first. longest-wait: longest present wait first. \
     oldest-hold: oldest present hold first",
)
.absent(Absent::Word("name"));

pub const AT: Param = Param::text(
    "at",
    "Only the holder at this time: an RFC 3339 time such as 2026-03-01T14:05:09Z, a duration before now, or \
     milliseconds since the Unix epoch",
)
.hint(
    "write at=2026-03-01T14:05:09Z (with + as %2B in an offset), at=5m for five minutes ago, or milliseconds since \
     the Unix epoch",
);

pub const CHECKED_TOKEN: Param =
    Param::number("token", (0, FencingToken::END - 1), "The token to check")
        .needed("1")
        .hint("add ?token=N with the fencing token of the grant");
pub const CHECK_MODE: Param = Param::word(
    "mode",
    &["current", "monotonic"],
    "current: a current holder has the token. monotonic: the token is at least the floor or, without a holder, at \
     least the last minted token",
)
.absent(Absent::Word("current"));
