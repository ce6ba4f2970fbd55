//! TLS for the ports of a node. No other crate of a node names rustls.
//!
//! [`TlsAcceptor`] reads the certificate of a listener, checks it, and accepts connections with TLS, or with and without
//! it. It reads changed files again while it runs, and never replaces a working certificate by a broken one.
//! [`PeerTls`] does the same between nodes, in both directions. [`TlsConnector`] connects to a port for clients.
//! [`CertificateInfo`] is what a certificate says about its owner. [`AgeWriter`] encrypts a backup to a public key.

mod acceptor;
mod age;
mod certificate;
mod client;
mod error;
mod expiry;
mod files;
mod peer;
mod pending;
mod provider;
mod stream;

pub use acceptor::{
    AcceptError, ClientCertificates, HANDSHAKES_MAX, TlsAcceptor, TlsConfig, TlsMode, TlsVersion,
};
pub use age::{AgeError, AgeIdentity, AgeReader, AgeRecipient, AgeWriter, is_age};
pub use certificate::{CertificateInfo, certificates_of};
pub use client::TlsConnector;
pub use error::TlsError;
pub use expiry::CertificateExpiry;
pub use files::TlsFiles;
pub use peer::PeerTls;
pub use pending::PendingHandshakes;
pub use stream::MaybeTlsStream;
