//! The text of an access token: its id, its secret and a checksum.
//!
//! `hf_` + id (13 characters of Crockford's base 32) + `_` + secret (32 bytes, 43 characters of base64url) + CRC-32C of all
//! before (6 characters of base64url). The checksum finds a mistyped token before the state is read.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_types::{AccessTokenId, SecretHash};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

use crate::request::Failure;

const SECRET_LEN: usize = 43;
const CHECKSUM_LEN: usize = 6;

/// An access token with its secret. It appears in no log: `Debug` shows the id only.
#[derive(Clone)]
pub struct AccessTokenSecret {
    pub id: AccessTokenId,
    secret: [u8; 32],
}

/// The text is not an access token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not an access token of holdfast: it is mistyped or truncated")]
pub struct NotAccessToken;

impl AccessTokenSecret {
    /// The beginning of every token.
    pub const PREFIX: &str = "hf_";
    /// The number of characters.
    pub const LEN: usize = Self::PREFIX.len() + AccessTokenId::LEN + 1 + SECRET_LEN + CHECKSUM_LEN;

    /// Generates a token from 320 random bits.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the operating system returns no random bytes.
    pub fn generate() -> Result<Self, Failure> {
        let id = AccessTokenId(u64::from_le_bytes(random_bytes()?));
        Ok(Self { id, secret: random_bytes()? })
    }

    /// The hash that the cluster keeps.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret).into())
    }

    /// Compares the hash in constant time.
    pub fn has_hash(&self, hash: SecretHash) -> bool {
        self.hash().0.ct_eq(&hash.0).into()
    }

    /// The whole token, with its secret.
    pub fn reveal(&self) -> String {
        let secret = URL_SAFE_NO_PAD.encode(self.secret);
        let body = format!("{}{}_{secret}", Self::PREFIX, self.id);
        let checksum = checksum(&body);
        body + &checksum
    }
}

impl FromStr for AccessTokenSecret {
    type Err = NotAccessToken;

    fn from_str(text: &str) -> Result<Self, NotAccessToken> {
        if text.len() != Self::LEN || !text.is_ascii() {
            return Err(NotAccessToken);
        }
        let (body, sum) = text.split_at(Self::LEN - CHECKSUM_LEN);
        let rest = body.strip_prefix(Self::PREFIX).ok_or(NotAccessToken)?;
        let (id, secret) = rest.split_once('_').ok_or(NotAccessToken)?;
        let id = id.parse().map_err(|()| NotAccessToken)?;
        let secret = URL_SAFE_NO_PAD.decode(secret).map_err(|_| NotAccessToken)?;
        let secret = secret.try_into().map_err(|_| NotAccessToken)?;
        if checksum(body) == sum { Ok(Self { id, secret }) } else { Err(NotAccessToken) }
    }
}

impl fmt::Debug for AccessTokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessTokenSecret({})", self.id)
    }
}

fn checksum(body: &str) -> String {
    URL_SAFE_NO_PAD.encode(crc32c::crc32c(body.as_bytes()).to_be_bytes())
}

pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token() -> AccessTokenSecret {
        AccessTokenSecret { id: AccessTokenId(7), secret: [9; 32] }
    }

    #[test]
    fn a_token_and_its_text_are_the_same() {
        let text = token().reveal();
        assert_eq!(text, "hf_0000000000007_CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkeio2AQ");
        let read: AccessTokenSecret = text.parse().unwrap();
        assert_eq!((read.id, read.hash()), (token().id, token().hash()));
        assert!(read.has_hash(token().hash()) && !read.has_hash(SecretHash([0; 32])));
        assert_eq!(format!("{read:?}"), "AccessTokenSecret(0000000000007)");
    }

    #[test]
    fn generated_tokens_differ() {
        let (one, other) =
            (AccessTokenSecret::generate().unwrap(), AccessTokenSecret::generate().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        assert_ne!(one.id, other.id);
    }

    proptest! {
        /// Any change of one character is found.
        #[test]
        fn a_mistyped_token_is_rejected(at in 0..AccessTokenSecret::LEN, byte in 0x20u8..0x7f) {
            let text = token().reveal();
            let mut bytes = text.clone().into_bytes();
            bytes[at] = byte;
            let changed = String::from_utf8(bytes).unwrap();
            prop_assert_eq!(changed.parse::<AccessTokenSecret>().is_ok(), changed == text);
        }

        /// No text makes the parser panic.
        #[test]
        fn any_text_is_parsed_without_panic(text in "\\PC{0,80}") {
            prop_assert!(text.parse::<AccessTokenSecret>().is_err());
        }

        #[test]
        fn a_text_of_the_right_length_is_parsed_without_panic(text in "hf_[0-9a-z_]{13}_[0-9A-Za-z_é-]{49}") {
            prop_assert!(text.parse::<AccessTokenSecret>().is_err());
        }
    }
}
