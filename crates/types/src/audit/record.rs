//! A record of the audit trail, and its hash.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::{AuditAction, AuditItem};
use crate::{AccessTokenId, Actor, Reason, Revision, Stamp, SubjectName};

/// A change that `apply` has executed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditRecord {
    /// From 1, without gaps over all classes.
    pub number: u64,
    pub revision: Revision,
    pub at: Stamp,
    /// `None` without a credential, and for [`Credential::Node`].
    pub subject: Option<SubjectName>,
    pub credential: Credential,
    pub action: AuditAction,
    /// The lock, session, role, subject, access token or member that the action names.
    pub target: AuditItem,
    /// More about the change, at most [`AuditRecord::DETAILS_MAX`] bytes of JSON.
    pub details: Vec<AuditItem>,
    /// The reason that the caller gave.
    pub reason: Option<Reason>,
    /// See [`AuditRecord::hash_after`].
    pub hash: AuditHash,
}

/// The records of a class that the cluster no longer keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditEvicted {
    /// At least 1, unless nothing was evicted.
    pub count: u64,
    /// The number of the newest of them.
    pub number: u64,
    /// The time of the newest of them.
    pub at: Stamp,
    /// The time of the last eviction.
    pub evicted_at: Stamp,
}

/// How the caller proved its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Credential {
    None,
    AccessToken(AccessTokenId),
    Certificate,
    /// The change came from the machine of a node, such as a recovery.
    Node,
}

impl AuditRecord {
    /// The maximum length of the details as JSON, bytes.
    pub const DETAILS_MAX: usize = 2_048;

    /// The SHA-256 over nine lines, each ended by a line feed: the hash of the record of its class before it (64
    /// zeros before the first), the number, the revision, the stamp, the subject, the credential, the action, the items and
    /// the reason. The items are a JSON array of the target and the details. An absent value is an empty line. No value contains a line
    /// feed.
    pub fn hash_after(&self, previous: AuditHash) -> AuditHash {
        AuditHash(Sha256::digest(self.hashed_text(previous)).into())
    }

    fn hashed_text(&self, previous: AuditHash) -> String {
        let Self { number, revision, at, .. } = self;
        let subject = self.subject.as_ref().map_or("", SubjectName::as_str);
        let reason = self.reason.as_ref().map_or("", Reason::as_str);
        let (credential, action) = (self.credential, self.action.as_str());
        let items: Vec<_> = self.items().map(AuditItem::json).collect();
        format!(
            "{previous}\n{number}\n{revision}\n{}\n{subject}\n{credential}\n{action}\n[{}]\n{reason}\n",
            at.0,
            items.join(",")
        )
    }

    /// The target and the details.
    pub fn items(&self) -> impl Iterator<Item = &AuditItem> {
        std::iter::once(&self.target).chain(&self.details)
    }

    /// The details in words, one line.
    pub fn detail(&self) -> String {
        let words: Vec<_> = self.details.iter().map(AuditItem::to_string).collect();
        words.join(", ")
    }
}

impl Credential {
    pub fn of(actor: &Actor) -> Self {
        match actor {
            Actor::Node => Self::Node,
            Actor::Anonymous => Self::None,
            Actor::Token(token) => Self::AccessToken(*token),
            Actor::Subject(_) => Self::Certificate,
        }
    }

    /// The word in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AccessToken(_) => "access-token",
            Self::Certificate => "certificate",
            Self::Node => "node",
        }
    }

    /// The access token.
    pub const fn token(self) -> Option<AccessTokenId> {
        match self {
            Self::AccessToken(token) => Some(token),
            Self::None | Self::Certificate | Self::Node => None,
        }
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        self.token().map_or(Ok(()), |token| write!(f, " {token}"))
    }
}

/// SHA-256. In JSON, 64 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditHash(pub [u8; 32]);

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text for people, 32 bytes in snapshots.
impl Serialize for AuditHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for AuditHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; 32]>::deserialize(deserializer).map(Self);
        }
        let text = String::deserialize(deserializer)?;
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit =
            |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some(digit(*high)? * 16 + digit(*low)?)).collect();
        let hash = bytes.filter(|_| rest.is_empty()).and_then(|bytes| bytes.try_into().ok());
        hash.map(Self).ok_or_else(|| D::Error::custom("not 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FencingToken, LockName, SessionName};

    fn orders() -> LockName {
        LockName::new("orders").unwrap()
    }

    fn record() -> AuditRecord {
        AuditRecord {
            number: 1,
            revision: Revision(7),
            at: Stamp(1_000),
            subject: Some(SubjectName::new("ops").unwrap()),
            credential: Credential::AccessToken(AccessTokenId(1)),
            action: AuditAction::ForceRelease,
            target: AuditItem::Lock(orders()),
            details: vec![AuditItem::HoldEnded {
                lock: orders(),
                session: SessionName::new("web1").unwrap(),
                token: FencingToken(3),
            }],
            reason: Some(Reason::new("stuck").unwrap()),
            hash: AuditHash::default(),
        }
    }

    /// The expected value is the output of `printf '%s\n' … | sha256sum`.
    #[test]
    fn the_hash_is_the_sha_256_of_nine_lines() {
        let hash = record().hash_after(AuditHash::default());
        assert_eq!(
            hash.to_string(),
            "bcdd496dc55d03b971a74b43084cfce114bd6acd86a4370a4c23da6a06fbf7a7"
        );
    }

    /// Two builds that say it in other words have the same trail: the words are no part of a record or of its hash.
    #[test]
    fn the_hash_contains_values_and_no_words() {
        let record = record();
        assert_eq!(record.detail(), "web1 lost orders (token 3)");
        let text = record.hashed_text(AuditHash::default());
        let items =
            r#"[{"lock":"orders"},{"hold-ended":{"lock":"orders","session":"web1","token":3}}]"#;
        assert_eq!(text.lines().nth(7), Some(items));
        assert!(!text.contains("lost") && !text.contains("(token"), "{text}");
    }

    #[test]
    fn every_field_changes_the_hash() {
        let first = record();
        let subject = SubjectName::new("dev").unwrap();
        let changed = [
            AuditRecord { number: 2, ..first.clone() },
            AuditRecord { revision: Revision(8), ..first.clone() },
            AuditRecord { at: Stamp(1_001), ..first.clone() },
            AuditRecord { subject: Some(subject), ..first.clone() },
            AuditRecord { credential: Credential::Certificate, ..first.clone() },
            AuditRecord { action: AuditAction::RevokeLock, ..first.clone() },
            AuditRecord { target: AuditItem::EveryLock, ..first.clone() },
            AuditRecord { details: Vec::new(), ..first.clone() },
            AuditRecord { reason: None, ..first.clone() },
        ];
        let mut hashes: Vec<_> = changed.iter().chain([&first]).collect::<Vec<_>>();
        hashes.sort_unstable_by_key(|record| record.hash_after(AuditHash::default()));
        hashes.dedup_by_key(|record| record.hash_after(AuditHash::default()));
        assert_eq!(hashes.len(), 10);
        assert_ne!(first.hash_after(AuditHash([1; 32])), first.hash_after(AuditHash::default()));
    }
}
