//! HTTP to holdfast nodes: one request to one node, with the facts that decide whether a retry is safe.
//!
//! The client, the command line and the tests share [`HttpClient`]. It follows no redirect and uses no proxy, because
//! both would hide which node answered. Every request has a timeout, so no call waits without a bound.

use std::fmt;
use std::time::Duration;

use holdfast_api::Problem;
use reqwest::header::HeaderMap;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::calls::access_token::AccessToken;

pub use reqwest::{Method, StatusCode, Url};

const AUTHORIZATION: &str = "authorization";

/// An error in the address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// The list of addresses is empty.
    #[error("no node address is given: name at least one, such as 127.0.0.1:7400")]
    None,
    /// The text is not an address.
    #[error(
        "{text:?} is not a node address: write host:port, such as 127.0.0.1:7400, or http://host:port, and separate several \
         by commas"
    )]
    Malformed {
        /// The text as given.
        text: String,
    },
    /// The text has an IPv6 address without brackets.
    #[error(
        "{text:?} is not a node address: put the IPv6 address into brackets, such as [::1]:7400"
    )]
    Ipv6WithoutBrackets {
        /// The text as given.
        text: String,
    },
    /// The text names a protocol other than HTTP.
    #[error(
        "{text:?} uses an unsupported protocol: write host:port, http://host:port or https://host:port"
    )]
    Scheme {
        /// The text as given.
        text: String,
    },
    /// The HTTP library could not be set up.
    #[error("cannot set up HTTP: {0}")]
    Setup(String),
}

/// The certificates of a client that calls nodes with TLS. The default is the CAs of the system, and no certificate.
#[derive(Clone, Default)]
pub struct ClientTls {
    /// The only CAs that may have signed the certificates of nodes, in PEM form; `None` for those of the system.
    pub ca: Option<Vec<u8>>,
    /// The certificate chain and the private key of the client, in PEM form.
    pub identity: Option<Vec<u8>>,
}

/// Without the private key.
impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}

/// A pool of HTTP connections. Clones share it.
#[derive(Clone, Debug)]
pub struct HttpClient {
    http: reqwest::Client,
    access_token: Option<AccessToken>,
}

/// The scheme of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// One request to one node.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: Method,
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Empty for most calls.
    pub body: Vec<u8>,
    /// The time from sending the request to receiving the last byte of the answer.
    pub timeout: Duration,
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The error of a request without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct SendError {
    /// The cause, without the URL.
    pub reason: String,
    /// Whether the node may have received the request. If not, a retry is always safe.
    pub may_be_done: bool,
    /// Whether the timeout passed.
    pub timed_out: bool,
}

impl HttpRequest {
    /// Creates a request without headers and body.
    pub fn new(method: Method, url: impl Into<String>, timeout: Duration) -> Self {
        Self { method, url: url.into(), headers: Vec::new(), body: Vec::new(), timeout }
    }
}

impl HttpClient {
    /// Creates a client whose connections must be accepted within `connect_timeout`.
    ///
    /// # Errors
    /// [`EndpointError::Setup`] if the HTTP library cannot be set up.
    pub fn new(connect_timeout: Duration) -> Result<Self, EndpointError> {
        // An empty list of CAs saves the time to read those of the system.
        Self::with_tls(connect_timeout, &ClientTls { ca: Some(Vec::new()), identity: None })
    }

    /// Like [`new`](Self::new), for nodes with TLS.
    ///
    /// # Errors
    /// [`EndpointError::Setup`], also for certificates that are not in PEM form.
    pub fn with_tls(connect_timeout: Duration, tls: &ClientTls) -> Result<Self, EndpointError> {
        let setup = |error: reqwest::Error| EndpointError::Setup(reason_of(&error));
        let mut builder = reqwest::Client::builder()
            .connect_timeout(connect_timeout)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        if let Some(ca) = &tls.ca {
            builder = builder.tls_certs_only(certificates(ca).map_err(setup)?);
        }
        if let Some(identity) = &tls.identity {
            builder = builder.identity(reqwest::Identity::from_pem(identity).map_err(setup)?);
        }
        let http = builder.build().map_err(setup)?;
        Ok(Self { http, access_token: None })
    }

    /// Sends an access token with every request that has no header `authorization`.
    #[must_use]
    pub fn with_access_token(self, access_token: Option<AccessToken>) -> Self {
        Self { access_token, ..self }
    }

    /// Reads the file of the access token at the next request. Returns `false` if the token is not from a file.
    pub(crate) fn read_token_again(&self) -> bool {
        let file = self.access_token.as_ref().filter(|token| token.may_change());
        file.inspect(|token| token.read_again()).is_some()
    }

    /// Sends a request once and reads the whole answer.
    ///
    /// # Errors
    /// [`SendError`] if no complete answer arrived within the timeout.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, SendError> {
        let timeout = request.timeout;
        let request = self.prepare(request).timeout(timeout);
        let response = request.send().await.map_err(|error| SendError::new(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.map_err(|error| SendError::new(&error))?.to_vec();
        Ok(HttpResponse { status, headers, body })
    }

    /// Opens a stream. The timeout of the request bounds the time until the response headers; the stream itself has no
    /// timeout.
    ///
    /// # Errors
    /// [`SendError`] if no response headers arrived within the timeout.
    pub async fn open_stream(&self, request: HttpRequest) -> Result<reqwest::Response, SendError> {
        let timeout = request.timeout;
        let request = self.prepare(request);
        let Ok(answer) = tokio::time::timeout(timeout, request.send()).await else {
            let reason = "no answer in time".to_owned();
            return Err(SendError { reason, may_be_done: true, timed_out: true });
        };
        answer.map_err(|error| SendError::new(&error))
    }

    fn prepare(&self, request: HttpRequest) -> reqwest::RequestBuilder {
        let HttpRequest { method, url, headers, body, .. } = request;
        let mut request = self.http.request(method, url).body(body);
        let is_signed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION));
        if let Some(token) = self.access_token.as_ref().filter(|_| !is_signed)
            && let Some(value) = token.header()
        {
            request = request.header(AUTHORIZATION, value);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request
    }
}

impl HttpResponse {
    /// Parses the body as JSON.
    ///
    /// # Errors
    /// If the body is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// The problem document of an unsuccessful answer, if the node sent one.
    pub fn problem(&self) -> Option<Problem> {
        self.json().ok().filter(|_| !self.status.is_success())
    }
}

impl SendError {
    fn new(error: &reqwest::Error) -> Self {
        let mut reason = reason_of(error);
        if error.is_connect() {
            reason = format!("cannot connect: {reason}");
        }
        Self { reason, may_be_done: !error.is_connect(), timed_out: error.is_timeout() }
    }
}

/// Reads all certificates of a text in PEM form.
fn certificates(pem: &[u8]) -> Result<Vec<reqwest::Certificate>, reqwest::Error> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    let text = String::from_utf8_lossy(pem);
    let parts = text.split(BEGIN).skip(1);
    parts.map(|part| reqwest::Certificate::from_pem(format!("{BEGIN}{part}").as_bytes())).collect()
}

/// The innermost cause, because the outer ones repeat the URL.
fn reason_of(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let reason = inner.to_string();
    if reason.contains("InvalidContentType") {
        return "this port has no TLS: write http://".to_owned();
    }
    if reason.contains("UnknownIssuer") {
        return "the node's certificate is from an unknown CA: give the CA of the cluster, for example with --cacert"
            .to_owned();
    }
    reason
}

/// Returns the base URL of a node, without a trailing slash. An address without a scheme gets `default`.
///
/// # Errors
/// [`EndpointError`] if `text` is none of `host:port`, `http://host:port` and `https://host:port`.
pub fn base_url(text: &str, default: Scheme) -> Result<String, EndpointError> {
    let trimmed = text.trim().trim_end_matches('/');
    let (scheme, address) = match trimmed.split_once("://") {
        Some(("http", address)) => ("http", address),
        Some(("https", address)) => ("https", address),
        Some(_) => return Err(EndpointError::Scheme { text: text.to_owned() }),
        None => (default.as_str(), trimmed),
    };
    let malformed = || EndpointError::Malformed { text: text.to_owned() };
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let is_list = |c: char| c.is_whitespace() || c == ';';
    if host.contains(':') && !host.starts_with('[') && !address.contains(is_list) {
        return Err(EndpointError::Ipv6WithoutBrackets { text: text.to_owned() });
    }
    let invalid =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '?' | '#' | '@');
    if host.is_empty() || host.contains(invalid) || port.parse::<u16>().is_err() {
        return Err(malformed());
    }
    let base = format!("{scheme}://{address}");
    // Also rejects a host that no URL can have, such as an IPv6 address with a zone.
    let is_url = Url::parse(&base).is_ok_and(|url| url.has_host());
    is_url.then_some(base).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_urls() {
        for text in ["127.0.0.1:7400", "http://127.0.0.1:7400", " http://127.0.0.1:7400/ "] {
            assert_eq!(base_url(text, Scheme::Http).unwrap(), "http://127.0.0.1:7400");
        }
        assert_eq!(base_url("[::1]:7400", Scheme::Http).unwrap(), "http://[::1]:7400");
        assert_eq!(base_url("a:1", Scheme::Https).unwrap(), "https://a:1");
        assert_eq!(base_url("https://a:1", Scheme::Http).unwrap(), "https://a:1");
    }

    #[test]
    fn a_malformed_address_is_rejected_with_the_form() {
        for text in [
            "",
            "localhost",
            "localhost:http",
            ":7400",
            "a/b:1",
            "http://",
            "a:1 b:2",
            "a:1;b:2",
            "[::1%lo]:1",
            "[::1]",
        ] {
            assert!(
                base_url(text, Scheme::Http).unwrap_err().to_string().contains("host:port"),
                "{text}"
            );
        }
        assert!(matches!(base_url("ftp://a:1", Scheme::Http), Err(EndpointError::Scheme { .. })));
        for text in ["::1:8500", "http://::1:8500", "fe80::1", "2001:db8::7:7400"] {
            let error = base_url(text, Scheme::Http).unwrap_err().to_string();
            assert!(error.contains("put the IPv6 address into brackets"), "{text}: {error}");
        }
    }
}
