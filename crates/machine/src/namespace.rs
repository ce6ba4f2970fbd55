//! Namespaces: what each one uses, and the checks of its quotas.
//!
//! The tree, the sessions and the lock index count the items of each registered namespace with each change
//! (`per_namespace.rs`). The registration counts what is there, at most [`COUNTED_MAX`] znodes. A command that would
//! exceed a quota is undone and rejected. A quota below the present use rejects growth only.

use std::collections::BTreeSet;
use std::convert::Infallible;

use holdfast_types::{
    AuthRejection, Bound, Command, NamespaceItems, NamespaceName, NamespaceQuota, NamespaceQuotas,
    Outcome, QuotaFull, Rejection, Right, SubjectName,
};

use crate::Machine;
use crate::auth::needed::{Needed, needed_by};
use crate::context::{ApplyContext, limit_reached};
use crate::invariants::ensure;
use crate::stored_bytes::may_store;
use crate::tree::quota::COUNTED_MAX;

/// Namespaces of the cluster.
pub(crate) const NAMESPACES_MAX: usize = 1_000;

/// A quota of a namespace that a command may exceed.
#[derive(Debug)]
struct Watched {
    namespace: NamespaceName,
    quota: NamespaceQuota,
    limit: u64,
    used: u64,
}

impl Machine {
    /// The namespaces with their quotas, by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&NamespaceName, &NamespaceQuotas)> {
        self.auth.namespaces.iter().map(|(name, quotas)| (name, &**quotas))
    }

    /// The quotas of a namespace; `None` if it is not registered.
    pub fn namespace_quotas(&self, namespace: &NamespaceName) -> Option<&NamespaceQuotas> {
        self.auth.namespaces.get(namespace).map(|quotas| &**quotas)
    }

    /// The namespace to which a subject belongs.
    pub fn namespace_of(&self, subject: &SubjectName) -> Option<&NamespaceName> {
        self.auth.namespace_of(subject)
    }

    /// What a namespace uses of a quota; `None` for quotas that do not count items of the state. The recipes are counted
    /// up to the maximum of the quota.
    pub fn namespace_used(&self, namespace: &NamespaceName, quota: NamespaceQuota) -> Option<u64> {
        let name = namespace.as_str();
        let znodes = || self.tree.totals().namespaces.get(name);
        let locks = || self.locks.namespaces().get(name);
        match quota {
            NamespaceQuota::Locks => locks().map(|locks| locks.locks),
            NamespaceQuota::QueueEntries => locks().map(|locks| locks.entries),
            NamespaceQuota::Sessions => self.sessions.namespaces().get(name).copied(),
            NamespaceQuota::Znodes => znodes().map(|znodes| znodes.count),
            NamespaceQuota::Bytes => znodes().map(|znodes| znodes.bytes),
            NamespaceQuota::Recipes => Some(self.recipes.count_in(namespace)),
            NamespaceQuota::WaitersPerLock | NamespaceQuota::CallsPerSecond => None,
        }
    }

    /// The greatest number of waiters on a lock in its namespace; `None` for no quota.
    pub(crate) fn quota_of_waiters(&self, lock: &str) -> Option<(&NamespaceName, u64)> {
        let (namespace, quotas) =
            self.auth.namespaces.get_key_value(NamespaceName::of_name(lock))?;
        Some((namespace, quotas.get(NamespaceQuota::WaitersPerLock)?))
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
            sessions: used(NamespaceQuota::Sessions),
            znodes: used(NamespaceQuota::Znodes),
            recipes: used(NamespaceQuota::Recipes),
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

    /// Runs a command, and undoes it if it exceeds a quota.
    pub(crate) fn within_quotas(
        &mut self,
        command: Command,
        ctx: &mut ApplyContext<'_>,
        run: impl FnOnce(&mut Self, Command, &mut ApplyContext<'_>) -> Outcome,
    ) -> Outcome {
        let watched = self.watched_quotas(&command, ctx);
        if watched.is_empty() {
            return run(self, command, ctx);
        }
        self.undo_if_rejected(ctx, |machine, ctx| {
            let outcome = run(machine, command, ctx);
            for Watched { namespace, quota, limit, used } in watched {
                let now = machine.namespace_used(&namespace, quota).unwrap_or_default();
                if now > limit && now > used {
                    let full = QuotaFull { namespace, quota, limit, used };
                    return Err(Rejection::QuotaFull(Box::new(full)));
                }
            }
            Ok(outcome)
        })?
    }

    /// The quotas of the namespaces whose items a command may add.
    fn watched_quotas(&self, command: &Command, ctx: &ApplyContext<'_>) -> Vec<Watched> {
        let adds = may_store(command)
            || matches!(command, Command::Multi(_) | Command::ClaimSession { .. });
        if self.auth.namespaces.is_empty() || !adds {
            return Vec::new();
        }
        let mut names = BTreeSet::new();
        let Ok(()) = needed_by(command, &mut |needed| {
            if let Needed::Permission(right, name) = needed {
                names.extend(of_right(right, &name).map(str::to_owned));
            }
            Ok::<_, Infallible>(())
        });
        // A command may open a session.
        let subject = self.rights_of(&ctx.actor, self.now).ok().and_then(|rights| rights.subject());
        names.extend(subject.map(|name| NamespaceName::of_subject(name).to_owned()));
        let namespaces =
            names.iter().filter_map(|name| self.auth.namespaces.get_key_value(name.as_str()));
        let watched = namespaces.flat_map(|(namespace, quotas)| {
            quotas.0.iter().filter_map(|(quota, limit)| {
                if *quota == NamespaceQuota::Recipes && !matches!(command, Command::Recipe(_)) {
                    return None;
                }
                let used = self.namespace_used(namespace, *quota)?;
                Some(Watched { namespace: namespace.clone(), quota: *quota, limit: *limit, used })
            })
        });
        watched.collect()
    }
}

/// The namespace to which the thing of a right would belong, if it is registered; `None` for sessions, which belong to
/// the namespace of their subjects, and for rights without names.
pub(crate) fn of_right(right: Right, name: &str) -> Option<&str> {
    match right {
        Right::LockRead
        | Right::LockAcquire
        | Right::LockCheck
        | Right::LockRequestRelease
        | Right::LockBreak
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
