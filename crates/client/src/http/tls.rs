//! TLS to nodes.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::http::connection::Socket;
use crate::http::{ClientTls, EndpointError};

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

/// Runs the handshake with the node `host`, a DNS name or an IP address.
///
/// # Errors
/// The reason why the node is not trusted, or the error of the connection.
pub(super) async fn connect(
    connector: &TlsConnector,
    host: &str,
    stream: TcpStream,
) -> std::io::Result<Box<dyn Socket>> {
    let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
    Ok(Box::new(connector.connect(name, stream).await?))
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
