//! TLS to a port for clients, for callers that use no HTTP library.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;

use crate::error::TlsError;
use crate::files::read_roots;
use crate::provider::provider;
use crate::stream::MaybeTlsStream;

/// Connects to servers whose certificates a CA has signed. Clones share the session tickets.
#[derive(Clone)]
pub struct TlsConnector(Arc<ClientConfig>);

impl std::fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsConnector")
    }
}

impl TlsConnector {
    /// Reads the certificates of the CAs, in PEM form.
    ///
    /// # Errors
    /// [`TlsError`] for a file without certificates.
    pub fn open(ca: &Path) -> Result<Self, TlsError> {
        let unusable = |error: rustls::Error| TlsError::Unusable {
            path: ca.to_owned(),
            reason: error.to_string(),
        };
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_root_certificates(read_roots(ca)?)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Runs the handshake with the server `host`, a DNS name or an IP address.
    ///
    /// # Errors
    /// The reason why the server is not trusted, or the error of the connection.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<MaybeTlsStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = tokio_rustls::TlsConnector::from(self.0.clone());
        let stream = connector.connect(name, stream).await?;
        Ok(MaybeTlsStream::Tls(Box::new(stream.into())))
    }
}
