//! The context of one call: the request, its parameters, and the service.

use std::time::Duration;

use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use bytes::Bytes;
use futures_util::{FutureExt as _, TryFutureExt as _};

use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, STALE};
use holdfast_api::{
    CallParams, ErrorCode, JsonPairs, Param, ParamError, ParamField, ParamList, RawParams, params,
    unescape_path,
};
use holdfast_service::{
    Failure, LocalUse, Principal, ReadMode, RequestContext, Response, Service, WatchRequest,
    WatchStream,
};
use holdfast_types::{
    AccessTokenId, CertificateId, LockName, NameError, NamespaceName, NodeId, NotCertificateId,
    NumberedCall, QuotaKind, RecipeName, Revision, Right, RoleName, SessionName, Stamp,
    SubjectName, ZnodePath,
};
use serde::Serialize;

use crate::identity::has_tls;
use crate::reply::Reply;
use crate::routes::Route;
use crate::session_names::SessionNames;
use crate::state::HttpState;
use crate::status::{ErrorContext, HttpError, of_failure, without_creation};

/// The result of a handler.
pub(crate) type HandlerResult = Result<Reply, HttpError>;

/// One request, with the state that its handler uses.
pub(crate) struct CallContext<'a> {
    pub(crate) state: &'a HttpState,
    route: &'static Route,
    pub(crate) parts: &'a Parts,
    /// Empty for calls that take none.
    pub(crate) body: Bytes,
    params: ParamList,
    raw_params: RawParams<'a>,
    /// The id of the request in logs.
    pub(crate) request_id: String,
    service: Service,
    /// How the names of the caller's sessions begin; `None` without a credential.
    pub(crate) session_names: Option<SessionNames>,
    pub(crate) log_fields: LogFields,
    /// Whether the connection ends after the response.
    pub(crate) closes_connection: bool,
}

params! {
    /// The parameters of a read that takes no others.
    pub(crate) struct ReadParams {
        stale: bool = STALE,
    }

    /// The parameters of a list that takes no others.
    pub(crate) struct PageParams {
        limit: usize = LIMIT,
        page_token: Option<String> = PAGE_TOKEN,
        stale: bool = STALE,
    }
}

/// Names from the request, for the log line and for error texts.
#[derive(Debug, Default)]
pub(crate) struct LogFields {
    pub(crate) lock: Option<LockName>,
    pub(crate) path: Option<ZnodePath>,
    pub(crate) session: Option<SessionName>,
    /// The requested wait; a call is slow only beyond it.
    pub(crate) wait: Duration,
}

impl<'a> CallContext<'a> {
    pub(crate) fn new(
        state: &'a HttpState,
        route: &'static Route,
        parts: &'a Parts,
        request_id: String,
    ) -> Self {
        Self {
            state,
            route,
            parts,
            body: Bytes::new(),
            params: ParamList::of_call(&[]),
            raw_params: RawParams::default(),
            request_id,
            service: state.service.clone(),
            session_names: None,
            log_fields: LogFields::default(),
            closes_connection: false,
        }
    }

    /// Sets who calls.
    pub(crate) fn identify(&mut self, principal: Principal) {
        let request_id = self.request_id.clone();
        self.service = self.service.for_call(RequestContext { principal, request_id });
        self.session_names = SessionNames::of(&self.service.session_scopes());
    }

    /// Reads the parameters as text, from the query and, with `in_body`, from a JSON object in the body.
    pub(crate) fn read_params(
        &mut self,
        params: ParamList,
        in_body: bool,
    ) -> Result<(), HttpError> {
        self.params = params;
        let mut raw = RawParams::parse(self.parts.uri.query(), &params)?;
        if in_body && !self.body.is_empty() {
            raw.merge_json(&self.body, &params)?;
        }
        self.raw_params = raw;
        self.rename_sessions()
    }

    /// Adds parameters that the handler found in the body.
    pub(crate) fn add_params(&mut self, pairs: JsonPairs) -> Result<(), HttpError> {
        self.raw_params.merge_pairs(pairs, &self.params)?;
        self.rename_sessions()
    }

    /// Completes the names of sessions that a subject gives.
    fn rename_sessions(&mut self) -> Result<(), HttpError> {
        if self.session_names.is_none() {
            return Ok(());
        }
        let whole = |name| self.service.whole_session_name(name);
        Ok(self.raw_params.rename_sessions(&self.params, whole)?)
    }

    /// The whole name of a session that the caller names with a parameter.
    pub(crate) fn whole_session(
        &self,
        param: &'static str,
        name: SessionName,
    ) -> Result<SessionName, HttpError> {
        if self.session_names.is_none() {
            return Ok(name);
        }
        let whole = self.service.whole_session_name(name);
        Ok(whole.map_err(|error| ParamError::bad_name(param, &error))?)
    }

    /// The parameters of the call.
    pub(crate) fn params<P: CallParams>(&self) -> Result<P, HttpError> {
        Ok(P::read(&self.raw_params)?)
    }

    /// Whether the call has a parameter.
    pub(crate) fn has_param(&self, name: &str) -> bool {
        self.raw_params.value(name).is_some()
    }

    /// One parameter.
    pub(crate) fn param<T: ParamField>(&self, param: &Param) -> Result<T, HttpError> {
        Ok(T::read(param, &self.raw_params)?)
    }

    /// Executes the changes of the call once.
    pub(crate) fn execute_once(&mut self, call: NumberedCall) {
        self.service = self.service.once(call);
    }

    /// Whether the changes of the call are executed once.
    pub(crate) fn is_numbered(&self) -> bool {
        self.service.is_numbered()
    }

    /// A 307 to the leader, if the call has `redirect` and another node leads. Without a leader, this node handles the
    /// call.
    pub(crate) fn redirect_to_leader(&self) -> Option<Reply> {
        let service = &self.state.service;
        if !self.raw_params.flag("redirect") || service.leader()? == service.node() {
            return None;
        }
        let target = self.parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let has_tls = has_tls(&self.parts.extensions);
        let scheme = if has_tls { "https" } else { "http" };
        let location = format!("{scheme}://{}{target}", service.leader_http()?);
        Some(Reply::redirect(HeaderValue::try_from(location).ok()?))
    }
}

impl CallContext<'_> {
    /// The node of the tree that the path names.
    pub(crate) fn znode(&mut self) -> Result<ZnodePath, HttpError> {
        self.path_after("/v1/tree")
    }

    /// The path of the tree after a prefix. Decoded once, then checked, never normalised.
    pub(crate) fn path_after(&mut self, prefix: &str) -> Result<ZnodePath, HttpError> {
        let raw = self.parts.uri.path().strip_prefix(prefix).unwrap_or_default();
        let raw = if raw.is_empty() { "/" } else { raw };
        let path = name_in_path(raw, "the path", |path| ZnodePath::new(path))?;
        self.log_fields.path = Some(path.clone());
        Ok(path)
    }

    /// The lock that the path names. Decoded once, then checked, never normalised.
    pub(crate) fn lock(&mut self) -> Result<LockName, HttpError> {
        let lock = name_in_path(self.rest_of_path(), "the lock name", |name| LockName::new(name))?;
        self.log_fields.lock = Some(lock.clone());
        Ok(lock)
    }

    /// The latch, barrier or counter that the path names. Decoded once, then checked, never normalised.
    pub(crate) fn recipe(&self) -> Result<RecipeName, HttpError> {
        name_in_path(self.rest_of_path(), "the name", |name| RecipeName::new(name))
    }

    /// The subject that the path names. Decoded once, then checked, never normalised.
    pub(crate) fn subject(&self) -> Result<SubjectName, HttpError> {
        name_in_path(self.rest_of_path(), "the subject", |name| SubjectName::new(name))
    }

    /// The namespace that the path names.
    pub(crate) fn namespace(&self) -> Result<NamespaceName, HttpError> {
        name_in_path(self.rest_of_path(), "the namespace", |name| NamespaceName::new(name))
    }

    /// The member that the path names.
    pub(crate) fn member(&self) -> Result<NodeId, HttpError> {
        let id = self.rest_of_path();
        let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        id.parse().ok().filter(|_| digits).map(NodeId).ok_or_else(|| {
            let detail = format!("'{id}' is not the id of a member");
            let hint = "an id is a number: GET /v1/cluster lists them";
            ParamError::new(ErrorCode::BadName, detail).hint(hint).into()
        })
    }

    /// The role that the path names.
    pub(crate) fn role(&self) -> Result<RoleName, HttpError> {
        name_in_path(self.rest_of_path(), "the role", |name| RoleName::new(name))
    }

    /// The access token that the path names by its id.
    pub(crate) fn access_token(&self) -> Result<AccessTokenId, HttpError> {
        let id = self.rest_of_path().trim_end_matches("/rotate");
        id.parse().map_err(|()| {
            let detail = format!("'{id}' is not the id of an access token");
            let hint = "an id has 13 characters: GET /v1/auth/tokens lists them";
            ParamError::new(ErrorCode::BadName, detail).hint(hint).into()
        })
    }

    /// The certificate that the path names.
    pub(crate) fn certificate_id(&self) -> Result<CertificateId, HttpError> {
        self.rest_of_path().parse().map_err(|error: NotCertificateId| {
            let hint = "openssl x509 -noout -serial -in FILE shows the serial number";
            ParamError::new(ErrorCode::BadName, error.to_string()).hint(hint).into()
        })
    }

    /// The path behind the part that the route fixes.
    fn rest_of_path(&self) -> &str {
        let prefix = self.route.prefix();
        self.parts.uri.path().strip_prefix(prefix).unwrap_or_default()
    }

    /// The session named by the path.
    pub(crate) fn session(&mut self) -> Result<SessionName, HttpError> {
        let raw = self.parts.uri.path().strip_prefix("/v1/sessions/").unwrap_or_default();
        let raw = raw.split_once('/').map_or(raw, |(id, _)| id);
        let session = name_in_path(raw, "the session id", |name| SessionName::new(name))?;
        let session = self.whole_session("session", session)?;
        self.log_fields.session = Some(session.clone());
        Ok(session)
    }

    /// The service for the caller.
    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// Awaits a method of the service. Its future is boxed, so that the future of a handler stays small.
    pub(crate) fn run<'a, T: 'a>(
        &'a self,
        method: impl Future<Output = Result<Response<T>, Failure>> + Send + 'a,
    ) -> impl Future<Output = Result<Response<T>, HttpError>> + 'a {
        method.boxed().map_err(|failure| self.error(failure))
    }

    /// Awaits a method of the service, and returns 200 with the body that `body` makes of the value and its revision.
    pub(crate) fn ok<'a, T: 'a, B: Serialize>(
        &'a self,
        method: impl Future<Output = Result<Response<T>, Failure>> + Send + 'a,
        body: impl FnOnce(T, Revision) -> B + 'a,
    ) -> impl Future<Output = HandlerResult> + 'a {
        self.run(method).map_ok(|Response { value, revision, leader_contact }| {
            let body = body(value, revision);
            Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact)
        })
    }

    /// Awaits a method of the service, and returns 204 without its value.
    pub(crate) fn no_content<'a, T: 'a>(
        &'a self,
        method: impl Future<Output = Result<Response<T>, Failure>> + Send + 'a,
    ) -> impl Future<Output = HandlerResult> + 'a {
        self.run(method).map_ok(|done| Reply::empty(StatusCode::NO_CONTENT).at(done.revision))
    }

    /// Rejects a caller without a right on the node or the cluster.
    pub(crate) fn require(&self, right: Right) -> Result<(), HttpError> {
        self.service.require(right).map_err(|failure| self.error(failure))
    }

    /// Opens a stream of changes.
    pub(crate) fn watch(&self, request: WatchRequest) -> Result<WatchStream, HttpError> {
        self.service.watch(request).map_err(|failure| self.error(failure))
    }

    pub(crate) fn error(&self, failure: Failure) -> HttpError {
        let (lock, session) = (self.log_fields.lock.as_ref(), self.log_fields.session.as_ref());
        let problem = of_failure(failure, &ErrorContext { lock, session, now: self.now() });
        let creates = matches!(self.parts.method, Method::PUT | Method::POST);
        if creates { problem } else { without_creation(problem) }
    }

    /// A place among the streams of the caller.
    pub(crate) fn stream_place(&self) -> Result<Option<LocalUse>, HttpError> {
        self.service.count_use(QuotaKind::Streams).map_err(|failure| self.error(failure))
    }

    /// The log's time: ages and remaining times in responses are relative to it.
    pub(crate) fn now(&self) -> Stamp {
        self.state.service.log_time()
    }
}

pub(crate) fn read_mode(stale: bool) -> ReadMode {
    if stale { ReadMode::Stale } else { ReadMode::Linearizable }
}

/// Whether `Accept` names `text/plain` and not JSON.
pub(crate) fn accepts_text(headers: &HeaderMap) -> bool {
    accepts(headers, "text/plain") && !accepts(headers, "application/json")
}

/// Whether `Accept` names a media type, without wildcards.
pub(crate) fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut media = accepted.flat_map(|value| value.split(','));
    media.any(|media| {
        media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
    })
}

fn name_in_path<T>(
    raw: &str,
    what: &str,
    new: impl for<'n> FnOnce(&'n str) -> Result<T, NameError>,
) -> Result<T, HttpError> {
    let name = unescape_path(raw)
        .map_err(|error| ParamError::bad_escape(what, error, ErrorCode::BadName))?;
    new(&name).map_err(|error| ParamError::new(ErrorCode::BadName, error.to_string()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_needs_an_accept_header_without_json() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            accepts_text(&headers)
        };
        assert!(of("text/plain") && of("Text/Plain; charset=utf-8") && of("text/plain, */*"));
        assert!(!of("*/*") && !of("application/json, text/plain") && !of("text/html"));
        assert!(!accepts_text(&HeaderMap::new()));
    }
}
