//! What an audit record names: typed values. The state and the hashes contain the values; the words around them are chosen when a
//! record is shown, so two builds with other words have the same trail.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    AccessTokenId, Address, AuthMode, CertificateId, CertificateName, ClusterId, FeatureLevel,
    FencingToken, LockName, MemberAddresses, NamespaceName, NodeId, Permission, QueueOrder,
    QuotaKind, Revision, RoleName, SessionName, Stamp, SubjectName, VotingRole, ZnodePath, Zone,
    format_time,
};

/// A value that a record names. Append-only: the order of the variants is part of the format, and their names are part of the hashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum AuditItem {
    Lock(LockName),
    EveryLock,
    Session(SessionName),
    /// The number of closed sessions.
    SessionCount(u64),
    Cluster,
    ClusterId(ClusterId),
    Node(NodeId),
    /// One that the leader chooses.
    AnyVoter,
    Level(FeatureLevel),
    Role(RoleName),
    Subject(SubjectName),
    /// The subjects that have no quotas of their own.
    OtherSubjects,
    AccessToken(AccessTokenId),
    /// All new ones.
    AccessTokens,
    ReplacedBy(AccessTokenId),
    ExpiresAt(Stamp),
    ExpiresBy(Stamp),
    Certificate(CertificateId),
    CertificateName(CertificateName),
    Mode(AuthMode),
    Permission(Permission),
    Namespace(NamespaceName),
    Quota(QuotaKind, u64),
    DefaultTtlMs(Option<u64>),
    MaxTtlMs(Option<u64>),
    Peer(Address),
    Http(Address),
    Addresses(MemberAddresses),
    Zone(Zone),
    VotingRole(VotingRole),
    Replaces(NodeId),
    /// The filter of a log; `None` for the configured one.
    LogFilter {
        filter: Option<String>,
        lasts_ms: u64,
    },
    /// `None` for every holder.
    Revoked {
        holder: Option<SessionName>,
        deadline_ms: u64,
    },
    HoldEnded {
        lock: LockName,
        session: SessionName,
        token: FencingToken,
    },
    WaitEnded {
        lock: LockName,
        session: SessionName,
    },
    Policy(PolicyItem),
    Acl(ZnodePath),
    CooldownDeleted(LockName),
    PolicyDeleted(LockName),
    Restore(RestoreItem),
    /// Not all values fit into the record.
    More,
}

/// A part of a lock's policy that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyItem {
    Limit(Option<u32>),
    Order(QueueOrder),
    AgeingMs(u64),
    LockDelayMs(u64),
    CooldownMs(u64),
    DeadlockDetection(bool),
    Shards(Option<u32>),
    WaitAlarmMs(u64),
    HoldAlarmMs(u64),
}

/// Where a restored state comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum RestoreSource {
    /// The hash of the backup.
    Backup { sha256: String },
    /// The directory of one node; `lost` are the other members.
    Survivor { node: NodeId, lost: Vec<NodeId> },
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum RestoreItem {
    From(RestoreSource),
    /// The cluster that was restored, and its revision then.
    Before {
        cluster: ClusterId,
        revision: Revision,
    },
    TokensAbove(FencingToken),
    SessionsKept,
    AccessTokensDeleted,
}

impl AuditItem {
    /// The bytes of the JSON text.
    pub fn stored_len(&self) -> usize {
        self.json().len()
    }

    /// The JSON text, without spaces: what the hash of a record contains.
    pub(super) fn json(&self) -> String {
        // No value has a map whose keys are not text, so writing cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The text of the target of a record: a name alone, as the calls of the API take it.
    pub fn as_target(&self) -> String {
        let name: &dyn fmt::Display = if let Self::Lock(name) = self {
            name
        } else if let Self::Session(name) = self {
            name
        } else if let Self::ClusterId(name) = self {
            name
        } else if let Self::Level(name) = self {
            name
        } else if let Self::Role(name) = self {
            name
        } else if let Self::Subject(name) = self {
            name
        } else if let Self::AccessToken(name) = self {
            name
        } else if let Self::Certificate(name) = self {
            name
        } else if let Self::Namespace(name) = self {
            name
        } else if let Self::Peer(name) = self {
            name
        } else if let Self::Mode(mode) = self {
            return mode.as_str().to_owned();
        } else {
            self
        };
        name.to_string()
    }
}

/// The words for people. No node stores them.
impl fmt::Display for AuditItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(name) => write!(f, "lock {name}"),
            Self::EveryLock => f.write_str("*"),
            Self::Session(name) => write!(f, "session {name}"),
            Self::SessionCount(count) => write!(f, "{count} sessions"),
            Self::Cluster => f.write_str("cluster"),
            Self::ClusterId(id) => write!(f, "cluster {id}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::AnyVoter => f.write_str("a voter"),
            Self::Level(level) => write!(f, "level {level}"),
            Self::Role(name) => write!(f, "role {name}"),
            Self::Subject(name) => write!(f, "subject {name}"),
            Self::OtherSubjects => f.write_str("default"),
            Self::AccessToken(id) => write!(f, "access token {id}"),
            Self::AccessTokens => f.write_str("tokens"),
            Self::ReplacedBy(id) => write!(f, "replaced by {id}"),
            Self::ExpiresAt(at) => write!(f, "expires at {}", format_time(*at)),
            Self::ExpiresBy(at) => write!(f, "expires at {} or earlier", format_time(*at)),
            Self::Certificate(id) => write!(f, "certificate {id}"),
            Self::CertificateName(name) => write!(f, "certificate {}", name.as_str()),
            Self::Mode(mode) => write!(f, "mode {}", mode.as_str()),
            Self::Permission(permission) => permission.fmt(f),
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::Quota(kind, limit) => write!(f, "{kind} {limit}"),
            Self::DefaultTtlMs(ms) => write!(f, "default {}", MsOrNone(*ms)),
            Self::MaxTtlMs(ms) => write!(f, "maximum {}", MsOrNone(*ms)),
            Self::Peer(address) => write!(f, "peer {address}"),
            Self::Http(address) => write!(f, "http {address}"),
            Self::Addresses(MemberAddresses { peer, http, zookeeper }) => {
                write!(f, "peer {peer}, http {http}, zookeeper {zookeeper}")
            }
            Self::Zone(zone) => write!(f, "zone {zone}"),
            Self::VotingRole(role) => f.write_str(role.as_str()),
            Self::Replaces(node) => write!(f, "replaces node {node}"),
            Self::LogFilter { filter: Some(filter), lasts_ms } => {
                write!(f, "{filter} for {lasts_ms} ms")
            }
            Self::LogFilter { filter: None, .. } => f.write_str("the configured filter"),
            Self::Revoked { holder: Some(holder), deadline_ms } => {
                write!(f, "{holder} in {deadline_ms} ms")
            }
            Self::Revoked { holder: None, deadline_ms } => {
                write!(f, "every holder in {deadline_ms} ms")
            }
            Self::HoldEnded { lock, session, token } => {
                write!(f, "{session} lost {lock} (token {token})")
            }
            Self::WaitEnded { lock, session } => write!(f, "{session} left the queue of {lock}"),
            Self::Policy(item) => item.fmt(f),
            Self::Acl(path) => write!(f, "access list of {path}"),
            Self::CooldownDeleted(lock) => write!(f, "the cooldown of {lock} deleted"),
            Self::PolicyDeleted(lock) => write!(f, "the policy of {lock} deleted"),
            Self::Restore(item) => item.fmt(f),
            Self::More => f.write_str("…"),
        }
    }
}

impl fmt::Display for PolicyItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => write!(f, "limit {}", OptionalCount(*limit)),
            Self::Order(order) => write!(f, "order {}", order.as_str()),
            Self::AgeingMs(ms) => write!(f, "ageing {ms} ms"),
            Self::LockDelayMs(ms) => write!(f, "lock delay {ms} ms"),
            Self::CooldownMs(ms) => write!(f, "cooldown {ms} ms"),
            Self::DeadlockDetection(on) => write!(f, "deadlock detection {on}"),
            Self::Shards(shards) => write!(f, "shards {}", OptionalCount(*shards)),
            Self::WaitAlarmMs(ms) => write!(f, "wait alarm {ms} ms"),
            Self::HoldAlarmMs(ms) => write!(f, "hold alarm {ms} ms"),
        }
    }
}

impl fmt::Display for RestoreSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backup { sha256 } => write!(f, "backup {sha256}"),
            Self::Survivor { node, lost } => {
                let lost: Vec<_> = lost.iter().map(NodeId::to_string).collect();
                write!(f, "directory of node {node}, lost {}", lost.join(" and "))
            }
        }
    }
}

impl fmt::Display for RestoreItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(source) => source.fmt(f),
            Self::Before { cluster, revision } => {
                write!(f, "cluster {cluster} at revision {revision}")
            }
            Self::TokensAbove(token) => write!(f, "tokens continue above {token}"),
            Self::SessionsKept => f.write_str("sessions kept"),
            Self::AccessTokensDeleted => f.write_str("access tokens deleted"),
        }
    }
}

struct MsOrNone(Option<u64>);

impl fmt::Display for MsOrNone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ms) => write!(f, "{ms} ms"),
            None => f.write_str("none"),
        }
    }
}

struct OptionalCount(Option<u32>);

impl fmt::Display for OptionalCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => count.fmt(f),
            None => f.write_str("none"),
        }
    }
}
