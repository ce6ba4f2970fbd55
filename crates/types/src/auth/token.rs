//! The id of an access token, and the lifetimes of access tokens.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
}
