//! Opening, renewing and closing sessions.

use std::time::Duration;

use holdfast_types::{FencingToken, Labels, Revision, SessionId, SessionName, Ttl};

use super::query::Query;
use super::{REDIRECT, about, labels, number, revision, ttl, wait};
use crate::{ErrorCode, Fields, Param, ParamList, Refusal};

/// `PUT /v1/sessions/{id}` and `POST /v1/sessions`: open a session, or renew it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenParams {
    /// Its time-to-live.
    pub ttl: Option<Ttl>,
    /// Shown to those who wait for its locks.
    pub labels: Labels,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl OpenParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[about::TTL, about::REDIRECT, about::LABELS]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let redirect = fields.flag(REDIRECT);
        Ok(Self { ttl: ttl(fields)?, labels: labels(fields)?, redirect })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.duration("ttl", self.ttl.map(Ttl::as_duration));
        query.flag(REDIRECT, self.redirect);
        query.labels(&self.labels);
        query.0
    }
}

/// `POST /v1/sessions/{id}/keepalive`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepAliveParams {
    /// How long to wait for news; none asks for no news.
    pub wait: Option<Duration>,
    /// News after this revision; none means from now on.
    pub since: Option<Revision>,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl KeepAliveParams {
    /// What the call takes.
    pub const KEYS: ParamList =
        ParamList::of_call(&[about::NEWS_WAIT, about::NEWS_SINCE, about::REDIRECT]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let since = fields.value("since").map(|since| revision("since", since)).transpose()?;
        Ok(Self { wait: wait(fields)?, since, redirect: fields.flag(REDIRECT) })
    }

    /// Whether news is asked for.
    pub const fn listens(&self) -> bool {
        self.wait.is_some() || self.since.is_some()
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.duration("wait", self.wait);
        query.text("since", self.since.map(|since| since.to_string()).as_deref());
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

/// `DELETE /v1/sessions/{id}`: by its own client, or by an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloseParams {
    /// An operator's reason, for the audit trail; none if the client closes its own session.
    pub force: Option<String>,
    /// The one session of that id that is meant; none means whichever is open.
    pub incarnation: Option<SessionId>,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl CloseParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        Param::name(
            "reason",
            REASON_BYTES_MAX,
            "Why an operator ends a session that is not its own; written into the audit trail. Needs force",
        ),
        Param::flag("force", "End the session of somebody else. Needs reason"),
        Param::number(
            "incarnation",
            INCARNATIONS,
            "The session that is meant, as the answer that opened it says. A copy of the call that arrives when a new \
                 session of that id is open changes nothing",
        ),
        about::REDIRECT,
    ]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead: `force` needs a `reason`, of at most
    /// [`REASON_BYTES_MAX`] bytes.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let refuse = |what: &str, detail: &str, hint: &'static str| {
            Err(Refusal::of(what, ErrorCode::InvalidArgument, detail.to_owned()).hint(hint))
        };
        let redirect = fields.flag(REDIRECT);
        let force = match (fields.flag("force"), fields.value("reason")) {
            (true, None) => {
                return refuse(
                    "reason",
                    "'force' needs a reason",
                    "add &reason=TEXT: it is written into the audit trail",
                );
            }
            (false, Some(_)) => {
                return refuse(
                    "reason",
                    "'reason' is for 'force'",
                    "add &force, or leave reason out",
                );
            }
            (true, Some(reason)) if reason.len() > REASON_BYTES_MAX => {
                return refuse("reason", "'reason' is longer than 512 bytes", "say it shorter");
            }
            (true, Some(reason)) => Some(reason.to_owned()),
            (false, None) => None,
        };
        let incarnation = number(fields, "incarnation", INCARNATIONS)?.map(SessionId);
        Ok(Self { force, incarnation, redirect })
    }

    /// The query that says the same, with its question mark; empty if nothing is said.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.flag("force", self.force.is_some());
        query.text("reason", self.force.as_deref());
        query.number("incarnation", self.incarnation.map(|incarnation| incarnation.0));
        query.flag(REDIRECT, self.redirect);
        if query.0.is_empty() { query.0 } else { format!("?{}", query.0) }
    }
}

const INCARNATIONS: (u64, u64) = (1, FencingToken::END - 1);

/// The longest reason of an operator, bytes.
pub const REASON_BYTES_MAX: usize = 512;
/// Sessions renewed by one call at most.
pub const KEPT_ALIVE_MAX: usize = 1_000;

/// `POST /v1/keepalive`: the sessions to renew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepManyParams {
    /// In the order of the answers.
    pub sessions: Vec<SessionName>,
}

impl KeepManyParams {
    /// What the query takes: the sessions are in the body.
    pub const KEYS: ParamList = ParamList::of_call(&[about::REDIRECT]);

    /// Reads a body: a JSON list of ids.
    ///
    /// # Errors
    /// [`Refusal`] says what is wrong, and with which id.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        const HINT: &str = r#"send a JSON list of session ids as the body: ["me", "you"]"#;
        let ids: Vec<String> = serde_json::from_slice(body).map_err(|error| {
            let detail = format!("the body is not a list of session ids: {error}");
            Refusal::of("body", ErrorCode::InvalidArgument, detail).hint(HINT)
        })?;
        if ids.is_empty() || ids.len() > KEPT_ALIVE_MAX {
            let detail = format!("{} sessions: 1 to {KEPT_ALIVE_MAX} at once", ids.len());
            return Err(Refusal::of("body", ErrorCode::InvalidArgument, detail).hint(HINT));
        }
        let named =
            |id: String| SessionName::new(id).map_err(|error| Refusal::bad_name("session", &error));
        Ok(Self { sessions: ids.into_iter().map(named).collect::<Result<_, _>>()? })
    }
}
