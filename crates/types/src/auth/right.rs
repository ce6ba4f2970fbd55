//! The rights that permissions give: a verb on one kind of things.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A verb on one kind of things. Append-only: the order of the variants is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Right {
    /// Read locks, their history and policies. Elections are locks `elections/NAME`.
    LockRead,
    /// Acquire a lock; release and hand over the own hold. Includes `read`.
    LockAcquire,
    /// Only compare a fencing token: for services that receive tokens.
    LockCheck,
    /// Request holders to release a lock.
    LockRequestRelease,
    /// Remove holders and waiters.
    LockForceRelease,
    /// Change the policy of a lock.
    LockPolicy,
    /// Read latches, barriers and counters, and wait for latches.
    RecipeRead,
    /// Change them. Includes `read`.
    RecipeUse,
    /// Delete them.
    RecipeDelete,
    /// Read and watch znodes. Access lists must also allow it.
    TreeRead,
    /// Change znodes. Includes `read`. Access lists must also allow it.
    TreeWrite,
    /// Read sessions of other subjects.
    SessionRead,
    /// Close sessions of other subjects. Includes `read`.
    SessionClose,
    /// Read the members of the cluster.
    ClusterRead,
    /// Read subjects, roles and the list of access tokens.
    AuthRead,
    /// Change them. Includes `read`.
    AuthManage,
    /// Read `/metrics`.
    MetricsRead,
    /// Read the audit trail.
    AuditRead,
    /// Change the members, and transfer leadership. Includes `read`.
    ClusterManage,
    /// Make a backup, which contains everything: the data of all znodes, and the hashes of access tokens.
    ClusterBackup,
    /// Change the log of a node.
    ClusterOperate,
    /// Read and change znodes whatever their access lists allow. Includes `write`.
    TreeAdmin,
    /// Open sessions. [`Right::opens_sessions`] has the rights that include it, on whatever names.
    SessionOpen,
    /// Acquire a lock with a durable hold. Includes `acquire`.
    LockDurable,
}

impl Right {
    pub const ALL: [Self; 24] = [
        Self::LockRead,
        Self::LockAcquire,
        Self::LockCheck,
        Self::LockRequestRelease,
        Self::LockForceRelease,
        Self::LockPolicy,
        Self::RecipeRead,
        Self::RecipeUse,
        Self::RecipeDelete,
        Self::TreeRead,
        Self::TreeWrite,
        Self::SessionRead,
        Self::SessionClose,
        Self::ClusterRead,
        Self::AuthRead,
        Self::AuthManage,
        Self::MetricsRead,
        Self::AuditRead,
        Self::ClusterManage,
        Self::ClusterBackup,
        Self::ClusterOperate,
        Self::TreeAdmin,
        Self::SessionOpen,
        Self::LockDurable,
    ];

    /// The kind of things and the verb.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::LockRead => ("lock", "read"),
            Self::LockAcquire => ("lock", "acquire"),
            Self::LockCheck => ("lock", "check"),
            Self::LockRequestRelease => ("lock", "request-release"),
            Self::LockForceRelease => ("lock", "force-release"),
            Self::LockPolicy => ("lock", "policy"),
            Self::RecipeRead => ("recipe", "read"),
            Self::RecipeUse => ("recipe", "use"),
            Self::RecipeDelete => ("recipe", "delete"),
            Self::TreeRead => ("tree", "read"),
            Self::TreeWrite => ("tree", "write"),
            Self::SessionRead => ("session", "read"),
            Self::SessionClose => ("session", "close"),
            Self::ClusterRead => ("cluster", "read"),
            Self::AuthRead => ("auth", "read"),
            Self::AuthManage => ("auth", "manage"),
            Self::MetricsRead => ("metrics", "read"),
            Self::AuditRead => ("audit", "read"),
            Self::ClusterManage => ("cluster", "manage"),
            Self::ClusterBackup => ("cluster", "backup"),
            Self::ClusterOperate => ("cluster", "operate"),
            Self::TreeAdmin => ("tree", "admin"),
            Self::SessionOpen => ("session", "open"),
            Self::LockDurable => ("lock", "durable"),
        }
    }

    /// Whether a permission for `self` also allows `other` on the same name.
    pub const fn includes(self, other: Self) -> bool {
        match self {
            Self::LockRead => matches!(other, Self::LockRead | Self::LockCheck),
            Self::LockAcquire => {
                matches!(other, Self::LockAcquire | Self::LockRead | Self::LockCheck)
            }
            Self::LockDurable => matches!(
                other,
                Self::LockDurable | Self::LockAcquire | Self::LockRead | Self::LockCheck
            ),
            Self::RecipeUse => matches!(other, Self::RecipeUse | Self::RecipeRead),
            Self::TreeWrite => matches!(other, Self::TreeWrite | Self::TreeRead),
            Self::TreeAdmin => {
                matches!(other, Self::TreeAdmin | Self::TreeWrite | Self::TreeRead)
            }
            Self::SessionClose => matches!(other, Self::SessionClose | Self::SessionRead),
            Self::AuthManage => matches!(other, Self::AuthManage | Self::AuthRead),
            Self::ClusterManage => matches!(other, Self::ClusterManage | Self::ClusterRead),
            Self::LockCheck
            | Self::LockRequestRelease
            | Self::LockForceRelease
            | Self::LockPolicy
            | Self::RecipeRead
            | Self::RecipeDelete
            | Self::TreeRead
            | Self::SessionRead
            | Self::ClusterRead
            | Self::AuthRead
            | Self::MetricsRead
            | Self::AuditRead
            | Self::ClusterBackup
            | Self::ClusterOperate
            | Self::SessionOpen => self as u8 == other as u8,
        }
    }

    /// Whether a permission for `self`, on whatever names, also allows [`Right::SessionOpen`]: the caller needs a session
    /// for what the right allows, or the command numbers its calls with one. A ZooKeeper client needs one even for a read.
    pub const fn opens_sessions(self) -> bool {
        matches!(
            self,
            Self::SessionOpen
                | Self::LockAcquire
                | Self::LockDurable
                | Self::LockPolicy
                | Self::RecipeUse
                | Self::RecipeDelete
                | Self::TreeRead
                | Self::TreeWrite
                | Self::TreeAdmin
                | Self::ClusterManage
                | Self::AuthManage
        )
    }

    /// Whether the things of the right have names. Otherwise its pattern is `*`.
    pub const fn has_names(self) -> bool {
        !matches!(
            self,
            Self::ClusterRead
                | Self::ClusterManage
                | Self::AuthRead
                | Self::AuthManage
                | Self::MetricsRead
                | Self::AuditRead
                | Self::ClusterBackup
                | Self::ClusterOperate
                | Self::SessionOpen
        )
    }
}

/// `lock acquire`.
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, verb) = self.words();
        write!(f, "{kind} {verb}")
    }
}
