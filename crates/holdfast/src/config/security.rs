//! The key `security.mode`: what a listener needs that other machines can reach.

use holdfast_tls::{TlsConfig, TlsMode};

use super::Config;
use super::error::ConfigError;
use super::units::Scalar;
use holdfast_types::Address;

/// How strictly the node protects listeners that other machines can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecurityMode {
    /// They need TLS, and calls need a permission.
    Secure,
    /// They need a certificate, and also accept connections without TLS.
    Migrating,
    /// They need nothing.
    Open,
}

pub(super) fn mode(value: &Scalar) -> Result<SecurityMode, String> {
    let wanted = "\"secure\", \"migrating\" or \"open\"";
    match value.text(wanted)? {
        "secure" => Ok(SecurityMode::Secure),
        "migrating" => Ok(SecurityMode::Migrating),
        "open" => Ok(SecurityMode::Open),
        other => Err(format!("{other:?} is not a mode: write {wanted}")),
    }
}

impl Config {
    /// The listeners for clients that other machines can reach.
    fn open_client_listeners(&self) -> impl Iterator<Item = (&Address, Option<&TlsConfig>)> {
        let http = (&self.http_listen, self.tls.http.as_ref());
        let zookeeper = self.zookeeper.as_ref();
        let zookeeper = zookeeper.map(|zk| (&zk.listen, self.tls.zookeeper.as_ref()));
        [http].into_iter().chain(zookeeper).filter(|(address, _)| !address.is_loopback())
    }

    /// Whether calls need a permission on this node, whatever the mode of the cluster is.
    pub(crate) fn requires_authentication(&self) -> bool {
        self.security == SecurityMode::Secure && self.open_client_listeners().next().is_some()
    }

    /// The first listener that other machines can reach without TLS.
    pub(crate) fn unprotected(&self) -> Option<&Address> {
        let peer = (&self.peer_listen, self.tls.raft.as_ref());
        let peer = Some(peer).filter(|(address, _)| !address.is_loopback());
        let mut listeners = self.open_client_listeners().chain(peer);
        let requires_tls =
            |tls: Option<&TlsConfig>| tls.is_some_and(|tls| tls.mode == TlsMode::Require);
        listeners.find(|(_, tls)| !requires_tls(*tls)).map(|(address, _)| address)
    }

    /// The first listener that other machines can reach, on which nothing accepts TLS.
    fn without_tls(&self) -> Option<&Address> {
        let peer = (&self.peer_listen, self.tls.raft.as_ref());
        let peer = Some(peer).filter(|(address, _)| !address.is_loopback());
        let mut listeners = self.open_client_listeners().chain(peer);
        listeners.find(|(_, tls)| tls.is_none()).map(|(address, _)| address)
    }
}

/// Rejects a listener that is less protected than the mode demands.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let unprotected = match config.security {
        SecurityMode::Secure => config.unprotected(),
        SecurityMode::Migrating => config.without_tls(),
        SecurityMode::Open => None,
    };
    unprotected.map_or(Ok(()), |address| Err(refusal(config, address)))
}

fn refusal(config: &Config, address: &Address) -> ConfigError {
    let port = address.port();
    let key = if *address == config.http_listen {
        "http.listen"
    } else if *address == config.peer_listen {
        "raft.listen"
    } else {
        "zookeeper.listen"
    };
    ConfigError::Inconsistent(format!(
        "refusing to listen on {address} without TLS: other machines can reach it. Choose one:\n  \
         1. enable TLS:          create certificates with 'holdfast certs', and set tls.cert, tls.key and tls.ca\n  \
         2. listen on loopback:  {key} = \"127.0.0.1:{port}\"\n  \
         3. accept the risk:     security.mode = \"open\"\n\
         docs/security.md has the five minutes to a secure cluster"
    ))
}
