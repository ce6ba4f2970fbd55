//! Namespaces: which ones exist, and what each one uses.
//!
//! The tree, the sessions and the lock index count the items of each registered namespace with each change
//! (`per_namespace.rs`). The registration counts what is there, at most [`COUNTED_MAX`] znodes. `quotas.rs` checks the
//! quotas.

use holdfast_types::{
    AuthRejection, Bound, NamespaceItems, NamespaceName, QuotaKind, Quotas, Rejection, Right,
    SubjectName,
};

use crate::Machine;
use crate::context::limit_reached;
use crate::invariants::ensure;
use crate::tree::quota::COUNTED_MAX;

/// Namespaces of the cluster.
pub(crate) const NAMESPACES_MAX: usize = 1_000;

impl Machine {
    /// The namespaces with their quotas, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&NamespaceName, &Quotas)> {
        self.auth.namespaces.iter().map(|(name, quotas)| (name, &**quotas))
    }

    /// The quotas of a namespace; `None` if it is not registered.
    pub fn namespace_quotas(&self, namespace: &NamespaceName) -> Option<&Quotas> {
        self.auth.namespaces.get(namespace).map(|quotas| &**quotas)
    }

    /// The namespace to which a subject belongs.
    pub fn namespace_of(&self, subject: &SubjectName) -> Option<&NamespaceName> {
        self.auth.namespace_of(subject)
    }

    /// What a namespace uses of a quota; `None` for quotas that do not count items of the state. The recipes are counted
    /// up to the maximum of the quota.
    pub fn namespace_used(&self, namespace: &NamespaceName, quota: QuotaKind) -> Option<u64> {
        let name = namespace.as_str();
        let znodes = || self.tree.totals().namespaces.get(name);
        let locks = || self.locks.namespaces().get(name);
        match quota {
            QuotaKind::Locks => locks().map(|locks| locks.locks),
            QuotaKind::QueueEntries => locks().map(|locks| locks.entries),
            QuotaKind::Sessions => self.sessions.namespaces().get(name).copied(),
            QuotaKind::Znodes => znodes().map(|znodes| znodes.count),
            QuotaKind::Bytes => znodes().map(|znodes| znodes.bytes),
            QuotaKind::Recipes => Some(self.recipes.count_in(namespace)),
            QuotaKind::WaitersPerLock
            | QuotaKind::CallsPerSecond
            | QuotaKind::Streams
            | QuotaKind::Connections => None,
        }
    }

    /// The greatest number of waiters on a lock in its namespace; `None` for no quota.
    pub(crate) fn quota_of_waiters(&self, lock: &str) -> Option<(&NamespaceName, u64)> {
        let (namespace, quotas) =
            self.auth.namespaces.get_key_value(NamespaceName::of_name(lock))?;
        Some((namespace, quotas.get(QuotaKind::WaitersPerLock)?))
    }

    /// Counts the items of a namespace from now on.
    pub(crate) fn start_namespace(&mut self, namespace: &NamespaceName) -> Result<(), Rejection> {
        if !self.tree.start_namespace(namespace, COUNTED_MAX) {
            return Err(limit_reached(Bound::CountedAtOnce, COUNTED_MAX));
        }
        self.locks.start_namespace(namespace);
        self.sessions.start_namespaces([namespace]);
        Ok(())
    }

    pub(crate) fn stop_namespace(&mut self, namespace: &NamespaceName) {
        self.tree.stop_namespace(namespace);
        self.locks.stop_namespace(namespace);
        self.sessions.stop_namespace(namespace);
    }

    /// Counts the items of all namespaces after a snapshot is loaded.
    pub(crate) fn start_namespaces(&mut self) {
        let namespaces: Vec<_> = self.auth.namespaces.keys().cloned().collect();
        for namespace in &namespaces {
            let _all_counted = self.tree.start_namespace(namespace, u64::MAX);
            self.locks.start_namespace(namespace);
        }
        self.sessions.start_namespaces(&namespaces);
    }

    /// Rejects the deletion of a namespace that is not registered, or to which anything belongs.
    pub(crate) fn check_unused(&self, namespace: &NamespaceName) -> Result<(), Rejection> {
        let namespace = namespace.clone();
        if self.namespace_quotas(&namespace).is_none() {
            return Err(AuthRejection::NoNamespace { namespace }.into());
        }
        let used = |quota| self.namespace_used(&namespace, quota).unwrap_or_default();
        let is_inside = |subject: &&SubjectName| self.namespace_of(subject) == Some(&namespace);
        let items = NamespaceItems {
            subjects: self.auth.subjects.keys().filter(is_inside).count() as u64,
            sessions: used(QuotaKind::Sessions),
            znodes: used(QuotaKind::Znodes),
            recipes: used(QuotaKind::Recipes),
        };
        let NamespaceItems { subjects, sessions, znodes, recipes } = items;
        if subjects + sessions + znodes + recipes == 0 {
            return Ok(());
        }
        Err(AuthRejection::NamespaceInUse { namespace, used: Box::new(items) }.into())
    }

    /// Compares the counts with the items, and the counted namespaces with the registered ones. The tree and the lock
    /// index check their own counts.
    pub(crate) fn check_namespaces(&self) -> Result<(), String> {
        ensure(*self.sessions.subjects() == self.sessions.counted_subjects(), || {
            "the use of subjects differs from the sessions".to_owned()
        })?;
        ensure(*self.sessions.namespaces() == self.sessions.counted_namespaces(), || {
            "the session counts of namespaces differ from the sessions".to_owned()
        })?;
        let registered = || self.auth.namespaces.keys();
        let counted = [
            registered().eq(self.tree.totals().namespaces.names()),
            registered().eq(self.locks.namespaces().names()),
            registered().eq(self.sessions.namespaces().names()),
        ];
        ensure(counted == [true; 3], || "other namespaces are counted than registered".to_owned())
    }
}

/// The namespace to which the thing of a right would belong, if it is registered; `None` for sessions, which belong to
/// the namespace of their subjects, and for rights without names.
pub(crate) fn of_right(right: Right, name: &str) -> Option<&str> {
    match right {
        Right::LockRead
        | Right::LockAcquire
        | Right::LockDurable
        | Right::LockCheck
        | Right::LockRequestRelease
        | Right::LockForceRelease
        | Right::LockPolicy
        | Right::RecipeRead
        | Right::RecipeUse
        | Right::RecipeDelete => Some(NamespaceName::of_name(name)),
        Right::TreeRead | Right::TreeWrite | Right::TreeAdmin => Some(NamespaceName::of_path(name)),
        Right::SessionRead
        | Right::SessionClose
        | Right::ClusterRead
        | Right::ClusterManage
        | Right::AuthRead
        | Right::AuthManage
        | Right::MetricsRead
        | Right::AuditRead
        | Right::ClusterBackup
        | Right::ClusterOperate
        | Right::SessionOpen => None,
    }
}
