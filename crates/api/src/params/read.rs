//! Looking at locks, sessions and readiness.

use std::time::Duration;

use holdfast_types::{SessionName, Stamp};

use super::query::Query;
use super::{LIST_LIMIT_DEFAULT, REDIRECT, about, limit, name};
use crate::{Absent, ErrorCode, Fields, Param, ParamList, Refusal, parse_duration, parse_time};

/// `GET` of one lock or one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadParams {
    /// Answer from this node's own state, which may lag.
    pub stale: bool,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl ReadParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[about::STALE, about::REDIRECT]);

    /// Reads the flags; nothing can be wrong with them any more.
    pub fn parse(fields: &Fields<'_>) -> Self {
        Self { stale: fields.flag("stale"), redirect: fields.flag(REDIRECT) }
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.flag("stale", self.stale);
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

/// The order of a list of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By name, page by page.
    #[default]
    Name,
    /// Those that are waited for most, the worst first; one page.
    Contention,
}

fn sort(fields: &Fields<'_>) -> Result<Sort, Refusal> {
    let refuse = |what: &str, detail: String| {
        Err(Refusal::of(what, ErrorCode::InvalidArgument, detail)
            .hint("sort=contention takes prefix, limit and stale"))
    };
    match fields.value("sort") {
        None | Some("name") => Ok(Sort::Name),
        Some("contention") => {
            let others = ["session", "page_token", "held", "waiting"];
            match others.into_iter().find(|other| fields.value(other).is_some()) {
                Some(other) => {
                    refuse(other, format!("'{other}' and 'sort=contention' exclude each other"))
                }
                None => Ok(Sort::Contention),
            }
        }
        Some(_) => refuse("sort", "'sort' is neither 'name' nor 'contention'".to_owned()),
    }
}

/// `GET` of a list, page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListParams {
    /// Only names that begin so. Locks only.
    pub prefix: String,
    /// Only locks that are held.
    pub held: bool,
    /// Only locks with waiters.
    pub waiting: bool,
    /// Only locks that this session holds or waits for.
    pub session: Option<SessionName>,
    /// Items of one page, 1 to [`crate::LIST_LIMIT_MAX`].
    pub limit: usize,
    /// In which order. Locks only.
    pub sort: Sort,
    /// Where the previous page ended.
    pub page_token: Option<String>,
    /// How to read.
    pub read: ReadParams,
}

impl Default for ListParams {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            held: false,
            waiting: false,
            session: None,
            limit: LIST_LIMIT_DEFAULT,
            sort: Sort::Name,
            page_token: None,
            read: ReadParams::default(),
        }
    }
}

impl ListParams {
    /// What the list of locks takes.
    pub const LOCK_KEYS: ParamList = ParamList::of_call(&[
        Param::text("prefix", "Only locks whose names begin so"),
        Param::name(
            "session",
            SessionName::MAX_LEN,
            "Only locks that this session holds or waits for",
        ),
        about::LIMIT,
        about::PAGE_TOKEN,
        Param::word("sort", &["name", "contention"], "By name, or those first that most wait for")
            .absent(Absent::Word("name")),
        Param::flag("held", "Only locks with a holder"),
        Param::flag("waiting", "Only locks with a queued waiter"),
        about::STALE,
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            prefix: fields.value("prefix").unwrap_or_default().to_owned(),
            held: fields.flag("held"),
            waiting: fields.flag("waiting"),
            session: name(fields, "session", SessionName::new)?,
            limit: limit(fields)?,
            sort: sort(fields)?,
            page_token: fields.value("page_token").map(str::to_owned),
            read: ReadParams::parse(fields),
        })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("prefix", Some(self.prefix.as_str()).filter(|prefix| !prefix.is_empty()));
        query.flag("held", self.held);
        query.flag("waiting", self.waiting);
        query.text("session", self.session.as_ref().map(SessionName::as_str));
        let limit = (self.limit != LIST_LIMIT_DEFAULT).then(|| self.limit.to_string());
        query.text("limit", limit.as_deref());
        query.text("sort", (self.sort == Sort::Contention).then_some("contention"));
        query.text("page_token", self.page_token.as_deref());
        query.flag("stale", self.read.stale);
        query.flag(REDIRECT, self.read.redirect);
        query.0
    }
}

/// `GET /v1/history/{name}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryParams {
    /// Only who held the lock at this time.
    pub at: Option<Moment>,
    /// Past holds at most, 1 to [`crate::LIST_LIMIT_MAX`].
    pub limit: usize,
}

/// A time, as a question says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Milliseconds of the Unix epoch.
    At(Stamp),
    /// So long ago.
    Ago(Duration),
}

impl Moment {
    /// The time it means, as of now.
    pub fn stamp(self, now: Stamp) -> Stamp {
        match self {
            Self::At(stamp) => stamp,
            Self::Ago(ago) => Stamp(now.0.saturating_sub(holdfast_types::millis(ago))),
        }
    }
}

impl HistoryParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        Param::text(
            "at",
            "Only who held it then: a time as of RFC 3339 such as 2026-03-01T14:05:09Z, a duration ago, or milliseconds of \
                 the Unix epoch",
        ),
        about::LIMIT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        const HINT: &str = "write at=2026-03-01T14:05:09Z (with + as %2B in an offset), at=5m for five minutes ago, or \
                            milliseconds of the Unix epoch";
        let moment = |text: &str| {
            let at = text.parse().ok().map(Stamp).or_else(|| parse_time(text)).map(Moment::At);
            at.or_else(|| parse_duration(text).ok().map(Moment::Ago)).ok_or_else(|| {
                let detail = "'at' is not a valid time";
                Refusal::of("at", ErrorCode::InvalidArgument, detail).hint(HINT)
            })
        };
        Ok(Self { at: fields.value("at").map(moment).transpose()?, limit: limit(fields)? })
    }
}
