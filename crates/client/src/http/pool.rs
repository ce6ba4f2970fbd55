//! The connections to one address, with or without TLS. A call takes one, or opens another, and puts it back after its answer.
//! This file also reads the certificates of a client.
//!
//! Bounds: [`IDLE_MAX`] idle connections, each for at most [`IDLE_FOR`]: a node closes them soon after.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use http::Uri;
use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsConnector;

use crate::http::connection::{Connection, Socket};
use crate::http::{ClientTls, EndpointError, SendError, reason_of};

const IDLE_MAX: usize = 512;
const IDLE_FOR: Duration = Duration::from_mins(1);
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

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
        let addresses = lookup_host(&self.address).await.map_err(|error| failed(&error))?;
        let stream = connect(addresses).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let socket: Box<dyn Socket> = match &self.tls {
            None => Box::new(stream),
            Some((connector, name)) => {
                let name = ServerName::try_from(name.clone()).map_err(|error| failed(&error))?;
                let stream = connector.connect(name, stream).await;
                Box::new(stream.map_err(|error| failed(&error))?)
            }
        };
        Ok(Connection::over(socket))
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to the first of these addresses that accepts. An address that drops packets delays the next one only by
/// [`NEXT_ADDRESS_AFTER`] (RFC 8305).
async fn connect(mut untried: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::other("the name has no address");
    loop {
        let next = untried.next();
        let is_last = next.is_none();
        next.map(|address| attempts.spawn(TcpStream::connect(address)));
        tokio::select! {
            Some(connected) = attempts.join_next(), if !attempts.is_empty() => match connected {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failure = error,
                Err(ended) => failure = io::Error::other(ended),
            },
            () = tokio::time::sleep(NEXT_ADDRESS_AFTER), if !is_last => {}
            else => return Err(failure),
        }
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

/// Reads the certificates of a client.
///
/// # Errors
/// A certificate that is not in PEM form, or no CAs of the system.
pub(super) fn connector(tls: &ClientTls) -> Result<TlsConnector, EndpointError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(setup)?;
    let builder = match &tls.ca {
        Some(pem) => builder.with_root_certificates(roots(pem)?),
        None => builder.with_platform_verifier().map_err(setup)?,
    };
    let config = match &tls.identity {
        Some(pem) => {
            let key = PrivateKeyDer::from_pem_slice(pem).map_err(setup)?;
            builder.with_client_auth_cert(certificates(pem)?, key).map_err(setup)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(pem: &[u8]) -> Result<rustls::RootCertStore, EndpointError> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(setup)?;
    }
    Ok(roots)
}

/// Reads all certificates of a text in PEM form.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, EndpointError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(setup)
}

fn setup(error: impl std::fmt::Display) -> EndpointError {
    EndpointError::Setup(error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_address_that_answers_nothing_does_not_hide_the_next_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        // No machine has this address (RFC 5737).
        let silent = SocketAddr::from(([192, 0, 2, 1], 9));
        let stream = connect([silent, closed, here].into_iter()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), here);
        assert!(connect([closed].into_iter()).await.is_err());
        assert!(connect(std::iter::empty()).await.is_err());
    }
}
