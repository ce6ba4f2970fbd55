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
        match event {
            Event::Lock(LockEvent::Granted(grant)) => {
                let change = HoldChange::Granted { value: grant.value.clone() };
                Some(Self::of_grant(revision, grant, change))
            }
            Event::Lock(LockEvent::ValueChanged(grant)) => {
                let change = HoldChange::ValueChanged { value: grant.value.clone() };
                Some(Self::of_grant(revision, grant, change))
            }
            Event::Lock(LockEvent::HoldEnded {
                lock,
                session,
                owner,
                token,
                cause,
                ticket,
                ..
            }) => {
                let broken = broken_because(entry, *cause, *ticket);
                let change = HoldChange::Lost { cause: *cause, broken };
                let (lock, session, owner) = (lock.clone(), session.clone(), owner.clone());
                Some(Self { revision, lock, session, owner, token: *token, change })
            }
            Event::Lock(LockEvent::ReleaseRequested {
                lock,
                session,
                owner,
                token,
                request,
                ..
            }) => {
                let change = HoldChange::ReleaseRequested(request.clone());
                let (lock, session, owner) = (lock.clone(), session.clone(), owner.clone());
                Some(Self { revision, lock, session, owner, token: *token, change })
            }
            Event::Lock(
                LockEvent::WaitEnded { .. }
                | LockEvent::ModeChanged(_)
                | LockEvent::PolicyChanged { .. }
                | LockEvent::CooldownStarted { .. }
                | LockEvent::CooldownEnded { .. }
                | LockEvent::BrokenByOperator { .. },
            )
            | Event::Session(_)
            | Event::Tree(_)
            | Event::Recipe(_)
            | Event::MemberChanged { .. }
            | Event::LevelChanged { .. }
            | Event::AuthChanged
            | Event::VerifyState
            | Event::SealChanged
            | Event::Audited { .. } => None,
        }
    }

    fn of_grant(revision: Revision, grant: &Grant, change: HoldChange) -> Self {
        let (lock, session, owner) =
            (grant.lock.clone(), grant.session.clone(), grant.owner.clone());
        Self { revision, lock, session, owner, token: grant.token, change }
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
