//! Calls of the API from inside its process, with the credential and the connection of the reader of the page.
//!
//! The API authorizes, limits, counts and records them like the calls of every other client.

use std::fmt::Write as _;

use axum::Router;
use axum::body::Body;
use axum::http::header::{ACCEPT, AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_api::{
    ErrorCode, HOLDFAST_LEADER, HOLDFAST_NODE, HOLDFAST_REVISION, JsonBody, Problem, escape_query,
};
use holdfast_types::{NodeId, Revision};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tower::Service as _;

pub(crate) static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
static SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The result of a call: every failure is a problem with its code, its hint and whether a retry helps.
pub(crate) type ApiResult<T> = Result<T, Box<Problem>>;

/// The API for one reader.
#[derive(Debug)]
pub(crate) struct ApiCalls {
    api: Router,
    headers: HeaderMap,
    /// What names the site that sent the request, for calls that need the site of the console.
    site: HeaderMap,
    /// Whether a link opened the page.
    is_link: bool,
    extensions: Extensions,
    latest: Mutex<ClusterPlace>,
}

/// The node that replied last, its leader, and its revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterPlace {
    pub(crate) node: Option<NodeId>,
    /// `None` without a leader.
    pub(crate) leader: Option<NodeId>,
    pub(crate) revision: Option<Revision>,
}

/// One call of the API, which a page shows before it sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiCall {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Decoded values.
    pub(crate) query: Vec<(&'static str, String)>,
}

impl ApiCall {
    /// The path with the query.
    pub(crate) fn target(&self) -> String {
        let mut target = self.path.clone();
        for (at, (name, value)) in self.query.iter().enumerate() {
            let sign = if at == 0 { '?' } else { '&' };
            // A `String` accepts every write.
            let _infallible = write!(target, "{sign}{name}={}", escape_query(value));
        }
        target
    }

    /// The line for a shell. Escapes leave no quote in a target.
    pub(crate) fn curl(&self, address: &str, has_credential: bool) -> String {
        let method =
            if self.method == Method::GET { String::new() } else { format!(" -X {}", self.method) };
        let credential = if has_credential {
            " -H \"Authorization: Bearer $HOLDFAST_ACCESS_TOKEN\""
        } else {
            ""
        };
        format!("curl -sS{method}{credential} '{address}{}'", self.target())
    }
}

/// The response of a change.
#[derive(Debug)]
pub(crate) struct ApiAnswer {
    pub(crate) body: Bytes,
    pub(crate) revision: Option<Revision>,
}

impl ApiCalls {
    /// `credential` is the access token of the login; without one, the header `Authorization` counts, which a proxy can add.
    pub(crate) fn new(api: Router, parts: &Parts, credential: Option<&str>) -> Self {
        let copied = |names: &[HeaderName]| -> HeaderMap {
            let values = |name| parts.headers.get_all(name).into_iter().cloned();
            names.iter().flat_map(|name| values(name).map(|value| (name.clone(), value))).collect()
        };
        let (mut headers, site) = (copied(&[HOST]), copied(&[ORIGIN, SEC_FETCH_SITE.clone()]));
        let is_link = parts.method.is_safe()
            && parts.headers.get(&SEC_FETCH_MODE).is_none_or(|mode| mode == "navigate");
        let bearer = credential.and_then(|token| format!("Bearer {token}").try_into().ok());
        if let Some(value) = bearer.or_else(|| parts.headers.get(AUTHORIZATION).cloned()) {
            headers.insert(AUTHORIZATION, value);
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let (extensions, latest) = (parts.extensions.clone(), Mutex::default());
        Self { api, headers, site, is_link, extensions, latest }
    }

    /// Whether the calls have a credential.
    pub(crate) fn has_credential(&self) -> bool {
        self.headers.contains_key(AUTHORIZATION)
    }

    /// Where the last reply came from.
    pub(crate) fn place(&self) -> ClusterPlace {
        *self.latest.lock()
    }

    /// Reads a body.
    pub(crate) async fn read<T: JsonBody>(&self, target: &str) -> ApiResult<T> {
        let answer = self.send(&Method::GET, target).await?;
        T::from_json(&answer.body).map_err(|error| unreadable(target, &error))
    }

    /// Makes a change.
    pub(crate) async fn change(&self, call: &ApiCall) -> ApiResult<ApiAnswer> {
        self.send(&call.method, &call.target()).await
    }

    /// Boxed: otherwise the future of each page contains the future of each of its calls.
    fn send<'a>(
        &'a self,
        method: &'a Method,
        target: &'a str,
    ) -> BoxFuture<'a, ApiResult<ApiAnswer>> {
        Box::pin(self.send_call(method, target))
    }

    async fn send_call(&self, method: &Method, target: &str) -> ApiResult<ApiAnswer> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method.clone();
        *request.uri_mut() = target.parse().map_err(|error| unreadable(target, &error))?;
        *request.headers_mut() = self.headers.clone();
        // A link on another site may open a page, and do nothing else.
        if !(self.is_link && method.is_safe()) {
            request.headers_mut().extend(self.site.clone());
        }
        *request.extensions_mut() = self.extensions.clone();
        let Ok(response) = self.api.clone().call(request).await;
        let (parts, body) = response.into_parts();
        let place = ClusterPlace {
            node: number(&parts.headers, HOLDFAST_NODE).map(NodeId),
            leader: number(&parts.headers, HOLDFAST_LEADER).map(NodeId),
            revision: number(&parts.headers, HOLDFAST_REVISION).map(Revision),
        };
        *self.latest.lock() = place;
        let body = body.collect().await.map_err(|error| unreadable(target, &error))?.to_bytes();
        if parts.status.is_success() {
            return Ok(ApiAnswer { body, revision: place.revision });
        }
        let problem = Problem::from_json(&body);
        Err(problem.map_or_else(|error| unreadable(target, &error), Box::new))
    }
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn unreadable(target: &str, error: &impl std::fmt::Display) -> Box<Problem> {
    let path = target.split('?').next().unwrap_or_default();
    problem(
        (ErrorCode::Internal, StatusCode::INTERNAL_SERVER_ERROR),
        format!("the console cannot read the reply of {path}: {error}"),
        "report it as a bug of holdfast, with the version of the node",
    )
}

/// A problem that the console itself found.
pub(crate) fn problem(
    (code, status): (ErrorCode, StatusCode),
    detail: impl Into<std::borrow::Cow<'static, str>>,
    hint: &'static str,
) -> Box<Problem> {
    let mut problem = Problem::new(code, detail).hint(hint);
    problem.status = status.as_u16();
    Box::new(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the API sees the site, for each inner call of a page that a browser requests on behalf of another site.
    async fn names_site(mode: &str, method: Method) -> bool {
        let api = Router::new().fallback(async |request: Request<Body>| {
            request.headers().contains_key(&SEC_FETCH_SITE).to_string()
        });
        let request = Request::get("/ui/").header(&SEC_FETCH_SITE, "cross-site");
        let request = request.header(&SEC_FETCH_MODE, mode).body(()).unwrap();
        let calls = ApiCalls::new(api, &request.into_parts().0, None);
        let call = ApiCall { method, path: "/v1/members".to_owned(), query: Vec::new() };
        calls.change(&call).await.unwrap().body == "true"
    }

    #[tokio::test]
    async fn a_link_of_another_site_opens_a_page_and_does_nothing_else() {
        assert!(!names_site("navigate", Method::GET).await);
        assert!(names_site("navigate", Method::POST).await);
        assert!(names_site("cors", Method::GET).await);
    }

    #[test]
    fn a_curl_line_escapes_every_value() {
        let call = ApiCall {
            method: Method::POST,
            path: "/v1/force-releases/a%27b".to_owned(),
            query: vec![("token", "7".to_owned()), ("reason", "it's \"$(dead)\"".to_owned())],
        };
        assert_eq!(
            call.curl("http://node:7400", true),
            "curl -sS -X POST -H \"Authorization: Bearer $HOLDFAST_ACCESS_TOKEN\" \
             'http://node:7400/v1/force-releases/a%27b?token=7&reason=it%27s%20%22%24%28dead%29%22'"
        );
        let read = ApiCall { method: Method::GET, path: "/v1/locks".to_owned(), query: Vec::new() };
        assert_eq!(read.curl("http://node:7400", false), "curl -sS 'http://node:7400/v1/locks'");
    }
}
