//! Files that are encrypted to a public key, in the format age-encryption.org/v1 with one recipient of the kind X25519
//! (<https://c2sp.org/age>). The tool `age` reads and writes the same files. The cryptography is that of aws-lc-rs.
//!
//! A file has a header with the key of the file, encrypted to the recipient, and chunks of [`CHUNK`] bytes. Each chunk is
//! authenticated, and the last one is marked, so a shortened file is an error. Bound: one chunk in memory.

mod stream;

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use thiserror::Error;

pub use stream::{AgeReader, AgeWriter};

/// The bytes of a chunk before its encryption.
const CHUNK: usize = 64 << 10;
/// The bytes that authenticate a chunk.
const TAG: usize = 16;
const VERSION: &str = "age-encryption.org/v1";
/// The first bytes of every file.
const MAGIC: &[u8] = VERSION.as_bytes();
const STANZA: &str = "-> X25519 ";
const WRAP_INFO: &[u8] = b"age-encryption.org/v1/X25519";
/// The key of one file.
const FILE_KEY: usize = 16;

/// Why a file cannot be encrypted or read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum AgeError {
    #[error("{0:?} is not a public key of age: it starts with age1")]
    Recipient(String),
    #[error("no private key of age: a line starts with AGE-SECRET-KEY-1")]
    Identity,
    #[error("the file is encrypted to another key")]
    OtherKey,
    #[error("the file is damaged, or was cut: {0}")]
    Damaged(&'static str),
    #[error("the random numbers or the cryptography of the system failed")]
    Failed,
}

impl From<Unspecified> for AgeError {
    fn from(_: Unspecified) -> Self {
        Self::Failed
    }
}

/// Whether bytes are the start of an encrypted file.
pub fn is_age(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// A public key: `age1…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgeRecipient([u8; 32]);

impl FromStr for AgeRecipient {
    type Err = AgeError;

    fn from_str(text: &str) -> Result<Self, AgeError> {
        let wrong = || AgeError::Recipient(text.to_owned());
        bech32::decode("age", text.trim()).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for AgeRecipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32::encode("age", self.0))
    }
}

/// A private key: `AGE-SECRET-KEY-1…`.
#[derive(Clone)]
pub struct AgeIdentity {
    secret: [u8; 32],
    public: [u8; 32],
}

impl AgeIdentity {
    /// # Errors
    /// [`AgeError::Failed`].
    pub fn generate() -> Result<Self, AgeError> {
        let mut secret = [0; 32];
        rand::fill(&mut secret)?;
        Self::of(secret)
    }

    fn of(secret: [u8; 32]) -> Result<Self, AgeError> {
        let public = public_of(&private(&secret)?)?;
        Ok(Self { secret, public })
    }

    /// The text of a key file, as `age-keygen` writes it. A secret.
    pub fn to_file(&self) -> String {
        let secret = bech32::encode("age-secret-key-", self.secret).to_uppercase();
        format!("# public key: {}\n{secret}\n", self.recipient())
    }

    pub fn recipient(&self) -> AgeRecipient {
        AgeRecipient(self.public)
    }
}

/// Reads the first key of a key file. Lines with `#` are comments.
impl FromStr for AgeIdentity {
    type Err = AgeError;

    fn from_str(file: &str) -> Result<Self, AgeError> {
        let mut lines = file.lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        let secret = line.and_then(|line| bech32::decode("age-secret-key-", &line.to_lowercase()));
        Self::of(secret.ok_or(AgeError::Identity)?)
    }
}

/// The secret is left out.
impl fmt::Debug for AgeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgeIdentity({})", self.recipient())
    }
}

fn private(secret: &[u8; 32]) -> Result<PrivateKey, AgeError> {
    PrivateKey::from_private_key(&X25519, secret).map_err(|_| AgeError::Failed)
}

fn public_of(key: &PrivateKey) -> Result<[u8; 32], AgeError> {
    key.compute_public_key()?.as_ref().try_into().map_err(|_| AgeError::Failed)
}

/// The key that encrypts the key of a file: of the sender's `share` and the recipient's public key.
fn wrap_key(
    own: &PrivateKey,
    other: &[u8; 32],
    share: &[u8; 32],
    recipient: &[u8; 32],
) -> Result<LessSafeKey, AgeError> {
    let salt = [share.as_slice(), recipient].concat();
    let other = UnparsedPublicKey::new(&X25519, other);
    agree(own, other, AgeError::Failed, |secret| cipher(&derive(secret, &salt, WRAP_INFO)?))
}

fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Result<[u8; 32], AgeError> {
    let mut key = [0; 32];
    Salt::new(HKDF_SHA256, salt).extract(secret).expand(&[info], HKDF_SHA256)?.fill(&mut key)?;
    Ok(key)
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, AgeError> {
    Ok(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key)?))
}

/// The key of a header's authentication code.
fn header_key(file_key: &[u8]) -> Result<hmac::Key, AgeError> {
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &derive(file_key, &[], b"header")?))
}

/// The chunks of one file.
struct Chunks {
    key: LessSafeKey,
    number: u64,
}

impl Chunks {
    fn new(file_key: &[u8], nonce: &[u8; 16]) -> Result<Self, AgeError> {
        Ok(Self { key: cipher(&derive(file_key, nonce, b"payload")?)?, number: 0 })
    }

    /// The number of the chunk, and whether it is the last one.
    fn nonce(&mut self, is_last: bool) -> Nonce {
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.number.to_be_bytes());
        nonce[11] = is_last.into();
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&mut self, chunk: &mut Vec<u8>, is_last: bool) -> Result<(), AgeError> {
        let nonce = self.nonce(is_last);
        Ok(self.key.seal_in_place_append_tag(nonce, Aad::empty(), chunk)?)
    }

    fn open<'c>(&mut self, chunk: &'c mut [u8], is_last: bool) -> Result<&'c [u8], AgeError> {
        let nonce = self.nonce(is_last);
        let opened = self.key.open_in_place(nonce, Aad::empty(), chunk);
        opened.map(|plain| &*plain).map_err(|_| AgeError::Damaged("a chunk is wrong"))
    }
}

fn no_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn base64(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

/// The text form of keys (BIP 173): a prefix, `1`, the bits of the key in groups of five, and a checksum.
mod bech32 {
    const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    const CHECKSUM: usize = 6;

    pub(super) fn encode(prefix: &str, key: [u8; 32]) -> String {
        let mut groups = regroup(&key, 8, 5);
        let sum = checksum(prefix, &[&groups[..], &[0; CHECKSUM]].concat()) ^ 1;
        groups.extend(
            (0..CHECKSUM).map(|at| ((sum >> (5 * (CHECKSUM - 1 - at))) & 31).to_le_bytes()[0]),
        );
        let text = groups.iter().map(|group| char::from(ALPHABET[usize::from(*group)]));
        [prefix, "1"].iter().flat_map(|part| part.chars()).chain(text).collect()
    }

    /// `None` for another prefix, length, character or checksum. The text is in lower case.
    pub(super) fn decode(prefix: &str, text: &str) -> Option<[u8; 32]> {
        let data = text.strip_prefix(prefix)?.strip_prefix('1')?;
        let group = |byte| ALPHABET.iter().position(|known| *known == byte)?.try_into().ok();
        let groups: Vec<u8> = data.bytes().map(group).collect::<Option<_>>()?;
        if checksum(prefix, &groups) != 1 {
            return None;
        }
        let groups = groups.get(..groups.len().checked_sub(CHECKSUM)?)?;
        let bytes = regroup(groups, 5, 8);
        // The 52 groups of a key have four bits of padding.
        let key = bytes.get(..32)?.try_into().ok()?;
        (groups == &regroup(&bytes[..32], 8, 5)[..]).then_some(key)
    }

    /// Divides bits into groups of another size; zeros fill the last one.
    fn regroup(values: &[u8], from: u32, to: u32) -> Vec<u8> {
        let (mut groups, mut bits, mut count) = (Vec::new(), 0_u32, 0);
        for value in values {
            bits = ((bits << from) | u32::from(*value)) & 0xffff;
            count += from;
            while count >= to {
                count -= to;
                groups.push(((bits >> count) & ((1 << to) - 1)).to_le_bytes()[0]);
            }
        }
        if count > 0 {
            groups.push(((bits << (to - count)) & ((1 << to) - 1)).to_le_bytes()[0]);
        }
        groups
    }

    fn checksum(prefix: &str, groups: &[u8]) -> u32 {
        const GENERATORS: [u32; 5] =
            [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
        let high = prefix.bytes().map(|byte| byte >> 5);
        let low = prefix.bytes().map(|byte| byte & 31);
        let all = high.chain([0]).chain(low).chain(groups.iter().copied());
        all.fold(1, |sum: u32, value| {
            let shifted = ((sum & 0x01ff_ffff) << 5) ^ u32::from(value);
            let top = sum >> 25;
            let bits = GENERATORS.iter().enumerate().filter(|(bit, _)| (top >> bit) & 1 == 1);
            bits.fold(shifted, |sum, (_, generator)| sum ^ generator)
        })
    }
}

#[cfg(test)]
mod tests;
