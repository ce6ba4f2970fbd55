//! A certificate authority, the certificates that it signs, and the files of a certificate and its private key.
//!
//! Keys are on the curve P-256. A node's certificate has the URI `holdfast://CLUSTER/node/NAME`, a client's
//! `holdfast://CLUSTER/client/NAME`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_tls::{CertificateInfo, certificates_of};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

use crate::exit::CommandFailure;
use crate::new_file::write_file;

/// New certificates are valid from this time ago on: clocks differ.
const VALID_BEFORE: Duration = Duration::from_mins(5);

/// The owner of a new certificate.
pub(super) enum CertificateOf {
    Node { hosts: Vec<String> },
    Client,
}

/// A CA with its private key.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    cluster: String,
}

/// Creates a CA for the nodes and clients of a cluster.
pub(super) fn new_authority(cluster: &str, days: u32) -> Result<Pair, String> {
    let mut params = params(&format!("holdfast CA of {cluster}"), cluster, days);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

impl Authority {
    pub(super) fn open(pair: &Pair) -> Result<Self, String> {
        let certificates = certificates_of(pair.certificate.as_bytes())?;
        let own = certificates.first().ok_or("no certificate in PEM form")?;
        let info = CertificateInfo::of(own)?;
        if !info.is_ca {
            return Err("it is not the certificate of a CA".to_owned());
        }
        let cluster = info.subject.split(',').find_map(|part| part.strip_prefix("O="));
        let cluster = cluster.ok_or("its subject has no O, the name of the cluster")?.to_owned();
        let key = KeyPair::from_pem(&pair.key).map_err(|error| format!("its key: {error}"))?;
        let issuer = Issuer::from_ca_cert_pem(&pair.certificate, key);
        Ok(Self { issuer: issuer.map_err(|error| error.to_string())?, cluster })
    }

    /// Creates a certificate with a new key.
    pub(super) fn create(&self, name: &str, of: &CertificateOf, days: u32) -> Result<Pair, String> {
        let failed = |error: rcgen::Error| error.to_string();
        let mut params = params(name, &self.cluster, days);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let kind = match of {
            CertificateOf::Node { hosts } => {
                // A node is the server of clients and the client of other nodes.
                params.extended_key_usages =
                    vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
                for host in hosts {
                    params.subject_alt_names.push(match host.parse() {
                        Ok(address) => SanType::IpAddress(address),
                        Err(_) => SanType::DnsName(host.clone().try_into().map_err(failed)?),
                    });
                }
                "node"
            }
            CertificateOf::Client => {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                "client"
            }
        };
        let uri = format!("holdfast://{}/{kind}/{name}", self.cluster);
        params.subject_alt_names.push(SanType::URI(uri.try_into().map_err(failed)?));
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn params(name: &str, cluster: &str, days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, cluster);
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(VALID_BEFORE);
    params.not_after = epoch + now + Duration::from_hours(24) * days;
    params
}

/// A certificate and its private key, in PEM form.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

pub(super) fn read(path: &Path) -> Result<String, CommandFailure> {
    fs::read_to_string(path).map_err(|error| {
        let hint = if path.ends_with("ca.pem") { ": run holdfast certs init first" } else { "" };
        CommandFailure::failed(format!("cannot read {}: {error}{hint}", path.display()))
    })
}

/// Writes `NAME.pem` and `NAME.key`, each complete or not at all. Only the owner can read the key.
pub(super) fn write_pair(
    dir: &Path,
    name: &str,
    pair: &Pair,
    replace: bool,
) -> Result<(PathBuf, PathBuf), CommandFailure> {
    let (certificate, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
    for path in [&certificate, &key] {
        if !replace && path.exists() {
            return Err(CommandFailure::failed(format!(
                "{} exists: give another name or --replace",
                path.display()
            )));
        }
    }
    fs::create_dir_all(dir)
        .map_err(|error| CommandFailure::failed(format!("{}: {error}", dir.display())))?;
    write_file(&key, &pair.key, 0o600)?;
    write_file(&certificate, &pair.certificate, 0o644)?;
    Ok((certificate, key))
}
