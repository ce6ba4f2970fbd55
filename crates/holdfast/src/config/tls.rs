//! The section `[tls]`, and the keys of each listener that uses it.

use std::path::PathBuf;

use holdfast_tls::{ClientCertificates, TlsConfig, TlsFiles, TlsMode, TlsVersion};

use super::source::{ConfigError, ConfigLayers};
use super::units;
use super::units::Scalar;

/// The certificate of the node.
struct NodeCertificate {
    files: TlsFiles,
    min_version: TlsVersion,
}

/// The TLS of each listener; `None` without TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenersTls {
    pub(crate) http: Option<TlsConfig>,
    pub(crate) zookeeper: Option<TlsConfig>,
    pub(crate) raft: Option<TlsConfig>,
}

impl ListenersTls {
    pub(super) fn read(layers: &ConfigLayers) -> Result<Self, ConfigError> {
        let certificate = certificate(layers)?;
        Ok(Self {
            http: listener(layers, certificate.as_ref(), "http")?,
            zookeeper: listener(layers, certificate.as_ref(), "zookeeper")?,
            raft: between_nodes(layers, certificate.as_ref())?,
        })
    }
}

/// Reads the TLS of a listener for clients.
fn listener(
    layers: &ConfigLayers,
    certificate: Option<&NodeCertificate>,
    section: &str,
) -> Result<Option<TlsConfig>, ConfigError> {
    let choice = format!("{section}.client_certificates");
    let client_certificates =
        layers.or(&choice, client_certificates, ClientCertificates::Ignore)?;
    let mode = match mode_of(layers, certificate, section)? {
        Some(mode) => mode,
        None if client_certificates == ClientCertificates::Ignore => return Ok(None),
        None => {
            return Err(ConfigError::Inconsistent(format!(
                "{choice} needs TLS: set tls.cert and tls.key, and leave {section}.tls out"
            )));
        }
    };
    let certificate = needed(certificate, section)?;
    if client_certificates != ClientCertificates::Ignore && certificate.files.ca.is_none() {
        return Err(ConfigError::Inconsistent(format!(
            "{choice} needs tls.ca, the certificates of the CAs of clients"
        )));
    }
    Ok(Some(certificate.config(mode, client_certificates)))
}

/// Reads the TLS between nodes, which always give a certificate.
fn between_nodes(
    layers: &ConfigLayers,
    certificate: Option<&NodeCertificate>,
) -> Result<Option<TlsConfig>, ConfigError> {
    let Some(mode) = mode_of(layers, certificate, "raft")? else { return Ok(None) };
    let certificate = needed(certificate, "raft")?;
    if certificate.files.ca.is_none() {
        return Err(inconsistent(
            "TLS between nodes needs tls.ca, the certificate of the CA that signed the nodes' certificates: set it, or raft.tls = \"off\"",
        ));
    }
    Ok(Some(certificate.config(mode, ClientCertificates::Require)))
}

/// A listener of a node with a certificate requires TLS unless its key says otherwise.
fn mode_of(
    layers: &ConfigLayers,
    certificate: Option<&NodeCertificate>,
    section: &str,
) -> Result<Option<TlsMode>, ConfigError> {
    layers.or(&format!("{section}.tls"), mode, certificate.map(|_| TlsMode::Require))
}

fn needed<'a>(
    certificate: Option<&'a NodeCertificate>,
    section: &str,
) -> Result<&'a NodeCertificate, ConfigError> {
    let missing = || {
        let problem = format!("{section}.tls needs a certificate: set tls.cert and tls.key");
        ConfigError::Inconsistent(problem)
    };
    certificate.ok_or_else(missing)
}

impl NodeCertificate {
    fn config(&self, mode: TlsMode, client_certificates: ClientCertificates) -> TlsConfig {
        let (files, min_version) = (self.files.clone(), self.min_version);
        TlsConfig { files, mode, client_certificates, min_version }
    }
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
