//! What the live sessions of each subject use.

use std::sync::Arc;

use holdfast_types::{SessionId, SubjectName};
use imbl::OrdMap;

use super::store::{Session, Sessions};

/// What the live sessions of a subject use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubjectUse {
    pub(crate) sessions: u64,
    /// Holders and waiters.
    pub(crate) queue_entries: u64,
    /// As [`Sessions::bytes`].
    pub(crate) bytes: u64,
}

/// The use of each subject that has a live session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubjectUses(OrdMap<SubjectName, SubjectUse>);

impl SubjectUses {
    /// Adds a session with its subject.
    pub(super) fn add(&mut self, session: &Session) {
        let Some(subject) = &session.subject else { return };
        let used = self.0.entry(subject.clone()).or_default();
        used.sessions += 1;
        used.queue_entries += u64::from(session.queue_entries);
        used.bytes += session.bytes();
    }

    /// Removes a session that was added in the same state.
    pub(super) fn remove(&mut self, session: &Session) {
        let Some(subject) = &session.subject else { return };
        let Some(used) = self.0.get_mut(subject) else { return };
        used.sessions = used.sessions.saturating_sub(1);
        used.queue_entries = used.queue_entries.saturating_sub(session.queue_entries.into());
        used.bytes = used.bytes.saturating_sub(session.bytes());
        if used.sessions == 0 {
            self.0.remove(subject);
        }
    }
}

impl Sessions {
    /// What a subject uses.
    pub(crate) fn used_by(&self, subject: &SubjectName) -> SubjectUse {
        self.subjects.0.get(subject).copied().unwrap_or_default()
    }

    /// Sets the number of queue entries of a live session.
    pub(crate) fn set_queue_entries(&mut self, id: SessionId, count: impl FnOnce(u32) -> u32) {
        let Some(session) = self.by_id.get_mut(&id).map(Arc::make_mut) else { return };
        let before = u64::from(session.queue_entries);
        session.queue_entries = count(session.queue_entries);
        let of_subject =
            session.subject.as_ref().and_then(|subject| self.subjects.0.get_mut(subject));
        if let Some(used) = of_subject {
            used.queue_entries =
                (used.queue_entries + u64::from(session.queue_entries)).saturating_sub(before);
        }
    }

    /// Computes the use of all subjects from the sessions.
    pub(crate) fn counted_subjects(&self) -> SubjectUses {
        let mut counted = SubjectUses::default();
        self.iter().for_each(|session| counted.add(session));
        counted
    }

    pub(crate) fn subjects(&self) -> &SubjectUses {
        &self.subjects
    }
}
