//! The checks of the quotas of namespaces and subjects.
//!
//! A command that would exceed a quota is undone and rejected. A quota below the present use rejects growth only. The
//! quotas of a subject apply to it in every mode; a caller without a credential has none. They never apply to a renewal
//! or a release.

use std::collections::BTreeSet;
use std::convert::Infallible;

use holdfast_types::{
    Acquire, Command, Multi, NamespaceName, Outcome, QuotaFull, QuotaKind, QuotaOwner, Rejection,
    SessionId, SubjectName,
};

use crate::Machine;
use crate::auth::needed::{CommandNeeds, Needed, needed_by};
use crate::command_rules::{CommandRules, Growth};
use crate::context::ApplyContext;
use crate::namespace::of_right;
use crate::session::subject_use::SubjectUse;
use crate::stored_bytes::COMMAND_BYTES_MAX;

/// A quota that a command may exceed.
#[derive(Debug)]
struct Watched {
    owner: QuotaOwner,
    quota: QuotaKind,
    limit: u64,
    used: u64,
}

impl Machine {
    /// The limit of a subject: its own, or the default; `None` for no limit.
    pub fn subject_limit(&self, subject: &SubjectName, quota: QuotaKind) -> Option<u64> {
        let own = self.subject(subject).and_then(|known| known.quotas.get(quota));
        own.or_else(|| self.default_subject_limit(quota))
    }

    /// The limit of a subject without a quota of its own; `None` for no limit.
    pub fn default_subject_limit(&self, quota: QuotaKind) -> Option<u64> {
        self.auth.default_quotas.get(quota).or_else(|| quota.default_of_subject())
    }

    /// What a subject uses of a quota; `None` for quotas that do not count items of the state.
    pub fn subject_used(&self, subject: &SubjectName, quota: QuotaKind) -> Option<u64> {
        let SubjectUse { sessions, queue_entries, bytes } = self.sessions.used_by(subject);
        match quota {
            QuotaKind::Sessions => Some(sessions),
            QuotaKind::QueueEntries => Some(queue_entries),
            QuotaKind::Bytes => Some(bytes),
            QuotaKind::Locks
            | QuotaKind::WaitersPerLock
            | QuotaKind::Znodes
            | QuotaKind::Recipes
            | QuotaKind::CallsPerSecond
            | QuotaKind::Streams
            | QuotaKind::Connections => None,
        }
    }

    fn used(&self, owner: &QuotaOwner, quota: QuotaKind) -> Option<u64> {
        match owner {
            QuotaOwner::Namespace(namespace) => self.namespace_used(namespace, quota),
            QuotaOwner::Subject(subject) => self.subject_used(subject, quota),
        }
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
            for Watched { owner, quota, limit, used } in watched {
                let now = machine.used(&owner, quota).unwrap_or_default();
                if now > limit && now > used {
                    let full = QuotaFull { owner, quota, limit, used };
                    return Err(Rejection::QuotaFull(Box::new(full)));
                }
            }
            Ok(outcome)
        })?
    }

    /// Rejects a call whose reply a session would remember, if the subject of the session has no byte left.
    pub(crate) fn check_room_for_reply(&self, session: SessionId) -> Result<(), Rejection> {
        let subject = self.sessions.get(session).and_then(|session| session.subject.as_ref());
        let Some(subject) = subject else { return Ok(()) };
        let quota = QuotaKind::Bytes;
        let used = self.subject_used(subject, quota).unwrap_or_default();
        match self.subject_limit(subject, quota) {
            Some(limit) if used >= limit => {
                let owner = QuotaOwner::Subject(subject.clone());
                let full = QuotaFull { owner, quota, limit, used };
                Err(Rejection::QuotaFull(Box::new(full)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The quotas that a command may exceed.
    fn watched_quotas(&self, command: &Command, ctx: &ApplyContext<'_>) -> Vec<Watched> {
        let rules = CommandRules::of(command);
        if rules.growth == Growth::Nothing {
            return Vec::new();
        }
        let caller = self.rights_of(&ctx.actor, self.now).ok().and_then(|rights| rights.subject());
        let mut watched = Vec::new();
        if let Some(subject) = caller {
            watched.extend(self.watched_of_subject(subject, command));
        }
        // The receiver gets an entry.
        if let Command::HandOver(hand_over) = command
            && let Some(receiver) = self.sessions.subject_of(&hand_over.to.0)
            && Some(receiver) != caller
        {
            watched.extend(self.watched_of_subject(receiver, command));
        }
        if !self.auth.namespaces.is_empty() && !matches!(command, Command::HandOver(_)) {
            watched.extend(self.watched_of_namespaces(caller, command, &rules.needs));
        }
        watched
    }

    /// Most commands add little compared with what is left: those are not watched.
    fn watched_of_subject(
        &self,
        subject: &SubjectName,
        command: &Command,
    ) -> impl Iterator<Item = Watched> {
        let added = added_at_most(command);
        let kinds = [
            (QuotaKind::Sessions, added.sessions),
            (QuotaKind::QueueEntries, added.queue_entries),
            (QuotaKind::Bytes, added.bytes),
        ];
        kinds.into_iter().filter_map(move |(quota, added)| {
            let limit = self.subject_limit(subject, quota)?;
            let used = self.subject_used(subject, quota)?;
            let owner = || QuotaOwner::Subject(subject.clone());
            (used.saturating_add(added) > limit).then(|| Watched {
                owner: owner(),
                quota,
                limit,
                used,
            })
        })
    }

    /// The quotas of the namespaces whose items a command may add.
    fn watched_of_namespaces(
        &self,
        caller: Option<&SubjectName>,
        command: &Command,
        needs: &CommandNeeds<'_>,
    ) -> Vec<Watched> {
        let mut names = BTreeSet::new();
        let Ok(()) = needed_by(needs, &mut |needed| {
            let name = |right, name: &str| of_right(right, name).map(str::to_owned);
            if let Needed::Permission(right, path) = &needed {
                names.extend(name(*right, path));
            } else if let Needed::Below(right, prefix) = &needed {
                names.extend(name(*right, prefix));
            }
            Ok::<_, Infallible>(())
        });
        // A command may open a session.
        names.extend(caller.map(|name| NamespaceName::of_subject(name).to_owned()));
        let namespaces =
            names.iter().filter_map(|name| self.auth.namespaces.get_key_value(name.as_str()));
        let watched = namespaces.flat_map(|(namespace, quotas)| {
            quotas.0.iter().filter_map(|(quota, limit)| {
                if *quota == QuotaKind::Recipes && !matches!(command, Command::Recipe(_)) {
                    return None;
                }
                let used = self.namespace_used(namespace, *quota)?;
                let owner = QuotaOwner::Namespace(namespace.clone());
                Some(Watched { owner, quota: *quota, limit: *limit, used })
            })
        });
        watched.collect()
    }
}

/// An upper bound on what a command adds to the use of a subject.
fn added_at_most(command: &Command) -> SubjectUse {
    let queue_entries = if let Command::Acquire(Acquire { locks, .. }) = command {
        locks.iter().count()
    } else if let Command::Multi(Multi { then, otherwise, .. }) = command {
        then.len().max(otherwise.len())
    } else if let Command::ClaimSession { .. } = command {
        // The session can have any number of entries and bytes.
        usize::MAX
    } else {
        1
    };
    let bytes = if queue_entries == usize::MAX { u64::MAX } else { COMMAND_BYTES_MAX };
    SubjectUse { sessions: 1, queue_entries: queue_entries as u64, bytes }
}
