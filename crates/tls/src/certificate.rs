//! What a certificate says: its owner, its names, and the time in which it is valid.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_types::CertificateId;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use x509_parser::asn1_rs::Oid;
use x509_parser::prelude::{
    ASN1Time, AttributeTypeAndValue, FromDer as _, GeneralName, X509Certificate, X509Name,
};

/// The longest subject, bytes: the longest id of an identity in an access list.
const SUBJECT_BYTES_MAX: usize = 1024;

/// One certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Its serial number and its fingerprint.
    pub ids: [CertificateId; 2],
    /// As RFC 2253 writes it, with the escapes of Java's `X500Principal.getName()`.
    pub subject: String,
    pub issuer: String,
    pub uris: Vec<String>,
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
    pub is_ca: bool,
    /// Whether the key usages allow a server and a client; both without the extension.
    pub for_servers: bool,
    pub for_clients: bool,
}

impl CertificateInfo {
    /// Reads a certificate.
    ///
    /// # Errors
    /// The reason why the bytes are not a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let fingerprint = CertificateId::of_sha256(&Sha256::digest(certificate).into());
        let (rest, certificate) =
            X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err("bytes follow the certificate".to_owned());
        }
        let (subject, issuer) = (rfc2253(certificate.subject()), rfc2253(certificate.issuer()));
        if subject.len() > SUBJECT_BYTES_MAX {
            return Err(format!("its subject has more than {SUBJECT_BYTES_MAX} bytes"));
        }
        let usages = certificate.extended_key_usage().map_err(|error| error.to_string())?;
        let usages = usages.map(|usages| usages.value);
        let serial = CertificateId::of_serial(certificate.raw_serial());
        let mut info = Self {
            ids: [serial, fingerprint],
            subject,
            issuer,
            uris: Vec::new(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            not_before: time(certificate.validity().not_before),
            not_after: time(certificate.validity().not_after),
            is_ca: certificate.is_ca(),
            for_servers: usages.is_none_or(|usages| usages.any || usages.server_auth),
            for_clients: usages.is_none_or(|usages| usages.any || usages.client_auth),
        };
        let names = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            info.add(name);
        }
        Ok(info)
    }

    fn add(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::URI(uri) => self.uris.push((*uri).to_owned()),
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                self.addresses
                    .extend(four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)));
            }
            GeneralName::OtherName(..)
            | GeneralName::RFC822Name(_)
            | GeneralName::X400Address(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EDIPartyName(_)
            | GeneralName::RegisteredID(_)
            | GeneralName::Invalid(..) => {}
        }
    }

    /// The whole days until it expires; 0 after that.
    pub fn days_left(&self, now: SystemTime) -> u64 {
        self.not_after.duration_since(now).unwrap_or_default().as_secs() / 86_400
    }
}

/// Reads all certificates in a text in PEM form.
///
/// # Errors
/// The reason why a part of the text is not a certificate.
pub fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem);
    certificates.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn time(time: ASN1Time) -> SystemTime {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// The attribute types that RFC 2253 names; others are written as numbers.
const KEYWORDS: [(&[u64], &str); 9] = [
    (&[2, 5, 4, 3], "CN"),
    (&[2, 5, 4, 6], "C"),
    (&[2, 5, 4, 7], "L"),
    (&[2, 5, 4, 8], "ST"),
    (&[2, 5, 4, 9], "STREET"),
    (&[2, 5, 4, 10], "O"),
    (&[2, 5, 4, 11], "OU"),
    (&[0, 9, 2342, 19_200_300, 100, 1, 1], "UID"),
    (&[0, 9, 2342, 19_200_300, 100, 1, 25], "DC"),
];

/// Writes a name as RFC 2253 does: the most specific part first, no spaces between the parts.
fn rfc2253(name: &X509Name<'_>) -> String {
    let parts: Vec<String> = name
        .iter_rdn()
        .map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+"))
        .collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let keyword = KEYWORDS.iter().find(|(number, _)| is(attribute.attr_type(), number));
    if let (Some((_, keyword)), Ok(value)) = (keyword, attribute.as_str()) {
        return format!("{keyword}={}", escaped(value));
    }
    let mut text = format!("{}=#", attribute.attr_type());
    let value = attribute.attr_value();
    let header = [value.tag().0.to_le_bytes()[0], value.data.len().to_le_bytes()[0]];
    for byte in header.iter().chain(value.data) {
        // A write to a string cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}

fn is(oid: &Oid<'_>, number: &[u64]) -> bool {
    oid.iter().is_some_and(|parts| parts.eq(number.iter().copied()))
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, char) in value.chars().enumerate() {
        let special = matches!(char, ',' | '+' | '"' | '\\' | '<' | '>' | ';');
        let edge = (char == ' ' && (at == 0 || at == last)) || (char == '#' && at == 0);
        if special || edge {
            text.push('\\');
        }
        text.push(char);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    /// A certificate with a long subject and names of each kind.
    static VALID: LazyLock<(Vec<u8>, String)> = LazyLock::new(|| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "prod, \"quoted\" + more");
        params.distinguished_name.push(DnType::CommonName, " #ü\\;<>= ");
        params.subject_alt_names = vec![
            SanType::URI("holdfast://prod/client/web1".try_into().unwrap()),
            SanType::DnsName("web1.example".try_into().unwrap()),
            SanType::IpAddress([127, 0, 0, 1].into()),
        ];
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        (certificate.der().to_vec(), certificate.pem())
    });

    /// Replaces some bytes, and cuts the end off.
    fn changed(valid: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
        let changes = prop::collection::vec((0..valid.len(), any::<u8>()), 0..5);
        let cut = prop::option::weighted(0.1, 0..valid.len());
        (changes, cut).prop_map(|(changes, cut)| {
            let mut bytes = valid.to_vec();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            bytes.truncate(cut.unwrap_or(valid.len()));
            bytes
        })
    }

    proptest! {
        /// `scripts/campaign parsers` runs many more cases.
        #[test]
        fn a_changed_certificate_is_read_without_panic(bytes in changed(&VALID.0)) {
            if let Ok(info) = CertificateInfo::of(&CertificateDer::from(bytes)) {
                prop_assert!(info.subject.len() <= SUBJECT_BYTES_MAX);
            }
        }

        #[test]
        fn a_changed_file_is_read_without_panic(bytes in changed(VALID.1.as_bytes())) {
            for certificate in certificates_of(&bytes).into_iter().flatten() {
                drop(CertificateInfo::of(&certificate));
            }
        }
    }
}
