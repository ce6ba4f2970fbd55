//! Parameters of elections.

use holdfast_types::{AcquireOptions, SessionName};

use crate::param::Param;

pub const SESSION: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "The session of the candidate; opened if it is new. Without it the server makes one that lives as long as the candidacy",
);
pub const VALUE: Param = Param::bounded_text(
    "value",
    AcquireOptions::VALUE_MAX,
    "Text shown with the candidate, e.g. an address. The body means the same",
)
.hint("keep the text elsewhere, and its location here");
pub const RESIGNED_SESSION: Param =
    Param::name("session", SessionName::MAX_LEN, "The session that resigns")
        .needed("me")
        .hint("add &session=ID with the session of the campaign");
