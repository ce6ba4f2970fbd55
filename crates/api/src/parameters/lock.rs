//! Parameters of locks.

use std::time::Duration;

use holdfast_types::{
    AcquireOptions, FencingToken, LockPolicy, Owner, Reason, RequestRelease, SessionName,
};

use crate::param::{Absent, Form, Param};

const HOLD_BOUNDS: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(AcquireOptions::HOLD_MAX_MS));
const HOLD_HINT: &str = "leave it out for a hold that lasts as long as its session is renewed";
const OFF_HINT: &str = "0s switches it off";

pub const SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session that holds the lock; opened if it is new. Without it the server makes one that lives as long as the hold",
);
pub const QUEUE_MAX: Param = Param::number(
    "queue_max",
    (1, u32::MAX as u64),
    "Rejects the call instead of queueing it when this many callers or more wait already. A caller in the queue stays there",
)
.hint("leave it out to queue behind any number of waiters");
pub const MODE: Param = Param::word(
    "mode",
    &["exclusive", "shared", "upgradable"],
    "Exclusive: held alone. Shared: held together with other shared holders. Upgradable: as shared, with the right to become \
     exclusive. A renewal keeps the mode; another mode than that of the hold converts it",
)
.absent(Absent::Word("exclusive"));
pub const HOLD: Param = Param::word(
    "hold",
    &["connection"],
    "The hold lives as long as the connection, which is a stream of events, and needs no session",
)
.hint("leave hold out, and renew the session");
pub const PERMITS: Param = Param::number(
    "permits",
    (1, LockPolicy::LIMIT_MAX as u64),
    "Permits of a semaphore; a renewal keeps what it has. Each permit gets a slot of its own",
);
pub const LIMIT: Param = Param::number(
    "limit",
    (1, LockPolicy::LIMIT_MAX as u64),
    "The lock is a semaphore of so many permits. The first call creates the semaphore; later calls must name the same number",
);
pub const PRIORITY: Param = Param::number(
    "priority",
    (0, AcquireOptions::PRIORITY_MAX as u64),
    "A higher priority goes before waiters that came a little earlier: one level is worth the lock's ageing, 10 seconds",
)
.absent(Absent::Number(0));
pub const REENTRANT: Param = Param::flag(
    "reentrant",
    "Whether the owner may acquire the lock again with another attempt; with false that attempt is rejected at once",
)
.absent(Absent::Set);
pub const MAX_HOLD: Param = Param::duration(
    "max_hold",
    HOLD_BOUNDS,
    "The longest the hold lasts, from its grant, however often it is renewed",
)
.hint(HOLD_HINT);
pub const MIN_HOLD: Param = Param::duration(
    "min_hold",
    HOLD_BOUNDS,
    "How long no other caller gets the lock after the grant, even if it is released before",
)
.hint(HOLD_HINT);
pub const VALUE: Param = Param::bounded_text(
    "value",
    AcquireOptions::VALUE_MAX,
    "Text shown with the holder or waiter in every read of the lock, e.g. an address or the number of a job",
)
.hint("keep the text elsewhere, and its location here");
pub const SEGMENTS: Param = Param::number(
    "segments",
    (1, LockPolicy::SHARDS_MAX as u64),
    "The lock is sharded into so many locks, NAME/0 and on, and the call acquires one of them. The first call sets the \
     number; later calls must name the same",
);
pub const SEGMENT: Param = Param::of(
    "segment",
    Form::Segment { max: LockPolicy::SHARDS_MAX as u64 - 1 },
    "The number of the segment, or any: the segment that the caller has already, else a free one, else the one with the \
     fewest holders and waiters. It does not need segments",
);

pub const NAMES: Param = Param::of(
    "name",
    Form::Locks,
    "One of the locks; given once for each, at most 16 times. In a body: a list",
)
.needed("orders");
pub const MULTI_LOCK_MODE: Param = Param::word(
    "mode",
    &["exclusive", "shared"],
    "How to hold the locks, all alike; mode=upgradable is for one lock at a time",
)
.absent(Absent::Word("exclusive"));

pub const RELEASED_SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session that holds the lock or waits for it; required unless force breaks the lock",
);
pub const RELEASED_MULTI_LOCK_SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session that holds the locks or waits for them",
)
.needed("me")
.hint("add &session=ID with the session of the grant");
pub const TO: Param = Param::name(
    "to",
    SessionName::MAX_LEN,
    "The session that holds the lock from now on, under a new token and without a gap; it must be open",
);
pub const TO_OWNER: Param =
    Param::name("to_owner", Owner::MAX_LEN, "The owner within that session. Needs to");
pub const FORCE: Param =
    Param::flag("force", "End every hold of the lock, as an operator. Needs reason");
pub const BREAK_REASON: Param = Param::bounded_text(
    "reason",
    Reason::MAX_LEN,
    "Why an operator breaks the lock; shown to its holders, and written into the audit trail. Needs force",
);

pub const ASK: Param = Param::word(
    "ask",
    &["release"],
    "The request to the holders. Required, because a POST does not acquire the lock: PUT does",
)
.needed("release")
.hint("acquire a lock with PUT; to ask its holders to release it, add ?ask=release to the POST");
pub const REQUESTED_SESSION: Param =
    Param::name("session", SessionName::MAX_LEN, "The holder to ask; without it all holders");
pub const REQUESTED_OWNER: Param =
    Param::name("owner", Owner::MAX_LEN, "The owner within that session. Needs session");
pub const ASK_REASON: Param =
    Param::bounded_text("reason", Reason::MAX_LEN, "The reason, shown to the holder");
pub const DEADLINE: Param = Param::duration(
    "deadline",
    (Duration::from_millis(1), Duration::from_millis(RequestRelease::DEADLINE_MAX_MS)),
    "The time that the holders have to release the lock",
)
.absent(Absent::Duration(Duration::from_secs(30)))
.hint("it is counted from now");
pub const REVOKE: Param =
    Param::flag("revoke", "Whether the hold ends at the deadline if it was not released");

pub const POLICY_LIMIT: Param = Param::of(
    "limit",
    Form::Limit { max: LockPolicy::LIMIT_MAX as u64 },
    "Permits of a semaphore, or none for a lock. A limit below the permits in use revokes none of them; a lock becomes a \
     semaphore, and the reverse, only while it has no holder and no waiter",
)
.absent(Absent::Unchanged);
pub const ORDER: Param = Param::word(
    "order",
    &["fifo", "writer-first", "reader-first"],
    "The order of later arrivals in the queue: in the order of arrival, exclusive waiters first, or shared waiters first",
)
.absent(Absent::Unchanged);
pub const AGEING: Param = Param::duration(
    "ageing",
    (Duration::ZERO, Duration::from_millis(LockPolicy::AGEING_MAX_MS)),
    "How much waiting one level of priority is worth, for later arrivals",
)
.absent(Absent::Unchanged)
.hint(OFF_HINT);
pub const LOCK_DELAY: Param = Param::duration(
    "lock_delay",
    (Duration::ZERO, Duration::from_millis(LockPolicy::LOCK_DELAY_MAX_MS)),
    "How long the lock is not granted after a hold expires, is revoked or is broken, because its holder may still write. \
     The delay ends at once when the session acknowledges the loss by closing",
)
.absent(Absent::Unchanged)
.hint(OFF_HINT);
pub const COOLDOWN: Param = Param::duration(
    "cooldown",
    (Duration::ZERO, Duration::from_millis(LockPolicy::COOLDOWN_MAX_MS)),
    "The time between two grants: at most one grant a period",
)
.absent(Absent::Unchanged)
.hint(OFF_HINT);
pub const DETECT_DEADLOCKS: Param = Param::flag(
    "detect_deadlocks",
    "Whether an acquire that would close a cycle of waiters is rejected",
)
.absent(Absent::Unchanged);
pub const POLICY_SEGMENTS: Param = Param::of(
    "segments",
    Form::Limit { max: LockPolicy::SHARDS_MAX as u64 },
    "Into how many locks the lock is sharded, or none for one lock. The number changes only while no segment has a holder or \
     a waiter",
)
.absent(Absent::Unchanged);

pub const PREFIX: Param = Param::text("prefix", "Only locks whose names begin with this text");
pub const LIST_SESSION: Param =
    Param::name("session", SessionName::MAX_LEN, "Only locks that this session holds or waits for");
pub const HELD: Param = Param::flag("held", "Only locks with a holder");
pub const WAITING: Param = Param::flag("waiting", "Only locks with a queued waiter");
pub const SORT: Param = Param::word(
    "sort",
    &["name", "contention"],
    "By name, or the locks with the longest queues first",
)
.absent(Absent::Word("name"));

pub const AT: Param = Param::text(
    "at",
    "Only the holder at this time: a time as of RFC 3339 such as 2026-03-01T14:05:09Z, a duration ago, or milliseconds of \
     the Unix epoch",
)
.hint(
    "write at=2026-03-01T14:05:09Z (with + as %2B in an offset), at=5m for five minutes ago, or milliseconds of the Unix \
     epoch",
);

pub const CHECKED_TOKEN: Param =
    Param::number("token", (0, FencingToken::END - 1), "The token to check")
        .needed("1")
        .hint("add ?token=N with the number of the grant");
pub const CHECK_MODE: Param = Param::word(
    "mode",
    &["current", "monotonic"],
    "Current: it must be the token of a present holder. Monotonic: no later grant may have overtaken it",
)
.absent(Absent::Word("current"));
