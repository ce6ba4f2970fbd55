//! TLS to a port for clients, for callers that use no HTTP library.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;

use crate::files::{TlsError, TlsFiles, certificates, provider, read_roots};
use crate::stream::MaybeTlsStream;

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
