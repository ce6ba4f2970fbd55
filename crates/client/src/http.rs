//! HTTP to holdfast nodes: one request to one node, with the facts that decide whether a retry is safe.
//!
//! The client, the command line and the tests share [`HttpClient`]. It follows no redirect and uses no proxy, because
//! both would hide which node answered. Every request has a timeout, so no call waits without a bound.

mod answer;
mod connection;
mod pool;
mod request;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::{JsonBody, Problem};
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::calls::access_token::AccessToken;
use crate::http::connection::Connection;
use crate::http::pool::Pool;

pub use self::answer::Headers;
pub(crate) use self::answer::has_no_body;
pub use self::request::HttpRequest;
pub use http::{Method, StatusCode, Uri};

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

/// Pools of HTTP connections, one for each address that was called. Clones share them.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Pools>,
    access_token: Option<AccessToken>,
}

struct Pools {
    connect_timeout: Duration,
    /// `None` if no address may begin with `https`.
    tls: Option<TlsConnector>,
    /// By scheme, host and port.
    by_base: Mutex<HashMap<String, Arc<Pool>>>,
}

/// Without the connections and the access token.
impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: StatusCode,
    pub headers: Headers,
    pub body: Vec<u8>,
}

/// An answer whose body is read in pieces. Dropping it closes the connection.
pub struct StreamedAnswer {
    pub status: StatusCode,
    pub headers: Headers,
    connection: Connection,
}

/// The status and the headers.
impl fmt::Debug for StreamedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamedAnswer").field(&self.status).field(&self.headers).finish()
    }
}

impl StreamedAnswer {
    /// Returns the next bytes of the body; `None` at its end. Dropping the future loses no byte.
    ///
    /// # Errors
    /// [`SendError`] if the connection ended before the body.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, SendError> {
        let mut bytes = Vec::new();
        self.connection.next(&mut bytes).await?;
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// Returns the rest of the body.
    ///
    /// # Errors
    /// [`SendError`] if the connection ended before the body.
    pub async fn rest(&mut self) -> Result<Vec<u8>, SendError> {
        self.connection.rest().await
    }
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

impl HttpClient {
    /// Creates a client without TLS whose connections must be accepted within `connect_timeout`.
    pub fn new(connect_timeout: Duration) -> Self {
        Self::with_connector(connect_timeout, None)
    }

    /// Like [`new`](Self::new), also for nodes with TLS.
    ///
    /// # Errors
    /// [`EndpointError::Setup`] for certificates that are not in PEM form, and if the system has no CAs but needs them.
    pub fn with_tls(connect_timeout: Duration, tls: &ClientTls) -> Result<Self, EndpointError> {
        Ok(Self::with_connector(connect_timeout, Some(pool::connector(tls)?)))
    }

    fn with_connector(connect_timeout: Duration, tls: Option<TlsConnector>) -> Self {
        let shared = Arc::new(Pools { connect_timeout, tls, by_base: Mutex::default() });
        Self { shared, access_token: None }
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
        let until = crate::clock::end_of(request.timeout).into();
        let whole = async {
            let (mut answer, pool) = self.begin(&request, until).await?;
            let body = answer.rest().await?;
            let StreamedAnswer { status, headers, connection } = answer;
            pool.put(connection);
            Ok(HttpResponse { status, headers, body })
        };
        timeout_at(until, whole).await.map_err(|_| SendError::late(true))?
    }

    /// Opens a stream. The timeout of the request bounds the time until the response headers; the stream itself has no
    /// timeout.
    ///
    /// # Errors
    /// [`SendError`] if no response headers arrived within the timeout.
    pub async fn open_stream(&self, request: HttpRequest) -> Result<StreamedAnswer, SendError> {
        let until = crate::clock::end_of(request.timeout).into();
        let begun = timeout_at(until, self.begin(&request, until)).await;
        begun.map_err(|_| SendError::late(true))?.map(|(answer, _)| answer)
    }

    /// Sends a request and waits for the head of its answer. `until` bounds the time to connect.
    async fn begin(
        &self,
        request: &HttpRequest,
        until: Instant,
    ) -> Result<(StreamedAnswer, Arc<Pool>), SendError> {
        let (base, target) = request.split_url();
        let pool = self.shared.pool(base)?;
        let authorization = self.access_token.as_ref().and_then(AccessToken::header);
        let bytes = request.to_bytes(&pool.host, target, authorization.as_deref())?;
        loop {
            let idle = pool.take();
            let was_idle = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => self.shared.open(&pool, until).await?,
            };
            match connection.call(&request.method, &bytes).await {
                Ok((status, headers)) => {
                    return Ok((StreamedAnswer { status, headers, connection }, pool));
                }
                // The node had closed the idle connection.
                Err(error) if was_idle && !error.may_be_done => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Pools {
    fn pool(&self, base: &str) -> Result<Arc<Pool>, SendError> {
        let mut by_base = self.by_base.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = by_base.get(base) {
            return Ok(pool.clone());
        }
        let pool = Arc::new(Pool::of(base, self.tls.as_ref())?);
        by_base.insert(base.to_owned(), pool.clone());
        Ok(pool)
    }

    async fn open(&self, pool: &Pool, until: Instant) -> Result<Connection, SendError> {
        let until = until.min(crate::clock::end_of(self.connect_timeout).into());
        timeout_at(until, pool.open()).await.map_err(|_| SendError::late(false))?
    }
}

impl HttpResponse {
    /// Parses the body as JSON.
    ///
    /// # Errors
    /// If the body is not JSON of this type.
    pub fn json<T: JsonBody>(&self) -> Result<T, serde_json::Error> {
        T::from_json(&self.body)
    }

    /// The problem document of an unsuccessful answer, if the node sent one.
    pub fn problem(&self) -> Option<Problem> {
        self.json().ok().filter(|_| !self.status.is_success())
    }
}

impl SendError {
    /// The node may have received the request.
    fn may_be_done(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), may_be_done: true, timed_out: false }
    }

    /// The node has not received the request.
    fn not_done(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), may_be_done: false, timed_out: false }
    }

    fn late(is_connected: bool) -> Self {
        let reason =
            if is_connected { "no answer in time" } else { "cannot connect: no answer in time" };
        Self { reason: reason.to_owned(), may_be_done: is_connected, timed_out: true }
    }
}

/// The innermost cause, because the outer ones name layers of the library.
fn reason_of(error: &dyn std::error::Error) -> String {
    let mut inner = error;
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
    // Nor has a URL an IPv6 address with a zone.
    let invalid =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '?' | '#' | '@' | '%');
    if host.is_empty() || host.contains(invalid) || port.parse::<u16>().is_err() {
        return Err(malformed());
    }
    let base = format!("{scheme}://{address}");
    let is_url = base.parse::<Uri>().is_ok_and(|url| url.host().is_some());
    is_url.then_some(base).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one call on each connection, and closes it a moment later without a word.
    async fn close_after_each_answer(listener: tokio::net::TcpListener) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 1_024]).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_idle_connection_that_the_node_has_closed_is_replaced() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/livez", listener.local_addr().unwrap());
        let _node = tokio::spawn(close_after_each_answer(listener));
        let client = HttpClient::new(Duration::from_secs(5));
        for _ in 0..3 {
            let request = HttpRequest::new(Method::PUT, url.clone(), Duration::from_secs(5));
            assert_eq!(client.send(request).await.unwrap().body, b"ok");
            // Until the end of the connection has arrived.
            tokio::task::yield_now().await;
        }
    }

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
