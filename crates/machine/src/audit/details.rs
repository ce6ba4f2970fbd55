//! The details of a record: what the change did, and the holds and waits that it ended, as far as they fit.

use holdfast_types::{AuditItem, AuditRecord, Event, LockEvent, LossCause};

/// At most [`AuditRecord::DETAILS_MAX`] bytes. A longer list ends with [`AuditItem::More`].
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(super) items: Vec<AuditItem>,
    bytes: usize,
}

impl Details {
    pub(super) fn add(&mut self, item: AuditItem) {
        if self.items.last() == Some(&AuditItem::More) {
            return;
        }
        self.bytes += item.stored_len();
        let fits = self.bytes + AuditItem::More.stored_len() <= AuditRecord::DETAILS_MAX;
        self.items.push(if fits { item } else { AuditItem::More });
    }

    pub(super) fn of(items: impl IntoIterator<Item = AuditItem>) -> Self {
        let mut details = Self::default();
        for item in items {
            details.add(item);
        }
        details
    }

    pub(super) fn add_ended(&mut self, event: &Event) {
        let Event::Lock(event) = event else { return };
        if let LockEvent::HoldEnded { lock, session, token, cause, .. } = event
            && *cause == LossCause::ForceReleased
        {
            let (lock, session, token) = (lock.clone(), session.clone(), *token);
            self.add(AuditItem::HoldEnded { lock, session, token });
        } else if let LockEvent::WaitEnded { lock, session, cause, .. } = event
            && *cause == LossCause::ForceReleased
        {
            self.add(AuditItem::WaitEnded { lock: lock.clone(), session: session.clone() });
        }
    }
}
