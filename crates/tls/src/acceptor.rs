//! Accepts the connections of a listener, with TLS or, while a cluster migrates, also without.
//!
//! The first byte of a connection decides: a TLS handshake starts with 22, no other protocol of a node does. Bounds:
//! one thread of low priority for all handshakes ([`HandshakeThread`]), and [`HANDSHAKE_TIMEOUT`] for each. The listener bounds
//! their number ([`crate::PendingConnections`]).

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::server::NoClientAuth;
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::CertificateDer;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::certificate::CertificateInfo;
use crate::failures::FailureReason;
use crate::files::{FileVersions, TlsError, TlsFiles, TlsMaterial, client_verifier, provider};
use crate::stream::{DeniedCertificates, MaybeTlsStream};

/// The time for the handshake of a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The first byte of a TLS handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// About a quarter of the time of a processor on which other threads always run.
const NICENESS: i32 = 5;

/// Whether a listener accepts connections without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// It accepts both, for a migration.
    Allow,
    Require,
}

/// Whether callers give a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// The listener does not request one.
    Ignore,
    /// A caller may give one. A certificate that no CA signed fails the handshake.
    Request,
    Require,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    V12,
    V13,
}

impl TlsVersion {
    /// This version and later ones.
    pub(crate) fn protocols(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::V12 => vec![&rustls::version::TLS13, &rustls::version::TLS12],
            Self::V13 => vec![&rustls::version::TLS13],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    pub files: TlsFiles,
    pub mode: TlsMode,
    pub client_certificates: ClientCertificates,
    pub min_version: TlsVersion,
}

/// A connection that was not accepted.
#[derive(Debug, Error)]
pub enum AcceptError {
    /// The caller speaks another protocol than TLS. The stream has read nothing yet.
    #[error("the caller does not use TLS")]
    Plaintext(TcpStream),
    #[error("no handshake in time")]
    Timeout,
    /// The caller closed the connection before its first byte, as health checks do.
    #[error("the caller sent nothing")]
    Closed,
    #[error("{0}")]
    Handshake(#[from] io::Error),
}

impl AcceptError {
    /// The reason for the metrics; `None` if the caller did nothing wrong.
    pub fn reason(&self) -> Option<FailureReason> {
        match self {
            Self::Plaintext(_) => Some(FailureReason::NoTls),
            Self::Timeout => Some(FailureReason::Timeout),
            Self::Handshake(_) => Some(FailureReason::Handshake),
            Self::Closed => None,
        }
    }
}

/// Accepts connections with the certificate of a listener. Clones share it.
#[derive(Clone)]
pub struct TlsAcceptor(Arc<Shared>);

struct Shared {
    config: TlsConfig,
    server: ArcSwap<ServerConfig>,
    /// The end of the certificate in `server`.
    expires_at: parking_lot::Mutex<SystemTime>,
    versions: parking_lot::Mutex<FileVersions>,
    handshakes: HandshakeThread,
    denied: DeniedCertificates,
}

impl TlsAcceptor {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// [`TlsError`], the first problem.
    pub fn open(config: TlsConfig) -> Result<Self, TlsError> {
        let versions = config.files.versions();
        let (server, expires_at) = server_config(&config, &config.files.read(SystemTime::now())?)?;
        let handshakes = HandshakeThread::start().map_err(TlsError::Thread)?;
        Ok(Self(Arc::new(Shared {
            config,
            server: ArcSwap::from(server),
            expires_at: parking_lot::Mutex::new(expires_at),
            versions: parking_lot::Mutex::new(versions),
            handshakes,
            denied: DeniedCertificates::default(),
        })))
    }

    /// Reads the files again if one has changed; returns `true` if new connections use the new ones. Blocks the thread.
    ///
    /// # Errors
    /// [`TlsError`]. New connections still use the previous files.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.reload_with(|_| Ok(())).map(|reloaded| reloaded.is_some())
    }

    /// As [`TlsAcceptor::reload`]. Returns what `and` makes of the new files; if it fails, nothing changes.
    pub(crate) fn reload_with<T>(
        &self,
        and: impl FnOnce(&TlsMaterial) -> Result<T, TlsError>,
    ) -> Result<Option<T>, TlsError> {
        let mut versions = self.0.versions.lock();
        let present = self.0.config.files.versions();
        if *versions == present {
            return Ok(None);
        }
        let material = self.0.config.files.read(SystemTime::now())?;
        let made = and(&material)?;
        let (server, expires_at) = server_config(&self.0.config, &material)?;
        self.0.server.store(server);
        *self.0.expires_at.lock() = expires_at;
        // Files that cannot be used are read again: the clock of the machine may have been the cause.
        *versions = present;
        Ok(Some(made))
    }

    /// The certificates whose connections end.
    pub fn denied(&self) -> &DeniedCertificates {
        &self.0.denied
    }

    /// When the certificate of new connections expires, or that of its issuer if the file has it.
    pub fn expires_at(&self) -> SystemTime {
        *self.0.expires_at.lock()
    }

    /// Runs the handshake of a connection.
    ///
    /// # Errors
    /// [`AcceptError`].
    pub async fn accept(&self, stream: TcpStream) -> Result<MaybeTlsStream, AcceptError> {
        let accepting = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 0 {
                return Err(AcceptError::Closed);
            }
            if first[0] != HANDSHAKE {
                return match self.0.config.mode {
                    TlsMode::Allow => Ok(MaybeTlsStream::Plain(stream)),
                    TlsMode::Require => Err(AcceptError::Plaintext(stream)),
                };
            }
            let acceptor = tokio_rustls::TlsAcceptor::from(self.0.server.load_full());
            let stream = self.0.handshakes.run(acceptor.accept(stream)).await??;
            Ok(MaybeTlsStream::allowed(stream.into(), self.0.denied.clone())?)
        };
        timeout(HANDSHAKE_TIMEOUT, accepting).await.unwrap_or(Err(AcceptError::Timeout))
    }
}

fn server_config(
    config: &TlsConfig,
    material: &TlsMaterial,
) -> Result<(Arc<ServerConfig>, SystemTime), TlsError> {
    let unusable = |reason: String| TlsError::unusable(&config.files.certificate, &reason);
    let expires_at = first_expiry(&material.certified.cert).map_err(unusable)?;
    let verifier = match config.client_certificates {
        ClientCertificates::Ignore => Arc::new(NoClientAuth),
        ClientCertificates::Request | ClientCertificates::Require => {
            let roots = material.roots.as_ref().ok_or(TlsError::NoCa)?;
            let is_required = config.client_certificates == ClientCertificates::Require;
            client_verifier(roots, is_required).map_err(unusable)?
        }
    };
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&config.min_version.protocols())
        .map_err(|error| unusable(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(material.certified.clone())));
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(server), expires_at))
}

/// When the certificate of a listener expires, or that of its issuer if the file has it. Clients may not need those above.
fn first_expiry(chain: &[CertificateDer<'_>]) -> Result<SystemTime, String> {
    let [own, above @ ..] = chain else { return Err("it is empty".to_owned()) };
    let own = CertificateInfo::of(own)?;
    let mut above = above.iter().filter_map(|of| CertificateInfo::of(of).ok());
    let issuer = above.find(|of| of.subject == own.issuer);
    Ok(issuer.map_or(own.not_after, |issuer| issuer.not_after.min(own.not_after)))
}

/// The thread of a listener on which TLS handshakes compute. Its priority is low: a flood of handshakes takes the processor
/// time that calls of known callers leave.
#[derive(Debug)]
struct HandshakeThread {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl HandshakeThread {
    /// # Errors
    /// The thread could not start.
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tls-handshakes")
            .on_thread_start(|| {
                // Linux has a priority for each thread.
                if let Err(error) = rustix::process::nice(NICENESS) {
                    tracing::debug!(%error, "cannot lower the priority of a thread");
                }
            })
            .build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs a handshake. The drop of the future cancels it.
    ///
    /// # Errors
    /// The handshake panicked.
    async fn run<T: Send + 'static>(
        &self,
        handshake: impl Future<Output = T> + Send + 'static,
    ) -> io::Result<T> {
        let ended = || io::Error::other("the thread of handshakes has ended");
        let mut running = JoinSet::new();
        running.spawn_on(handshake, self.runtime.as_ref().ok_or_else(ended)?.handle());
        running.join_next().await.ok_or_else(ended)?.map_err(io::Error::other)
    }
}

impl Drop for HandshakeThread {
    fn drop(&mut self) {
        // A drop within another runtime must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_that_change_while_they_are_read_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key, new] = ["node.pem", "node.key", "new"].map(|it| dir.path().join(it));
        let replace = || {
            let own = rcgen::generate_simple_self_signed(["node".to_owned()]).unwrap();
            for (path, pem) in
                [(&certificate, own.cert.pem()), (&key, own.signing_key.serialize_pem())]
            {
                fs::write(&new, pem).unwrap();
                fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
                fs::rename(&new, path).unwrap();
            }
        };
        replace();
        let acceptor = TlsAcceptor::open(TlsConfig {
            files: TlsFiles { certificate: certificate.clone(), key: key.clone(), ca: None },
            mode: TlsMode::Require,
            client_certificates: ClientCertificates::Ignore,
            min_version: TlsVersion::V13,
        });
        let acceptor = acceptor.unwrap();
        replace();
        let failed = acceptor.reload_with(|_| {
            replace();
            Err::<(), _>(TlsError::NoCa)
        });
        assert!(failed.is_err());
        assert!(acceptor.reload().unwrap());
        assert!(!acceptor.reload().unwrap());
    }

    #[test]
    fn a_chain_expires_with_the_certificate_or_its_issuer() {
        let params = |name: &str, year| {
            let mut params = rcgen::CertificateParams::new(["node".to_owned()]).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            params
        };
        let key = || rcgen::KeyPair::generate().unwrap();
        let (root_key, issuer_key) = (key(), key());
        let root = params("root", 2030).self_signed(&root_key).unwrap();
        let by_root = rcgen::Issuer::new(params("root", 2030), root_key);
        let issuer = params("issuer", 2040).signed_by(&issuer_key, &by_root).unwrap();
        let by_issuer = rcgen::Issuer::new(params("issuer", 2040), issuer_key);
        let own = |year| params("own", year).signed_by(&key(), &by_issuer).unwrap().der().clone();
        let expiry = |of: &CertificateDer<'_>| CertificateInfo::of(of).unwrap().not_after;
        let [root, issuer] = [root, issuer].map(|of| of.der().clone());
        for (own, first) in [(own(2050), &issuer), (own(2035), &own(2035))] {
            let chain = [own.clone(), issuer.clone(), root.clone()];
            assert_eq!(first_expiry(&chain), Ok(expiry(first)), "clients may have the root");
            assert_eq!(first_expiry(&chain[..1]), Ok(expiry(&own)));
        }
        assert!(first_expiry(&[]).is_err());
    }

    #[tokio::test]
    async fn a_handshake_computes_on_a_thread_of_low_priority() {
        let thread = HandshakeThread::start().unwrap();
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let before = priority();
        let at_work = thread.run(async move { priority() }).await.unwrap();
        assert_eq!((at_work, priority()), ((before + NICENESS).min(19), before));
    }

    #[tokio::test]
    async fn a_dropped_handshake_is_cancelled() {
        let thread = HandshakeThread::start().unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let handshake = async move {
            std::future::pending::<()>().await;
            drop(sender);
        };
        tokio::select! {
            biased;
            _ = thread.run(handshake) => {}
            () = std::future::ready(()) => {}
        }
        assert!(receiver.await.is_err());
    }
}
