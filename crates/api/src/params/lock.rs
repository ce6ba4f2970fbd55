//! Taking a lock and giving it back.

use std::time::Duration;

use holdfast_types::{Attempt, Labels, Mode, Owner, Reason, ReleaseTarget, SessionName, Ttl};

use super::query::Query;
use super::terms::{self, TermsParams};
use super::{REDIRECT, about, attempt_of_session, labels, name, target, ttl, wait};
use crate::{Absent, ErrorCode, Fields, Param, ParamList, Refusal};

/// `PUT /v1/locks/{name}`: take the lock, or renew it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcquireParams {
    /// Whose; none lets the server make one that lives as long as the lock.
    pub session: Option<SessionName>,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// The attempt that this is a copy of.
    pub attempt: Option<Attempt>,
    /// The session's time-to-live.
    pub ttl: Option<Ttl>,
    /// How long to queue, up to [`crate::WAIT_MAX`].
    pub wait: Duration,
    /// How to hold it; none means exclusively, or as it is held already.
    pub mode: Option<Mode>,
    /// `hold=connection`: the lock lives as long as the connection, and needs no session and no renewals.
    pub for_connection: bool,
    /// Shown to those who wait.
    pub labels: Labels,
    /// What else is said about the place.
    pub terms: TermsParams,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl AcquireParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
            Param::name(
                "session",
                SessionName::MAX_LEN,
                "Whose lock it is; opened if it is new. Without it the server makes one that lives as long as the lock",
            ),
            about::OWNER,
            about::ATTEMPT,
            about::TTL,
            about::WAIT,
            Param::word(
                "mode",
                &["exclusive", "shared", "upgradable"],
                "How to hold it: alone, together with others who share it, or so and with the right to become exclusive; \
                 a renewal keeps what it has, and another mode than that of a hold converts it",
            )
            .absent(Absent::Word("exclusive")),
            Param::word(
                "hold",
                &["connection"],
                "The lock lives as long as the connection, which is a stream of events, and needs no session",
            ),
            terms::PERMITS,
            terms::LIMIT,
            terms::PRIORITY,
            terms::REENTRANT,
            terms::MAX_HOLD,
            terms::MIN_HOLD,
            terms::VALUE,
            terms::SEGMENTS,
            terms::SEGMENT,
            about::REDIRECT, about::LABELS,]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let for_connection = hold(fields)?;
        let session = name(fields, "session", SessionName::new)?;
        Ok(Self {
            owner: name(fields, "owner", Owner::new)?,
            attempt: attempt_of_session(fields, session.as_ref())?,
            session,
            ttl: ttl(fields)?,
            wait: wait(fields)?.unwrap_or_default(),
            mode: mode(fields)?,
            for_connection,
            terms: TermsParams::parse(fields)?,
            redirect: fields.flag(REDIRECT),
            labels: labels(fields)?,
        })
    }

    /// The query that says the same; empty if everything is as by default.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("session", self.session.as_ref().map(SessionName::as_str));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.number("attempt", self.attempt.map(|attempt| attempt.0));
        query.duration("ttl", self.ttl.map(Ttl::as_duration));
        query.duration("wait", Some(self.wait).filter(|wait| !wait.is_zero()));
        query.text("mode", self.mode.map(Mode::as_str));
        query.text("hold", self.for_connection.then_some("connection"));
        self.terms.write(&mut query);
        query.flag(REDIRECT, self.redirect);
        query.labels(&self.labels);
        query.0
    }
}

/// `DELETE /v1/locks/{name}`: give the lock back, or leave its queue; of one that is cut into segments, the one that the
/// caller has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseParams {
    /// Whose place.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// What exactly is given up.
    pub target: ReleaseTarget,
    /// The session that receives the lock, and its owner; `None` grants the lock to the next waiter. With a receiver the target
    /// is no attempt.
    pub to: Option<(SessionName, Option<Owner>)>,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl ReleaseParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        Param::name(
            "session",
            SessionName::MAX_LEN,
            "Whose place is given up; needed unless the lock is taken with force",
        ),
        about::OWNER,
        about::RELEASED_ATTEMPT,
        Param::name(
            "to",
            SessionName::MAX_LEN,
            "The session that holds the lock from now on, under a new token and without a gap; it must be open",
        ),
        Param::name("to_owner", Owner::MAX_LEN, "Who within that session. Needs to"),
        Param::name(
            "reason",
            Reason::MAX_LEN,
            "Why an operator takes the lock away; told to those who lose it, and written into the audit trail. Needs \
                 force",
        ),
        about::RELEASED_TOKEN,
        Param::flag("force", "End every hold of the lock, as an operator. Needs reason"),
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; the session is needed.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let session = name(fields, "session", SessionName::new)?.ok_or_else(|| {
            let detail = "a release must say whose place is given up";
            Refusal::of("session", ErrorCode::InvalidArgument, detail)
                .hint("add ?session=ID with the session of the grant")
        })?;
        let owner = name(fields, "owner", Owner::new)?;
        let (target, to) = (target(fields)?, to(fields)?);
        Ok(Self { session, owner, target, to, redirect: fields.flag(REDIRECT) })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("session", Some(self.session.as_str()));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.release_target(self.target);
        let to = self.to.as_ref();
        query.text("to", to.map(|(session, _)| session.as_str()));
        let to_owner = to.and_then(|(_, owner)| owner.as_ref());
        query.text("to_owner", to_owner.map(Owner::as_str));
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

fn to(fields: &Fields<'_>) -> Result<Option<(SessionName, Option<Owner>)>, Refusal> {
    let to = name(fields, "to", SessionName::new)?;
    let owner = name(fields, "to_owner", Owner::new)?;
    let refuse = |what: &str, detail: &str| {
        Err(Refusal::of(what, ErrorCode::InvalidArgument, detail.to_owned())
            .hint("add &to=SESSION, and name the hold by its token: it is handed on with all its attempts"))
    };
    match to {
        None if owner.is_some() => refuse("to_owner", "'to_owner' needs 'to'"),
        Some(_) if fields.value("attempt").is_some() => {
            refuse("attempt", "'attempt' and 'to' exclude each other")
        }
        to => Ok(to.map(|to| (to, owner))),
    }
}

pub(super) fn mode(fields: &Fields<'_>) -> Result<Option<Mode>, Refusal> {
    let Some(text) = fields.value("mode") else { return Ok(None) };
    let mode = Mode::ALL.into_iter().find(|mode| mode.as_str() == text);
    mode.map(Some).ok_or_else(|| {
        let detail = "'mode' is none of 'exclusive', 'shared' and 'upgradable'".to_owned();
        Refusal::of("mode", ErrorCode::InvalidArgument, detail)
            .hint("leave it out for an exclusive lock")
    })
}

fn hold(fields: &Fields<'_>) -> Result<bool, Refusal> {
    let Some(hold) = fields.value("hold") else { return Ok(false) };
    if hold != "connection" {
        let detail = "'hold' is not 'connection'";
        return Err(Refusal::of("hold", ErrorCode::InvalidArgument, detail)
            .hint("leave hold out, and renew the session"));
    }
    for other in ["session", "owner", "attempt"] {
        if fields.value(other).is_some() {
            let detail = format!("'{other}' and 'hold=connection' exclude each other");
            return Err(Refusal::of(other, ErrorCode::InvalidArgument, detail)
                .hint("the connection is the holder: leave one of them out"));
        }
    }
    Ok(true)
}
