//! What names a credential: the id of an access token with its lifetime, and the serial number or the SHA-256 fingerprint of a
//! certificate.
//!
//! A serial number names a certificate of each CA that has used it. The fingerprint is that of `openssl x509
//! -fingerprint -sha256`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The id of an access token: 64 random bits, shown as 13 characters of Crockford's base 32. It is not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessTokenId(pub u64);

/// Text for people, 8 bytes in the log.
impl Serialize for AccessTokenId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for AccessTokenId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            text.parse().map_err(|()| D::Error::custom("not the id of an access token"))
        } else {
            u64::deserialize(deserializer).map(Self)
        }
    }
}

/// Source: Douglas Crockford, "Base 32", in lower case.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl AccessTokenId {
    /// The number of characters.
    pub const LEN: usize = 13;
}

impl fmt::Display for AccessTokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |at: usize| {
            let bits = (self.0 >> (5 * (Self::LEN - 1 - at))) & 31;
            usize::try_from(bits).ok().and_then(|bits| DIGITS.get(bits)).copied().map(char::from)
        };
        let text: String = (0..Self::LEN).filter_map(digit).collect();
        f.write_str(&text)
    }
}

impl fmt::Debug for AccessTokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for AccessTokenId {
    type Err = ();

    /// Accepts exactly the form that `Display` writes.
    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() != Self::LEN {
            return Err(());
        }
        let mut id: u64 = 0;
        for byte in text.bytes() {
            let digit = DIGITS.iter().position(|known| *known == byte).ok_or(())?;
            let digit = u64::try_from(digit).map_err(|_| ())?;
            id = id.checked_mul(32).and_then(|id| id.checked_add(digit)).ok_or(())?;
        }
        Ok(Self(id))
    }
}

/// How long new access tokens may live. Existing ones keep their expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenPolicy {
    /// Of a token whose creator names no lifetime, milliseconds; `None` for the maximum.
    pub default_ttl_ms: Option<u64>,
    /// Milliseconds; `None` for no maximum.
    pub max_ttl_ms: Option<u64>,
}

impl TokenPolicy {
    /// A year, without a maximum.
    pub const INITIAL: Self = Self { default_ttl_ms: Some(365 * 86_400_000), max_ttl_ms: None };

    /// True for a default beyond the maximum.
    pub fn is_contradictory(&self) -> bool {
        self.default_ttl_ms.zip(self.max_ttl_ms).is_some_and(|(default, max)| default > max)
    }

    /// The lifetime, milliseconds; `None` for a token that never expires.
    pub fn ttl_ms(&self, lifetime: TokenLifetime) -> Option<u64> {
        match lifetime {
            TokenLifetime::Default => self.default_ttl_ms.or(self.max_ttl_ms),
            TokenLifetime::Never => None,
            TokenLifetime::Of(ttl) => Some(crate::millis(ttl)),
            TokenLifetime::UpToMax(ttl_ms) => [ttl_ms, self.max_ttl_ms].into_iter().flatten().min(),
        }
    }
}

impl Default for TokenPolicy {
    fn default() -> Self {
        Self::INITIAL
    }
}

/// The lifetime that the creator of an access token wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenLifetime {
    Default,
    Never,
    Of(Duration),
    /// This lifetime, milliseconds, or the maximum if that is shorter; `None` for one as long as possible.
    UpToMax(Option<u64>),
}

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
    fn an_id_and_its_text_are_the_same() {
        for id in [0, 1, 31, 32, 1 << 60, u64::MAX] {
            let text = AccessTokenId(id).to_string();
            assert_eq!((text.len(), text.parse()), (13, Ok(AccessTokenId(id))), "{text}");
        }
        assert_eq!(AccessTokenId(u64::MAX).to_string(), "fzzzzzzzzzzzz");
        // The first digit has only four bits.
        for bad in [
            "",
            "000000000000",
            "00000000000000",
            "000000000000u",
            "g000000000000",
            "zzzzzzzzzzzzz",
            "000000000000É",
        ] {
            assert!(bad.parse::<AccessTokenId>().is_err(), "{bad}");
        }
    }

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
