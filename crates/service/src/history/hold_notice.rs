//! Changes of holds that listening sessions and watchers receive.

use std::collections::BTreeMap;

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
    pub ticket: Ticket,
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

/// The reasons of operators for the holds that they broke in one log entry, by the tickets of the holds.
#[derive(Debug, Default)]
pub(crate) struct BreakReasons<'a>(BTreeMap<Ticket, &'a Reason>);

impl<'a> BreakReasons<'a> {
    /// Reads the events of the log entry once: an operator may break thousands of holds with one command.
    pub(crate) fn of(entry: &'a [(Revision, Event)]) -> Self {
        let reasons = entry.iter().filter_map(|(_, event)| {
            let Event::Lock(LockEvent::BrokenByOperator { ticket, reason, .. }) = event else {
                return None;
            };
            Some((*ticket, reason))
        });
        Self(reasons.collect())
    }
}

impl HoldNotice {
    pub(crate) fn of(
        revision: Revision,
        event: &Event,
        reasons: &BreakReasons<'_>,
    ) -> Option<Self> {
        let Event::Lock(event) = event else { return None };
        let (lock, session, owner, ticket, token, change) = match event {
            LockEvent::Granted(Grant { lock, session, owner, ticket, token, value, .. }) => {
                (lock, session, owner, ticket, token, HoldChange::Granted { value: value.clone() })
            }
            LockEvent::ValueChanged(Grant {
                lock, session, owner, ticket, token, value, ..
            }) => (
                lock,
                session,
                owner,
                ticket,
                token,
                HoldChange::ValueChanged { value: value.clone() },
            ),
            LockEvent::HoldEnded { lock, session, owner, token, cause, ticket, .. } => {
                let is_broken = *cause == LossCause::ForceReleased;
                let broken = reasons.0.get(ticket).filter(|_| is_broken);
                let broken = broken.map(|reason| (*reason).clone());
                (lock, session, owner, ticket, token, HoldChange::Lost { cause: *cause, broken })
            }
            LockEvent::ReleaseRequested { lock, session, owner, ticket, token, request } => {
                (lock, session, owner, ticket, token, HoldChange::ReleaseRequested(request.clone()))
            }
            LockEvent::WaitEnded { .. }
            | LockEvent::ModeChanged(_)
            | LockEvent::PolicyChanged { .. }
            | LockEvent::CooldownStarted { .. }
            | LockEvent::CooldownEnded { .. }
            | LockEvent::BrokenByOperator { .. } => return None,
        };
        let (lock, session, owner) = (lock.clone(), session.clone(), owner.clone());
        Some(Self { revision, lock, session, owner, ticket: *ticket, token: *token, change })
    }

    /// Returns whether a keepalive reports the change. It omits changes of the value, which the session itself makes.
    pub(crate) fn is_session_event(&self) -> bool {
        !matches!(self.change, HoldChange::ValueChanged { .. })
    }
}
