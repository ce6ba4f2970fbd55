//! Standing for an election, and giving leadership up. An election is a lock, so these say what a lock's calls say.

use std::time::Duration;

use holdfast_types::{Attempt, Labels, Owner, ReleaseTarget, SessionName, Ttl};

use super::query::Query;
use super::terms::value;
use super::{REDIRECT, about, attempt_of_session, labels, name, target, ttl, wait};
use crate::{ErrorCode, Fields, Param, ParamList, Refusal};

/// `PUT /v1/elections/{name}`: stand for an election, or show another value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CampaignParams {
    /// Who stands; none lets the server make a session that lives as long as the candidacy.
    pub session: Option<SessionName>,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// The attempt that this is a copy of.
    pub attempt: Option<Attempt>,
    /// The session's time-to-live.
    pub ttl: Option<Ttl>,
    /// How long to stand, up to [`crate::WAIT_MAX`].
    pub wait: Duration,
    /// What everybody is shown of the candidate; the body says the same.
    pub value: Option<String>,
    /// Shown to those who wait.
    pub labels: Labels,
    /// Answer 307 to the leader of the cluster.
    pub redirect: bool,
}

impl CampaignParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList {
        what: "a campaign",
        params: &[
            Param::name(
                "session",
                SessionName::MAX_LEN,
                "Who stands; opened if it is new. Without it the server makes one that lives as long as the candidacy",
            ),
            about::OWNER,
            about::ATTEMPT,
            about::TTL,
            about::WAIT,
            Param::text(
                "value",
                "What everybody is shown of the candidate, as an address: at most 4096 bytes. The body says the same",
            ),
            about::REDIRECT,
            about::LABELS,
        ],
    };

    /// Checks every parameter, and the body.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>, body: &[u8]) -> Result<Self, Refusal> {
        let session = name(fields, "session", SessionName::new)?;
        Ok(Self {
            owner: name(fields, "owner", Owner::new)?,
            attempt: attempt_of_session(fields, session.as_ref())?,
            session,
            ttl: ttl(fields)?,
            wait: wait(fields)?.unwrap_or_default(),
            value: shown(value(fields)?, body)?,
            redirect: fields.flag(REDIRECT),
            labels: labels(fields)?,
        })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("session", self.session.as_ref().map(SessionName::as_str));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.number("attempt", self.attempt.map(|attempt| attempt.0));
        query.duration("ttl", self.ttl.map(Ttl::as_duration));
        query.duration("wait", Some(self.wait).filter(|wait| !wait.is_zero()));
        query.text("value", self.value.as_deref());
        query.flag(REDIRECT, self.redirect);
        query.labels(&self.labels);
        query.0
    }
}

/// The value, from one of the two places.
fn shown(value: Option<String>, body: &[u8]) -> Result<Option<String>, Refusal> {
    let refuse = |detail: &'static str, hint: &'static str| {
        Err(Refusal::of("value", ErrorCode::InvalidArgument, detail).hint(hint))
    };
    match (value, body) {
        (value, []) => Ok(value),
        (Some(_), _) => refuse("'value' is given twice", "give it as the body, or with ?value="),
        (None, body) => match std::str::from_utf8(body) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => refuse("the value is not UTF-8", "show text: an address, a name"),
        },
    }
}

/// `DELETE /v1/elections/{name}`: resign, or withdraw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResignParams {
    /// Who leads or stands.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// What exactly is given up.
    pub target: ReleaseTarget,
    /// Answer 307 to the leader of the cluster.
    pub redirect: bool,
}

impl ResignParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList {
        what: "a resignation",
        params: &[
            Param::name("session", SessionName::MAX_LEN, "Who resigns").needed("me"),
            about::OWNER,
            about::RELEASED_ATTEMPT,
            about::RELEASED_TOKEN,
            about::REDIRECT,
        ],
    };

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; `session` is needed.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let session = name(fields, "session", SessionName::new)?.ok_or_else(|| {
            let detail = "a resignation must say who resigns";
            Refusal::of("session", ErrorCode::InvalidArgument, detail)
                .hint("add &session=ID with the session of the campaign")
        })?;
        let owner = name(fields, "owner", Owner::new)?;
        let target = target(fields)?;
        Ok(Self { session, owner, target, redirect: fields.flag(REDIRECT) })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("session", Some(self.session.as_str()));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.release_target(self.target);
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(query: &str, body: &[u8]) -> Result<CampaignParams, Refusal> {
        CampaignParams::parse(&Fields::parse(Some(query), &CampaignParams::KEYS)?, body)
    }

    #[test]
    fn what_a_client_writes_is_what_the_server_reads() {
        let full = "session=db1&owner=o&ttl=10s&wait=5m&value=10.0.0.7%3A5432&redirect=true&label.host=web%203";
        let read = campaign(full, b"").unwrap();
        assert_eq!(read.value.as_deref(), Some("10.0.0.7:5432"));
        assert_eq!(campaign(&read.to_query(), b"").unwrap(), read);
        assert_eq!(campaign("", b"").unwrap(), CampaignParams::default());
        let resign = |query: &str| {
            ResignParams::parse(&Fields::parse(Some(query), &ResignParams::KEYS).unwrap())
        };
        let read = resign("session=db1&owner=o&redirect").unwrap();
        assert_eq!(resign(&read.to_query()).unwrap(), read);
        assert_eq!(resign("owner=o").unwrap_err().parameter.as_deref(), Some("session"));
    }

    #[test]
    fn the_body_is_the_value_and_nothing_else_says_it_too() {
        assert_eq!(campaign("", b"10.0.0.7").unwrap().value.as_deref(), Some("10.0.0.7"));
        for (query, body) in [("value=a", &b"b"[..]), ("", &[0xff]), ("value=", b"")] {
            let refusal = campaign(query, body).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::InvalidArgument, "{query}");
        }
        let long = format!("value={}", "x".repeat(4097));
        assert_eq!(campaign(&long, b"").unwrap_err().code, ErrorCode::InvalidArgument);
    }
}
