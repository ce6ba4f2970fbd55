//! The replicated state machine: the tree of znodes, sessions, locks and their grants, recipes, limits, the authorization,
//! the audit trail and the members. The same log entries produce the same machine on every node.
//!
//! [`Machine::apply`] is total and deterministic: no error, no panic, no clock, no randomness, no I/O. The [`Limits`],
//! which are part of the state, bound its work. A lock is a directory of the tree. A holder or waiter is an ephemeral
//! sequential child of it. Start with `lock/mod.rs`. The maps are persistent: a clone costs O(1) and never changes.
//! Snapshots and reads use such clones.
//!
//! A limit, a named constant beside the field, or both bound everything that a client can grow.

mod apply;
mod audit;
mod auth;
mod clocks;
mod cluster;
mod command_rules;
mod context;
mod digest;
mod invariants;
mod lock;
mod members;
mod namespace;
mod per_namespace;
mod quotas;
mod reads;
mod recipe;
mod restore;
mod seal;
mod session;
mod snapshot;
mod stored_bytes;
#[cfg(test)]
mod tests;
mod tree;

pub use audit::RECORDS_MAX as AUDIT_RECORDS_MAX;
pub use auth::{AccessTokenRecord, ActorRights, CertificateDenial, SubjectRecord};
pub use clocks::{ClockLead, ClockRecord};
pub use cluster::LastBackup;
pub use digest::DIGEST_SCHEMA;
pub use lock::explain::{BlockingLink, CHAIN_MAX, LockUrgency, OverdueLock};
pub use lock::wait_deadlines::Wait;
pub use reads::{Counts, LISTED_ENTRIES_MAX, LISTED_HOLDERS_MAX, LockFilter, SCAN_MAX};
pub use recipe::{ArrivalState, ArrivalWait, RecipeFilter, recipe_of_next};
pub use restore::{RestoreError, RestoreOptions, RestorePoint};
pub use session::lease_records::LeaseTerms;
pub use snapshot::load::LoadError;
pub use snapshot::part::SnapshotPart;
pub use tree::reads::Descendants;

use holdfast_types::{ClusterId, FeatureLevel, Limits, Revision, SessionId, Stamp};
use imbl::OrdMap;

use crate::audit::trail::AuditTrail;
use crate::auth::Auth;
use crate::lock::index::LockIndex;
use crate::members::Members;
use crate::recipe::Recipes;
use crate::seal::ActiveSeal;
use crate::session::lease_records::StoredLease;
use crate::session::store::Sessions;
use crate::tree::Tree;

/// The state of the cluster at one revision. Cloning is O(1) and gives a frozen view.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The revision of the last applied command.
    revision: Revision,
    /// The largest stamp so far. Invariant: it never decreases.
    now: Stamp,
    limits: Limits,
    /// A rolling hash of the outcome and the events of each command.
    digest: u64,
    tree: Tree,
    sessions: Sessions,
    locks: LockIndex,
    recipes: Recipes,
    /// `None` until the first command of the log.
    cluster_id: Option<ClusterId>,
    /// When this cluster was restored, by the clock of that machine. If it kept its sessions, its own time is behind.
    restored_at: Option<Stamp>,
    level: FeatureLevel,
    members: Members,
    auth: Auth,
    audit: AuditTrail,
    last_backup: Option<LastBackup>,
    seal: Option<ActiveSeal>,
    clocks: Option<ClockRecord>,
    lease_records: OrdMap<SessionId, StoredLease>,
}

impl Machine {
    /// Creates the machine before the first command, with the built-in directories and the default limits.
    pub fn new() -> Self {
        Self {
            revision: Revision(0),
            now: Stamp(0),
            limits: Limits::default(),
            digest: 0,
            tree: Tree::new(),
            sessions: Sessions::default(),
            locks: LockIndex::new(0),
            recipes: Recipes::default(),
            cluster_id: None,
            restored_at: None,
            level: FeatureLevel::FIRST,
            members: Members::default(),
            auth: Auth::default(),
            audit: AuditTrail::default(),
            last_backup: None,
            seal: None,
            clocks: None,
            lease_records: OrdMap::new(),
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}
