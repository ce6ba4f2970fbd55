//! A backup in the output of commands.

use holdfast_api::format_time;
use holdfast_cli::output::cell;
use holdfast_raft::{Backup, BackupHead};
use holdfast_types::{FeatureLevel, LockName, LockView, NodeId, Revision, SessionName};
use serde::Serialize;

/// The origin and the sizes of a backup.
#[derive(Debug, Serialize)]
pub(crate) struct BackupBody {
    cluster: String,
    cluster_id: Option<String>,
    level: FeatureLevel,
    pub(crate) revision: Revision,
    last_token: u64,
    pub(super) sessions: u64,
    pub(super) locks_held: u64,
    pub(super) znodes: u64,
    /// Whether the cluster was sealed; absent if only the head was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<bool>,
    made_at: String,
    node: NodeId,
    version: String,
    /// 16 hexadecimal digits.
    pub(super) state_digest: String,
    /// The length and the SHA-256 of everything before the end; absent if only the head was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
    /// The busiest locks; absent unless they were read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) locks: Vec<BusyLockBody>,
}

/// A lock with a holder or a waiter.
#[derive(Debug, Serialize)]
pub(super) struct BusyLockBody {
    pub(super) lock: LockName,
    pub(super) holders: u32,
    /// The first holder and its token.
    pub(super) session: Option<SessionName>,
    pub(super) token: Option<u64>,
    pub(super) waiters: u32,
}

impl BackupBody {
    pub(crate) fn of_head(head: &BackupHead) -> Self {
        Self {
            cluster: head.cluster.clone(),
            cluster_id: head.cluster_id.map(|id| id.to_string()),
            level: head.level,
            revision: head.revision,
            last_token: head.last_token,
            sessions: head.sessions,
            locks_held: head.locks_held,
            znodes: head.znodes,
            sealed: None,
            made_at: format_time(head.made_at),
            node: head.node,
            version: head.build.clone(),
            state_digest: format!("{:016x}", head.state_digest),
            bytes: None,
            sha256: None,
            locks: Vec::new(),
        }
    }

    pub(crate) fn of(backup: &Backup) -> Self {
        let (bytes, sha256) = (Some(backup.end.bytes), Some(backup.end.sha256_hex()));
        let sealed = Some(backup.machine.sealed().is_some());
        Self { sealed, bytes, sha256, ..Self::of_head(&backup.head) }
    }

    pub(super) fn rows(&self) -> Vec<[String; 2]> {
        let rows = [
            ("cluster", self.cluster.clone()),
            ("cluster id", cell(self.cluster_id.as_ref())),
            ("feature level", self.level.to_string()),
            ("revision", self.revision.to_string()),
            ("last token", self.last_token.to_string()),
            ("sessions", self.sessions.to_string()),
            ("held locks", self.locks_held.to_string()),
            ("znodes", self.znodes.to_string()),
            ("sealed", cell(self.sealed)),
            ("made at", self.made_at.clone()),
            ("made by", format!("node {}, holdfast {}", self.node, self.version)),
            ("state digest", self.state_digest.clone()),
            ("bytes", cell(self.bytes)),
            ("SHA-256", cell(self.sha256.as_ref())),
        ];
        rows.map(|(name, value)| [name.to_owned(), value]).into()
    }
}

impl BusyLockBody {
    pub(super) fn of(view: LockView) -> Self {
        let first = view.holders.first();
        Self {
            session: first.map(|holder| holder.session.clone()),
            token: first.map(|holder| holder.token.0),
            lock: view.lock,
            holders: view.holders_total,
            waiters: view.waiters_total,
        }
    }

    pub(super) fn row(&self) -> [String; 5] {
        [
            self.lock.to_string(),
            self.holders.to_string(),
            cell(self.session.as_ref()),
            cell(self.token),
            self.waiters.to_string(),
        ]
    }
}
