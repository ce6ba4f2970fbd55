//! The reasons why the files of a listener cannot be used.

use std::path::PathBuf;

use thiserror::Error;

/// A file that cannot be used, with what to do.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} has no certificate in PEM form", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} is not a certificate: {reason}", path.display())]
    NotACertificate { path: PathBuf, reason: String },
    #[error("{} has no private key in PEM form", .0.display())]
    NoKey(PathBuf),
    #[error("{} is encrypted: write it without a passphrase, readable only by the user of this process", .0.display())]
    EncryptedKey(PathBuf),
    #[error("{} is readable by other users: run chmod 600 on it", .0.display())]
    KeyIsReadable(PathBuf),
    #[error("the key {} does not fit the certificate {}: they are from different pairs", key.display(), certificate.display())]
    OtherKey { key: PathBuf, certificate: PathBuf },
    #[error("the certificate {} expired at {at}: create a new one", path.display())]
    Expired { path: PathBuf, at: String },
    #[error("the certificate {} is not valid before {at}: check the clock of this machine", path.display())]
    NotYetValid { path: PathBuf, at: String },
    #[error("the certificate {} does not allow the use as a server: create one with the usage serverAuth", .0.display())]
    NotForServers(PathBuf),
    #[error("the certificate {} does not allow the use as a client, which nodes are to each other: create one with the usage clientAuth too, or set raft.tls = \"off\"", .0.display())]
    NotForClients(PathBuf),
    #[error("{} is not signed by a certificate in {}: give the CA that signed it", certificate.display(), ca.display())]
    OtherCa { certificate: PathBuf, ca: PathBuf },
    #[error("certificates of callers need tls.ca, the certificates of their CAs")]
    NoCa,
    #[error("cannot start the thread of TLS handshakes: {0}")]
    Thread(std::io::Error),
    #[error("cannot use the certificate {}: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
}
