//! TLS between nodes, and from a client to a port.
//!
//! Between nodes, both sides give a certificate of the cluster's CA. The certificate of a node is checked against the CA, not
//! against a host name: the handshake of the peers then compares its names with the node that it must be. A client checks the
//! name of the server.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;

use crate::acceptor::{AcceptError, ClientCertificates, TlsAcceptor, TlsConfig, TlsMode};
use crate::certificate::CertificateInfo;
use crate::files::{TlsError, TlsFiles, TlsMaterial, certificates, provider, read_roots};
use crate::stream::{DeniedCertificates, MaybeTlsStream};

/// Accepts connections of other nodes, and connects to them. Clones share it.
#[derive(Clone)]
pub struct PeerTls(Arc<Shared>);

struct Shared {
    config: TlsConfig,
    acceptor: TlsAcceptor,
    client: ArcSwap<ClientConfig>,
}

impl PeerTls {
    /// Reads and checks the files. Callers must give a certificate, whatever the configuration says.
    ///
    /// # Errors
    /// [`TlsError`], also without CAs, and for a certificate that does not allow the use as a client.
    pub fn open(config: TlsConfig) -> Result<Self, TlsError> {
        let config = TlsConfig { client_certificates: ClientCertificates::Require, ..config };
        let acceptor = TlsAcceptor::open(config.clone())?;
        let material = config.files.read(SystemTime::now())?;
        let client = ArcSwap::from(client_config(&config, &material)?);
        Ok(Self(Arc::new(Shared { config, acceptor, client })))
    }

    /// Like [`TlsAcceptor::reload`].
    ///
    /// # Errors
    /// As [`TlsAcceptor::reload`].
    pub fn reload(&self) -> Result<bool, TlsError> {
        // Both directions change, or none.
        let reloaded =
            self.0.acceptor.reload_with(|material| client_config(&self.0.config, material))?;
        let is_changed = reloaded.is_some();
        if let Some(client) = reloaded {
            self.0.client.store(client);
        }
        Ok(is_changed)
    }

    /// The certificates whose connections end, in both directions.
    pub fn denied(&self) -> &DeniedCertificates {
        self.0.acceptor.denied()
    }

    /// When the certificate of new connections expires.
    pub fn expires_at(&self) -> SystemTime {
        self.0.acceptor.expires_at()
    }

    /// Whether connections without TLS are accepted as well.
    pub fn mode(&self) -> TlsMode {
        self.0.config.mode
    }

    /// Runs the handshake of a connection of another node.
    ///
    /// # Errors
    /// As [`TlsAcceptor::accept`].
    pub async fn accept(&self, stream: TcpStream) -> Result<MaybeTlsStream, AcceptError> {
        self.0.acceptor.accept(stream).await
    }

    /// Runs the handshake of a connection to another node.
    ///
    /// # Errors
    /// The reason why the other node is not trusted, or does not trust this one.
    pub async fn connect(&self, stream: TcpStream) -> io::Result<MaybeTlsStream> {
        let connector = tokio_rustls::TlsConnector::from(self.0.client.load_full());
        // The verifier ignores the name, and the client does not send it.
        let name = ServerName::try_from("node").map_err(io::Error::other)?;
        let stream = connector.connect(name, stream).await?;
        MaybeTlsStream::allowed(stream.into(), self.denied().clone())
    }
}

fn client_config(
    config: &TlsConfig,
    material: &TlsMaterial,
) -> Result<Arc<ClientConfig>, TlsError> {
    let path = &config.files.certificate;
    let own = material.certified.cert.first().map(CertificateInfo::of);
    if !own.is_some_and(|own| own.is_ok_and(|own| own.for_clients)) {
        return Err(TlsError::NotForClients(path.clone()));
    }
    let roots = material.roots.clone().ok_or(TlsError::NoCa)?;
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&config.min_version.protocols())
        .map_err(|error| TlsError::unusable(path, &error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(NodeVerifier { roots }))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(material.certified.clone())));
    client.enable_sni = false;
    Ok(Arc::new(client))
}

/// Accepts each server certificate that a CA has signed.
#[derive(Debug)]
struct NodeVerifier {
    roots: Arc<RootCertStore>,
}

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            between,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Connects to servers whose certificates a CA has signed. Clones share the session tickets.
#[derive(Clone)]
pub struct TlsConnector(Arc<ClientConfig>);

impl std::fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsConnector")
    }
}

fn trusting(ca: &Path) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::unusable(ca, &error))?;
    Ok(builder.with_root_certificates(read_roots(ca)?))
}

impl TlsConnector {
    /// Reads the certificates of the CAs, in PEM form.
    ///
    /// # Errors
    /// [`TlsError`] for a file without certificates.
    pub fn open(ca: &Path) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(trusting(ca)?.with_no_client_auth())))
    }

    /// Also gives a certificate of the caller.
    ///
    /// # Errors
    /// [`TlsError`] for the first file that cannot be used.
    pub fn open_as(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let files = TlsFiles { certificate, key, ca: None };
        let chain = certificates(&files.certificate)?;
        let config = trusting(ca)?.with_client_auth_cert(chain, files.read_key()?);
        let unusable = |error: rustls::Error| TlsError::unusable(&files.certificate, &error);
        Ok(Self(Arc::new(config.map_err(unusable)?)))
    }

    /// Runs the handshake with the server `host`, a DNS name or an IP address.
    ///
    /// # Errors
    /// The reason why the server is not trusted, or the error of the connection.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<MaybeTlsStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = tokio_rustls::TlsConnector::from(self.0.clone());
        let stream = connector.connect(name, stream).await?;
        Ok(MaybeTlsStream::tls(stream.into()))
    }
}
