//! Changes of holds that listening sessions and watchers receive.

use holdfast_types::{
    Data, Event, FencingToken, Grant, LockEvent, LockName, LossCause, Owner, Reason,
    ReleaseRequest, Revision, SessionName, Ticket,
};

/// A change of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldNotice {
    pub revision: Revision,
    pub lock: LockName,
    pub session: SessionName,
    pub owner: Owner,
    pub token: FencingToken,
    pub change: HoldChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldChange {
    /// The hold began.
    Granted { value: Option<Data> },
    /// The holder changed its value.
    ValueChanged { value: Option<Data> },
    /// The hold ended.
    Lost {
        cause: LossCause,
        /// The reason given by the operator who broke the hold.
        broken: Option<Reason>,
    },
    /// The hold continues, and the holder should release the lock.
    ReleaseRequested(ReleaseRequest),
}

impl HoldNotice {
    /// Returns the notice of an event, if it has one; `entry` has all events of the log entry.
    pub(crate) fn of(
        revision: Revision,
        event: &Event,
        entry: &[(Revision, Event)],
    ) -> Option<Self> {
        let Event::Lock(event) = event else { return None };
        let (lock, session, owner, token, change) = match event {
            LockEvent::Granted(Grant { lock, session, owner, token, value, .. }) => {
                (lock, session, owner, token, HoldChange::Granted { value: value.clone() })
            }
            LockEvent::ValueChanged(Grant { lock, session, owner, token, value, .. }) => {
                (lock, session, owner, token, HoldChange::ValueChanged { value: value.clone() })
            }
            LockEvent::HoldEnded { lock, session, owner, token, cause, ticket, .. } => {
                let broken = broken_because(entry, *cause, *ticket);
                (lock, session, owner, token, HoldChange::Lost { cause: *cause, broken })
            }
            LockEvent::ReleaseRequested { lock, session, owner, token, request, .. } => {
                (lock, session, owner, token, HoldChange::ReleaseRequested(request.clone()))
            }
            LockEvent::WaitEnded { .. }
            | LockEvent::ModeChanged(_)
            | LockEvent::PolicyChanged { .. }
            | LockEvent::CooldownStarted { .. }
            | LockEvent::CooldownEnded { .. }
            | LockEvent::BrokenByOperator { .. } => return None,
        };
        let (lock, session, owner) = (lock.clone(), session.clone(), owner.clone());
        Some(Self { revision, lock, session, owner, token: *token, change })
    }

    /// Returns whether a keepalive reports the change. It omits changes of the value, which the session itself makes.
    pub(crate) fn is_session_event(&self) -> bool {
        !matches!(self.change, HoldChange::ValueChanged { .. })
    }
}

/// Returns the operator's reason for a broken hold, which is in a separate event of the log entry.
fn broken_because(entry: &[(Revision, Event)], cause: LossCause, lost: Ticket) -> Option<Reason> {
    if cause != LossCause::ForceReleased {
        return None;
    }
    entry.iter().find_map(|(_, event)| {
        let Event::Lock(LockEvent::BrokenByOperator { ticket, reason, .. }) = event else {
            return None;
        };
        (*ticket == lost).then(|| reason.clone())
    })
}
