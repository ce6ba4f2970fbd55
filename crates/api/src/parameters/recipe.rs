//! Parameters of latches, barriers and counters.

use std::time::Duration;

use holdfast_types::{
    FencingToken, Owner, Recipe, RecipeKind, RequestId, RequestNumber, SessionName,
};

use super::WAIT_MAX;
use crate::param::{Absent, Form, Param};

const KINDS: [&str; 4] = [
    RecipeKind::Latch.as_str(),
    RecipeKind::Barrier.as_str(),
    RecipeKind::DoubleBarrier.as_str(),
    RecipeKind::Counter.as_str(),
];

pub const RECIPE_PREFIX: Param =
    Param::text("prefix", "Only recipes whose names begin with this text");
pub const RECIPE_KIND: Param = Param::word("kind", &KINDS, "Only recipes of this kind");
pub const COUNT: Param = Param::number(
    "count",
    (1, Recipe::COUNT_MAX as u64),
    "The number of keys to count before the latch opens",
)
.needed("3");
pub const KEY: Param =
    Param::name("key", RequestId::MAX_LEN, "The key of the counted event; each key counts once")
        .needed("job-1")
        .hint("add ?key=ID that names what is done");
pub const ENDING_SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The open session whose end is counted, and that remembers the response of a call with a request number",
);
pub const ON_DEATH: Param = Param::word(
    "on_death",
    &["count"],
    "Count when the session ends, instead of now. Requires session",
)
.hint("write on_death=count to count when the session ends, or leave it out");
pub const WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "The maximum wait; to wait longer, send the call again",
)
.absent(Absent::Duration(Duration::ZERO))
.hint("to wait longer, send the call again after the wait");
pub const PARTIES: Param = Param::number(
    "parties",
    (1, Recipe::PARTIES_MAX as u64),
    "The number of members that pass the barrier together",
)
.needed("2");
pub const MEMBER: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session of the member; an arrival opens it if it does not exist",
)
.needed("me")
.hint(
    "add the parameter session=ID with an id of your own, such as a host's name and a process id",
);
pub const MEMBER_OWNER: Param = Param::name(
    "owner",
    Owner::MAX_LEN,
    "The owner within the session: two owners of one session are two members",
);
pub const ARRIVAL: Param = Param::number(
    "request",
    (1, RequestNumber::MAX.0),
    "The number of the arrival, larger than all earlier request numbers of the session. A copy of the call has the same \
     number and gets the first final response. The header Idempotency-Key is an alternative",
);
pub const LEFT_ARRIVAL: Param = Param::number(
    "request",
    (1, RequestNumber::MAX.0),
    "The number of the arrival to withdraw, also before it arrives. Any other arrival stays",
);
pub const GENERATION: Param = Param::number(
    "generation",
    (1, FencingToken::END - 1),
    "The generation or the round to leave, from the response of the arrival. A copy of the call that arrives in another \
     one changes nothing",
);
pub const ADD: Param =
    Param::of("add", Form::Whole, "The number to add; may be negative").needed("5");
pub const VALUE: Param = Param::of("value", Form::Whole, "The new value").needed("7");
pub const VERSION: Param = Param::number(
    "version",
    (0, i64::MAX as u64),
    "The required version of the counter, 0 if it was never changed. The header If-Match is an alternative",
)
.hint("send the version of a response, or 0 for a counter that was never changed");
