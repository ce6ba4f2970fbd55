//! Parameters that more than one call takes, or that clients write: one constant each.

pub mod election;
pub mod lock;
pub mod recipe;
pub mod session;
pub mod tree;
pub mod watch;

use std::time::Duration;

use holdfast_types::{Attempt, FencingToken, Owner, Ttl};

use crate::param::{Absent, Form, Param};

/// The longest that one call waits.
pub const WAIT_MAX: Duration = Duration::from_mins(5);
/// Items of one page, unless the caller names another number.
pub const LIST_LIMIT_DEFAULT: usize = 100;
/// The most items of one page.
pub const LIST_LIMIT_MAX: usize = 1_000;
/// Sessions renewed by one call at most.
pub const KEPT_ALIVE_MAX: usize = 1_000;

pub const REDIRECT: Param =
    Param::flag("redirect", "Answer 307 to the leader instead of passing the call on");
pub const STALE: Param =
    Param::flag("stale", "Answer from this node's own state, which may lag, and say how old it is");
pub const OWNER: Param = Param::name(
    "owner",
    Owner::MAX_LEN,
    "The owner within the session: two owners of one session exclude each other",
);
pub const ATTEMPT: Param = Param::number(
    "attempt",
    (1, Attempt::MAX.0),
    "Number of the attempt, larger than every earlier one of the session, e.g. the nanoseconds since 1970. Copies of the call \
     carry the same number: one that arrives after the attempt is over gets 409. A hold counts each attempt once. Needs session",
);
pub const RELEASED_ATTEMPT: Param = Param::number(
    "attempt",
    (1, Attempt::MAX.0),
    "The attempt that is given up, whether it waits, holds or has not arrived yet; other attempts keep the lock",
);
pub const RELEASED_TOKEN: Param = Param::number(
    "token",
    (1, FencingToken::END - 1),
    "The hold that is meant. A copy of the call that arrives when that hold is over changes nothing",
);
pub const TTL: Param = Param::duration(
    "ttl",
    (Ttl::MIN.as_duration(), Ttl::MAX.as_duration()),
    "The session's time-to-live",
)
.absent(Absent::Duration(Ttl::DEFAULT.as_duration()))
.hint("a longer lock is kept by renewing it: send the call again before the ttl ends");
pub const WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "How long to queue; to wait longer, send the call again",
)
.absent(Absent::Duration(Duration::ZERO))
.hint("to wait longer, send the call again when the wait has passed");
pub const LIMIT: Param = Param::number("limit", (1, LIST_LIMIT_MAX as u64), "Items of one page")
    .absent(Absent::Number(LIST_LIMIT_DEFAULT as u64))
    .hint("ask for the rest with page_token");
pub const PAGE_TOKEN: Param =
    Param::text("page_token", "Where the page begins: the next_page_token of the one before");
pub const LABELS: Param = Param::of(
    "labels",
    Form::Labels,
    "Labels of the session, shown to queued callers; KEY is a name of your own. At most 16, keys of 1 to 64 bytes, values of \
     1 to 256 bytes",
);
