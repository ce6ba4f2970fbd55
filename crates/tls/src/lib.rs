//! TLS for the ports of a node. No other crate of a node names rustls.
//!
//! [`TlsAcceptor`] reads the certificate of a listener, checks it, and accepts connections with TLS, or with and without
//! it. It reads changed files again while it runs, and never replaces a working certificate by a broken one.
//! [`PeerTls`] does the same between nodes, in both directions. [`TlsConnector`] connects to a port for clients.
//! [`CertificateInfo`] is what a certificate says about its owner. [`PendingConnections`] and [`CallerFailures`] bound what
//! callers cost that have proved no identity, with and without TLS. [`AgeWriter`] encrypts a backup
//! to a public key.

mod acceptor;
mod age;
mod certificate;
mod connector;
mod failures;
mod files;
mod pending;
mod stream;

pub use acceptor::{AcceptError, ClientCertificates, TlsAcceptor, TlsConfig, TlsMode, TlsVersion};
pub use age::{AgeError, AgeIdentity, AgeReader, AgeRecipient, AgeWriter, is_age};
pub use certificate::{CertificateInfo, certificates_of};
pub use connector::{PeerTls, TlsConnector};
pub use failures::{CallerFailures, FailureReason, NodePort};
pub use files::{TlsError, TlsFiles};
pub use pending::{PENDING_MAX, PENDING_PER_SOURCE_MAX, PendingConnection, PendingConnections};
pub use stream::{CertificateExpiry, DeniedCertificates, MaybeTlsStream};
