//! Bodies of the audit trail.

use holdfast_types::{
    AccessTokenId, AuditAction, AuditClass, AuditEvicted, AuditHash, AuditItem, AuditRecord,
    Credential, Reason, Revision, SubjectName,
};
use serde::{Deserialize, Serialize};

use crate::Rfc3339Time;

/// Records of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditBody {
    /// The records that match, the oldest first.
    pub records: Vec<AuditRecordBody>,
    /// The value of `after` that reads the next records.
    pub next_after: u64,
    /// The number of the oldest record that the cluster keeps; absent before the first record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<u64>,
    /// The number of the newest record; absent before the first record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<u64>,
    /// The records that the cluster no longer keeps, for each class that has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<AuditEvictedBody>,
}

/// The records of a class that the cluster no longer keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditEvictedBody {
    /// The class.
    pub class: AuditClass,
    /// Their number.
    pub count: u64,
    /// The number of the newest of them.
    pub newest: u64,
    /// The time of the newest of them.
    pub newest_at: Rfc3339Time,
    /// The time of the last eviction.
    pub evicted_at: Rfc3339Time,
}

/// A gap in a copy of the trail: records that the cluster evicted before they were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditGapBody {
    /// Their class.
    pub class: AuditClass,
    /// Their numbers are larger than this one.
    pub after: u64,
    /// The number of the newest of them.
    pub newest: u64,
    /// The time of the newest of them.
    pub newest_at: Rfc3339Time,
}

/// The line of a gap in a copy of the trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditGapLine {
    pub gap: AuditGapBody,
}

impl From<(AuditClass, AuditEvicted)> for AuditEvictedBody {
    fn from((class, evicted): (AuditClass, AuditEvicted)) -> Self {
        let AuditEvicted { count, number, at, evicted_at } = evicted;
        let (newest_at, evicted_at) = (Rfc3339Time(at), Rfc3339Time(evicted_at));
        Self { class, count, newest: number, newest_at, evicted_at }
    }
}

/// A change by an operator or an administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditRecordBody {
    /// The number of the record: from 1, without gaps over all classes.
    pub number: u64,
    /// The revision of the change.
    pub revision: Revision,
    /// The time of the change.
    pub at: Rfc3339Time,
    /// The caller; absent without a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectName>,
    /// `access-token`, `certificate` or `none`; `node` for a change that came from the machine of a node.
    pub credential: String,
    /// The id of the access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<AccessTokenId>,
    /// The class of the action. The records of each class have their own chain of hashes.
    pub class: AuditClass,
    /// What was done.
    pub action: AuditAction,
    /// The lock, session, role, subject or access token that the action names.
    pub target: String,
    /// More about the change, such as the holds that it ended.
    pub detail: String,
    /// The target and the detail as values: each has its kind. The hash contains these, and not the words.
    pub items: Vec<AuditItem>,
    /// The reason that the caller gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The SHA-256 of the record and of the hash of the record of its class before it, as 64 hexadecimal digits.
    pub hash: AuditHash,
}

impl From<AuditRecord> for AuditRecordBody {
    fn from(record: AuditRecord) -> Self {
        let (target, detail) = (record.target.as_target(), record.detail());
        let items = record.items().cloned().collect();
        let AuditRecord { number, revision, subject, action, reason, hash, .. } = record;
        Self {
            number,
            revision,
            at: Rfc3339Time(record.at),
            subject,
            credential: record.credential.as_str().to_owned(),
            token: record.credential.token(),
            class: action.class(),
            action,
            target,
            detail,
            items,
            reason,
            hash,
        }
    }
}

impl AuditRecordBody {
    /// The record, whose hash [`AuditRecord::hash_after`] computes. `None` for an unknown credential, without a target, and if the
    /// target is not that of the items.
    pub fn record(self) -> Option<AuditRecord> {
        let credential = match (&*self.credential, self.token) {
            ("access-token", Some(token)) => Credential::AccessToken(token),
            ("certificate", None) => Credential::Certificate,
            ("none", None) => Credential::None,
            ("node", None) => Credential::Node,
            _ => return None,
        };
        let Self {
            number, revision, at, subject, action, target: shown, items, reason, hash, ..
        } = self;
        let (at, mut details) = (at.0, items.into_iter());
        let target = details.next().filter(|target| target.as_target() == shown)?;
        let details = details.collect();
        Some(AuditRecord {
            number,
            revision,
            at,
            subject,
            credential,
            action,
            target,
            details,
            reason,
            hash,
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{ClusterId, LockName, Stamp};

    use super::*;

    #[test]
    fn a_record_survives_json() {
        let credentials = [
            Credential::None,
            Credential::AccessToken(AccessTokenId(7)),
            Credential::Certificate,
            Credential::Node,
        ];
        for credential in credentials {
            let record = AuditRecord {
                number: 3,
                revision: Revision(9),
                at: Stamp(1_234),
                subject: SubjectName::new("ops").ok(),
                credential,
                action: AuditAction::ForceRelease,
                target: AuditItem::Lock(LockName::new("orders").unwrap()),
                details: vec![AuditItem::ClusterId(ClusterId(u128::MAX)), AuditItem::More],
                reason: None,
                hash: AuditHash([0xab; 32]),
            };
            let json = serde_json::to_string(&AuditRecordBody::from(record.clone())).unwrap();
            assert!(
                json.contains(r#""action":"force-release""#) && json.contains("abab"),
                "{json}"
            );
            let body: AuditRecordBody = serde_json::from_str(&json).unwrap();
            assert_eq!(body.clone().record(), Some(record));
            let other = AuditRecordBody { target: "other".to_owned(), ..body.clone() };
            assert_eq!(other.record(), None, "the target is that of the items");
            assert_eq!(AuditRecordBody { items: Vec::new(), ..body }.record(), None);
        }
    }

    #[test]
    fn a_hash_has_64_digits() {
        let digits = "0f".repeat(32);
        assert_eq!(
            serde_json::from_value::<AuditHash>(digits.as_str().into()).unwrap(),
            AuditHash([15; 32])
        );
        for bad in ["", "0", &"0f".repeat(31), &format!("{digits}0"), &"0g".repeat(32)] {
            assert!(serde_json::from_value::<AuditHash>((*bad).into()).is_err(), "{bad}");
        }
    }
}
