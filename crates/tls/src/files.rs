//! The files of a listener: its certificate chain, its key, and the CAs of its callers; and why they cannot be used.

use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

use crate::certificate::{CertificateInfo, certificates_of};

/// A clock may be this far behind the clock of the machine that created the certificate.
const CLOCK_SKEW: Duration = Duration::from_mins(5);

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

impl TlsError {
    pub(crate) fn unusable(path: &Path, reason: &dyn fmt::Display) -> Self {
        Self::Unusable { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// The paths of the files, in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the listener first, then the certificates between it and its CA.
    pub certificate: PathBuf,
    /// The private key, readable only by its owner.
    pub key: PathBuf,
    /// The certificates of the CAs that sign the certificates of callers.
    pub ca: Option<PathBuf>,
}

/// The content of the files, checked.
pub(crate) struct TlsMaterial {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) roots: Option<Arc<RootCertStore>>,
}

/// Changes with each replacement of a file, and with its owner and mode: seconds and nanoseconds of the change, length, inode.
pub(crate) type FileVersions = Vec<Option<(i64, i64, u64, u64)>>;

impl TlsFiles {
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.ca)
    }

    pub(crate) fn versions(&self) -> FileVersions {
        let version = |path: &PathBuf| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.ctime(), metadata.ctime_nsec(), metadata.len(), metadata.ino()))
        };
        self.paths().map(version).collect()
    }

    /// Checks the files, as a listener does at its start.
    ///
    /// # Errors
    /// [`TlsError`], the first problem.
    pub fn check_now(&self) -> Result<(), TlsError> {
        self.read(SystemTime::now()).map(drop)
    }

    /// Reads and checks the files.
    pub(crate) fn read(&self, now: SystemTime) -> Result<TlsMaterial, TlsError> {
        let chain = certificates(&self.certificate)?;
        let own = chain.first().ok_or_else(|| TlsError::NoCertificate(self.certificate.clone()))?;
        self.check(own, now)?;
        let key = provider().key_provider.load_private_key(self.read_key()?);
        let key = key.map_err(|error| TlsError::unusable(&self.certificate, &error))?;
        let certified = CertifiedKey::new(chain.clone(), key);
        certified.keys_match().map_err(|_| TlsError::OtherKey {
            key: self.key.clone(),
            certificate: self.certificate.clone(),
        })?;
        let roots = self.ca.as_deref().map(read_roots).transpose()?.map(Arc::new);
        if let (Some(roots), Some(ca)) = (&roots, &self.ca) {
            self.check_issuer(&chain, roots, ca, now)?;
        }
        Ok(TlsMaterial { certified: Arc::new(certified), roots })
    }

    fn check(&self, certificate: &CertificateDer<'_>, now: SystemTime) -> Result<(), TlsError> {
        let path = self.certificate.clone();
        let info = CertificateInfo::of(certificate)
            .map_err(|reason| TlsError::NotACertificate { path: path.clone(), reason })?;
        if info.not_after <= now {
            return Err(TlsError::Expired { path, at: date(info.not_after) });
        }
        if info.not_before > now + CLOCK_SKEW {
            return Err(TlsError::NotYetValid { path, at: date(info.not_before) });
        }
        if info.for_servers { Ok(()) } else { Err(TlsError::NotForServers(path)) }
    }

    /// Checks that the CAs have signed the certificate: other nodes and clients get the same file, and a mistake shows
    /// here first.
    fn check_issuer(
        &self,
        chain: &[CertificateDer<'static>],
        roots: &Arc<RootCertStore>,
        ca: &Path,
        now: SystemTime,
    ) -> Result<(), TlsError> {
        let other =
            || TlsError::OtherCa { certificate: self.certificate.clone(), ca: ca.to_owned() };
        let (own, between) = chain.split_first().ok_or_else(other)?;
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(roots.clone(), provider());
        drop(verifier.build().map_err(|_| other())?);
        let parsed = rustls::server::ParsedCertificate::try_from(own).map_err(|_| other())?;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &parsed,
            roots,
            between,
            rustls_pki_types::UnixTime::since_unix_epoch(now),
            provider().signature_verification_algorithms.all,
        )
        .map_err(|_| other())
    }

    pub(crate) fn read_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let path = &self.key;
        let failed = |source| TlsError::Read { path: path.clone(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        // As PostgreSQL does: a key of root may be readable for the group of the node.
        let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
        if metadata.permissions().mode() & forbidden != 0 {
            return Err(TlsError::KeyIsReadable(path.clone()));
        }
        let pem = fs::read(path).map_err(failed)?;
        if pem.windows(9).any(|word| word == b"ENCRYPTED") {
            return Err(TlsError::EncryptedKey(path.clone()));
        }
        PrivateKeyDer::from_pem_slice(&pem).map_err(|_| TlsError::NoKey(path.clone()))
    }
}

/// Reads all certificates of a file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })?;
    let certificates = certificates_of(&pem);
    let certificates = certificates
        .map_err(|reason| TlsError::NotACertificate { path: path.to_owned(), reason })?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(certificates)
}

/// Reads the certificates of the CAs.
pub(crate) fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::NotACertificate {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok(roots)
}

/// A verifier of client certificates.
pub(crate) fn client_verifier(
    roots: &Arc<RootCertStore>,
    is_required: bool,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error| error.to_string())
}

/// A date for people: seconds since 1970 are not.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    x509_parser::time::ASN1Time::from_timestamp(seconds)
        .map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}

/// The cryptography of all connections of this process.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider())).clone()
}
