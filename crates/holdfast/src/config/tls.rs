//! The section `[tls]`, and the keys of each listener that uses it.

use std::path::PathBuf;

use holdfast_tls::{ClientCertificates, TlsConfig, TlsFiles, TlsMode, TlsVersion};

use super::error::ConfigError;
use super::scalar::Scalar;
use super::source::ConfigLayers;
use super::units;

/// The certificate of the node.
struct NodeCertificate {
    files: TlsFiles,
    min_version: TlsVersion,
}

/// Reads the TLS of the HTTP listener; `None` without TLS.
pub(super) fn http(layers: &ConfigLayers) -> Result<Option<TlsConfig>, ConfigError> {
    let certificate = certificate(layers)?;
    let default = certificate.as_ref().map(|_| TlsMode::Require);
    let Some(mode) = layers.or("http.tls", mode, default)? else { return Ok(None) };
    let client_certificates =
        layers.or("http.client_certificates", client_certificates, ClientCertificates::Ignore)?;
    let Some(NodeCertificate { files, min_version }) = certificate else {
        return Err(inconsistent("http.tls needs a certificate: set tls.cert and tls.key"));
    };
    if client_certificates != ClientCertificates::Ignore && files.ca.is_none() {
        return Err(inconsistent(
            "http.client_certificates needs tls.ca, the certificates of the CAs of clients",
        ));
    }
    Ok(Some(TlsConfig { files, mode, client_certificates, min_version }))
}

fn certificate(layers: &ConfigLayers) -> Result<Option<NodeCertificate>, ConfigError> {
    let certificate: Option<PathBuf> = layers.optional("tls.cert", units::path)?;
    let key: Option<PathBuf> = layers.optional("tls.key", units::path)?;
    let ca = layers.optional("tls.ca", units::path)?;
    let min_version = layers.or("tls.min_version", version, TlsVersion::V13)?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let files = TlsFiles { certificate, key, ca };
            Ok(Some(NodeCertificate { files, min_version }))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(inconsistent("tls.cert needs tls.key, its private key")),
        (None, Some(_)) => Err(inconsistent("tls.key needs tls.cert, its certificate")),
    }
}

fn inconsistent(problem: &str) -> ConfigError {
    ConfigError::Inconsistent(problem.to_owned())
}

fn mode(value: &Scalar) -> Result<Option<TlsMode>, String> {
    let wanted = "\"off\", \"allow\" (with and without TLS) or \"require\"";
    match value.text(wanted)? {
        "off" => Ok(None),
        "allow" => Ok(Some(TlsMode::Allow)),
        "require" => Ok(Some(TlsMode::Require)),
        other => Err(format!("{other:?} is not a mode: write {wanted}")),
    }
}

fn client_certificates(value: &Scalar) -> Result<ClientCertificates, String> {
    let wanted = "\"ignore\", \"request\" or \"require\"";
    match value.text(wanted)? {
        "ignore" => Ok(ClientCertificates::Ignore),
        "request" => Ok(ClientCertificates::Request),
        "require" => Ok(ClientCertificates::Require),
        other => Err(format!("{other:?} is not a choice: write {wanted}")),
    }
}

fn version(value: &Scalar) -> Result<TlsVersion, String> {
    let wanted = "\"1.2\" or \"1.3\"";
    match value.text(wanted)? {
        "1.2" => Ok(TlsVersion::V12),
        "1.3" => Ok(TlsVersion::V13),
        other => Err(format!("{other:?} is not a version of TLS: write {wanted}")),
    }
}
