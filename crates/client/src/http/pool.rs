//! The connections to one address. A call takes one, or opens another, and puts it back after its answer.
//!
//! Bounds: [`IDLE_MAX`] idle connections, each for at most [`IDLE_FOR`]: a node closes them soon after.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use http::Uri;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::http::connection::{Connection, Socket};
use crate::http::{SendError, reason_of, tls};

const IDLE_MAX: usize = 512;
const IDLE_FOR: Duration = Duration::from_mins(1);

pub(super) struct Pool {
    /// The value of the header `Host`.
    pub(super) host: String,
    /// Host and port.
    address: String,
    /// With the name that the certificate of the node must have.
    tls: Option<(TlsConnector, String)>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The connections with the times of their last answers, the newest last.
    connections: VecDeque<(Instant, Connection)>,
    /// Closes those that are idle for too long. It ends with its runtime.
    closing: Option<JoinHandle<()>>,
}

impl Pool {
    /// Creates the pool of an address such as `http://127.0.0.1:7400`.
    ///
    /// # Errors
    /// The text is no such address.
    pub(super) fn of(base: &str, connector: Option<&TlsConnector>) -> Result<Self, SendError> {
        let malformed = || SendError::not_done(format!("{base} is not the address of a server"));
        let uri: Uri = base.parse().map_err(|_| malformed())?;
        let authority = uri.authority().ok_or_else(malformed)?;
        let (name, default_port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(authority.host().trim_matches(['[', ']']).to_owned()), 443),
            Some(_) | None => return Err(malformed()),
        };
        let tls = match (name, connector) {
            (None, _) => None,
            (Some(name), Some(connector)) => Some((connector.clone(), name)),
            (Some(_), None) => {
                return Err(SendError::not_done(
                    "no CA is known: give the CA of the cluster, for example with --cacert",
                ));
            }
        };
        let address =
            format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(default_port));
        Ok(Self { host: authority.as_str().to_owned(), address, tls, idle: Mutex::default() })
    }

    /// Takes the connection that was idle for the shortest time, and drops those that the node has closed.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.idle();
        let open = std::iter::from_fn(|| idle.connections.pop_back());
        let young = open.filter(|(since, _)| since.elapsed() < IDLE_FOR);
        young.map(|(_, connection)| connection).find_map(Connection::unless_ended)
    }

    pub(super) fn put(self: &Arc<Self>, connection: Connection) {
        if !connection.can_be_reused() {
            return;
        }
        let mut idle = self.idle();
        if idle.connections.len() < IDLE_MAX {
            idle.connections.push_back((Instant::now(), connection));
        }
        if idle.closing.as_ref().is_none_or(JoinHandle::is_finished) {
            idle.closing = Some(tokio::spawn(close_idle(Arc::downgrade(self))));
        }
    }

    pub(super) async fn open(&self) -> Result<Connection, SendError> {
        let stream = TcpStream::connect(&self.address).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let socket: Box<dyn Socket> = match &self.tls {
            None => Box::new(stream),
            Some((connector, name)) => {
                tls::connect(connector, name, stream).await.map_err(|error| failed(&error))?
            }
        };
        Ok(Connection::over(socket))
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(error: &dyn std::error::Error) -> SendError {
    SendError::not_done(format!("cannot connect: {}", reason_of(error)))
}

/// Closes connections that are idle for too long, until there are none.
async fn close_idle(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_FOR / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        while idle.connections.front().is_some_and(|(since, _)| since.elapsed() >= IDLE_FOR) {
            idle.connections.pop_front();
        }
        if idle.connections.is_empty() {
            idle.closing = None;
            return;
        }
    }
}
