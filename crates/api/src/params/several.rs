//! Several locks at once: all or nothing.

use std::time::Duration;

use holdfast_types::{AcquireAll, Attempt, Labels, LockName, Mode, Owner, SessionName, Ttl};

use super::lock::mode;
use super::query::Query;
use super::terms::{self, hold};
use super::{REDIRECT, about, attempt, attempt_of_session, labels, name, ttl, wait};
use crate::{Absent, ErrorCode, Fields, Form, Param, ParamList, Refusal};

const NAME: Param = Param::of(
    "name",
    Form::Locks,
    "One of the locks; given once for each, at most 16 times. In a body: a list",
)
.needed("orders");

/// `POST /v1/locks`: take several locks, or renew them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcquireAllParams {
    /// Which, each once: from 1 to [`AcquireAll::LOCKS_MAX`].
    pub locks: Vec<LockName>,
    /// Whose; none lets the server make one that lives as long as the locks.
    pub session: Option<SessionName>,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// The attempt that this is a copy of.
    pub attempt: Option<Attempt>,
    /// The session's time-to-live.
    pub ttl: Option<Ttl>,
    /// How long to wait for all of them, up to [`crate::WAIT_MAX`].
    pub wait: Duration,
    /// How to hold them; none means exclusively.
    pub mode: Option<Mode>,
    /// The longest hold.
    pub max_hold: Option<Duration>,
    /// Shown to those who wait.
    pub labels: Labels,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl AcquireAllParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        NAME,
        Param::name(
            "session",
            SessionName::MAX_LEN,
            "Whose locks they are; opened if it is new. Without it the server makes one that lives as long as the locks",
        ),
        about::OWNER,
        about::ATTEMPT,
        about::TTL,
        about::WAIT,
        Param::word("mode", &["exclusive", "shared"], "How to hold them, all alike")
            .absent(Absent::Word("exclusive")),
        terms::MAX_HOLD,
        about::REDIRECT,
        about::LABELS,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let mode = mode(fields)?;
        if mode == Some(Mode::Upgradable) {
            let detail = "'mode=upgradable' is for one lock at a time".to_owned();
            return Err(Refusal::of("mode", ErrorCode::InvalidArgument, detail)
                .hint("take them with mode=exclusive or mode=shared"));
        }
        let session = name(fields, "session", SessionName::new)?;
        Ok(Self {
            locks: locks(fields)?,
            owner: name(fields, "owner", Owner::new)?,
            attempt: attempt_of_session(fields, session.as_ref())?,
            session,
            ttl: ttl(fields)?,
            wait: wait(fields)?.unwrap_or_default(),
            mode,
            max_hold: hold(fields, "max_hold")?,
            redirect: fields.flag(REDIRECT),
            labels: labels(fields)?,
        })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        for lock in &self.locks {
            query.text("name", Some(lock.as_str()));
        }
        query.text("session", self.session.as_ref().map(SessionName::as_str));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.number("attempt", self.attempt.map(|attempt| attempt.0));
        query.duration("ttl", self.ttl.map(Ttl::as_duration));
        query.duration("wait", Some(self.wait).filter(|wait| !wait.is_zero()));
        query.text("mode", self.mode.map(Mode::as_str));
        query.duration("max_hold", self.max_hold);
        query.flag(REDIRECT, self.redirect);
        query.labels(&self.labels);
        query.0
    }
}

/// `DELETE /v1/locks`: give several locks back, or leave their queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseAllParams {
    /// Which, each once: from 1 to [`AcquireAll::LOCKS_MAX`].
    pub locks: Vec<LockName>,
    /// Whose places.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// The attempt that is given up; none means whatever places there are.
    pub attempt: Option<Attempt>,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl ReleaseAllParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        NAME,
        Param::name("session", SessionName::MAX_LEN, "Whose places are given up").needed("me"),
        about::OWNER,
        about::RELEASED_ATTEMPT,
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let session = name(fields, "session", SessionName::new)?.ok_or_else(|| {
            let detail = "a release must say whose places are given up";
            Refusal::of("session", ErrorCode::InvalidArgument, detail)
                .hint("add &session=ID with the session of the grant")
        })?;
        Ok(Self {
            locks: locks(fields)?,
            session,
            owner: name(fields, "owner", Owner::new)?,
            attempt: attempt(fields)?,
            redirect: fields.flag(REDIRECT),
        })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        for lock in &self.locks {
            query.text("name", Some(lock.as_str()));
        }
        query.text("session", Some(self.session.as_str()));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.number("attempt", self.attempt.map(|attempt| attempt.0));
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

fn locks(fields: &Fields<'_>) -> Result<Vec<LockName>, Refusal> {
    let refuse = |detail: String| {
        Err(Refusal::of("name", ErrorCode::InvalidArgument, detail)
            .hint("name each lock once: ?name=a&name=b"))
    };
    let mut locks = Vec::new();
    for text in fields.values("name") {
        let lock = LockName::new(text).map_err(|error| Refusal::bad_name("name", &error))?;
        if locks.contains(&lock) {
            return refuse(format!("'name' says '{lock}' twice"));
        }
        if locks.len() == AcquireAll::LOCKS_MAX {
            return refuse(format!("'name' is given more than {} times", AcquireAll::LOCKS_MAX));
        }
        locks.push(lock);
    }
    if locks.is_empty() { refuse("'name' is missing".to_owned()) } else { Ok(locks) }
}
