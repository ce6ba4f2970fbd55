//! HTTP to holdfast nodes: one request to one node, with the facts that decide whether a retry is safe.
//!
//! The client, the command line and the tests share [`HttpClient`]. It follows no redirect and uses no proxy, because
//! both would hide which node answered. Every request has a timeout, so no call waits without a bound.

mod address;
mod body;
mod connection;
mod head;
mod input;
mod pool;
mod request;
mod tls;

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

pub use self::address::{EndpointError, Scheme, base_url};
pub use self::head::Headers;
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
        Ok(Self::with_connector(connect_timeout, Some(tls::connector(tls)?)))
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
        let until = Instant::now() + request.timeout;
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
        let until = Instant::now() + request.timeout;
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
        let until = until.min(Instant::now() + self.connect_timeout);
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
}
