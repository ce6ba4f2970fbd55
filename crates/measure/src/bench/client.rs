//! A client of the load generator: a session, a lock, and a connection that moves to the next endpoint after an error.

use std::time::Duration;

use tokio::time::timeout;

use crate::load::LoadClient;

use super::access::Access;
use super::connection::HttpConnection;
use super::requests::{Requests, error_kind};

/// How long a node has to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A node answers within its longest wait, 5 minutes.
const CALL_MAX: Duration = Duration::from_secs(310);

/// One call in progress at a time.
pub(super) struct BenchClient {
    requests: Requests,
    endpoints: Vec<String>,
    access: Access,
    /// The index of the endpoint to connect to next.
    next: usize,
    connection: Option<HttpConnection>,
}

impl BenchClient {
    /// Creates a client whose first connection goes to the endpoint with index `first`.
    pub(super) fn new(requests: Requests, endpoints: &[String], first: usize) -> Self {
        let (endpoints, access) = (endpoints.to_vec(), Access::default());
        Self { requests, endpoints, access, next: first, connection: None }
    }

    /// Uses TLS and an access token.
    pub(super) fn with_access(self, access: &Access) -> Self {
        Self { requests: self.requests.authorized(access), access: access.clone(), ..self }
    }

    /// Opens the connection if it is not open.
    ///
    /// # Errors
    /// The kind of the error.
    pub(super) async fn connect(&mut self) -> Result<&mut HttpConnection, String> {
        let connection = if let Some(connection) = self.connection.take() {
            connection
        } else {
            let count = self.endpoints.len().max(1);
            let endpoint = self.endpoints.get(self.next % count).ok_or("no endpoint")?;
            self.next += 1;
            let opened = timeout(CONNECT_MAX, HttpConnection::open(endpoint, &self.access)).await;
            let opened = opened.map_err(|_| "connect: no answer")?;
            opened.map_err(|error| format!("connect: {}", error.kind()))?
        };
        Ok(self.connection.insert(connection))
    }

    /// Sends a request and returns the fencing token of the reply.
    async fn call(&mut self, request: impl Fn(&Requests) -> &[u8]) -> Result<Option<u64>, String> {
        self.connect().await?;
        let Some(connection) = &mut self.connection else { return Err("no connection".to_owned()) };
        match timeout(CALL_MAX, connection.exchange(request(&self.requests))).await {
            Ok(Ok(reply)) if reply.is_success() => Ok(reply.token),
            Ok(Ok(reply)) => Err(error_kind(reply.status, reply.body)),
            Err(_) => {
                self.connection = None;
                Err("connection: no answer".to_owned())
            }
            Ok(Err(error)) => {
                self.connection = None;
                Err(format!("connection: {}", error.kind()))
            }
        }
    }
}

impl LoadClient for BenchClient {
    async fn acquire(&mut self) -> Result<Option<u64>, String> {
        let token = self.call(|requests| &requests.acquire).await?;
        Ok(Some(token.ok_or("a grant without a token")?))
    }

    async fn release(&mut self) -> Result<(), String> {
        self.call(|requests| &requests.release).await.map(drop)
    }

    /// Ends the session, so that the run leaves no state on a cluster given by `--addr`.
    async fn close(&mut self) {
        drop(self.call(|requests| &requests.close).await);
    }
}
