//! Parameters shared by several calls or written by clients: one constant each.

pub mod auth;
pub mod election;
pub mod lock;
pub mod member;
pub mod namespace;
pub mod recipe;
pub mod session;
pub mod subject_quotas;
pub mod tree;
pub mod tree_quota;
pub mod watch;

use std::time::Duration;

use holdfast_types::{Attempt, FencingToken, Owner, RequestNumber, SessionName, Ttl};

use crate::param::{Absent, Form, Param};

/// The longest wait of one call.
pub const WAIT_MAX: Duration = Duration::from_mins(5);
/// The default number of items in a page.
pub const LIST_LIMIT_DEFAULT: usize = 100;
/// The maximum number of items in a page.
pub const LIST_LIMIT_MAX: usize = 1_000;
/// The maximum number of sessions that one call renews.
pub const KEEPALIVE_SESSIONS_MAX: usize = 1_000;

pub const REDIRECT: Param =
    Param::flag("redirect", "Return 307 to the leader instead of forwarding the call");
pub const STALE: Param = Param::flag(
    "stale",
    "Read this node's own state, which may lag; headers of the response have its revision and age",
);
pub const OWNER: Param = Param::name(
    "owner",
    Owner::MAX_LEN,
    "The owner within the session: two owners of one session exclude each other",
);
pub const ATTEMPT: Param = Param::number(
    "attempt",
    (1, Attempt::MAX.0),
    "The number of the attempt, larger than all earlier numbers of the session, e.g. nanoseconds since 1970. Copies of \
     the call have the same number; a copy that arrives after the end of the attempt gets 409. A hold counts each \
     attempt once. Requires session",
);
pub const INCARNATION: Param = Param::number(
    "incarnation",
    (1, FencingToken::END - 1),
    "The incarnation of the session, from the response that opened it. The call then opens no session: after the end of \
     that one the response is 410 session-expired",
)
.hint("leave it out to open a session that has ended again");
pub const CALL_SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The open session that remembers the response of a call with a request number. The call does not renew it",
);
pub const REQUEST: Param = Param::number(
    "request",
    (1, RequestNumber::MAX.0),
    "The request number, larger than all earlier numbers of the session, e.g. nanoseconds since 1970. A copy of the call \
     has the same number and gets the first response; below the numbers that the session remembers it gets 409. Requires \
     session. The header Idempotency-Key is an alternative",
);
pub const CHANGE: Param = Param::number(
    "change",
    (0, Attempt::MAX.0 - 1),
    "The attempt to change: its mode, its value, or its min_hold. The call acquires nothing. 0 is an acquire without an \
     attempt. Requires session, and a larger attempt, which is the number of the change",
)
.hint("write change=N with the attempt that acquired the lock, and attempt=M with a larger number");
pub const RELEASED_ATTEMPT: Param = Param::number(
    "attempt",
    (1, Attempt::MAX.0),
    "The attempt to release: a waiter, a holder, or an attempt that has not arrived yet. Other attempts keep the lock",
);
pub const RELEASED_TOKEN: Param = Param::number(
    "token",
    (1, FencingToken::END - 1),
    "The token of the hold to release. A copy of the call that arrives after the end of that hold changes nothing",
);
pub const TTL: Param = Param::duration(
    "ttl",
    (Ttl::MIN.as_duration(), Ttl::MAX.as_duration()),
    "The session's time-to-live",
)
.absent(Absent::Duration(Ttl::DEFAULT.as_duration()))
.hint("keep a lock for longer by renewing it: send the call again before the ttl ends");
pub const WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "The maximum wait in the queue; to wait longer, send the call again",
)
.absent(Absent::Duration(Duration::ZERO))
.hint("to wait longer, send the call again after the wait");
pub const LIMIT: Param =
    Param::number("limit", (1, LIST_LIMIT_MAX as u64), "The maximum number of items in a page")
        .absent(Absent::Number(LIST_LIMIT_DEFAULT as u64))
        .hint("write limit=N from 1 to 1000, and get the next items with page_token");
pub const PAGE_TOKEN: Param = Param::text("page_token", "The next_page_token of the previous page");
pub const LABELS: Param = Param::of(
    "labels",
    Form::Labels,
    "Labels of the session, which queued callers see; the caller chooses KEY. At most 16, keys of 1 to 64 bytes, \
     values of 1 to 256 bytes",
);
