//! Parameters shared by several calls or written by clients: one constant each.

pub mod auth;
pub mod lock;
pub mod member;
mod quotas;
pub mod recipe;

use std::time::Duration;

use holdfast_types::{Attempt, FencingToken, Owner, RequestNumber, SessionName, Ttl};

use crate::param::{Absent, Form, Param};

pub use self::quotas::{namespace, subject_quotas, tree_quota};

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
    "A token that the hold has or had. A copy of the call that arrives after the end of that hold changes nothing",
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

/// Parameters of elections.
pub mod election {
    use holdfast_types::{AcquireOptions, SessionName};

    use crate::param::Param;

    pub const SESSION: Param = Param::name(
        "session",
        SessionName::MAX_LEN,
        "The session of the candidate; the call opens it if it does not exist. By default the server opens a session for \
         the candidacy",
    );
    pub const VALUE: Param = Param::bounded_text(
        "value",
        AcquireOptions::VALUE_MAX,
        "Text that reads of the election show with the candidate, e.g. an address. The body is an alternative",
    )
    .hint("store the text elsewhere, and send its location");
    pub const RESIGNED_SESSION: Param =
        Param::name("session", SessionName::MAX_LEN, "The session that resigns")
            .needed("me")
            .hint("add the parameter session=ID with the session of the campaign");
}

/// Parameters of sessions.
pub mod session {
    use std::time::Duration;

    use holdfast_types::{Attempt, FencingToken, Reason};

    use super::WAIT_MAX;
    use crate::param::{Absent, Param};

    pub const OPEN_ATTEMPT: Param = Param::number(
        "attempt",
        (1, Attempt::MAX.0),
        "The number of the call, larger than all earlier attempts of the session. A copy that arrives after a newer attempt \
         changes neither ttl nor labels, and one that arrives after the end of the session gets 409",
    );
    pub const EVENTS_WAIT: Param = Param::duration(
        "wait",
        (Duration::ZERO, WAIT_MAX),
        "The maximum wait for an event of the session; the call returns at the first event",
    )
    .absent(Absent::Duration(Duration::ZERO))
    .hint("to wait longer, send the call again after the wait");
    pub const EVENTS_SINCE: Param = Param::number(
        "since",
        (0, FencingToken::END - 1),
        "Only events after this revision, which is the revision of the previous response",
    )
    .hint("send the \"revision\" of a response");
    pub const RENEWED_INCARNATION: Param = Param::number(
        "incarnation",
        (1, FencingToken::END - 1),
        "The incarnation of the session, from the response that opened it. After the end of that one the response is 410 \
         session-expired, also if the id has another session",
    );
    pub const FORCE: Param = Param::flag(
        "force",
        "Close the session of another client, as an operator. Requires reason",
    );
    pub const REASON: Param = Param::bounded_text(
        "reason",
        Reason::MAX_LEN,
        "The reason of the operator, for the audit trail. Requires force",
    );
    pub const CLOSED_INCARNATION: Param = Param::number(
        "incarnation",
        (1, FencingToken::END - 1),
        "The incarnation of the session to close, from the response that opened it. A late copy of the call does not close \
         a newer session with the same id",
    );
}

/// Parameters of watches.
pub mod watch {
    use std::time::Duration;

    use holdfast_types::{FencingToken, ZnodePath};

    use super::WAIT_MAX;
    use crate::param::{Absent, Param};

    pub const PREFIX: Param = Param::text(
        "prefix",
        "Watch the paths that begin with this text: /cfg/ is everything below /cfg, / is everything. The path of a lock is \
         /locks/NAME. Either prefix or path is required",
    );
    pub const PATH: Param = Param::path(
        "path",
        ZnodePath::MAX_LEN - 1,
        "Watch this znode only. The leading '/' is optional",
    );
    pub const SINCE: Param = Param::number(
        "since",
        (0, FencingToken::END - 1),
        "Only changes after this revision, e.g. the revision of a response; by default the current revision",
    )
    .hint("send the \"revision\" of a response, or the id of an event");
    pub const WAIT: Param = Param::duration(
        "wait",
        (Duration::ZERO, WAIT_MAX),
        "The maximum wait of a long poll for the first change",
    )
    .absent(Absent::Duration(Duration::from_secs(30)))
    .hint("to wait longer, send the call again after the wait");
}

/// Parameters of znodes.
pub mod tree {
    use std::time::Duration;

    use holdfast_types::SessionName;

    use crate::DURATION_MAX;
    use crate::param::{Form, Param};

    pub const SESSION: Param = Param::name(
        "session",
        SessionName::MAX_LEN,
        "The open session that remembers the response of a call with a request number, and owns ephemeral znodes. The call \
         does not renew it",
    );
    pub const EPHEMERAL: Param = Param::flag(
        "ephemeral",
        "Create a znode that is deleted when its session ends and that cannot have children. Requires session",
    );
    pub const CONTAINER: Param = Param::flag(
        "container",
        "Create a znode that is deleted after the deletion of its last child",
    );
    pub const TTL: Param = Param::duration(
        "ttl",
        (Duration::from_millis(1), DURATION_MAX),
        "Create a znode that is deleted after this time without children and without changes",
    )
    .hint("leave ttl out for a persistent znode");
    pub const ACL: Param = Param::of(
        "acl",
        Form::AccessEntry,
        "One entry of the znode's access list, scheme:id:perms. Without a list every caller has every permission",
    );
    pub const PARENTS: Param = Param::flag("parents", "Create missing directories as well");
    pub const SEQUENTIAL: Param = Param::flag(
        "sequential",
        "The name of the new znode ends with the next number of the directory",
    )
    .needed("true")
    .hint("add ?sequential; to choose the whole name, use PUT");
    pub const NAME: Param =
        Param::text_or_empty("name", "The beginning of the new znode's name; contains no '/'");
    pub const DELETE_RECURSIVE: Param =
        Param::flag("recursive", "Delete everything below the znode as well, all or nothing");
    pub const STAT: Param = Param::flag("stat", "The znode's stat as JSON, instead of its data");
    pub const CHILDREN: Param =
        Param::flag("children", "A page of the znode's children with their stats, ordered by name");
    pub const RECURSIVE: Param = Param::flag(
        "recursive",
        "A page of the znode and of everything below it that the caller may read",
    );
}
