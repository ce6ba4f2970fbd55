//! What names one certificate: its serial number, or its SHA-256 fingerprint.
//!
//! A serial number names a certificate of each CA that has used it. The fingerprint is that of `openssl x509
//! -fingerprint -sha256`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A text such as `serial:4a3b` or `sha256:…`, with hexadecimal digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CertificateId(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a certificate is named by its serial number or by sha256: and its fingerprint, both in hexadecimal digits, as openssl shows them"
)]
pub struct NotCertificateId;

impl CertificateId {
    const SERIAL: &str = "serial:";
    const SHA256: &str = "sha256:";
    /// The maximum length, bytes, also with colons between the digits.
    pub const MAX_LEN: usize = 7 + 32 * 3;
    /// The most digits of a serial number: 20 bytes (RFC 5280, section 4.1.2.2).
    const SERIAL_DIGITS: usize = 40;

    pub fn of_serial(bytes: &[u8]) -> Self {
        let digits = hexadecimal(bytes);
        Self(format!("{}{}", Self::SERIAL, significant(&digits)))
    }

    pub fn of_sha256(hash: &[u8; 32]) -> Self {
        Self(format!("{}{}", Self::SHA256, hexadecimal(hash)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// Without leading zeros.
fn significant(digits: &str) -> &str {
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() { "0" } else { significant }
}

impl FromStr for CertificateId {
    type Err = NotCertificateId;

    /// The digits may have colons and upper case; `serial:` may be left out.
    fn from_str(text: &str) -> Result<Self, NotCertificateId> {
        let lower = text.to_ascii_lowercase();
        let of_hash = lower.strip_prefix(Self::SHA256);
        let digits = of_hash.unwrap_or(lower.strip_prefix(Self::SERIAL).unwrap_or(&lower));
        let digits = digits.replace(':', "");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotCertificateId);
        }
        match of_hash {
            Some(_) if digits.len() == 64 => Ok(Self(format!("{}{digits}", Self::SHA256))),
            None if significant(&digits).len() <= Self::SERIAL_DIGITS => {
                Ok(Self(format!("{}{}", Self::SERIAL, significant(&digits))))
            }
            Some(_) | None => Err(NotCertificateId),
        }
    }
}

impl TryFrom<String> for CertificateId {
    type Error = NotCertificateId;
    fn try_from(text: String) -> Result<Self, NotCertificateId> {
        text.parse()
    }
}

impl From<CertificateId> for String {
    fn from(id: CertificateId) -> Self {
        id.0
    }
}

impl fmt::Display for CertificateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_one_name_for_each_spelling() {
        let of = |text: &str| text.parse::<CertificateId>().map(|id| id.to_string());
        for serial in ["4A:3b", "004a3b", "serial:4A3B", "SERIAL:00:4a:3b"] {
            assert_eq!(of(serial).as_deref(), Ok("serial:4a3b"), "{serial}");
        }
        assert_eq!(CertificateId::of_serial(&[0, 0x4a, 0x3b]).as_str(), "serial:4a3b");
        assert_eq!(CertificateId::of_serial(&[0]).as_str(), "serial:0");
        let hash = CertificateId::of_sha256(&[0x0a; 32]);
        assert_eq!(
            of(&format!("SHA256:{}", "0A:".repeat(32).trim_end_matches(':'))),
            Ok(hash.to_string())
        );
        let long = "1".repeat(41);
        let short = format!("sha256:{}", "a".repeat(63));
        for wrong in ["", ":", "serial:", "xyz", "sha256:ab", "sha1:ab", &long, &short] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
