//! What the live sessions of each subject use.

use holdfast_types::SubjectName;
use imbl::OrdMap;

/// What the live sessions of a subject use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubjectUse {
    pub(crate) sessions: u64,
    /// Holders and waiters.
    pub(crate) queue_entries: u64,
    /// The bytes that clients have stored in the sessions.
    pub(crate) bytes: u64,
}

/// The use of each subject that has a live session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubjectUses(OrdMap<SubjectName, SubjectUse>);

impl SubjectUses {
    pub(super) fn get(&self, subject: &SubjectName) -> SubjectUse {
        self.0.get(subject).copied().unwrap_or_default()
    }

    /// Adds what a session uses.
    pub(super) fn add(&mut self, subject: Option<&SubjectName>, more: SubjectUse) {
        let Some(subject) = subject else { return };
        let used = self.0.entry(subject.clone()).or_default();
        used.sessions += more.sessions;
        used.queue_entries += more.queue_entries;
        used.bytes += more.bytes;
    }

    /// Removes what was added.
    pub(super) fn remove(&mut self, subject: Option<&SubjectName>, less: SubjectUse) {
        let Some(subject) = subject else { return };
        let Some(used) = self.0.get_mut(subject) else { return };
        used.sessions = used.sessions.saturating_sub(less.sessions);
        used.queue_entries = used.queue_entries.saturating_sub(less.queue_entries);
        used.bytes = used.bytes.saturating_sub(less.bytes);
        if used.sessions == 0 {
            self.0.remove(subject);
        }
    }

    /// Replaces the number of queue entries of one session.
    pub(super) fn set_queue_entries(&mut self, subject: &SubjectName, before: u32, after: u32) {
        if let Some(used) = self.0.get_mut(subject) {
            used.queue_entries =
                (used.queue_entries + u64::from(after)).saturating_sub(before.into());
        }
    }
}
