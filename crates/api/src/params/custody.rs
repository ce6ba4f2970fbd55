//! Taking a lock from its holders, and asking them for it.

use std::time::Duration;

use holdfast_types::{FencingToken, Owner, Reason, RequestRelease, SessionName};

use super::query::Query;
use super::{REDIRECT, about, name, number};
use crate::duration::check_bounds;
use crate::{Absent, ErrorCode, Fields, Param, ParamList, Refusal, parse_duration};

/// The one value of `ask`.
const RELEASE: &str = "release";
const DEADLINE_MIN: Duration = Duration::from_millis(1);
const DEADLINE_MAX: Duration = Duration::from_millis(RequestRelease::DEADLINE_MAX_MS);
const DEADLINE_DEFAULT: Duration = Duration::from_secs(30);

/// What tokens there are.
pub(super) const TOKENS: (u64, u64) = (1, FencingToken::END - 1);

/// `DELETE /v1/locks/{name}?force`: an operator takes the lock from whoever holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakParams {
    /// Why, for those who lose it and for the audit trail.
    pub reason: Reason,
    /// Only from the hold of this token; none takes it from everybody who holds it then.
    pub token: Option<FencingToken>,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl BreakParams {
    /// Checks every parameter. None if the call does not say `force`.
    ///
    /// # Errors
    /// [`Refusal`]: `force` needs a `reason` and nobody's place, and a reason is for `force` alone.
    pub fn parse(fields: &Fields<'_>) -> Result<Option<Self>, Refusal> {
        let refuse = |what: &str, detail: String, hint: &'static str| {
            Err(Refusal::of(what, ErrorCode::InvalidArgument, detail).hint(hint))
        };
        let reason = name(fields, "reason", Reason::new)?;
        if !fields.flag("force") {
            return match fields.value("reason") {
                None => Ok(None),
                Some(_) => refuse(
                    "reason",
                    "'reason' is for 'force'".to_owned(),
                    "add &force to take the lock from its holders, or leave it out",
                ),
            };
        }
        for other in ["session", "owner", "attempt", "to", "to_owner"] {
            if fields.value(other).is_some() {
                let detail = format!("'force' and '{other}' exclude each other");
                return refuse(other, detail, "force takes the lock from everybody who holds it");
            }
        }
        let Some(reason) = reason else {
            let detail = "'force' needs a reason".to_owned();
            return refuse(
                "reason",
                detail,
                "add &reason=TEXT: it is told to those who lose the lock",
            );
        };
        let token = token(fields)?;
        Ok(Some(Self { reason, token, redirect: fields.flag(REDIRECT) }))
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.flag("force", true);
        query.text("reason", Some(self.reason.as_str()));
        query.text("token", self.token.map(|token| token.to_string()).as_deref());
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

/// `POST /v1/locks/{name}?ask=release`: the holders are asked to release the lock.
///
/// `ask=release` is required, so that a caller who guesses that POST acquires the lock never gets a 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskParams {
    /// Which holder; none asks all of them.
    pub session: Option<SessionName>,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// Why.
    pub reason: Option<Reason>,
    /// By when, from now.
    pub deadline: Duration,
    /// Whether the hold is taken away then.
    pub revoke: bool,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl AskParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList { what: "PUT acquires a lock, POST asks its holders to release it; POST", params: &[
            Param::word(
                "ask",
                &[RELEASE],
                "What the holders are asked to do. Required, because a POST does not acquire the lock: PUT does",
            )
            .needed(RELEASE),
            Param::name(
                "session",
                SessionName::MAX_LEN,
                "Which holder is asked; without it all of them",
            ),
            Param::name("owner", Owner::MAX_LEN, "Who within that session. Needs session"),
            Param::name("reason", Reason::MAX_LEN, "Why, for the holder to see"),
            Param::duration(
                "deadline",
                (DEADLINE_MIN, DEADLINE_MAX),
                "By when the lock is wanted, from now",
            )
            .absent(Absent::Duration(DEADLINE_DEFAULT)),
            Param::flag("revoke", "Whether the hold ends at the deadline if it was not given back"),
            about::REDIRECT,
        ] };

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        if fields.value("ask") != Some(RELEASE) {
            return Err(not_an_acquire());
        }
        let (session, owner) =
            (name(fields, "session", SessionName::new)?, name(fields, "owner", Owner::new)?);
        if session.is_none() && owner.is_some() {
            let detail = "'owner' needs 'session'".to_owned();
            return Err(Refusal::of("owner", ErrorCode::InvalidArgument, detail)
                .hint("say whose owner it is, or leave it out to ask everybody who holds"));
        }
        Ok(Self {
            session,
            owner,
            reason: name(fields, "reason", Reason::new)?,
            deadline: deadline(fields)?,
            revoke: fields.flag("revoke"),
            redirect: fields.flag(REDIRECT),
        })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("ask", Some(RELEASE));
        query.text("session", self.session.as_ref().map(SessionName::as_str));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.text("reason", self.reason.as_ref().map(Reason::as_str));
        query.duration("deadline", Some(self.deadline));
        query.flag("revoke", self.revoke);
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

fn not_an_acquire() -> Refusal {
    let detail = "POST does not acquire a lock, and 'ask=release' is missing: nothing was done";
    Refusal::of("ask", ErrorCode::InvalidArgument, detail)
        .hint("acquire it with PUT; to ask its holders to release it, add ?ask=release to the POST")
}

fn deadline(fields: &Fields<'_>) -> Result<Duration, Refusal> {
    const ADVICE: &str = "it is counted from now";
    let Some(text) = fields.value("deadline") else { return Ok(DEADLINE_DEFAULT) };
    parse_duration(text)
        .and_then(|d| check_bounds(text, d, "a deadline", (DEADLINE_MIN, DEADLINE_MAX), ADVICE))
        .map_err(|error| Refusal::bad_duration("deadline", &error))
}

pub(super) fn token(fields: &Fields<'_>) -> Result<Option<FencingToken>, Refusal> {
    Ok(number(fields, "token", TOKENS)?.map(FencingToken))
}
