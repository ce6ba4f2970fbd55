//! The counts of the sessions of each subject.

use std::sync::Arc;

use holdfast_types::{SessionId, SubjectName};

use super::store::Sessions;
use super::subject_use::{SubjectUse, SubjectUses};

impl Sessions {
    /// What a subject uses.
    pub(crate) fn used_by(&self, subject: &SubjectName) -> SubjectUse {
        self.subjects.get(subject)
    }

    /// Sets the number of queue entries of a live session.
    pub(crate) fn set_queue_entries(&mut self, id: SessionId, count: impl FnOnce(u32) -> u32) {
        let Some(session) = self.by_id.get_mut(&id).map(Arc::make_mut) else { return };
        let before = session.queue_entries;
        session.queue_entries = count(before);
        if let Some(subject) = &session.subject {
            self.subjects.set_queue_entries(subject, before, session.queue_entries);
        }
    }

    /// Computes the use of all subjects from the sessions.
    pub(crate) fn counted_subjects(&self) -> SubjectUses {
        let mut counted = SubjectUses::default();
        self.iter().for_each(|session| counted.add(session.subject.as_ref(), session.usage()));
        counted
    }

    pub(crate) fn subjects(&self) -> &SubjectUses {
        &self.subjects
    }
}
