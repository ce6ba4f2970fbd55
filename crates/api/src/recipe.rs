//! Latches, barriers, double barriers and counters: parameters, paths, and in `bodies` what they answer.

mod about;
mod bodies;

use std::time::Duration;

use holdfast_types::{Labels, Owner, Recipe, RecipeName, RequestId, SessionName, Ttl};

use crate::parameters::{LABELS, REDIRECT as REDIRECTED, REQUEST, SESSION, STALE, TTL};
use crate::params::{ChangeParams, ReadParams, labels, name, ttl, wait};
use crate::params::{Query, REDIRECT};
use crate::{ErrorCode, Fields, ParamList, Refusal, escape_path};

pub use bodies::{
    BreachBody, CountDownBody, CounterBody, GateBody, LatchBody, LeftBody, PassedBody, RecipeFacts,
};

/// `/v1/latches/<name>`
pub fn latch_path(latch: &RecipeName) -> String {
    format!("/v1/latches/{}", escape_path(latch.as_str()))
}

/// `/v1/barriers/<name>`
pub fn barrier_path(barrier: &RecipeName) -> String {
    format!("/v1/barriers/{}", escape_path(barrier.as_str()))
}

/// `/v1/double-barriers/<name>`
pub fn double_barrier_path(barrier: &RecipeName) -> String {
    format!("/v1/double-barriers/{}", escape_path(barrier.as_str()))
}

/// `/v1/counters/<name>`
pub fn counter_path(counter: &RecipeName) -> String {
    format!("/v1/counters/{}", escape_path(counter.as_str()))
}

/// `PUT /v1/latches/{name}`: make a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatchParams {
    /// How often it has to be counted down, 1 to [`Recipe::COUNT_MAX`].
    pub count: u32,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl LatchParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[about::COUNT, REDIRECTED]);

    /// What deleting one takes.
    pub const DELETE_KEYS: ParamList = ParamList::of_call(&[REDIRECTED]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; the count is needed.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let count = number_to(fields, "count", Recipe::COUNT_MAX, "?count=3")?;
        Ok(Self { count, redirect: fields.flag(REDIRECT) })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("count", Some(&self.count.to_string()));
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

/// `POST /v1/latches/{name}`: count it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountDownParams {
    /// What is counted: each key once.
    pub key: RequestId,
    /// Count it when this session ends, instead of now.
    pub when_ended: Option<SessionName>,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl CountDownParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        about::KEY,
        about::KEY_TOO,
        about::DYING,
        about::ON_DEATH,
        REDIRECTED,
    ]);

    /// Checks every parameter; `header` is the request id that came as a header, and stands for the key without one.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; a key or a request id is needed.
    pub fn parse(fields: &Fields<'_>, header: Option<&str>) -> Result<Self, Refusal> {
        let key = match name(fields, "key", RequestId::new)? {
            Some(key) => Some(key),
            None => request_id(fields, header)?,
        };
        let key = key.ok_or_else(|| {
            let detail = "a latch is counted down once for each key, and none is given";
            Refusal::of("key", ErrorCode::InvalidArgument, detail)
                .hint("add ?key=ID that names what is done, or the header Idempotency-Key")
        })?;
        let session = name(fields, "session", SessionName::new)?;
        let when_ended = match (fields.value("on_death"), session) {
            (None, _) => None,
            (Some("count"), Some(session)) => Some(session),
            (Some("count"), None) => {
                let detail = "whose end counts is not said";
                return Err(Refusal::of("session", ErrorCode::InvalidArgument, detail)
                    .hint("add &session=ID of an open session"));
            }
            (Some(_), _) => {
                let detail = "'on_death' is not 'count'";
                return Err(Refusal::of("on_death", ErrorCode::InvalidArgument, detail)
                    .hint("write on_death=count to count when the session ends, or leave it out"));
            }
        };
        Ok(Self { key, when_ended, redirect: fields.flag(REDIRECT) })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("key", Some(self.key.as_str()));
        query.text("session", self.when_ended.as_ref().map(SessionName::as_str));
        query.text("on_death", self.when_ended.as_ref().map(|_| "count"));
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

/// `GET /v1/latches/{name}`: wait for it to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitParams {
    /// How long, up to [`crate::WAIT_MAX`].
    pub wait: Duration,
    /// How to read.
    pub read: ReadParams,
}

impl WaitParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[about::WAIT, STALE, REDIRECTED]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        Ok(Self { wait: wait(fields)?.unwrap_or_default(), read: ReadParams::parse(fields) })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.duration("wait", Some(self.wait).filter(|wait| !wait.is_zero()));
        query.flag("stale", self.read.stale);
        query.flag(REDIRECT, self.read.redirect);
        query.0
    }
}

/// `POST /v1/barriers/{name}` and `PUT /v1/double-barriers/{name}`: arrive and wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArriveParams {
    /// How many pass together, 1 to [`Recipe::PARTIES_MAX`].
    pub parties: u32,
    /// Whose; opened if it is new.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// A retry under the same id gets the first final answer.
    pub request: Option<RequestId>,
    /// The session's time-to-live.
    pub ttl: Option<Ttl>,
    /// How long to wait, up to [`crate::WAIT_MAX`].
    pub wait: Duration,
    /// Labels of a session that is opened.
    pub labels: Labels,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl ArriveParams {
    /// What the call takes.
    pub const KEYS: ParamList = ParamList::of_call(&[
        about::PARTIES,
        about::MEMBER,
        about::OWNER,
        about::ARRIVAL,
        TTL,
        about::WAIT,
        REDIRECTED,
        LABELS,
    ]);

    /// Checks every parameter; `header` is the request id that came as a header.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; the parties and the session are needed.
    pub fn parse(fields: &Fields<'_>, header: Option<&str>) -> Result<Self, Refusal> {
        Ok(Self {
            parties: number_to(fields, "parties", Recipe::PARTIES_MAX, "?parties=3")?,
            session: session(fields)?,
            owner: name(fields, "owner", Owner::new)?,
            request: request_id(fields, header)?,
            ttl: ttl(fields)?,
            wait: wait(fields)?.unwrap_or_default(),
            redirect: fields.flag(REDIRECT),
            labels: labels(fields)?,
        })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("parties", Some(&self.parties.to_string()));
        query.text("session", Some(self.session.as_str()));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.text("request", self.request.as_ref().map(RequestId::as_str));
        query.duration("ttl", self.ttl.map(Ttl::as_duration));
        query.duration("wait", Some(self.wait).filter(|wait| !wait.is_zero()));
        query.flag(REDIRECT, self.redirect);
        query.labels(&self.labels);
        query.0
    }
}

/// `DELETE` of a barrier or a double barrier: leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveParams {
    /// Whose place.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// How long to wait for the others to leave a double barrier, up to [`crate::WAIT_MAX`].
    pub wait: Duration,
    /// Answer 307 to the leader.
    pub redirect: bool,
}

impl LeaveParams {
    /// What the call takes.
    pub const KEYS: ParamList =
        ParamList::of_call(&[about::MEMBER, about::OWNER, about::WAIT, REDIRECTED]);

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; the session is needed.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Refusal> {
        let (session, owner) = (session(fields)?, name(fields, "owner", Owner::new)?);
        let wait = wait(fields)?.unwrap_or_default();
        Ok(Self { session, owner, wait, redirect: fields.flag(REDIRECT) })
    }

    /// The query that says the same.
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.text("session", Some(self.session.as_str()));
        query.text("owner", self.owner.as_ref().map(Owner::as_str));
        query.duration("wait", Some(self.wait).filter(|wait| !wait.is_zero()));
        query.flag(REDIRECT, self.redirect);
        query.0
    }
}

/// `POST /v1/counters/{name}?add=5`, `PUT ...?value=7`, and `DELETE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterParams {
    /// How much to add, or what to set; none deletes.
    pub number: Option<i64>,
    /// Only if the counter has this version; the same as `If-Match`.
    pub version: Option<u64>,
    /// For whom, and under which request id.
    pub change: ChangeParams,
}

impl CounterParams {
    /// What adding takes.
    pub const ADD_KEYS: ParamList = ParamList::of_call(&[about::ADD, SESSION, REQUEST, REDIRECTED]);
    /// What setting takes.
    pub const SET_KEYS: ParamList =
        ParamList::of_call(&[about::VALUE, about::VERSION, SESSION, REQUEST, REDIRECTED]);
    /// What deleting takes.
    pub const DELETE_KEYS: ParamList = ParamList::of_call(&[SESSION, REQUEST, REDIRECTED]);

    /// Checks every parameter; `key` is `add`, `value`, or none to delete, `header` the request id that came as a header.
    ///
    /// # Errors
    /// [`Refusal`] names the parameter and what to write instead; the number is needed.
    pub fn parse(
        fields: &Fields<'_>,
        key: Option<&str>,
        header: Option<&str>,
    ) -> Result<Self, Refusal> {
        let number = key.map(|key| whole(fields, key)).transpose()?;
        let version = fields.value("version").map(|text| {
            text.parse().map_err(|_| {
                let detail = "'version' is no version of a counter";
                Refusal::of("version", ErrorCode::InvalidArgument, detail)
                    .hint("give the version of an answer, or 0 for a counter that nobody changed")
            })
        });
        let version = version.transpose()?;
        Ok(Self { number, version, change: ChangeParams::parse(fields, header)? })
    }

    /// The query that says the same.
    pub fn to_query(&self, key: &str) -> String {
        let mut query = Query::default();
        query.text(key, self.number.map(|number| number.to_string()).as_deref());
        query.text("version", self.version.map(|version| version.to_string()).as_deref());
        let ChangeParams { session, request, redirect } = &self.change;
        query.text("session", session.as_ref().map(SessionName::as_str));
        query.text("request", request.as_ref().map(RequestId::as_str));
        query.flag(REDIRECT, *redirect);
        query.0
    }
}

fn session(fields: &Fields<'_>) -> Result<SessionName, Refusal> {
    name(fields, "session", SessionName::new)?.ok_or_else(|| {
        Refusal::of("session", ErrorCode::InvalidArgument, "whose place it is must be said")
            .hint("add &session=ID with an id of your own, such as a host's name and a process id")
    })
}

fn request_id(fields: &Fields<'_>, header: Option<&str>) -> Result<Option<RequestId>, Refusal> {
    let query = name(fields, "request", RequestId::new)?;
    let header = header.map(RequestId::new).transpose();
    let header = header.map_err(|error| Refusal::bad_name("request", &error))?;
    if query.is_some() && header.is_some() {
        let detail = "the request id is given twice: as 'request' and as Idempotency-Key";
        return Err(Refusal::of("request", ErrorCode::InvalidArgument, detail).hint("give it once"));
    }
    Ok(query.or(header))
}

fn number_to(fields: &Fields<'_>, key: &str, max: u32, example: &str) -> Result<u32, Refusal> {
    let parsed = fields.value(key).and_then(|text| text.parse().ok());
    parsed.filter(|number| (1..=max).contains(number)).ok_or_else(|| {
        let detail = format!("'{key}' must be given, as a number from 1 to {max}");
        Refusal::of(key, ErrorCode::InvalidArgument, detail).hint(format!("write {example}"))
    })
}

fn whole(fields: &Fields<'_>, key: &str) -> Result<i64, Refusal> {
    let parsed = fields.value(key).and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        let detail = format!("'{key}' must be given, as a whole number of 64 bits");
        Refusal::of(key, ErrorCode::InvalidArgument, detail)
            .hint(format!("write ?{key}=5, or ?{key}=-5"))
    })
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Breach, BreachCause, Passed, Revision, SessionEnd};

    use super::*;

    fn refused<T: std::fmt::Debug>(parsed: Result<T, Refusal>) -> String {
        parsed.unwrap_err().parameter.unwrap()
    }

    #[test]
    fn calls_read_back_as_written() {
        let session = SessionName::new("w 1".replace(' ', "-")).unwrap();
        let params = ArriveParams {
            parties: 3,
            session: session.clone(),
            owner: Owner::new("t1").ok(),
            request: RequestId::new("r&1").ok(),
            ttl: Ttl::from_millis(5_000).ok(),
            wait: Duration::from_mins(1),
            labels: Labels::default(),
            redirect: true,
        };
        let query = params.to_query();
        let fields = Fields::parse(Some(&query), &ArriveParams::KEYS).unwrap();
        assert_eq!(ArriveParams::parse(&fields, None).unwrap(), params);
        let params = CountDownParams {
            key: RequestId::new("k").unwrap(),
            when_ended: Some(session.clone()),
            redirect: false,
        };
        let query = params.to_query();
        let fields = Fields::parse(Some(&query), &CountDownParams::KEYS).unwrap();
        assert_eq!(CountDownParams::parse(&fields, None).unwrap(), params);
        let (owner, wait, redirect) = (None, Duration::from_secs(1), false);
        let params = LeaveParams { session, owner, wait, redirect };
        let query = params.to_query();
        let fields = Fields::parse(Some(&query), &LeaveParams::KEYS).unwrap();
        assert_eq!(LeaveParams::parse(&fields).unwrap(), params);
        let params = CounterParams { number: Some(i64::MIN), ..CounterParams::default() };
        let query = params.to_query("add");
        let fields = Fields::parse(Some(&query), &CounterParams::ADD_KEYS).unwrap();
        assert_eq!(CounterParams::parse(&fields, Some("add"), None).unwrap(), params);
    }

    #[test]
    fn what_is_missing_or_out_of_bounds_is_named() {
        let latch = |query| LatchParams::parse(&Fields::parse(Some(query), &LatchParams::KEYS)?);
        for query in ["", "count=0", "count=10001", "count=x", "count=-1"] {
            assert_eq!(refused(latch(query)), "count", "{query}");
        }
        let down = |query, header| {
            let fields = Fields::parse(Some(query), &CountDownParams::KEYS)?;
            CountDownParams::parse(&fields, header)
        };
        assert_eq!(refused(down("", None)), "key");
        assert_eq!(refused(down("key=k&on_death=count", None)), "session");
        assert_eq!(refused(down("key=k&on_death=ignore&session=s", None)), "on_death");
        assert_eq!(refused(down("request=a", Some("b"))), "request");
        assert_eq!(down("", Some("b")).unwrap().key.as_str(), "b");
        let arrive =
            |query| ArriveParams::parse(&Fields::parse(Some(query), &ArriveParams::KEYS)?, None);
        assert_eq!(refused(arrive("session=s")), "parties");
        assert_eq!(refused(arrive("parties=1001&session=s")), "parties");
        assert_eq!(refused(arrive("parties=3")), "session");
        let add = |query| {
            let fields = Fields::parse(Some(query), &CounterParams::ADD_KEYS)?;
            CounterParams::parse(&fields, Some("add"), None)
        };
        assert_eq!(refused(add("add=9223372036854775808")), "add");
        assert_eq!(refused(add("add=1&request=r")), "session");
    }

    #[test]
    fn bodies_look_as_specified() {
        let barrier = RecipeName::new("start").unwrap();
        let passed = Passed { generation: Revision(7), index: 2, parties: 3 };
        let json = serde_json::to_string(&PassedBody::new(barrier, &passed)).unwrap();
        assert_eq!(json, r#"{"barrier":"start","generation":7,"index":2,"parties":3}"#);
        let breach = Breach {
            generation: Revision(7),
            session: SessionName::new("w1").unwrap(),
            cause: BreachCause::SessionEnded(SessionEnd::Expired),
        };
        let json = serde_json::to_string(&RecipeFacts::of_breach(&breach)).unwrap();
        assert_eq!(json, r#"{"generation":7,"cause":"session-expired"}"#);
    }
}
