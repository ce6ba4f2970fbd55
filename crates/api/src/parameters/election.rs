//! Parameters of elections.

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
